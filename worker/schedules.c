#include "worker/schedules.h"

#include "common/clock.h"
#include "common/mem.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct schedules {
    struct schedules_options options;
    struct replay replay;
    void (*done)(void *context);
    void *context;
    struct running *running;
    int tried;
    struct result first, failed; /* failed.verdict is accepted while none has failed */
    int64_t started_ms;
    bool is_stopped;
};

static void hash(const char *source, size_t source_bytes, char text[static SHA256_TEXT_MAX])
{
    unsigned char bytes[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(bytes, (const unsigned char *)source, source_bytes);
    (void)sodium_bin2hex(text, SHA256_TEXT_MAX, bytes, sizeof bytes);
}

static bool is_simulated(const struct schedules *schedules)
{
    return schedules->options.launch.job.device == DEVICE_SIM;
}

static void on_run_done(void *context);

static enum status start_next(struct schedules *schedules, struct error *err)
{
    struct launch_options launch = schedules->options.launch;
    struct running_limits limits = schedules->options.limits;

    launch.schedule_seed += (uint64_t)schedules->tried;
    limits.run_ms -= clock_monotonic_ms() - schedules->started_ms;
    enum status status =
        running_start(&schedules->running, &launch, &limits, on_run_done, schedules, err);
    schedules->tried += status == OK;
    return status;
}

/* What only this schedule showed is worth knowing, too. */
static void keep_findings(struct result *first, const struct result *other, uint64_t seed)
{
    for (size_t i = 0; i < other->finding_count; i++) {
        const struct finding *finding = &other->findings[i];
        if (!result_has_finding(first, finding)) {
            result_add_finding(
                first,
                (struct finding){.kind = xstrdup(finding->kind),
                                 .rank = finding->rank,
                                 .source = finding->source ? xstrdup(finding->source) : NULL,
                                 .message = xasprintf("%s (under schedule seed %llu)",
                                                      finding->message ? finding->message : "",
                                                      (unsigned long long)seed)});
        }
    }
}

static void fail_to_start(struct schedules *schedules, const struct error *err)
{
    schedules->failed = (struct result){.verdict = VERDICT_INTERNAL_ERROR,
                                        .rank = -1,
                                        .stage = xstrdup("start"),
                                        .message = xstrdup(err->message)};
}

static void on_run_done(void *context)
{
    struct schedules *schedules = context;
    struct result result = {.rank = -1};
    struct error err = {0};
    uint64_t seed = schedules->options.launch.schedule_seed + (uint64_t)schedules->tried - 1;

    running_finish(schedules->running, &result);
    running_close(schedules->running);
    schedules->running = NULL;
    if (result.verdict != VERDICT_ACCEPTED) {
        schedules->failed = result;
    } else if (schedules->tried == 1) {
        schedules->first = result;
    } else {
        keep_findings(&schedules->first, &result, seed);
        result_release(&result);
    }
    if (schedules->failed.verdict == VERDICT_ACCEPTED && !schedules->is_stopped &&
        schedules->tried < schedules->options.count) {
        if (start_next(schedules, &err) == OK) {
            return;
        }
        fail_to_start(schedules, &err);
    }
    schedules->done(schedules->context);
}

enum status schedules_start(struct schedules **schedules, const struct schedules_options *options,
                            void (*done)(void *context), void *context, struct error *err)
{
    struct schedules *made = xcalloc(1, sizeof *made);

    assert(options->count >= 1 && options->count <= SCHEDULES_MAX);
    made->options = *options;
    made->options.source = NULL;
    if (!is_simulated(made)) {
        made->options.count = 1;
    }
    made->done = done;
    made->context = context;
    made->first.rank = made->failed.rank = -1;
    made->started_ms = clock_monotonic_ms();
    made->replay = (struct replay){.format = REPLAY_FORMAT,
                                   .world = options->launch.job.world,
                                   .dtype = (enum dtype)options->launch.job.dtype,
                                   .seed = options->launch.job.seed,
                                   .fuel = options->launch.fuel,
                                   .stall_ms = options->limits.stall_ms,
                                   .no_multicast = options->launch.job.no_multicast};
    (void)snprintf(made->replay.evaluator, sizeof made->replay.evaluator, "%s", WORKER_VERSION);
    (void)snprintf(made->replay.task, sizeof made->replay.task, "%s", options->task);
    hash(options->source, options->source_bytes, made->replay.source_sha256);
    enum status status = start_next(made, err);
    if (status != OK) {
        free(made);
        return status;
    }
    *schedules = made;
    return OK;
}

bool schedules_is_checking(const struct schedules *schedules)
{
    return schedules->tried > 1 ||
           (schedules->running != NULL && running_is_checking(schedules->running));
}

bool schedules_is_timing(const struct schedules *schedules)
{
    return schedules->running != NULL && running_is_timing(schedules->running);
}

void schedules_stop(struct schedules *schedules)
{
    schedules->is_stopped = true;
    if (schedules->running != NULL) {
        running_stop(schedules->running);
    }
}

void schedules_finish(struct schedules *schedules, struct result *result)
{
    bool has_failed = schedules->failed.verdict != VERDICT_ACCEPTED;
    struct result *told = has_failed ? &schedules->failed : &schedules->first;
    int index = has_failed ? schedules->tried - 1 : 0;

    if (is_simulated(schedules)) {
        told->schedules = schedules->tried;
        told->replay = xmalloc(sizeof *told->replay);
        *told->replay = schedules->replay;
        told->replay->schedule_seed = schedules->options.launch.schedule_seed + (uint64_t)index;
    }
    told->build_log = result->build_log;
    for (size_t i = 0; i < result->flag_count; i++) {
        result_add_flag(told, result->flags[i]);
        free(result->flags[i]);
    }
    free((void *)result->flags);
    told->mechanisms = result->mechanisms;
    told->mechanism_count = result->mechanism_count;
    told->build_ms = result->build_ms;
    told->builder = result->builder;
    *result = *told;
    *told = (struct result){.rank = -1};
}

void schedules_close(struct schedules *schedules)
{
    if (schedules == NULL) {
        return;
    }
    running_close(schedules->running);
    result_release(&schedules->first);
    result_release(&schedules->failed);
    free(schedules);
}

enum status schedules_fit(const struct replay *replay, const char *source, size_t source_bytes,
                          struct error *err)
{
    char sha256[SHA256_TEXT_MAX];

    if (strcmp(replay->evaluator, WORKER_VERSION) != 0) {
        return error_field(err, ERR_CONFLICT, "evaluator",
                           "the replay is of pkb-worker %s, and this one is %s", replay->evaluator,
                           WORKER_VERSION);
    }
    hash(source, source_bytes, sha256);
    if (strcmp(replay->source_sha256, sha256) != 0) {
        return error_field(err, ERR_CONFLICT, "source_sha256",
                           "the replay is of a source with the hash %s, this one has %s",
                           replay->source_sha256, sha256);
    }
    return OK;
}
