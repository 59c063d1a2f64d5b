/* pkb-worker — options; then the daemon, or one evaluation. */
#include "common/error.h"
#include "common/job.h"
#include "common/mem.h"
#include "worker/agent.h"
#include "worker/devices.h"
#include "worker/once.h"
#include "worker/roofline.h"
#include "worker/schedules.h"
#include "worker/selftest.h"
#include "worker/staging.h"
#include "worker/toolchain.h"
#include "worker/usage.h"
#include "worker/workplace.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
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

struct options {
    struct agent_options agent;
    struct once_options once;
    const char *token_file, *task, *work_dir, *replay_file, *baselines, *rates;
    struct replay replay;
    struct sandbox_node node;
    struct staging staging;
    uint64_t world, slots, seed, schedule_seed, schedules, fuel, stall_ms, build_ms, run_ms;
    bool has_seed, no_multicast;
};

static enum status read_number(uint64_t *to, const char *option, const char *text, uint64_t max,
                               struct error *err)
{
    char *end = NULL;

    errno = 0;
    uint64_t value = strtoumax(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || text[0] == '-' || value > max) {
        return error_field(err, ERR_INVALID, option,
                           "--%s takes a number up to %" PRIu64 ", not '%s'", option, max, text);
    }
    *to = value;
    return OK;
}

static enum status read_word(int *to, const char *option, const char *text,
                             int (*find)(const char *), struct error *err)
{
    *to = find(text);
    return *to >= 0
               ? OK
               : error_field(err, ERR_INVALID, option, "--%s does not know '%s'", option, text);
}

static const struct option option_table[] = {
    {"server", required_argument, NULL, 's'},
    {"token-file", required_argument, NULL, 't'},
    {"name", required_argument, NULL, 'n'},
    {"device", required_argument, NULL, 'd'},
    {"slots", required_argument, NULL, 'l'},
    {"once", required_argument, NULL, 'o'},
    {"task", required_argument, NULL, 'T'},
    {"world", required_argument, NULL, 'w'},
    {"dtype", required_argument, NULL, 'y'},
    {"seed", required_argument, NULL, 'e'},
    {"work-dir", required_argument, NULL, 'W'},
    {"bin-dir", required_argument, NULL, 'b'},
    {"stall-ms", required_argument, NULL, 'S'},
    {"seed-schedule", required_argument, NULL, 'c'},
    {"build-ms", required_argument, NULL, 'B'},
    {"run-ms", required_argument, NULL, 'R'},
    {"bwrap", required_argument, NULL, 'p'},
    {"slot-uid-base", required_argument, NULL, 'u'},
    {"insecure", required_argument, NULL, 'i'},
    {"fuel", required_argument, NULL, 'f'},
    {"no-multicast", no_argument, NULL, 'm'},
    {"bench", no_argument, NULL, 'x'},
    {"schedules", required_argument, NULL, 'k'},
    {"replay", required_argument, NULL, 'r'},
    {"baselines", required_argument, NULL, 'a'},
    {"rates", required_argument, NULL, 'z'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static enum status read_text_option(struct options *options, int option, const char *text,
                                    const char **bin_dir)
{
    switch (option) {
    case 's':
        options->agent.server = text;
        break;
    case 't':
        options->token_file = text;
        break;
    case 'n':
        options->agent.name = text;
        break;
    case 'o':
        options->once.file = text;
        break;
    case 'r':
        options->replay_file = text;
        break;
    case 'T':
        options->task = text;
        break;
    case 'W':
        options->work_dir = text;
        break;
    case 'b':
        *bin_dir = text;
        break;
    case 'a':
        options->baselines = text;
        break;
    case 'z':
        options->rates = text;
        break;
    case 'p':
        options->node.bwrap = text;
        break;
    case 'h':
        (void)fputs(worker_usage, stdout);
        exit(0);
    default:
        return ERR_INVALID;
    }
    return OK;
}

static enum status read_option(struct options *options, int option, const char *text,
                               struct error *err)
{
    uint64_t uid_base = 0;
    int word = 0;
    enum status status = OK;

    switch (option) {
    case 'd':
        status = read_word(&word, "device", text, device_kind_find, err);
        options->agent.device = options->once.job.device = (enum device_kind)word;
        return status;
    case 'y':
        status = read_word(&word, "dtype", text, dtype_find, err);
        options->once.job.dtype = (enum dtype)word;
        return status;
    case 'm':
        options->no_multicast = true;
        return OK;
    case 'x':
        options->once.job.is_bench = true;
        return OK;
    case 'l':
        return read_number(&options->slots, "slots", text, SLOTS_MAX, err);
    case 'w':
        return read_number(&options->world, "world", text, WORLD_MAX, err);
    case 'e':
        options->has_seed = true;
        return read_number(&options->seed, "seed", text, UINT64_MAX, err);
    case 'c':
        return read_number(&options->schedule_seed, "seed-schedule", text, UINT64_MAX, err);
    case 'k':
        return read_number(&options->schedules, "schedules", text, SCHEDULES_MAX, err);
    case 'f':
        return read_number(&options->fuel, "fuel", text, UINT64_MAX, err);
    case 'S':
        return read_number(&options->stall_ms, "stall-ms", text, INT32_MAX, err);
    case 'B':
        return read_number(&options->build_ms, "build-ms", text, INT32_MAX, err);
    case 'u':
        status = read_number(&uid_base, "slot-uid-base", text, UINT32_MAX / 2, err);
        options->node.uid_base = (uid_t)uid_base;
        return status;
    case 'i':
        return layers_read(&options->node.waived, text, err);
    case 'R':
        return read_number(&options->run_ms, "run-ms", text, INT32_MAX, err);
    default:
        return error_set(err, ERR_INVALID, "unknown option; try --help");
    }
}

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
    return status == OK ? sandbox_node_init(node, err) : status;
}

static enum status check_device(const struct options *options, struct error *err)
{
    if (options->agent.device != DEVICE_SIM && options->slots != 1) {
        return error_field(err, ERR_INVALID, "slots",
                           "a job on GPUs has the node alone: --slots 1, not %" PRIu64,
                           options->slots);
    }
    if (options->once.job.is_bench && options->once.job.device == DEVICE_SIM) {
        return error_field(err, ERR_INVALID, "bench",
                           "the simulator has no times: --bench needs --device cuda or "
                           "cuda-shared");
    }
    return OK;
}

static enum status find_devices(struct options *options, struct error *err)
{
    enum status status =
        devices_count(&options->node, options->agent.device, &options->agent.gpus, err);

    if (status == OK && options->once.file != NULL) {
        status =
            devices_suffice(options->agent.device, options->agent.gpus, (int)options->world, err);
    }
    return status;
}

/* The options are right as far as they can be seen alone. */
static enum status work(struct options *options, const char *bin_dir, struct error *err)
{
    const char *cuda_home = getenv("CUDA_HOME");
    char *sim_dir = xasprintf("%s/../lib/sim", bin_dir);
    char *nccl_dir = xasprintf("%s/../lib/nccl", bin_dir);
    char *baselines = xasprintf("%s/pkb-baselines", options->work_dir);
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
    return status;
}

static enum status run(int argc, char **argv, struct error *err)
{
    struct options options = {.agent = {.device = DEVICE_SIM},
                              .once = {.job = {.dtype = DTYPE_BF16, .device = DEVICE_SIM}},
                              .node = {.bwrap = "/usr/bin/bwrap", .uid_base = SANDBOX_UID_BASE},
                              .slots = 1,
                              .schedule_seed = 1,
                              .schedules = SCHEDULES_DEFAULT,
                              .fuel = UINT64_C(5000000000),
                              .stall_ms = 10000,
                              .build_ms = 60000,
                              .run_ms = 300000};
    char own_directory[PATH_MAX];
    const char *bin_dir = own_directory;
    int option = 0;

    enum status status = find_own_directory(own_directory, err);
    while (status == OK && (option = getopt_long(argc, argv, "", option_table, NULL)) != -1) {
        if (read_text_option(&options, option, optarg, &bin_dir) != OK) {
            status = read_option(&options, option, optarg, err);
        }
    }
    if (status == OK && options.schedules == 0) {
        status = error_field(err, ERR_INVALID, "schedules", "--schedules takes 1 at least");
    }
    if (status == OK && optind < argc) {
        status = error_set(err, ERR_INVALID, "'%s' is not expected; try --help", argv[optind]);
    }
    if (status == OK) {
        status = check_device(&options, err);
    }
    if (status != OK) {
        return status;
    }
    if (options.work_dir == NULL) {
        options.work_dir = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    }
    char work_dir[PATH_MAX]; /* absolute: the compiler runs in another directory */
    if (realpath(options.work_dir, work_dir) == NULL) {
        return error_set(err, ERR_NOT_FOUND, "cannot use '%s': %m", options.work_dir);
    }
    options.work_dir = work_dir;
    return work(&options, bin_dir, err);
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
