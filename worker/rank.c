/*
 * pkb-rank — one rank of one job: an untrusted process that loads the submission and calls it as
 * the judge says. Nothing that it reports is evidence.
 */
#include "common/error.h"
#include "common/mem.h"
#include "worker/await.h"
#include "worker/caller.h"
#include "worker/layout.h"
#include "worker/meter.h"

#include <cuda_runtime_api.h>
#include <errno.h>
#include <getopt.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CRASH_STACK_BYTES = 64 * 1024 };

struct rank {
    int judge, page_fd, number, device;
    int filter; /* of system calls, for the time after the start; 0: none */
    const char *library;
    struct control_page *page;
    cudaStream_t stream;
    struct arena inputs[WORLD_MAX], outputs[WORLD_MAX];
    struct symm *symm;
    struct caller *caller;
    struct meter *meter; /* NULL: nothing is timed */
    struct message message;
};

static int crash_socket = -1;

/* Tells the address before this process dies of the same signal. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    struct crashed_body body = {.signal = number, .address = (uint64_t)(uintptr_t)info->si_addr};
    struct error err = {0};

    (void)channel_send(
        crash_socket,
        &(struct message_parts){.kind = MESSAGE_CRASHED, .body = &body, .size_bytes = sizeof body},
        &err);
}

static void watch_crashes(int judge)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    stack_t stack = {.ss_sp = xmalloc(CRASH_STACK_BYTES), .ss_size = CRASH_STACK_BYTES};
    struct sigaction action = {.sa_sigaction = on_crash,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};

    crash_socket = judge;
    sigaltstack(&stack, NULL);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], &action, NULL);
    }
}

static enum status tell(const struct rank *rank, enum message_kind kind,
                        const struct progress_body *body, struct error *err)
{
    return channel_send(
        rank->judge,
        &(struct message_parts){.kind = kind, .body = body, .size_bytes = sizeof *body}, err);
}

static enum status cuda_failed(struct error *err, cudaError_t error, const char *call)
{
    return error_set(err, ERR_IO, "%s: %s", call, cudaGetErrorName(error));
}

static enum status make_context(struct rank *rank, struct error *err)
{
    rank->device = arena_device(rank->number);
    cudaError_t error = cudaSetDevice(rank->device);

    if (error != cudaSuccess) {
        return cuda_failed(err, error, "cudaSetDevice");
    }
    error = cudaFree(NULL);
    if (error != cudaSuccess) {
        return cuda_failed(err, error, "cudaFree");
    }
    error = cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
        return cuda_failed(err, error, "cudaStreamCreateWithFlags");
    }
    void *page =
        mmap(NULL, sizeof *rank->page, PROT_READ | PROT_WRITE, MAP_SHARED, rank->page_fd, 0);
    if (page == MAP_FAILED) {
        return error_set(err, ERR_IO, "cannot map the control page: %m");
    }
    rank->page = page;
    return tell(rank, MESSAGE_HELLO, &(struct progress_body){0}, err);
}

static enum status map_windows(struct rank *rank, const struct attach_body *attach,
                               struct error *err)
{
    const int *fds = rank->message.fds;
    enum status status = OK;

    for (int peer = 0; peer < attach->world && status == OK; peer++) {
        struct arena_place place = {.address = window_address(peer, WINDOW_INPUTS),
                                    .size_bytes = attach->inputs_bytes,
                                    .first_device = rank->device,
                                    .device_count = 1,
                                    .is_read_only = true};
        status = arena_import(&rank->inputs[peer], fds[peer], &place, err);
        if (status == OK) {
            place.address = window_address(peer, WINDOW_OUTPUTS);
            place.size_bytes = attach->outputs_bytes;
            place.is_read_only = false;
            status = arena_import(&rank->outputs[peer], fds[attach->world + peer], &place, err);
        }
    }
    return status;
}

/* From here on no process, no program and no other filter can be made: code of the submission runs
 * as soon as its library is loaded. */
static enum status lock_up(const struct rank *rank, struct error *err)
{
    struct sock_filter *rules = NULL;
    struct stat info = {0};
    enum status status = OK;

    if (rank->filter == 0) {
        return OK;
    }
    if (fstat(rank->filter, &info) != 0 || info.st_size <= 0) {
        return error_set(err, ERR_IO, "cannot read the filter of system calls: %m");
    }
    size_t size_bytes = (size_t)info.st_size;
    rules = xmalloc(size_bytes);
    struct sock_fprog program = {.len = (unsigned short)(size_bytes / sizeof *rules),
                                 .filter = rules};
    if (pread(rank->filter, rules, size_bytes, 0) != (ssize_t)size_bytes ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        status = error_set(err, ERR_IO, "cannot load the filter of system calls: %m");
    }
    free(rules);
    close(rank->filter);
    return status;
}

/* Maps the memory of all ranks, and loads the library. */
static enum status attach(struct rank *rank, struct error *err)
{
    struct attach_body attach = {0};
    struct progress_body loaded = {0};
    struct error reason = {0};

    enum status status = channel_body(&rank->message, &attach, sizeof attach, err);
    if (status != OK) {
        return status;
    }
    if (attach.world < 1 || attach.world > WORLD_MAX || attach.rank != rank->number ||
        (rank->message.fd_count != 3 * attach.world &&
         rank->message.fd_count != 3 * attach.world + 1) ||
        rank->symm != NULL) {
        return error_set(err, ERR_PROTOCOL, "rank %d cannot be attached like this", rank->number);
    }
    status = map_windows(rank, &attach, err);
    if (status != OK) {
        return status;
    }
    struct symm_options symm = {.judge = rank->judge,
                                .rank = rank->number,
                                .world = attach.world,
                                .device = rank->device,
                                .page = rank->page,
                                .signal_mapped_bytes = attach.signal_bytes,
                                .signal_fds = rank->message.fds + (ptrdiff_t)2 * attach.world,
                                .has_multicast = rank->message.fd_count > 3 * attach.world};
    status = symm_open(&rank->symm, &symm, err);
    if (status != OK) {
        return status;
    }
    status = lock_up(rank, err);
    if (status != OK) {
        return status;
    }
    struct caller_options caller = {.library = rank->library,
                                    .judge = rank->judge,
                                    .rank = rank->number,
                                    .world = attach.world,
                                    .device = rank->device,
                                    .stream = rank->stream};
    status = caller_open(&rank->caller, &caller, &reason);
    if (status == ERR_INVALID) {
        loaded.code = 1;
        (void)snprintf(loaded.text, sizeof loaded.text, "%s", reason.message);
    } else if (status != OK) {
        *err = reason;
        return status;
    }
    return tell(rank, MESSAGE_LOADED, &loaded, err);
}

static enum status begin_run(struct rank *rank, struct error *err)
{
    struct progress_body ready = {0};

    if (rank->message.size_bytes != sizeof(struct run_body)) {
        return error_set(err, ERR_PROTOCOL, "a run that cannot be begun");
    }
    enum status status = caller_begin_run(rank->caller, rank->symm,
                                          (const struct run_body *)rank->message.body, &ready, err);
    return status != OK ? status : tell(rank, MESSAGE_READY, &ready, err);
}

static enum status take_clock(struct rank *rank, struct error *err)
{
    struct clock_body body = {0};
    enum status status = channel_body(&rank->message, &body, sizeof body, err);

    if (status == OK && (rank->message.fd_count != 2 || rank->meter != NULL)) {
        status = error_set(err, ERR_PROTOCOL, "a clock that cannot be used");
    }
    if (status == OK) {
        struct meter_options options = {.judge = rank->judge,
                                        .rank = rank->number,
                                        .device = rank->device,
                                        .stream = rank->stream,
                                        .page_fd = rank->message.fds[0],
                                        .inputs_fd = rank->message.fds[1],
                                        .inputs_bytes = body.inputs_bytes};
        status = meter_open(&rank->meter, &options, err);
    }
    return status != OK ? status : tell(rank, MESSAGE_READY, &(struct progress_body){0}, err);
}

static enum status iterate(struct rank *rank, struct error *err)
{
    struct iteration_body body = {0};
    enum status status = channel_body(&rank->message, &body, sizeof body, err);

    if (status == OK && rank->meter == NULL) {
        status = error_set(err, ERR_PROTOCOL, "an iteration before the clock");
    }
    return status != OK ? status : meter_iterate(rank->meter, rank->caller, &body, err);
}

/* ERR_UNAVAILABLE: this is the end. */
static enum status obey(struct rank *rank, struct error *err)
{
    struct calls_body calls = {0};
    struct progress_body ended = {0};
    enum status status = OK;

    if (rank->caller == NULL && rank->message.kind != MESSAGE_ATTACH &&
        rank->message.kind != MESSAGE_QUIT) {
        return error_set(err, ERR_PROTOCOL, "message %u before ATTACH", rank->message.kind);
    }
    switch (rank->message.kind) {
    case MESSAGE_ATTACH:
        return attach(rank, err);
    case MESSAGE_RUN:
        return begin_run(rank, err);
    case MESSAGE_CALLS:
        status = channel_body(&rank->message, &calls, sizeof calls, err);
        return status != OK ? status : caller_calls(rank->caller, &calls, err);
    case MESSAGE_CLOCK:
        return take_clock(rank, err);
    case MESSAGE_ITERATION:
        return iterate(rank, err);
    case MESSAGE_END_RUN:
        caller_end_run(rank->caller, rank->symm, &ended);
        return tell(rank, MESSAGE_ENDED, &ended, err);
    case MESSAGE_QUIT:
        return error_set(err, ERR_UNAVAILABLE, "the judge needs this rank no more");
    default:
        return error_set(err, ERR_PROTOCOL, "message %u is not for a rank", rank->message.kind);
    }
}

static enum status serve(struct rank *rank, struct error *err)
{
    enum status status = make_context(rank, err);

    while (status == OK) {
        status = channel_receive(rank->judge, &rank->message, err);
        if (status == ERR_NOT_FOUND) {
            await_message(rank->judge);
            status = OK;
        } else if (status == OK) {
            status = obey(rank, err);
            message_close_fds(&rank->message);
        }
    }
    return status;
}

static int number(const char *text)
{
    char *end = NULL;

    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *end != 0 || end == text || value < 0 || value > 1 << 20) {
        (void)fprintf(stderr, "pkb-rank: '%s' is no number\n", text);
        exit(2);
    }
    return (int)value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"judge", required_argument, NULL, 'j'},  {"page", required_argument, NULL, 'p'},
        {"rank", required_argument, NULL, 'r'},   {"solution", required_argument, NULL, 's'},
        {"filter", required_argument, NULL, 'f'}, {NULL, 0, NULL, 0}};
    struct rank *rank = xcalloc(1, sizeof *rank);
    struct error err = {0};
    int option = 0;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'j':
            rank->judge = number(optarg);
            break;
        case 'p':
            rank->page_fd = number(optarg);
            break;
        case 'r':
            rank->number = number(optarg);
            break;
        case 's':
            rank->library = optarg;
            break;
        case 'f':
            rank->filter = number(optarg);
            break;
        default:
            return 2;
        }
    }
    if (rank->judge == 0 || rank->page_fd == 0 || rank->library == NULL) {
        (void)fprintf(stderr, "pkb-rank: is started by pkb-worker only\n");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    watch_crashes(rank->judge);
    enum status status = serve(rank, &err);
    if (status != ERR_UNAVAILABLE) {
        struct progress_body failed = {.code = (int32_t)status};
        (void)snprintf(failed.text, sizeof failed.text, "%s", err.message);
        (void)tell(rank, MESSAGE_FAILED, &failed, &err);
    }
    /* Destructors of the submission have nothing to do here. */
    _exit(status == ERR_UNAVAILABLE ? 0 : 1);
}
