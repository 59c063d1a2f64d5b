#include "worker/launch.h"

#include "common/mem.h"
#include "worker/driver.h"

#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CLIENTS_MAX = WORLD_MAX + 1, /* of the simulator: the ranks and the judge */
    ARGS_MAX = 48,
    TEXTS_MAX = 256,
    RANK_FILES = 1024,
    FDS_MAX = 64,
};

/* Of a simulated device: it is the node's own memory. */
#define DEVICE_MEMORY_BYTES (1ull << 30)

/* What is only needed until the programs run. */
struct plan_of_start {
    const struct launch_options *options;
    struct box_program programs[BOX_PROGRAMS_MAX];
    char *args[BOX_PROGRAMS_MAX][ARGS_MAX];
    char *env[BOX_PROGRAMS_MAX][8];
    char *texts[TEXTS_MAX];
    int text_count;
    int fds[FDS_MAX]; /* all that this process closes at the end */
    int fd_count;
    int to_judge[WORLD_MAX]; /* the judge's ends */
    int to_rank[WORLD_MAX];  /* the ranks' ends */
    int client[CLIENTS_MAX]; /* the clients' ends of the simulator's sockets */
    int server[CLIENTS_MAX]; /* the simulator's */
    int page, judge_job, filter;
    struct sandbox *judge, *ranks, *simd;
    int output[WORLD_MAX], own_output, report;
};

static char *text(struct plan_of_start *plan, char *made)
{
    assert(plan->text_count < TEXTS_MAX);
    plan->texts[plan->text_count++] = made;
    return made;
}

static int keep(struct plan_of_start *plan, int fd)
{
    assert(plan->fd_count < FDS_MAX);
    plan->fds[plan->fd_count++] = fd;
    return fd;
}

static enum status make_pair(struct plan_of_start *plan, int type, int *one, int *other,
                             struct error *err)
{
    int pair[2] = {-1, -1};

    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) != 0) {
        return error_set(err, ERR_IO, "cannot make a pair of sockets: %m");
    }
    *one = keep(plan, pair[0]);
    *other = keep(plan, pair[1]);
    return OK;
}

static enum status make_page(struct plan_of_start *plan, struct error *err)
{
    int fd = memfd_create("pkb-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) {
        return error_set(err, ERR_IO, "cannot make the control page: %m");
    }
    plan->page = keep(plan, fd);
    if (ftruncate(fd, (off_t)sizeof(struct control_page)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return error_set(err, ERR_IO, "cannot size the control page: %m");
    }
    return OK;
}

static enum status make_outputs(struct launch *launch, struct plan_of_start *plan,
                                struct error *err)
{
    enum status status = capture_init(&launch->own, &plan->own_output, err);

    if (status != OK) {
        return status;
    }
    keep(plan, plan->own_output);
    for (int rank = 0; rank < launch->world; rank++) {
        status = capture_init(&launch->outputs[rank], &plan->output[rank], err);
        if (status != OK) {
            return status;
        }
        keep(plan, plan->output[rank]);
    }
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_set(err, ERR_IO, "cannot make a pipe: %m");
    }
    launch->report = ends[0];
    plan->report = keep(plan, ends[1]);
    if (fcntl(launch->report, F_SETFL, O_NONBLOCK) != 0) {
        return error_set(err, ERR_IO, "cannot set up a pipe: %m");
    }
    return OK;
}

static enum status make_sockets(struct launch *launch, struct plan_of_start *plan,
                                struct error *err)
{
    int pair[2] = {-1, -1};
    enum status status = OK;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return error_set(err, ERR_IO, "cannot make a pair of sockets: %m");
    }
    launch->judge = pair[0];
    plan->judge_job = keep(plan, pair[1]);
    for (int rank = 0; rank < launch->world && status == OK; rank++) {
        status = make_pair(plan, SOCK_SEQPACKET, &plan->to_judge[rank], &plan->to_rank[rank], err);
    }
    for (int client = 0; client <= launch->world && status == OK; client++) {
        status = make_pair(plan, SOCK_STREAM, &plan->client[client], &plan->server[client], err);
    }
    return status;
}

static void set_program(struct plan_of_start *plan, int number, struct sandbox *sandbox, int output)
{
    plan->programs[number].argv = plan->args[number];
    plan->programs[number].env = plan->env[number];
    plan->programs[number].output = output;
    plan->programs[number].sandbox = sandbox;
}

static void give_fd(struct plan_of_start *plan, int number, int fd)
{
    struct box_program *program = &plan->programs[number];

    assert(program->fd_count < BOX_FDS_MAX);
    program->fds[program->fd_count++] = fd;
}

static bool is_simulated(const struct plan_of_start *plan)
{
    return plan->options->job.device == DEVICE_SIM;
}

/* Where a program finds CUDA. The simulator's libraries come first where it is the device; our
 * libnccl where NCCL's own cannot run; otherwise what the node has. */
static char *library_path(enum device_kind device, const struct sandbox_paths *inside)
{
    const char *driver = driver_directory();

    driver = driver == NULL ? inside->cuda : driver;
    switch (device) {
    case DEVICE_SIM:
        return xasprintf("LD_LIBRARY_PATH=%s:%s:%s/lib64", inside->sim, inside->nccl, inside->cuda);
    case DEVICE_CUDA_SHARED:
        return xasprintf("LD_LIBRARY_PATH=%s:%s/lib64:%s", inside->nccl, inside->cuda, driver);
    default:
        return xasprintf("LD_LIBRARY_PATH=%s/lib64:%s", inside->cuda, driver);
    }
}

/* The environment of a program that uses CUDA, as client `client` of the simulator. */
static void set_cuda_env(struct plan_of_start *plan, int number, int client)
{
    const char *mps = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char **env = plan->env[number];
    int count = 0;

    env[count++] = text(plan, library_path((enum device_kind)plan->options->job.device,
                                           &plan->programs[number].sandbox->inside));
    env[count++] = (char *)"CUDA_MODULE_LOADING=EAGER";
    if (is_simulated(plan)) {
        env[count++] = text(plan, xasprintf("PKB_SIM_FD=%d", plan->client[client]));
        give_fd(plan, number, plan->client[client]);
    } else if (mps != NULL) {
        env[count++] = text(plan, xasprintf("CUDA_MPS_PIPE_DIRECTORY=%s", mps));
    }
    if (!is_simulated(plan) && mps != NULL && number != LAUNCH_JUDGE) {
        env[count++] = text(plan, xasprintf("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%d",
                                            100 / plan->options->job.world));
    }
}

static void plan_judge(struct plan_of_start *plan, int world)
{
    char **args = plan->args[LAUNCH_JUDGE];

    set_program(plan, LAUNCH_JUDGE, plan->judge, plan->own_output);
    set_cuda_env(plan, LAUNCH_JUDGE, world);
    give_fd(plan, LAUNCH_JUDGE, plan->judge_job);
    args[0] = text(plan, xasprintf("%s/pkb-judge", plan->options->node->bin_dir));
    args[1] = (char *)"--worker";
    args[2] = text(plan, xasprintf("%d", plan->judge_job));
}

static void plan_rank(struct plan_of_start *plan, int rank)
{
    int number = LAUNCH_RANK_0 + rank;
    char **args = plan->args[number];
    int count = 0;

    set_program(plan, number, plan->ranks, plan->output[rank]);
    set_cuda_env(plan, number, rank);
    give_fd(plan, number, plan->to_rank[rank]);
    give_fd(plan, number, plan->page);
    plan->programs[number].limits.files = RANK_FILES;
    plan->programs[number].directory = plan->ranks->inside.tmp;
    args[count++] = plan->ranks->inside.rank;
    args[count++] = (char *)"--judge";
    args[count++] = text(plan, xasprintf("%d", plan->to_rank[rank]));
    args[count++] = (char *)"--page";
    args[count++] = text(plan, xasprintf("%d", plan->page));
    args[count++] = (char *)"--rank";
    args[count++] = text(plan, xasprintf("%d", rank));
    args[count++] = (char *)"--solution";
    args[count++] = text(plan, xasprintf("%s/solution.so", plan->ranks->inside.source));
    if (plan->filter >= 0) {
        give_fd(plan, number, plan->filter);
        args[count++] = (char *)"--filter";
        args[count++] = text(plan, xasprintf("%d", plan->filter));
    }
}

static void plan_simulator(struct plan_of_start *plan, int world)
{
    const struct launch_options *options = plan->options;
    int number = LAUNCH_RANK_0 + world;
    char **args = plan->args[number];
    int count = 0;

    set_program(plan, number, plan->simd, plan->own_output);
    args[count++] = plan->simd->inside.simd;
    args[count++] = (char *)"--devices";
    args[count++] = text(plan, xasprintf("%d", world));
    for (int client = 0; client <= world; client++) {
        args[count++] = (char *)"--client";
        args[count++] =
            text(plan, client < world ? xasprintf("rank%d=%d", client, plan->server[client])
                                      : xasprintf("judge=%d", plan->server[client]));
        give_fd(plan, number, plan->server[client]);
    }
    const struct sandbox_paths *inside = &plan->simd->inside;
    const char *const images[] = {
        text(plan, xasprintf("%s/solution.so", inside->source)),
        text(plan, xasprintf("%s/libnccl.so.2", inside->nccl)),
        text(plan, xasprintf("%s/libcublasLt.so.13", inside->sim)),
    };
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        args[count++] = (char *)"--image";
        args[count++] = (char *)images[i];
    }
    args[count++] = (char *)"--report";
    args[count++] = text(plan, xasprintf("%d", plan->report));
    args[count++] = (char *)"--seed";
    args[count++] = text(plan, xasprintf("%llu", (unsigned long long)options->schedule_seed));
    args[count++] = (char *)"--fuel";
    args[count++] = text(plan, xasprintf("%llu", (unsigned long long)options->fuel));
    args[count++] = (char *)"--memory";
    args[count++] = text(plan, xasprintf("%llu", DEVICE_MEMORY_BYTES));
    assert(count < ARGS_MAX);
    give_fd(plan, number, plan->report);
}

/* The simulator and its clients take turns: on one processor none has to be woken on another. */
static void share_processor(struct plan_of_start *plan, int count)
{
    cpu_set_t ours;
    int turn = 0;

    if (sched_getaffinity(0, sizeof ours, &ours) != 0) {
        return;
    }
    for (int processor = 0; processor < CPU_SETSIZE; processor++) {
        if (CPU_ISSET(processor, &ours) && turn++ == plan->options->slot % CPU_COUNT(&ours)) {
            for (int number = 0; number < count; number++) {
                plan->programs[number].limits.processor = 1 + processor;
            }
        }
    }
}

static enum status open_sandbox(struct sandbox **sandbox, const struct plan_of_start *plan,
                                enum sandbox_policy policy, struct error *err)
{
    const struct launch_options *options = plan->options;
    struct sandbox_options made = {.policy = policy,
                                   .slot = options->slot,
                                   .device = (enum device_kind)options->job.device,
                                   .world = options->job.world,
                                   .limits = policy == SANDBOX_RANKS ? options->limits : NULL};

    return sandbox_open(sandbox, options->node, &made, err);
}

static enum status make_sandboxes(struct launch *launch, struct plan_of_start *plan,
                                  struct error *err)
{
    int library = plan->options->library;
    int filter = plan->options->node->filters[FILTER_RANK_END];

    enum status status = open_sandbox(&launch->judge_sandbox, plan, SANDBOX_JUDGE, err);
    if (status == OK) {
        status = open_sandbox(&launch->ranks_sandbox, plan, SANDBOX_RANKS, err);
    }
    if (status == OK) {
        status = sandbox_add_file(launch->ranks_sandbox, library, "solution.so", err);
    }
    if (status == OK && is_simulated(plan)) {
        status = open_sandbox(&launch->simd_sandbox, plan, SANDBOX_SIMD, err);
        if (status == OK) {
            status = sandbox_add_file(launch->simd_sandbox, library, "solution.so", err);
        }
    }
    plan->judge = launch->judge_sandbox;
    plan->ranks = launch->ranks_sandbox;
    plan->simd = launch->simd_sandbox;
    plan->filter = filter;
    return status;
}

static enum status send_job(const struct launch *launch, const struct plan_of_start *plan,
                            struct error *err)
{
    int fds[WORLD_MAX + 1];

    memcpy(fds, plan->to_judge, sizeof plan->to_judge);
    fds[launch->world] = plan->page;
    return channel_send(launch->judge,
                        &(struct message_parts){.kind = MESSAGE_JOB,
                                                .body = &plan->options->job,
                                                .size_bytes = sizeof plan->options->job,
                                                .fds = fds,
                                                .fd_count = launch->world + 1},
                        err);
}

static void forget(struct plan_of_start *plan)
{
    for (int i = 0; i < plan->fd_count; i++) {
        close(plan->fds[i]);
    }
    for (int i = 0; i < plan->text_count; i++) {
        free(plan->texts[i]);
    }
    free(plan);
}

enum status launch_start(struct launch *launch, const struct launch_options *options,
                         struct error *err)
{
    struct plan_of_start *plan = xcalloc(1, sizeof *plan);
    struct launch made = {.world = options->job.world, .judge = -1, .report = -1};

    made.own.fd = -1;
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        made.outputs[rank].fd = -1;
    }
    plan->options = options;
    enum status status = make_page(plan, err);
    if (status == OK) {
        status = make_outputs(&made, plan, err);
    }
    if (status == OK) {
        status = make_sockets(&made, plan, err);
    }
    if (status == OK) {
        status = make_sandboxes(&made, plan, err);
    }
    if (status == OK) {
        status = send_job(&made, plan, err);
    }
    if (status == OK) {
        plan_judge(plan, made.world);
        for (int rank = 0; rank < made.world; rank++) {
            plan_rank(plan, rank);
        }
        int count = LAUNCH_RANK_0 + made.world;
        if (is_simulated(plan)) {
            plan_simulator(plan, made.world);
            share_processor(plan, ++count);
        }
        status = box_start(&made.box, plan->programs, count, err);
    }
    forget(plan);
    if (status != OK) {
        launch_release(&made);
        return status;
    }
    *launch = made;
    return OK;
}

void launch_release(struct launch *launch)
{
    box_close(launch->box);
    sandbox_close(launch->judge_sandbox);
    sandbox_close(launch->ranks_sandbox);
    sandbox_close(launch->simd_sandbox);
    launch->judge_sandbox = launch->ranks_sandbox = launch->simd_sandbox = NULL;
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        capture_release(&launch->outputs[rank]);
    }
    capture_release(&launch->own);
    if (launch->judge >= 0) {
        close(launch->judge);
    }
    if (launch->report >= 0) {
        close(launch->report);
    }
    launch->box = NULL;
    launch->judge = launch->report = -1;
}
