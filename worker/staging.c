#include "worker/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char place[] = "/run/pkb";

static bool is_reached(const char *path)
{
    return path == NULL || access(path, R_OK | X_OK) == 0 || errno == ENOENT;
}

/* Asks as one of the users would. */
static bool can_all_be_reached(const struct sandbox_node *node)
{
    int wait_status = -1;
    pid_t child = fork();

    if (child == 0) {
        if (setgroups(0, NULL) != 0 ||
            setresgid(node->uid_base, node->uid_base, node->uid_base) != 0 ||
            setresuid(node->uid_base, node->uid_base, node->uid_base) != 0) {
            _exit(1);
        }
        bool is_well = is_reached(node->bin_dir) && is_reached(node->sim_dir) &&
                       is_reached(node->nccl_dir) && is_reached(node->cuda_home) &&
                       is_reached(node->bwrap);
        _exit(is_well ? 0 : 1);
    }
    return child > 0 && waitpid(child, &wait_status, 0) == child && wait_status == 0;
}

static enum status failed(struct error *err, const char *what, const char *path)
{
    return error_set(err, ERR_UNAVAILABLE,
                     "the users of jobs cannot reach our programs or CUDA, and this cannot be "
                     "helped, for %s '%s': %m; let others pass the folders above them (chmod o+x)",
                     what, path);
}

static enum status bind_there(const char *from, const char *to, struct error *err)
{
    if (access(from, F_OK) != 0) {
        return OK; /* not needed by this node, or found missing later */
    }
    if (mkdir(to, 0755) != 0) {
        return failed(err, "making", to);
    }
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0) {
        return failed(err, "mounting", to);
    }
    return OK;
}

static enum status open_place(struct error *err)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0) {
        return failed(err, "a mount namespace for", place);
    }
    if (mkdir(place, 0755) != 0 && errno != EEXIST) {
        return failed(err, "making", place);
    }
    if (mount("pkb", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") != 0) {
        return failed(err, "mounting", place);
    }
    return OK;
}

/* bubblewrap's folder, and in it the same name. */
static enum status stage_bwrap(struct staging *staging, struct sandbox_node *node,
                               struct error *err)
{
    char folder[PATH_MAX], to[64];
    const char *name = strrchr(node->bwrap, '/');

    if (name == NULL || name == node->bwrap) {
        return OK;
    }
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(name - node->bwrap), node->bwrap);
    (void)snprintf(to, sizeof to, "%s/bwrap", place);
    (void)snprintf(staging->bwrap, sizeof staging->bwrap, "%s%s", to, name);
    enum status status = bind_there(folder, to, err);
    if (status == OK) {
        node->bwrap = staging->bwrap;
    }
    return status;
}

enum status staging_prepare(struct staging *staging, struct sandbox_node *node, struct error *err)
{
    struct {
        const char **path;
        char *staged;
        const char *name;
    } folders[] = {{&node->bin_dir, staging->bin, "bin"},
                   {&node->sim_dir, staging->sim, "sim"},
                   {&node->nccl_dir, staging->nccl, "nccl"},
                   {&node->cuda_home, staging->cuda, "cuda"}};

    if (geteuid() != 0 || (node->waived >> LAYER_UID & 1) != 0 || can_all_be_reached(node)) {
        return OK;
    }
    enum status status = open_place(err);
    if (status == OK) {
        status = stage_bwrap(staging, node, err);
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders && status == OK; i++) {
        (void)snprintf(folders[i].staged, sizeof staging->bin, "%s/%s", place, folders[i].name);
        status = bind_there(*folders[i].path, folders[i].staged, err);
        if (status == OK) {
            *folders[i].path = folders[i].staged;
        }
    }
    return status;
}
