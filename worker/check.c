#include "worker/check.h"

#include "common/clock.h"
#include "common/mem.h"
#include "worker/grants.h"
#include "worker/holdings.h"
#include "worker/record.h"
#include "worker/rounds.h"
#include "worker/stall.h"
#include "worker/timing.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BATCH_CALLS = 3,
    SECOND_BATCH_CALLS = 2,
    RUN_CALLS = FIRST_BATCH_CALLS + SECOND_BATCH_CALLS,
    SINGLE_BATCHES = 3, /* on hardware, of one call each */
    SETTLE_MS = 1000,
    LINGER_TURNS = 12, /* more than a simulator takes to see that everybody waits */
    HOLD_TURNS = 6,    /* enough for that, and fewer than it takes to prove a deadlock */
    HOLD_STEPS = 3,    /* without news of any rank */
    HOLD_STEPS_MAX = 64,
    TURN_MS = 1,          /* on hardware, where no device has to see that the judge waits */
    STALL_LEAD_MS = 1500, /* before the worker looks for who is busy */
    TIMING_BUDGET_MS = 60000,
};

struct check {
    struct peers *peers;
    const struct job_body *job;
    struct result *result;
    bool is_decided;
    uint64_t digest; /* of all outputs so far, but for cases that are timed */
    cudaStream_t stream;
    struct holdings holdings;
    struct rounds *rounds; /* NULL: not on hardware */
    int64_t moved_ms;      /* when a rank said something last */
    unsigned heard;        /* messages until then */
    int64_t stage_ms;      /* when the stage began */
    /* of the run */
    struct place place;
    struct record *record;
    struct grants grants;
};

/* ---- waiting for the ranks ---- */

static bool is_hardware(const struct check *check)
{
    return check->job->device != DEVICE_SIM;
}

/* The judge looks before the worker does, who would take a rank that waits for its GPU for busy. */
static int64_t stall_ms(const struct check *check)
{
    int64_t lead_ms = check->job->stall_ms - STALL_LEAD_MS;

    return lead_ms > check->job->stall_ms / 3 ? lead_ms : check->job->stall_ms / 3;
}

/* One turn, in which a simulator sees that the judge waits. */
static enum status turn(struct check *check, struct error *err)
{
    enum status status = peers_turn(check->peers, err);

    if (status != OK) {
        return status;
    }
    if (is_hardware(check)) {
        peers_wait(check->peers, TURN_MS);
        return OK;
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

/* How long a stage of one run may take on hardware, where a job has GPUs for itself. */
static const struct {
    const char *stage;
    int seconds;
} budgets[] = {{"start", 60}, {"setup", 60}, {"check", 120}, {"timing", 240}, {"teardown", 30}};

static void look_at_budget(struct check *check)
{
    int64_t spent_ms = clock_monotonic_ms() - check->stage_ms;

    for (size_t i = 0; i < sizeof budgets / sizeof *budgets && !check->is_decided; i++) {
        if (strcmp(budgets[i].stage, check->place.stage) == 0 &&
            spent_ms > budgets[i].seconds * INT64_C(1000)) {
            report_verdict(check->result, &check->place, VERDICT_TIMEOUT, "wall",
                           "%s took longer than its %d s", check->place.stage, budgets[i].seconds);
            check->is_decided = true;
        }
    }
}

/* Then what moves on a GPU are the rank's modules. */
static bool is_loading(const struct check *check)
{
    for (int rank = 0; rank < check->peers->world; rank++) {
        if (check->peers->peer[rank].phase == RANK_LOADING) {
            return true;
        }
    }
    return false;
}

/* On hardware: is a kernel on a GPU, and no rank has said a word for too long? What stands still
 * without a kernel is for the worker, who sees the processes. */
static void look_for_stall(struct check *check)
{
    int64_t now_ms = clock_monotonic_ms();

    if (check->heard != check->peers->heard) {
        check->heard = check->peers->heard;
        check->moved_ms = now_ms;
        return;
    }
    if (check->rounds == NULL || now_ms - check->moved_ms < stall_ms(check)) {
        return;
    }
    if (!is_loading(check) && rounds_is_busy(check->rounds)) {
        stall_report(check->result, &check->place, check->peers, &check->holdings);
        check->is_decided = true;
    }
    check->moved_ms = now_ms;
}

/* Until all ranks have done what they were told, or the job is decided. */
static enum status await(struct check *check, struct error *err)
{
    enum status status = OK;

    check->moved_ms = clock_monotonic_ms();
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
        if (is_hardware(check) && !check->is_decided) {
            look_for_stall(check);
            look_at_budget(check);
        }
    }
    return status;
}

static void set_stage(struct check *check, const char *stage)
{
    const struct run *run = check->place.run;

    check->place.stage = stage;
    check->stage_ms = clock_monotonic_ms();
    peers_set_stage(check->peers, stage, run == NULL ? "" : run_case(run),
                    run == NULL ? "" : run_variant(run));
}

static void tell_all(struct check *check, enum message_kind kind, enum rank_phase phase)
{
    for (int rank = 0; rank < check->peers->world; rank++) {
        peers_send(check->peers, rank, &(struct message_parts){.kind = kind}, phase);
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
    bool is_first = check->place.run == check->holdings.runs[0];
    enum status status = is_first ? record_prepare_far(check->record, err) : OK;

    if (status == OK) {
        status = record_prepare(check->record, err);
    }
    if (status == OK) {
        status = holdings_clear_signals(&check->holdings, err);
    }
    set_stage(check, "setup");
    grants_begin(&check->grants, check->holdings.signal_bytes, check->holdings.has_multicast);
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

/* Those that are made alone: who waits in its next call for all ranks is told of late. */
static int calls_of_run(const struct check *check)
{
    return RUN_CALLS + (is_hardware(check) ? SINGLE_BATCHES : 0);
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

/* The calls were right as far as can be seen by now. */
static enum status time_run(struct check *check, const struct layouts *layouts, struct error *err)
{
    struct timing_options options = {.peers = check->peers,
                                     .rounds = check->rounds,
                                     .place = &check->place,
                                     .layouts = layouts,
                                     .seed = ~check->job->seed,
                                     .passes = check->job->passes,
                                     .is_shared = check->job->device == DEVICE_CUDA_SHARED,
                                     .budget_ms = TIMING_BUDGET_MS};
    struct timing_end end;

    set_stage(check, "timing");
    check->peers->finished = NULL;
    enum status status = timing_run(&options, check->result, &end, err);
    check->peers->finished = on_finished;
    if (status != OK) {
        return status;
    }
    check->is_decided = end.is_decided;
    if (end.has_failed) {
        return conclude_failure(check, err);
    }
    if (end.has_stalled) {
        stall_report(check->result, &check->place, check->peers, &check->holdings);
    }
    for (int rank = 0; rank < check->peers->world && status == OK && !end.is_decided; rank++) {
        status = record_resume(check->record, rank, err);
    }
    return status;
}

static enum status run_steps(struct check *check, const struct layouts *layouts, bool is_timed,
                             struct error *err)
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
    for (int call = RUN_CALLS; call < calls_of_run(check) && status == OK && !check->is_decided;
         call++) {
        status = call_batch(check, call, 1, err);
    }
    if (status != OK || check->is_decided) {
        return status;
    }
    if (is_timed) {
        status = time_run(check, layouts, err);
        if (status != OK || check->is_decided) {
            return status;
        }
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
    if (status == OK && !is_wrong && !is_timed) {
        check->digest = record_digest(check->record, RUN_CALLS, check->digest);
    }
    check->is_decided = is_wrong;
    return status;
}

static enum status one_run(struct check *check, int index, struct error *err)
{
    struct layouts layouts;

    check->place = (struct place){.stage = "setup", .run = check->holdings.runs[index], .call = -1};
    layouts_make(&layouts, check->holdings.runs[index]);
    check->record = record_open(&(struct record_options){
        .run = check->holdings.runs[index],
        .layouts = &layouts,
        .seed = check->job->seed + (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15),
        .near_bytes = check->holdings.near_bytes,
        .outputs_bytes = check->holdings.outputs_bytes,
        .far_seed = check->job->seed,
        .calls = calls_of_run(check)});
    enum status status = run_steps(
        check, &layouts, index >= check->holdings.run_count - check->holdings.timed_count, err);
    record_close(check->record);
    check->record = NULL;
    grants_release(&check->grants);
    return status;
}

/* Makes everything, and has the ranks load the library. */
static enum status start(struct check *check, struct error *err)
{
    enum status status = OK;

    if (cudaStreamCreateWithFlags(&check->stream, cudaStreamNonBlocking) != cudaSuccess) {
        return error_set(err, ERR_IO, "the judge cannot make a stream");
    }
    status = holdings_open_runs(&check->holdings, check->job, err);
    if (status == OK) {
        status = holdings_make(&check->holdings, err);
    }
    if (status == OK) {
        status = await(check, err); /* for HELLO */
    }
    if (status == OK && !check->is_decided && is_hardware(check)) {
        struct rounds_options options = {.peers = check->peers, .stall_ms = stall_ms(check)};
        status = rounds_open(&check->rounds, &options, err);
    }
    if (status == OK && !check->is_decided) {
        holdings_attach(&check->holdings, check->peers);
        status = await(check, err);
    }
    if (status == OK && !check->is_decided && check->holdings.timed_count > 0) {
        int fds[WORLD_MAX];
        for (int rank = 0; rank < check->peers->world; rank++) {
            fds[rank] = check->holdings.inputs[rank].fd;
        }
        rounds_announce(check->rounds, fds, check->holdings.inputs_bytes);
        status = await(check, err);
    }
    return status;
}

enum status check_job(struct peers *peers, const struct job_body *job, struct result *result,
                      struct error *err)
{
    struct check *check = xcalloc(1, sizeof *check);

    check->peers = peers;
    check->job = job;
    check->result = result;
    check->place = (struct place){.stage = "start", .call = -1};
    check->holdings.has_multicast = !job->no_multicast && multicast_is_possible(peers->world);
    peers->context = check;
    peers->finished = on_finished;
    set_stage(check, "start");
    enum status status = start(check, err);
    for (int i = 0; i < check->holdings.run_count && status == OK && !check->is_decided; i++) {
        status = one_run(check, i, err);
    }
    if (status == OK && !check->is_decided) {
        report_verdict(result, &(struct place){.stage = "check", .call = -1}, VERDICT_ACCEPTED,
                       NULL, "%d runs of %d calls are right, world %d", check->holdings.run_count,
                       calls_of_run(check), peers->world);
        result->output_digest = xasprintf("%016llx", (unsigned long long)check->digest);
    }
    rounds_close(check->rounds);
    holdings_release(&check->holdings);
    free(check);
    return status;
}
