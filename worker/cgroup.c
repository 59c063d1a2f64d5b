#include "worker/cgroup.h"

#include "common/clock.h"
#include "common/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TREE_UNIFIED, TREE_MEMORY, TREE_PROCESSES, TREE_CPU, TREES };
enum { VALUE_MAX = 4096, CLOSE_MS = 10000, CPU_PERIOD_US = 100000 };

static const char name_prefix[] = "pkb-";

/* Of this process. An empty parent: that controller is in the unified tree, or there is none. */
static struct {
    char parent[TREES][PATH_MAX];
    bool is_v2; /* the unified tree has the controllers */
    char owner[64];
} hierarchy;

struct cgroup {
    char path[TREES][PATH_MAX];
    int unified; /* directory */
};

static enum status write_text(const char *directory, const char *file, const char *text,
                              struct error *err)
{
    char path[PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%s", directory, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return error_set(err, ERR_UNAVAILABLE, "cannot open '%s': %m", path);
    }
    ssize_t size = write(fd, text, strlen(text));
    int saved = errno;
    close(fd);
    errno = saved;
    return size >= 0 ? OK
                     : error_set(err, ERR_UNAVAILABLE, "cannot write '%s' to '%s': %m", text, path);
}

/* What the file says, or "" where there is none. */
static void read_text(const char *directory, const char *file, char text[static VALUE_MAX])
{
    char path[PATH_MAX + 64];

    (void)snprintf(path, sizeof path, "%s/%s", directory, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, VALUE_MAX - 1);
    text[size > 0 ? size : 0] = 0;
    if (fd >= 0) {
        close(fd);
    }
}

/* The number after `key` in lines of "key number"; 0 where there is none. */
static uint64_t number_of(const char *text, const char *key)
{
    size_t length = strlen(key);

    for (const char *line = text; line != NULL && *line != 0;) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            return strtoull(line + length, NULL, 10);
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return 0;
}

/* ---- where we are ---- */

/* Is `word` in a list that commas separate? */
static bool lists(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == 0)) {
            return true;
        }
    }
    return false;
}

static int tree_of(const char *controllers)
{
    static const char *const names[TREES] = {
        [TREE_MEMORY] = "memory", [TREE_PROCESSES] = "pids", [TREE_CPU] = "cpu"};

    for (int tree = TREE_MEMORY; tree < TREES; tree++) {
        if (lists(controllers, names[tree])) {
            return tree;
        }
    }
    return -1;
}

/* This process's path in a tree, from a line of /proc/self/cgroup: "number:controllers:path". */
static bool own_path(char path[static PATH_MAX], const char *own, int tree)
{
    char copy[VALUE_MAX];
    char *rest = NULL;

    (void)snprintf(copy, sizeof copy, "%s", own);
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *where = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (where == NULL) {
            continue;
        }
        *where++ = 0;
        controllers++;
        if (tree == TREE_UNIFIED ? *controllers == 0 : tree_of(controllers) == tree) {
            (void)snprintf(path, PATH_MAX, "%s", where);
            return true;
        }
    }
    return false;
}

/* A line of /proc/self/mountinfo: does it mount a tree? Its root and place go to `root`, `place`.
 */
static int mounted_tree(char *line, char **root, char **place)
{
    char *rest = NULL;
    char *words[6] = {NULL};
    char *type = strstr(line, " - ");

    if (type == NULL) {
        return -1;
    }
    *type = 0;
    type += 3;
    for (int i = 0; i < 6; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " ", &rest);
    }
    if (words[4] == NULL) {
        return -1;
    }
    *root = words[3];
    *place = words[4];
    if (strncmp(type, "cgroup2 ", 8) == 0) {
        return TREE_UNIFIED;
    }
    char *options = strncmp(type, "cgroup ", 7) == 0 ? strrchr(type, ' ') : NULL;
    return options == NULL ? -1 : tree_of(options + 1);
}

static void find_trees(void)
{
    char own[VALUE_MAX], path[PATH_MAX];
    char *line = NULL;
    size_t capacity = 0;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");

    read_text("/proc/self", "cgroup", own);
    while (mounts != NULL && getline(&line, &capacity, mounts) > 0) {
        char *root = NULL, *place = NULL;
        line[strcspn(line, "\n")] = 0;
        int tree = mounted_tree(line, &root, &place);
        if (tree < 0 || hierarchy.parent[tree][0] != 0 || !own_path(path, own, tree)) {
            continue;
        }
        size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
        bool is_below = strncmp(path, root, skip) == 0;
        const char *relative = is_below ? path + skip : "";
        (void)snprintf(hierarchy.parent[tree], PATH_MAX, "%s%s", place,
                       strcmp(relative, "/") == 0 ? "" : relative);
    }
    free(line);
    if (mounts != NULL) {
        (void)fclose(mounts);
    }
}

/* When a process began, which with its number is its name for ever. */
static uint64_t began(pid_t pid)
{
    char directory[64], text[VALUE_MAX];

    (void)snprintf(directory, sizeof directory, "/proc/%d", (int)pid);
    read_text(directory, "stat", text);
    char *at = strrchr(text, ')'); /* field 2; the start is field 22 */
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    return at == NULL ? 0 : strtoull(at, NULL, 10);
}

/* Version 2 has no processes in inner groups: ours go to a leaf. */
static enum status become_leaf(struct error *err)
{
    char leaf[PATH_MAX + 16], text[VALUE_MAX];
    const char *parent = hierarchy.parent[TREE_UNIFIED];
    enum status status = OK;
    char *rest = NULL;

    (void)snprintf(leaf, sizeof leaf, "%s/pkb.worker", parent);
    if (mkdir(leaf, 0755) != 0 && errno != EEXIST) {
        return error_set(err, ERR_UNAVAILABLE, "cannot make '%s': %m", leaf);
    }
    read_text(parent, "cgroup.procs", text);
    for (char *pid = strtok_r(text, "\n", &rest); pid != NULL && status == OK;
         pid = strtok_r(NULL, "\n", &rest)) {
        status = write_text(leaf, "cgroup.procs", pid, err);
    }
    return status == OK ? write_text(parent, "cgroup.subtree_control", "+memory +pids +cpu", err)
                        : status;
}

/* ---- what a dead worker left ---- */

static void remove_group(const char *directory, bool is_unified)
{
    char text[VALUE_MAX];
    struct error err = {0};
    char *rest = NULL;

    if (is_unified) {
        (void)write_text(directory, "cgroup.kill", "1", &err);
    } else {
        read_text(directory, "cgroup.procs", text);
        for (char *pid = strtok_r(text, "\n", &rest); pid != NULL;
             pid = strtok_r(NULL, "\n", &rest)) {
            (void)kill((pid_t)strtol(pid, NULL, 10), SIGKILL);
        }
    }
    int64_t until_ms = clock_monotonic_ms() + CLOSE_MS;
    while (rmdir(directory) != 0 && errno == EBUSY && clock_monotonic_ms() < until_ms) {
        (void)poll(NULL, 0, 1);
    }
}

/* Is this the name of a group whose worker is gone? "pkb-PID-BEGAN-..." */
static bool is_left_over(const char *name)
{
    char *end = NULL;

    if (strncmp(name, name_prefix, sizeof name_prefix - 1) != 0) {
        return false;
    }
    pid_t pid = (pid_t)strtol(name + sizeof name_prefix - 1, &end, 10);
    return pid > 0 && *end == '-' && began(pid) != strtoull(end + 1, NULL, 10);
}

static void sweep(void)
{
    for (int tree = 0; tree < TREES; tree++) {
        const char *parent = hierarchy.parent[tree];
        DIR *groups = parent[0] == 0 ? NULL : opendir(parent);
        struct dirent *entry = NULL;
        while (groups != NULL && (entry = readdir(groups)) != NULL) {
            if (is_left_over(entry->d_name)) {
                char path[PATH_MAX + 256];
                (void)snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
                remove_group(path, tree == TREE_UNIFIED);
            }
        }
        if (groups != NULL) {
            (void)closedir(groups);
        }
    }
}

enum status cgroup_prepare(struct error *err)
{
    char controllers[VALUE_MAX];
    const char *unified = hierarchy.parent[TREE_UNIFIED];

    find_trees();
    if (unified[0] == 0) {
        return error_set(err, ERR_UNAVAILABLE, "no tree of cgroup version 2 is mounted");
    }
    (void)snprintf(hierarchy.owner, sizeof hierarchy.owner, "%s%d-%" PRIu64, name_prefix,
                   (int)getpid(), began(getpid()));
    sweep();
    read_text(unified, "cgroup.controllers", controllers);
    hierarchy.is_v2 = strstr(controllers, "memory") != NULL && strstr(controllers, "pids") != NULL;
    if (hierarchy.is_v2) {
        return become_leaf(err);
    }
    if (hierarchy.parent[TREE_MEMORY][0] == 0 || hierarchy.parent[TREE_PROCESSES][0] == 0) {
        return error_set(err, ERR_UNAVAILABLE,
                         "the cgroup controllers 'memory' and 'pids' are neither delegated to '%s' "
                         "nor mounted as version 1",
                         unified);
    }
    return OK;
}

/* ---- a group ---- */

static enum status set_number(const char *directory, const char *file, uint64_t number,
                              struct error *err)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    return write_text(directory, file, text, err);
}

static enum status set_cpus(const struct cgroup *group, uint64_t cpus, struct error *err)
{
    char text[64];

    if (hierarchy.is_v2) {
        (void)snprintf(text, sizeof text, "%" PRIu64 " %d", cpus * CPU_PERIOD_US, CPU_PERIOD_US);
        return write_text(group->path[TREE_UNIFIED], "cpu.max", text, err);
    }
    if (group->path[TREE_CPU][0] == 0) {
        return OK; /* a bound on speed, not on harm */
    }
    enum status status = set_number(group->path[TREE_CPU], "cpu.cfs_period_us", CPU_PERIOD_US, err);
    return status == OK
               ? set_number(group->path[TREE_CPU], "cpu.cfs_quota_us", cpus * CPU_PERIOD_US, err)
               : status;
}

static enum status set_memory(const struct cgroup *group, uint64_t bytes, struct error *err)
{
    struct error no_swap = {0};
    const char *unified = group->path[TREE_UNIFIED];
    const char *memory = group->path[TREE_MEMORY];

    if (!hierarchy.is_v2) {
        enum status status = set_number(memory, "memory.limit_in_bytes", bytes, err);
        /* Only where the kernel accounts for swap is there any to forbid. */
        (void)set_number(memory, "memory.memsw.limit_in_bytes", bytes, &no_swap);
        return status;
    }
    enum status status = set_number(unified, "memory.max", bytes, err);
    if (status == OK) {
        status = write_text(unified, "memory.oom.group", "1", err);
    }
    (void)write_text(unified, "memory.swap.max", "0", &no_swap);
    return status;
}

static enum status set_limits(const struct cgroup *group, const struct cgroup_limits *limits,
                              struct error *err)
{
    const char *processes = group->path[hierarchy.is_v2 ? TREE_UNIFIED : TREE_PROCESSES];
    enum status status = OK;

    if (limits->memory_bytes != 0) {
        status = set_memory(group, limits->memory_bytes, err);
    }
    if (status == OK && limits->processes != 0) {
        status = set_number(processes, "pids.max", limits->processes, err);
    }
    if (status == OK && limits->cpus != 0) {
        status = set_cpus(group, limits->cpus, err);
    }
    return status;
}

enum status cgroup_open(struct cgroup **group, const char *name, const struct cgroup_limits *limits,
                        struct error *err)
{
    static uint64_t number;
    struct cgroup *made = xcalloc(1, sizeof *made);
    enum status status = OK;

    assert(hierarchy.owner[0] != 0);
    made->unified = -1;
    number++;
    for (int tree = 0; tree < TREES && status == OK; tree++) {
        /* To enter a tree of version 1 takes time, so only where it is of use. */
        if (hierarchy.parent[tree][0] == 0 || (hierarchy.is_v2 && tree != TREE_UNIFIED) ||
            (tree == TREE_CPU && limits->cpus == 0)) {
            continue;
        }
        int length = snprintf(made->path[tree], PATH_MAX, "%s/%s-%" PRIu64 "-%s",
                              hierarchy.parent[tree], hierarchy.owner, number, name);
        if (length >= PATH_MAX || mkdir(made->path[tree], 0755) != 0) {
            status = error_set(err, ERR_IO, "cannot make '%s': %m", made->path[tree]);
            made->path[tree][0] = 0;
        }
    }
    if (status == OK) {
        status = set_limits(made, limits, err);
    }
    if (status == OK) {
        made->unified = open(made->path[TREE_UNIFIED], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (made->unified < 0) {
            status = error_set(err, ERR_IO, "cannot open '%s': %m", made->path[TREE_UNIFIED]);
        }
    }
    if (status != OK) {
        cgroup_close(made);
        return status;
    }
    *group = made;
    return OK;
}

pid_t cgroup_fork(const struct cgroup *group)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)group->unified};

    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

bool cgroup_enter(const struct cgroup *group)
{
    struct error err = {0};
    bool is_in = true;

    for (int tree = TREE_MEMORY; tree < TREES; tree++) {
        is_in &= group->path[tree][0] == 0 ||
                 write_text(group->path[tree], "cgroup.procs", "0", &err) == OK;
    }
    return is_in;
}

void cgroup_read_hits(const struct cgroup *group, struct cgroup_hits *hits)
{
    char text[VALUE_MAX];

    if (hierarchy.is_v2) {
        read_text(group->path[TREE_UNIFIED], "memory.events", text);
    } else {
        read_text(group->path[TREE_MEMORY], "memory.oom_control", text);
    }
    hits->memory = number_of(text, "oom_kill");
    read_text(group->path[hierarchy.is_v2 ? TREE_UNIFIED : TREE_PROCESSES], "pids.events", text);
    hits->processes = number_of(text, "max");
}

void cgroup_kill(const struct cgroup *group)
{
    struct error err = {0};

    (void)write_text(group->path[TREE_UNIFIED], "cgroup.kill", "1", &err);
}

void cgroup_close(struct cgroup *group)
{
    if (group == NULL) {
        return;
    }
    for (int tree = 0; tree < TREES; tree++) {
        if (group->path[tree][0] != 0) {
            remove_group(group->path[tree], tree == TREE_UNIFIED);
        }
    }
    if (group->unified >= 0) {
        close(group->unified);
    }
    free(group);
}
