#include "worker/sandbox.h"

#include "common/lease.h"
#include "common/mem.h"
#include "worker/driver.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define BUILD_OUT_BYTES (256 * MIB)
#define RANKS_TMP_BYTES (64 * MIB)
#define RANKS_SHM_BYTES (256 * MIB)

static const struct {
    const char *name;
    enum filter filter;
    struct cgroup_limits limits;
} policies[SANDBOX_POLICIES] = {
    [SANDBOX_BUILD] = {"build", FILTER_BUILD, {4 * GIB, 64, 2}},
    [SANDBOX_RANKS] = {"ranks", FILTER_RANKS, {16 * GIB, 64, 0}}, /* processes: of each rank */
    [SANDBOX_SIMD] = {"simd", FILTER_SIMD, {16 * GIB, 16, 0}},
    [SANDBOX_JUDGE] = {"judge", FILTERS, {0, 0, 0}},
};

const char *sandbox_policy_name(enum sandbox_policy policy)
{
    return policies[policy].name;
}

static bool has(const struct sandbox_node *node, enum layer layer)
{
    return (node->waived >> layer & 1) == 0;
}

/* ---- the node ---- */

enum status sandbox_node_init(struct sandbox_node *node, struct error *err)
{
    enum status status = OK;

    for (int filter = 0; filter < FILTERS; filter++) {
        node->filters[filter] = -1;
    }
    for (int filter = 0; filter < FILTERS && status == OK && has(node, LAYER_SECCOMP); filter++) {
        status = filter_open((enum filter)filter, &node->filters[filter], err);
    }
    if (status != OK) {
        sandbox_node_release(node);
    }
    return status;
}

void sandbox_node_release(struct sandbox_node *node)
{
    for (int filter = 0; filter < FILTERS; filter++) {
        if (node->filters[filter] >= 0) {
            close(node->filters[filter]);
        }
        node->filters[filter] = -1;
    }
}

/* ---- bubblewrap's arguments ---- */

static void add(struct sandbox *sandbox, const char *word)
{
    assert(sandbox->word_count < SANDBOX_WORDS_MAX);
    sandbox->words[sandbox->word_count++] = xstrdup(word);
}

static void add_all(struct sandbox *sandbox, const char *const *words)
{
    for (; *words != NULL; words++) {
        add(sandbox, *words);
    }
}

static void add_bind(struct sandbox *sandbox, const char *how, const char *from, const char *to)
{
    add_all(sandbox, (const char *const[]){how, from, to, NULL});
}

static void add_bin(struct sandbox *sandbox, const char *program, const char *to)
{
    char *from = xasprintf("%s/%s", sandbox->node->bin_dir, program);

    add_bind(sandbox, "--ro-bind", from, to);
    free(from);
}

static void add_tmpfs(struct sandbox *sandbox, const char *at, uint64_t bytes)
{
    char *size = xasprintf("%llu", (unsigned long long)bytes);

    add_all(sandbox, (const char *const[]){"--size", size, "--tmpfs", at, NULL});
    free(size);
}

/* A second way to the file, with an offset of its own. */
static enum status add_fd(struct sandbox *sandbox, int fd, int *added, struct error *err)
{
    char path[64];

    assert(sandbox->fd_count < SANDBOX_FDS_MAX);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0) {
        return error_set(err, ERR_IO, "cannot open '%s' again: %m", path);
    }
    *added = sandbox->fds[sandbox->fd_count++] = opened;
    return OK;
}

static enum status add_filter(struct sandbox *sandbox, enum filter filter, struct error *err)
{
    int fd = -1;
    enum status status = add_fd(sandbox, sandbox->node->filters[filter], &fd, err);

    if (status == OK) {
        char *number = xasprintf("%d", fd);
        add_all(sandbox, (const char *const[]){"--seccomp", number, NULL});
        free(number);
        sandbox->is_filtered = true;
    }
    return status;
}

/* Directories that are links into /usr on most systems, and are their own on others. */
static void add_root(struct sandbox *sandbox, const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target - 1);

    if (length > 0) {
        target[length] = 0;
        add_bind(sandbox, "--symlink", target, path);
    } else {
        add_bind(sandbox, "--ro-bind-try", path, path);
    }
}

static void add_libraries(struct sandbox *sandbox)
{
    static const char *const places[] = {"/usr/lib", "/usr/lib64", "/usr/lib32"};

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        add_bind(sandbox, "--ro-bind-try", places[i], places[i]);
    }
    add_root(sandbox, "/lib");
    add_root(sandbox, "/lib64");
    add_bind(sandbox, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache");
}

static void add_build_view(struct sandbox *sandbox)
{
    static const char *const places[] = {"/usr/bin", "/usr/include", "/usr/libexec"};
    static const char large_pages[] = "/sys/kernel/mm/transparent_hugepage";

    add_libraries(sandbox);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        add_bind(sandbox, "--ro-bind-try", places[i], places[i]);
    }
    add_root(sandbox, "/bin");
    /* Of /sys only this: without it the C library takes small pages, and cudafe++ twice as long. */
    add_bind(sandbox, "--ro-bind-try", large_pages, large_pages);
    add_bin(sandbox, "pkb-compile", sandbox->inside.compile);
    add_bind(sandbox, "--ro-bind", sandbox->node->cuda_home, sandbox->inside.cuda);
    add_bind(sandbox, "--dev-bind", "/dev/null", "/dev/null");
    add_tmpfs(sandbox, sandbox->inside.tmp, BUILD_OUT_BYTES);
    add_tmpfs(sandbox, sandbox->inside.out, BUILD_OUT_BYTES);
}

/* Our programs' libraries, and what the submission may link with. */
static void add_cuda_view(struct sandbox *sandbox)
{
    char *from = xasprintf("%s/lib64", sandbox->node->cuda_home);
    char *to = xasprintf("%s/lib64", sandbox->inside.cuda);

    add_libraries(sandbox);
    add_bind(sandbox, "--ro-bind", from, to);
    add_bind(sandbox, "--ro-bind-try", sandbox->node->sim_dir, sandbox->inside.sim);
    add_bind(sandbox, "--ro-bind-try", sandbox->node->nccl_dir, sandbox->inside.nccl);
    free(from);
    free(to);
}

/* The GPUs of the job, and of /sys what NCCL reads to find how they are connected. */
static void add_gpus(struct sandbox *sandbox)
{
    static const char *const devices[] = {"/dev/nvidiactl", "/dev/nvidia-uvm",
                                          "/dev/nvidia-uvm-tools"};
    static const char *const topology[] = {"/sys/devices/system/cpu", "/sys/devices/system/node",
                                           "/sys/bus/pci/devices", "/sys/class/pci_bus"};
    const char *mps = getenv("CUDA_MPS_PIPE_DIRECTORY");

    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        add_bind(sandbox, "--dev-bind-try", devices[i], devices[i]);
    }
    /* Their numbers are those of the host, of which this node may have any. */
    for (int gpu = 0; gpu < GPUS_MAX; gpu++) {
        char *path = xasprintf("/dev/nvidia%d", gpu);
        if (access(path, F_OK) == 0) {
            add_bind(sandbox, "--dev-bind-try", path, path);
        }
        free(path);
    }
    for (size_t i = 0; i < sizeof topology / sizeof *topology; i++) {
        add_bind(sandbox, "--ro-bind-try", topology[i], topology[i]);
    }
    if (mps != NULL) {
        add_bind(sandbox, "--bind", mps, mps);
    }
    const char *driver = driver_directory();
    if (driver != NULL && strncmp(driver, "/usr/lib", strlen("/usr/lib")) != 0) {
        add_bind(sandbox, "--ro-bind", driver, driver);
    }
}

static void add_ranks_view(struct sandbox *sandbox)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/urandom"};

    add_cuda_view(sandbox);
    add_bin(sandbox, "pkb-rank", sandbox->inside.rank);
    add_all(sandbox, (const char *const[]){"--proc", "/proc", NULL});
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        add_bind(sandbox, "--dev-bind", devices[i], devices[i]);
    }
    add_tmpfs(sandbox, "/dev/shm", RANKS_SHM_BYTES);
    add_tmpfs(sandbox, sandbox->inside.tmp, RANKS_TMP_BYTES);
    if (sandbox->options.device != DEVICE_SIM) {
        add_gpus(sandbox);
    }
}

static void add_simd_view(struct sandbox *sandbox)
{
    add_cuda_view(sandbox);
    add_bin(sandbox, "pkb-simd", sandbox->inside.simd);
}

static void add_view(struct sandbox *sandbox)
{
    add_bin(sandbox, "pkb-init", sandbox->inside.init);
    if (sandbox->options.has_probe) {
        add_bin(sandbox, "pkb-probe", sandbox->inside.probe);
    }
    switch (sandbox->options.policy) {
    case SANDBOX_BUILD:
        add_build_view(sandbox);
        break;
    case SANDBOX_RANKS:
        add_ranks_view(sandbox);
        break;
    default:
        add_simd_view(sandbox);
        break;
    }
}

static enum status add_namespaces(struct sandbox *sandbox, struct error *err)
{
    static const char *const words[] = {"--unshare-user",
                                        "--unshare-ipc",
                                        "--unshare-pid",
                                        "--unshare-net",
                                        "--unshare-uts",
                                        "--hostname",
                                        "pkb",
                                        "--unshare-cgroup",
                                        "--as-pid-1",
                                        "--clearenv",
                                        "--cap-drop",
                                        "ALL",
                                        "--die-with-parent",
                                        NULL};

    add(sandbox, sandbox->node->bwrap);
    add_all(sandbox, words);
    if (has(sandbox->node, LAYER_USERNS)) {
        add(sandbox, "--disable-userns");
    }
    if (has(sandbox->node, LAYER_SECCOMP)) {
        enum status status = add_filter(sandbox, policies[sandbox->options.policy].filter, err);
        if (status != OK) {
            return status;
        }
    }
    add_view(sandbox);
    return OK;
}

/* ---- one sandbox ---- */

static void name_paths(struct sandbox *sandbox)
{
    static const struct sandbox_paths inside = {.init = "/pkb/init",
                                                .rank = "/pkb/rank",
                                                .simd = "/pkb/simd",
                                                .probe = "/pkb/probe",
                                                .compile = "/pkb/compile",
                                                .sim = "/pkb/lib/sim",
                                                .nccl = "/pkb/lib/nccl",
                                                .cuda = "/cuda",
                                                .source = "/src",
                                                .out = "/out",
                                                .tmp = "/tmp"};
    const struct sandbox_node *node = sandbox->node;
    struct sandbox_paths *paths = &sandbox->inside;

    if (sandbox->options.policy != SANDBOX_JUDGE && has(node, LAYER_NAMESPACES)) {
        *paths = inside;
        return;
    }
    (void)snprintf(paths->init, PATH_MAX, "%s/pkb-init", node->bin_dir);
    (void)snprintf(paths->rank, PATH_MAX, "%s/pkb-rank", node->bin_dir);
    (void)snprintf(paths->simd, PATH_MAX, "%s/pkb-simd", node->bin_dir);
    (void)snprintf(paths->probe, PATH_MAX, "%s/pkb-probe", node->bin_dir);
    (void)snprintf(paths->compile, PATH_MAX, "%s/pkb-compile", node->bin_dir);
    (void)snprintf(paths->sim, PATH_MAX, "%s", node->sim_dir);
    (void)snprintf(paths->nccl, PATH_MAX, "%s", node->nccl_dir);
    (void)snprintf(paths->cuda, PATH_MAX, "%s", node->cuda_home);
    (void)snprintf(paths->source, PATH_MAX, "%s", sandbox->directory);
    (void)snprintf(paths->out, PATH_MAX, "%s", sandbox->directory);
    (void)snprintf(paths->tmp, PATH_MAX, "%s", sandbox->directory);
}

static enum status make_directory(struct sandbox *sandbox, struct error *err)
{
    int length = snprintf(sandbox->directory, PATH_MAX, "%s/job-XXXXXX", sandbox->node->work_dir);

    if (length >= PATH_MAX - 64 || mkdtemp(sandbox->directory) == NULL) {
        sandbox->directory[0] = 0;
        return error_set(err, ERR_IO, "cannot make a directory in '%s': %m",
                         sandbox->node->work_dir);
    }
    if (sandbox->uid != 0 && chown(sandbox->directory, sandbox->uid, sandbox->uid) != 0) {
        return error_set(err, ERR_IO, "cannot give '%s' away: %m", sandbox->directory);
    }
    return OK;
}

static enum status make_group(struct sandbox *sandbox, struct error *err)
{
    struct cgroup_limits limits = policies[sandbox->options.policy].limits;

    if (sandbox->options.limits != NULL) {
        limits = *sandbox->options.limits;
    } else if (sandbox->options.policy == SANDBOX_RANKS) {
        limits.processes *= (uint64_t)sandbox->options.world;
    }
    return cgroup_open(&sandbox->group, policies[sandbox->options.policy].name, &limits, err);
}

enum status sandbox_open(struct sandbox **sandbox, const struct sandbox_node *node,
                         const struct sandbox_options *options, struct error *err)
{
    struct sandbox *made = xcalloc(1, sizeof *made);
    bool is_judge = options->policy == SANDBOX_JUDGE;
    enum status status = OK;

    assert(options->slot >= 0);
    assert(options->slot < SANDBOX_SLOTS_MAX);
    made->node = node;
    made->options = *options;
    if (has(node, LAYER_UID)) {
        made->uid = node->uid_base + (uid_t)options->slot * SANDBOX_POLICIES + options->policy;
    }
    if (!is_judge && !has(node, LAYER_NAMESPACES)) {
        status = make_directory(made, err);
    }
    name_paths(made);
    made->init = is_judge ? NULL : made->inside.init;
    if (status == OK && has(node, LAYER_CGROUP)) {
        status = make_group(made, err);
    }
    if (status == OK && !is_judge && has(node, LAYER_NAMESPACES)) {
        status = add_namespaces(made, err);
    }
    if (status != OK) {
        sandbox_close(made);
        return status;
    }
    *sandbox = made;
    return OK;
}

static enum status copy_file(const struct sandbox *sandbox, int fd, const char *name,
                             struct error *err)
{
    char path[PATH_MAX + 64];
    struct stat info = {0};
    enum status status = OK;
    off_t offset = 0;

    (void)snprintf(path, sizeof path, "%s/%s", sandbox->directory, name);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (to < 0 || fstat(fd, &info) != 0) {
        status = error_set(err, ERR_IO, "cannot create '%s': %m", path);
    }
    while (status == OK && offset < info.st_size) {
        if (sendfile(to, fd, &offset, (size_t)(info.st_size - offset)) <= 0) {
            status = error_set(err, ERR_IO, "cannot write '%s': %m", path);
        }
    }
    if (to >= 0) {
        close(to);
    }
    return status;
}

enum status sandbox_add_file(struct sandbox *sandbox, int fd, const char *name, struct error *err)
{
    int added = -1;

    if (sandbox->word_count == 0) {
        return copy_file(sandbox, fd, name, err);
    }
    enum status status = add_fd(sandbox, fd, &added, err);
    if (status == OK) {
        char *number = xasprintf("%d", added);
        char *path = xasprintf("%s/%s", sandbox->inside.source, name);
        add_all(sandbox,
                (const char *const[]){"--perms", "0444", "--ro-bind-data", number, path, NULL});
        free(number);
        free(path);
    }
    return status;
}

enum status sandbox_open_out(const struct sandbox *sandbox, pid_t pid, int *directory,
                             struct error *err)
{
    char path[PATH_MAX + 64];

    if (sandbox->word_count == 0) {
        (void)snprintf(path, sizeof path, "%s", sandbox->inside.out);
    } else {
        (void)snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, sandbox->inside.out);
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return error_set(err, ERR_IO, "cannot open '%s': %m", path);
    }
    *directory = fd;
    return OK;
}

bool sandbox_is_full(const struct sandbox *sandbox, pid_t pid)
{
    const char *const places[] = {sandbox->inside.tmp, sandbox->inside.out, "/dev/shm"};
    char path[PATH_MAX + 64];
    struct statfs info = {0};
    bool is_full = false;

    for (size_t i = 0; i < sizeof places / sizeof *places && sandbox->word_count != 0; i++) {
        (void)snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, places[i]);
        is_full |= statfs(path, &info) == 0 && info.f_blocks > 0 && info.f_bavail == 0;
    }
    return is_full;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void sandbox_close(struct sandbox *sandbox)
{
    if (sandbox == NULL) {
        return;
    }
    cgroup_close(sandbox->group);
    for (int i = 0; i < sandbox->fd_count; i++) {
        close(sandbox->fds[i]);
    }
    for (int i = 0; i < sandbox->word_count; i++) {
        free(sandbox->words[i]);
    }
    if (sandbox->directory[0] != 0) {
        (void)nftw(sandbox->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    free(sandbox);
}
