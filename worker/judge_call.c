#include "worker/judge_call.h"

#include "common/mem.h"
#include "worker/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

static enum status spawn(const struct sandbox_node *node, char *const argv[], int output,
                         pid_t *pid, struct error *err)
{
    const char *driver = driver_directory();
    const char *mps = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char *libraries = xasprintf("LD_LIBRARY_PATH=%s/lib64%s%s", node->cuda_home,
                                driver == NULL ? "" : ":", driver == NULL ? "" : driver);
    char *pipe_directory = mps == NULL ? NULL : xasprintf("CUDA_MPS_PIPE_DIRECTORY=%s", mps);
    char *const env[] = {libraries, pipe_directory, NULL};
    enum status status = OK;
    posix_spawn_file_actions_t actions;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    int error = posix_spawn(pid, argv[0], &actions, NULL, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        errno = error;
        status = error_set(err, ERR_UNAVAILABLE, "cannot start '%s': %m", argv[0]);
    }
    free(libraries);
    free(pipe_directory);
    return status;
}

enum status judge_call(const struct sandbox_node *node, const char *question, const char *argument,
                       pid_t *pid, int *answer, struct error *err)
{
    char *judge = xasprintf("%s/pkb-judge", node->bin_dir);
    char *const argv[] = {judge, (char *)question, (char *)argument, NULL};
    int ends[2] = {-1, -1};
    enum status status = OK;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        status = error_set(err, ERR_IO, "cannot make a pipe: %m");
        goto out;
    }
    status = spawn(node, argv, ends[1], pid, err);
    close(ends[1]);
    if (status != OK) {
        close(ends[0]);
        goto out;
    }
    *answer = ends[0];

out:
    free(judge);
    return status;
}
