/* pkb-worker — options; then the daemon, or one evaluation. */
#include "common/error.h"
#include "common/mem.h"
#include "worker/devices.h"
#include "worker/driver.h"
#include "worker/options.h"
#include "worker/roofline.h"
#include "worker/selftest.h"
#include "worker/slot.h"
#include "worker/store.h"
#include "worker/toolchain.h"
#include "worker/workplace.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { TOKEN_MAX = 256, SELFTEST_EVERY_MS = 3600 * 1000 };

/* EX_CONFIG of sysexits.h: this node lacks something, and starting again does not help. */
enum { EXIT_TROUBLE = 1, EXIT_USAGE = 2, EXIT_LACKING = 78 };

/* Where this program is, so that the others are found beside it. */
static enum status find_own_directory(char directory[static PATH_MAX], struct error *err)
{
    ssize_t length = readlink("/proc/self/exe", directory, PATH_MAX - 1);

    if (length <= 0) {
        return error_set(err, ERR_IO, "cannot find where pkb-worker is: %m");
    }
    directory[length] = 0;
    *strrchr(directory, '/') = 0;
    return OK;
}

static enum status read_token(const char *file, char token[static TOKEN_MAX], struct error *err)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return error_set(err, ERR_NOT_FOUND, "cannot open '%s': %m", file);
    }
    ssize_t size = read(fd, token, TOKEN_MAX - 1);
    close(fd);
    if (size <= 0) {
        return error_set(err, ERR_INVALID, "'%s' holds no token", file);
    }
    token[size] = 0;
    token[strcspn(token, "\r\n")] = 0;
    return OK;
}

/* Of a node with GPUs the kernel's log is watched unless it is told not to be. */
static void choose_log(struct agent_options *agent)
{
    if (agent->kmsg == NULL && agent->device != DEVICE_SIM) {
        agent->kmsg = "/dev/kmsg";
    }
    if (agent->kmsg != NULL && strcmp(agent->kmsg, "none") == 0) {
        agent->kmsg = NULL;
    }
}

static enum status run_agent(struct options *options, struct error *err)
{
    struct workplace workplace = {.lock = -1};
    char token[TOKEN_MAX] = "";

    if (options->agent.server == NULL || options->token_file == NULL ||
        options->agent.name == NULL || options->slots == 0) {
        return error_set(err, ERR_INVALID,
                         "--server, --token-file and --name are needed; try --help");
    }
    if (strchr(options->agent.name, '/') != NULL || strlen(options->agent.name) >= NAME_MAX_BYTES) {
        return error_field(err, ERR_INVALID, "name", "a name has no '/' and at most %d bytes",
                           NAME_MAX_BYTES - 1);
    }
    enum status status = read_token(options->token_file, token, err);
    if (status == OK) {
        status = workplace_init(&workplace, options->work_dir, options->agent.name, err);
    }
    if (status == OK) {
        options->node.work_dir = workplace.path;
        status = selftest_run(&options->node, err);
    }
    if (status == OK) {
        options->agent.token = token;
        options->agent.devices = &options->devices;
        options->agent.disk_min_bytes = (int64_t)options->disk_free_mib << 20;
        choose_log(&options->agent);
        options->agent.slots = (int)options->slots;
        struct selftest_watch *watch = selftest_watch_open(&options->node, SELFTEST_EVERY_MS);
        status = agent_run(&options->agent, err);
        enum status layers = selftest_watch_close(watch, err);
        status = layers == OK ? status : layers;
    }
    options->node.work_dir = NULL;
    options->agent.token = NULL;
    workplace_release(&workplace);
    return status;
}

/* All but the source comes from the replay. */
static enum status take_replay(struct options *options, struct evaluation_settings *settings,
                               struct error *err)
{
    struct replay *replay = &options->replay;

    if (options->task != NULL || options->world != 0 || options->has_seed) {
        return error_field(err, ERR_INVALID, "replay",
                           "--task, --world and --seed come from the file of --replay");
    }
    enum status status = once_read_replay(replay, options->replay_file, err);
    if (status == OK) {
        options->once.replay = replay;
        options->task = replay->task;
        options->world = (uint64_t)replay->world;
        options->once.job.dtype = replay->dtype;
        options->once.job.device = DEVICE_SIM;
        options->seed = replay->seed;
        options->has_seed = true;
        settings->no_multicast = replay->no_multicast;
        settings->schedule_seed = replay->schedule_seed;
        settings->schedules = 1;
        settings->fuel = replay->fuel;
        settings->stall_ms = replay->stall_ms;
    }
    return status;
}

static enum status run_once(struct options *options, struct evaluation_settings *settings,
                            struct error *err)
{
    struct workplace workplace = {.lock = -1};
    struct evaluation_job *job = &options->once.job;
    enum status status = OK;

    if (options->replay_file != NULL && (status = take_replay(options, settings, err)) != OK) {
        return status;
    }
    job->task = options->task == NULL ? NULL : task_find(options->task);
    if (job->task == NULL) {
        return error_field(err, ERR_INVALID, "task", "--task has to name a task");
    }
    if (!task_allows_world(job->task, (int)options->world)) {
        return error_field(err, ERR_INVALID, "world", "--world has to be one of %s",
                           task_worlds_text(job->task));
    }
    if (!task_allows_dtype(job->task, job->dtype)) {
        return error_field(err, ERR_INVALID, "dtype", "--dtype has to be one of %s",
                           task_dtypes_text(job->task));
    }
    job->world = (int)options->world;
    job->seed = options->seed;
    if (!options->has_seed && getrandom(&job->seed, sizeof job->seed, 0) != sizeof job->seed) {
        return error_set(err, ERR_IO, "cannot draw a seed: %m");
    }
    status = workplace_init(&workplace, options->work_dir, NULL, err);
    if (status == OK) {
        options->node.work_dir = workplace.path;
        status = selftest_run(&options->node, err);
    }
    if (status == OK) {
        status = once_run(settings, &options->once, err);
    }
    options->node.work_dir = NULL;
    workplace_release(&workplace);
    return status;
}

static enum status prepare_node(struct options *options, struct error *err)
{
    struct sandbox_node *node = &options->node;
    unsigned of_root = 1U << LAYER_UID | 1U << LAYER_CGROUP;
    int leftovers = 0; /* each is logged */
    enum status status = OK;

    if (geteuid() != 0 && (node->waived & of_root) != of_root) {
        return error_set(
            err, ERR_UNAVAILABLE,
            "missing layers of the sandbox: uid, cgroup: only root can give programs of "
            "jobs users and cgroups of their own; run pkb-worker as root, or with "
            "--insecure=uid,cgroup, and then its results are marked and not ranked");
    }
    status = staging_prepare(&options->staging, node, err);
    if (status == OK && (node->waived >> LAYER_CGROUP & 1) == 0) {
        status = cgroup_prepare(err);
    }
    if (status == OK && (node->waived >> LAYER_UID & 1) == 0) {
        status = slots_sweep(node->uid_base, &leftovers, err);
    }
    return status == OK ? sandbox_node_init(node, err) : status;
}

/* An old driver is named first: it may be why nothing else works. */
static enum status find_devices(struct options *options, struct error *err)
{
    struct devices *devices = &options->devices;
    struct error old = {0};
    char cuda[32] = "";
    enum status status = devices_look(&options->node, options->agent.device, devices, err);

    if (options->agent.device != DEVICE_SIM) {
        if (devices->cuda > 0) {
            (void)snprintf(cuda, sizeof cuda, "%d.%d", devices->cuda / 1000,
                           devices->cuda % 1000 / 10);
        }
        if (driver_demand("driver", devices->driver, options->driver_min, &old) != OK ||
            driver_demand("driver's CUDA", cuda, options->cuda_min, &old) != OK) {
            bool says_more = status != OK && (devices->driver[0] == 0 || cuda[0] == 0);
            *err = says_more ? *err : old;
            return ERR_UNAVAILABLE;
        }
    }
    if (status == OK && options->once.file != NULL) {
        status = devices_suffice(options->agent.device, devices->ranks, (int)options->world, err);
    }
    return status;
}

/* The options are right as far as they can be seen alone. */
static enum status work(struct options *options, struct error *err)
{
    const char *bin_dir = options->bin_dir;
    const char *cuda_home = getenv("CUDA_HOME");
    char *sim_dir = xasprintf("%s/../lib/sim", bin_dir);
    char *nccl_dir = xasprintf("%s/../lib/nccl", bin_dir);
    char *baselines = xasprintf("%s/pkb-baselines", options->work_dir);
    char *builds = xasprintf("%s/pkb-builds", options->work_dir);
    struct store store;
    struct roofline *roofline = NULL;

    options->node.bin_dir = bin_dir;
    options->node.sim_dir = sim_dir;
    options->node.nccl_dir = nccl_dir;
    options->node.cuda_home = cuda_home == NULL || *cuda_home == 0 ? "/usr/local/cuda" : cuda_home;
    enum status status = roofline_open(&roofline, options->rates, err);
    if (status == OK) {
        status = toolchain_check(&options->node, options->agent.device, err);
    }
    if (status == OK) {
        status = find_devices(options, err);
    }
    if (status == OK) {
        status = prepare_node(options, err);
    }
    /* One evaluation by hand builds, unless it is told where earlier builds are. */
    bool keeps_builds =
        !options->is_plain_build && (options->builds != NULL || options->once.file == NULL);
    if (status == OK && keeps_builds) {
        status = store_init(&store, options->builds == NULL ? builds : options->builds,
                            options->builds_mib << 20, err);
    }
    struct evaluation_settings settings = {
        .node = &options->node,
        .no_multicast = options->no_multicast,
        .schedule_seed = options->schedule_seed,
        .schedules = (int)options->schedules,
        .fuel = options->fuel,
        .build_ms = (int64_t)options->build_ms,
        .run_ms = (int64_t)options->run_ms,
        .stall_ms = (int64_t)options->stall_ms,
        .baselines = options->baselines == NULL ? baselines : options->baselines,
        .builds = keeps_builds ? &store : NULL,
        .is_timing_shared = options->is_timing_shared,
        .is_plain_build = options->is_plain_build,
        .roofline = roofline};
    options->agent.settings = &settings;
    if (status == OK) {
        status = options->once.file != NULL ? run_once(options, &settings, err)
                                            : run_agent(options, err);
    }
    sandbox_node_release(&options->node);
    roofline_close(roofline);
    free(sim_dir);
    free(nccl_dir);
    free(baselines);
    free(builds);
    return status;
}

static enum status run(int argc, char **argv, struct error *err)
{
    struct options options = {0};
    char own_directory[PATH_MAX];
    char work_dir[PATH_MAX]; /* absolute: the compiler runs in another directory */

    enum status status = find_own_directory(own_directory, err);
    if (status == OK) {
        options.bin_dir = own_directory;
        status = options_parse(&options, argc, argv, err);
    }
    if (status != OK) {
        return status;
    }
    if (realpath(options.work_dir, work_dir) == NULL) {
        return error_set(err, ERR_NOT_FOUND, "cannot use '%s': %m", options.work_dir);
    }
    options.work_dir = work_dir;
    return work(&options, err);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    sigset_t later; /* until there is something that they can end in order */

    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&later);
    sigaddset(&later, SIGTERM);
    sigaddset(&later, SIGINT);
    sigprocmask(SIG_BLOCK, &later, NULL);
    enum status status = run(argc, argv, &err);
    if (status == OK) {
        return 0;
    }
    (void)fprintf(stderr, "pkb-worker: %s\n", err.message);
    switch (status) {
    case ERR_INVALID:
        return EXIT_USAGE;
    case ERR_UNAVAILABLE:
        return EXIT_LACKING;
    default:
        return EXIT_TROUBLE;
    }
}
