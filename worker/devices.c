#include "worker/devices.h"

#include "common/clock.h"
#include "common/lease.h"
#include "common/mem.h"
#include "worker/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_MAX = 1024 };

static enum status spawn(const struct sandbox_node *node, enum device_kind kind, int output,
                         pid_t *pid, struct error *err)
{
    char *judge = xasprintf("%s/pkb-judge", node->bin_dir);
    const char *driver = driver_directory();
    char *libraries = xasprintf("LD_LIBRARY_PATH=%s/lib64%s%s", node->cuda_home,
                                driver == NULL ? "" : ":", driver == NULL ? "" : driver);
    const char *mps = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char *pipe_directory = mps == NULL ? NULL : xasprintf("CUDA_MPS_PIPE_DIRECTORY=%s", mps);
    char *const argv[] = {judge, (char *)"--devices", (char *)device_kind_name(kind), NULL};
    char *const env[] = {libraries, pipe_directory, NULL};
    posix_spawn_file_actions_t actions;

    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    int error = posix_spawn(pid, judge, &actions, NULL, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    enum status status = OK;
    if (error != 0) {
        errno = error;
        status = error_set(err, ERR_UNAVAILABLE, "cannot start '%s': %m", judge);
    }
    free(judge);
    free(libraries);
    free(pipe_directory);
    return status;
}

/* What the program writes, until it closes its end. False: that takes too long. */
static bool read_answer(int fd, char answer[static ANSWER_MAX])
{
    int64_t until_ms = clock_monotonic_ms() + DEVICES_WAIT_MS;
    size_t used = 0;
    ssize_t size = 1;

    while (size > 0 && used < ANSWER_MAX - 1) {
        struct pollfd watched = {.fd = fd, .events = POLLIN};
        int64_t left_ms = until_ms - clock_monotonic_ms();
        if (left_ms <= 0 || poll(&watched, 1, (int)left_ms) == 0) {
            return false;
        }
        size = read(fd, answer + used, ANSWER_MAX - 1 - used);
        used += size > 0 ? (size_t)size : 0;
    }
    answer[used] = 0;
    return true;
}

static enum status understand(char *answer, int wait_status, enum device_kind kind, int *count,
                              struct error *err)
{
    char *end = NULL;

    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
        long found = strtol(answer, &end, 10);
        if (end != answer && *end == '\n' && found > 0 && found <= GPUS_MAX) {
            *count = kind == DEVICE_CUDA ? (int)found : WORLD_MAX;
            return OK;
        }
    }
    answer[strcspn(answer, "\n")] = 0;
    const char *prefix = "pkb-judge: ";
    const char *text =
        strncmp(answer, prefix, strlen(prefix)) == 0 ? answer + strlen(prefix) : answer;
    return error_field(err, ERR_UNAVAILABLE, "device", "no GPU can be used: %s",
                       *text == 0 ? "pkb-judge ended without a word" : text);
}

enum status devices_count(const struct sandbox_node *node, enum device_kind kind, int *count,
                          struct error *err)
{
    char answer[ANSWER_MAX];
    int ends[2] = {-1, -1};
    int wait_status = 0;
    pid_t pid = 0;

    if (kind == DEVICE_SIM) {
        *count = WORLD_MAX;
        return OK;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_set(err, ERR_IO, "cannot make a pipe: %m");
    }
    enum status status = spawn(node, kind, ends[1], &pid, err);
    close(ends[1]);
    if (status == OK) {
        bool is_in_time = read_answer(ends[0], answer);
        if (!is_in_time) {
            (void)kill(pid, SIGKILL);
        }
        close(ends[0]); /* so that who writes on ends, too */
        ends[0] = -1;
        while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
        }
        status = is_in_time
                     ? understand(answer, wait_status, kind, count, err)
                     : error_field(err, ERR_UNAVAILABLE, "device",
                                   "the GPUs do not answer within %d s", DEVICES_WAIT_MS / 1000);
    }
    if (ends[0] >= 0) {
        close(ends[0]);
    }
    return status;
}

enum status devices_suffice(enum device_kind kind, int count, int world, struct error *err)
{
    if (kind == DEVICE_CUDA && world > count) {
        return error_field(err, ERR_UNAVAILABLE, "world",
                           "%d ranks need a GPU each, and this node has %d: --device cuda-shared "
                           "lets ranks share one",
                           world, count);
    }
    return OK;
}
