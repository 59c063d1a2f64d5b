#include "worker/check.h"

#include "common/clock.h"
#include "common/mem.h"
#include "worker/arena.h"
#include "worker/grants.h"
#include "worker/layout.h"
#include "worker/record.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNS_MAX = 256,
    FIRST_BATCH_CALLS = 3,
    SECOND_BATCH_CALLS = 2,
    RUN_CALLS = FIRST_BATCH_CALLS + SECOND_BATCH_CALLS,
    SETTLE_MS = 1000,
    LINGER_TURNS = 24, /* more than a simulator takes to see that everybody waits */
    HOLD_TURNS = 12,   /* enough for that, and fewer than it takes to prove a deadlock */
    HOLD_STEPS = 3,    /* without news of any rank */
    HOLD_STEPS_MAX = 64,
    SIGNAL_BYTES = 65536,
};

struct check {
    struct peers *peers;
    const struct job_body *job;
    struct result *result;
    bool is_decided;
    cudaStream_t stream;
    struct run *runs[RUNS_MAX];
    int run_count;
    uint64_t inputs_bytes, outputs_bytes, signal_bytes;
    struct arena inputs[WORLD_MAX], outputs[WORLD_MAX];
    struct symmetric signals;
    bool has_multicast;
    /* of the run */
    struct place place;
    struct record *record;
    struct grants grants;
};

/* ---- waiting for the ranks ---- */

/* One turn, in which a simulator sees that the judge waits. */
static enum status turn(struct check *check, struct error *err)
{
    enum status status = peers_turn(check->peers, err);

    if (status != OK) {
        return status;
    }
    cudaError_t error = cudaStreamQuery(check->stream);
    if (error != cudaSuccess && error != cudaErrorNotReady) {
        return error_set(err, ERR_IO, "cudaStreamQuery: %s", cudaGetErrorName(error));
    }
    return OK;
}

/* A rank has failed. Others may fail of the same cause: which of them is named must not depend on
 * who was faster, so each that runs code of the submission gets a moment to end. */
static enum status conclude_failure(struct check *check, struct error *err)
{
    int64_t until_ms = clock_monotonic_ms() + SETTLE_MS;
    bool is_busy = true;
    enum status status = OK;

    while (is_busy && status == OK && clock_monotonic_ms() < until_ms) {
        status = turn(check, err);
        is_busy = false;
        for (int rank = 0; rank < check->peers->world; rank++) {
            is_busy |= peers_is_in_code(check->peers, rank);
        }
    }
    report_failure(check->result, &check->place, check->peers, check->grants.refusal);
    check->is_decided = true;
    return status;
}

/* Until all ranks have done what they were told, or the job is decided. */
static enum status await(struct check *check, struct error *err)
{
    enum status status = OK;

    while (status == OK && !check->is_decided) {
        status = turn(check, err);
        if (status != OK) {
            return status;
        }
        if (peers_failed(check->peers) >= 0) {
            return conclude_failure(check, err);
        }
        if (peers_are_idle(check->peers)) {
            return OK;
        }
        if (peers_are_stuck(check->peers)) {
            report_stuck(check->result, &check->place, check->peers);
            check->is_decided = true;
        }
        grants_serve(&check->grants, check->peers);
    }
    return status;
}

static void set_stage(struct check *check, const char *stage)
{
    const struct run *run = check->place.run;

    check->place.stage = stage;
    peers_set_stage(check->peers, stage, run == NULL ? "" : run_case(run),
                    run == NULL ? "" : run_variant(run));
}

static void tell_all(struct check *check, enum message_kind kind, enum rank_phase phase)
{
    for (int rank = 0; rank < check->peers->world; rank++) {
        peers_send(check->peers, rank, &(struct message_parts){.kind = kind}, phase);
    }
}

/* ---- start ---- */

static bool is_check_case(const char *name)
{
    return strcmp(name, "check") == 0 || strncmp(name, "check/", 6) == 0;
}

static enum status open_runs(struct check *check, const struct task *task, struct error *err)
{
    int world = check->peers->world;
    enum status status = OK;

    for (int i = 0; i < task_case_count(task); i++) {
        if (!is_check_case(task_case_name(task, i)) || !task_case_allows_world(task, i, world)) {
            continue;
        }
        for (int variant = 0; variant < task_variant_count(task, i) && status == OK; variant++) {
            struct run_choice choice = {.case_index = i,
                                        .variant = variant,
                                        .world = world,
                                        .dtype = (enum dtype)check->job->dtype};
            if (check->run_count == RUNS_MAX) {
                return error_set(err, ERR_INTERNAL, "over %d runs", RUNS_MAX);
            }
            status = run_open(&check->runs[check->run_count], task, &choice, err);
            check->run_count += status == OK;
        }
    }
    if (status == OK && check->run_count == 0) {
        status = error_set(err, ERR_INTERNAL, "no check case for a world of %d", world);
    }
    return status;
}

static enum status make_arenas(struct check *check, struct arena *arenas, uint64_t offset,
                               uint64_t size_bytes, struct error *err)
{
    enum status status = OK;

    for (int rank = 0; rank < check->peers->world && status == OK; rank++) {
        struct arena_place place = {.address = window_address(rank, offset),
                                    .size_bytes = size_bytes,
                                    .device_count = arena_device_count(check->peers->world)};
        status = arena_make(&arenas[rank], arena_device(rank), &place, err);
    }
    return status;
}

/* Memory for the largest run, for all of them. */
static enum status make_memory(struct check *check, struct error *err)
{
    struct symmetric_place signals = {.offset = WINDOW_SYMM,
                                      .size_bytes = SIGNAL_BYTES,
                                      .world = check->peers->world,
                                      .has_multicast = check->has_multicast};
    enum status status = symmetric_round(&signals, err);

    check->signal_bytes = signals.size_bytes;
    for (int i = 0; i < check->run_count; i++) {
        struct layouts layouts;
        layouts_make(&layouts, check->runs[i]);
        if (layouts.inputs.arena_bytes > check->inputs_bytes) {
            check->inputs_bytes = layouts.inputs.arena_bytes;
        }
        if (layouts.outputs.arena_bytes > check->outputs_bytes) {
            check->outputs_bytes = layouts.outputs.arena_bytes;
        }
    }
    uint64_t *sizes[] = {&check->inputs_bytes, &check->outputs_bytes};
    for (int i = 0; i < 2 && status == OK; i++) {
        status = arena_round(sizes[i], 0, err);
    }
    if (status == OK) {
        status = make_arenas(check, check->inputs, WINDOW_INPUTS, check->inputs_bytes, err);
    }
    if (status == OK) {
        status = make_arenas(check, check->outputs, WINDOW_OUTPUTS, check->outputs_bytes, err);
    }
    if (status == OK) {
        status = symmetric_make(&check->signals, &signals, err);
    }
    return status;
}

static void attach_all(struct check *check)
{
    int world = check->peers->world;
    struct attach_body body = {.world = world,
                               .inputs_bytes = check->inputs_bytes,
                               .outputs_bytes = check->outputs_bytes,
                               .signal_bytes = check->signal_bytes};
    int fds[2 * WORLD_MAX + SYMMETRIC_FDS_MAX];

    for (int rank = 0; rank < world; rank++) {
        fds[rank] = check->inputs[rank].fd;
        fds[world + rank] = check->outputs[rank].fd;
    }
    int fd_count = 2 * world + symmetric_fds(&check->signals, fds + (ptrdiff_t)2 * world);
    for (int rank = 0; rank < world; rank++) {
        body.rank = rank;
        peers_send(check->peers, rank,
                   &(struct message_parts){.kind = MESSAGE_ATTACH,
                                           .body = &body,
                                           .size_bytes = sizeof body,
                                           .fds = fds,
                                           .fd_count = fd_count},
                   RANK_LOADING);
    }
}

/* ---- one run ---- */

static enum status on_finished(void *context, int rank, int call, struct error *err)
{
    struct check *check = context;

    return record_finish(check->record, rank, call, err);
}

static enum status begin_run(struct check *check, const struct layouts *layouts, struct error *err)
{
    struct run_body *body = xcalloc(1, sizeof *body);
    enum status status = record_prepare(check->record, err);

    for (int rank = 0; rank < check->peers->world && status == OK; rank++) {
        if (cudaMemset((void *)(uintptr_t)check->signals.arenas[rank].address, 0,
                       check->signal_bytes) != cudaSuccess) {
            status = error_set(err, ERR_IO, "cannot clear a signal pad");
        }
    }
    set_stage(check, "setup");
    grants_begin(&check->grants, check->signal_bytes, check->has_multicast);
    for (int rank = 0; rank < check->peers->world && status == OK; rank++) {
        status = layouts_describe(layouts, check->place.run, rank, body, err);
        if (status == OK) {
            peers_send(check->peers, rank,
                       &(struct message_parts){
                           .kind = MESSAGE_RUN, .body = body, .size_bytes = sizeof *body},
                       RANK_SETUP);
        }
    }
    free(body);
    return status == OK ? await(check, err) : status;
}

/* All ranks say that they are done. What they left running gets a chance to show itself. */
static enum status linger(struct check *check, struct error *err)
{
    enum status status = OK;

    for (int i = 0; i < LINGER_TURNS && status == OK; i++) {
        status = turn(check, err);
    }
    for (int rank = 0; rank < check->peers->world && status == OK; rank++) {
        status = record_audit(check->record, rank, err);
    }
    return status;
}

/* A call that is no poll: a simulator that looks for a deadlock begins again. */
static enum status stir(struct error *err)
{
    cudaEvent_t event = NULL;
    cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);

    if (error == cudaSuccess) {
        error = cudaEventDestroy(event);
    }
    return error == cudaSuccess ? OK
                                : error_set(err, ERR_IO, "an event: %s", cudaGetErrorName(error));
}

/* All but one rank run. They get time to go as far as they can without it. */
static enum status hold(struct check *check, struct error *err)
{
    enum status status = OK;
    int steps_without_news = 0;

    for (int step = 0; step < HOLD_STEPS_MAX && steps_without_news < HOLD_STEPS; step++) {
        int before = peers_steps(check->peers);
        for (int i = 0; i < HOLD_TURNS && status == OK; i++) {
            status = turn(check, err);
        }
        if (status == OK) {
            status = stir(err);
        }
        if (status != OK || peers_failed(check->peers) >= 0) {
            break;
        }
        steps_without_news = peers_steps(check->peers) > before ? 0 : steps_without_news + 1;
    }
    return status;
}

static enum status start_calls(struct check *check, int rank, const struct calls_body *calls,
                               struct error *err)
{
    enum status status = record_arm(check->record, rank, calls->first_call, calls->count, err);

    if (status == OK) {
        peers_send_calls(check->peers, rank, calls);
    }
    return status;
}

/* One rank comes late: until then its inputs are not there and its outputs belong to nobody, so
 * that what the others do to them too early shows. */
static enum status call_batch(struct check *check, int first_call, int count, struct error *err)
{
    struct calls_body calls = {.first_call = first_call, .count = count};
    int world = check->peers->world;
    int late = (int)((check->job->seed + (uint64_t)first_call) % (uint64_t)world);

    for (int i = 0; i < count; i++) {
        calls.slots[i] = (first_call + i) % CHANNEL_SLOTS;
    }
    check->place.call = first_call;
    enum status status = record_withhold(check->record, late, first_call, count, err);
    for (int rank = 0; rank < world && status == OK; rank++) {
        if (rank != late) {
            status = start_calls(check, rank, &calls, err);
        }
    }
    if (status == OK && world > 1) {
        status = hold(check, err);
    }
    if (status == OK) {
        status = record_audit(check->record, late, err);
    }
    if (status == OK) {
        status = start_calls(check, late, &calls, err);
    }
    if (status == OK) {
        status = await(check, err);
    }
    return status == OK && !check->is_decided ? linger(check, err) : status;
}

static enum status run_steps(struct check *check, const struct layouts *layouts, struct error *err)
{
    bool is_wrong = false;
    enum status status = begin_run(check, layouts, err);

    if (status != OK || check->is_decided) {
        return status;
    }
    set_stage(check, "check");
    status = call_batch(check, 0, FIRST_BATCH_CALLS, err);
    if (status != OK || check->is_decided) {
        return status;
    }
    status = call_batch(check, FIRST_BATCH_CALLS, SECOND_BATCH_CALLS, err);
    if (status != OK || check->is_decided) {
        return status;
    }
    set_stage(check, "teardown");
    tell_all(check, MESSAGE_END_RUN, RANK_TEARDOWN);
    status = await(check, err);
    if (status != OK || check->is_decided) {
        return status;
    }
    status = record_judge(check->record, check->result, &is_wrong, err);
    if (status == OK && is_wrong) {
        report_earlier_error(check->result, check->peers);
    }
    check->is_decided = is_wrong;
    return status;
}

static enum status one_run(struct check *check, int index, struct error *err)
{
    struct layouts layouts;

    check->place = (struct place){.stage = "setup", .run = check->runs[index], .call = -1};
    layouts_make(&layouts, check->runs[index]);
    check->record = record_open(&(struct record_options){
        .run = check->runs[index],
        .layouts = &layouts,
        .seed = check->job->seed + (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15),
        .inputs_bytes = check->inputs_bytes,
        .outputs_bytes = check->outputs_bytes,
        .calls = RUN_CALLS});
    enum status status = run_steps(check, &layouts, err);
    record_close(check->record);
    check->record = NULL;
    grants_release(&check->grants);
    return status;
}

static void release(struct check *check)
{
    for (int i = 0; i < check->run_count; i++) {
        run_close(check->runs[i]);
    }
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        arena_release(&check->inputs[rank]);
        arena_release(&check->outputs[rank]);
    }
    symmetric_release(&check->signals);
}

enum status check_job(struct peers *peers, const struct job_body *job, struct result *result,
                      struct error *err)
{
    struct check *check = xcalloc(1, sizeof *check);
    char number[16];

    check->peers = peers;
    check->job = job;
    check->result = result;
    check->place = (struct place){.stage = "start", .call = -1};
    check->has_multicast = !job->no_multicast && multicast_is_possible(peers->world);
    peers->context = check;
    peers->finished = on_finished;
    set_stage(check, "start");
    (void)snprintf(number, sizeof number, "%d", job->task_number);
    const struct task *task = task_find(number);
    enum status status = task == NULL ? error_set(err, ERR_INTERNAL, "no task %s", number) : OK;
    if (status == OK &&
        cudaStreamCreateWithFlags(&check->stream, cudaStreamNonBlocking) != cudaSuccess) {
        status = error_set(err, ERR_IO, "the judge cannot make a stream");
    }
    if (status == OK) {
        status = open_runs(check, task, err);
    }
    if (status == OK) {
        status = make_memory(check, err);
    }
    if (status == OK) {
        status = await(check, err); /* for HELLO */
    }
    if (status == OK && !check->is_decided) {
        attach_all(check);
        status = await(check, err);
    }
    for (int i = 0; i < check->run_count && status == OK && !check->is_decided; i++) {
        status = one_run(check, i, err);
    }
    if (status == OK && !check->is_decided) {
        report_verdict(result, &(struct place){.stage = "check", .call = -1}, VERDICT_ACCEPTED,
                       NULL, "%d runs of %d calls are right, world %d", check->run_count, RUN_CALLS,
                       peers->world);
    }
    release(check);
    free(check);
    return status;
}
