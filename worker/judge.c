/*
 * pkb-judge — trusted: makes the inputs of a job, owns all memory that ranks share, and says what
 * their outputs are worth. Started by pkb-worker, which sends one JOB with a socket to each rank
 * and gets one REPORT.
 */
#include "common/error.h"
#include "common/lease.h"
#include "common/mem.h"
#include "common/result.h"
#include "worker/check.h"
#include "worker/gpus.h"
#include "worker/nvml_events.h"

#include <cuda_runtime_api.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TEXT_MAX = 1024 };

/* Waits for the job, and takes the sockets of its ranks and the page that they share. */
static enum status take_job(int worker, struct job_body *job, struct peers *peers,
                            struct error *err)
{
    struct message *message = xcalloc(1, sizeof *message);
    struct pollfd watched = {.fd = worker, .events = POLLIN};
    enum status status = OK;

    do {
        (void)poll(&watched, 1, -1);
        status = channel_receive(worker, message, err);
    } while (status == ERR_NOT_FOUND);
    if (status == OK) {
        status = message->kind == MESSAGE_JOB ? channel_body(message, job, sizeof *job, err)
                                              : error_set(err, ERR_PROTOCOL, "no job");
    }
    if (status == OK && (job->world < 1 || job->world > WORLD_MAX || job->dtype < 0 ||
                         job->dtype >= DTYPE_COUNT || message->fd_count != job->world + 1)) {
        status = error_set(err, ERR_PROTOCOL, "a job with world %d", job->world);
    }
    if (status == OK) {
        peers_init(peers, worker, job->world);
        for (int rank = 0; rank < job->world; rank++) {
            peers->peer[rank].fd = message->fds[rank];
        }
        void *page =
            mmap(NULL, sizeof *peers->page, PROT_READ, MAP_SHARED, message->fds[job->world], 0);
        close(message->fds[job->world]);
        if (page == MAP_FAILED) {
            status = error_set(err, ERR_IO, "cannot map the control page: %m");
        } else {
            peers->page = page;
        }
    }
    free(message);
    return status;
}

/* The judge's own trouble. On a simulator that reported why, the worker takes that report. */
static void report_trouble(struct result *result, const struct error *err)
{
    result_release(result);
    *result = (struct result){.verdict = VERDICT_INTERNAL_ERROR,
                              .rank = -1,
                              .message = xasprintf("the judge cannot go on: %s", err->message),
                              .stage = xstrdup("check")};
}

static enum status send_report(int worker, const struct result *result, struct error *err)
{
    struct buffer json = {0};

    result_write(result, &json);
    enum status status = OK;
    if (json.size_bytes > CHANNEL_BODY_MAX) {
        status = error_set(err, ERR_INTERNAL, "a report of %zu bytes", json.size_bytes);
    }
    struct message_parts parts = {
        .kind = MESSAGE_REPORT, .body = json.data, .size_bytes = json.size_bytes};
    while (status == OK && (status = channel_send(worker, &parts, err)) == ERR_UNAVAILABLE) {
        /* The worker reads as fast as it can; one that is gone shows as an error of poll. */
        struct pollfd watched = {.fd = worker, .events = POLLOUT};
        if (poll(&watched, 1, -1) != 1 || (watched.revents & (POLLERR | POLLHUP)) != 0) {
            break;
        }
        status = OK;
    }
    buffer_release(&json);
    return status;
}

/* For pkb-worker, which links no CUDA: which driver there is, and how many GPUs, once each is known
 * to be fit. */
static int tell_devices(const char *kind)
{
    struct gpu_look looks[GPUS_MAX];
    struct error err = {0};
    char driver[96] = "";
    int cuda = 0;
    int count = 0;

    gpus_driver(driver, sizeof driver, &cuda);
    bool is_told =
        printf("driver %s %d\n", driver[0] == 0 ? "-" : driver, cuda) > 0 && fflush(stdout) == 0;
    if (gpus_check(device_kind_find(kind) == DEVICE_CUDA, looks, GPUS_MAX, &count, &err) != OK) {
        (void)fprintf(stderr, "pkb-judge: %s\n", err.message);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        is_told = printf("gpu %s %lld %s\n", looks[i].pci_address, (long long)looks[i].used_bytes,
                         looks[i].uuid) > 0 &&
                  is_told;
    }
    return printf("%d\n", count) > 0 && is_told ? 0 : 1;
}

static int tell_xids(void)
{
    struct error err = {0};

    if (nvml_events_write(STDOUT_FILENO, &err) != OK) {
        (void)fprintf(stderr, "%s\n", err.message);
    }
    return 1;
}

int main(int argc, char **argv)
{
    struct result result = {.rank = -1};
    struct job_body job = {0};
    struct peers peers = {0};
    struct error err = {0};

    if (argc == 3 && strcmp(argv[1], "--devices") == 0) {
        return tell_devices(argv[2]);
    }
    if (argc == 2 && strcmp(argv[1], "--xids") == 0) {
        return tell_xids();
    }
    int worker = argc == 3 && strcmp(argv[1], "--worker") == 0 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (worker <= 2) {
        (void)fprintf(stderr, "pkb-judge: is started by pkb-worker only\n");
        return 2;
    }
    enum status status = take_job(worker, &job, &peers, &err);
    if (status == OK && (cudaSetDevice(0) != cudaSuccess || cudaFree(NULL) != cudaSuccess)) {
        status = error_set(&err, ERR_IO, "cannot make a context on device 0");
    }
    if (status == OK) {
        status = check_job(&peers, &job, &result, &err);
    }
    if (result.timing_count > 0) {
        result.gpu = gpus_describe(job.world);
    }
    if (status != OK && result.stage == NULL) {
        report_trouble(&result, &err);
    }
    status = send_report(worker, &result, &err);
    if (status != OK) {
        (void)fprintf(stderr, "pkb-judge: %s\n", err.message);
    }
    result_release(&result);
    peers_release(&peers);
    return status == OK ? 0 : 1;
}
