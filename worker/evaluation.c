#include "worker/evaluation.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/baseline.h"
#include "worker/building.h"
#include "worker/loop.h"
#include "worker/mechanisms.h"
#include "worker/naming.h"
#include "worker/schedules.h"
#include "worker/standing.h"
#include "worker/turns.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct evaluation {
    const struct evaluation_settings *settings;
    struct evaluation_job job;
    struct result result;
    struct slot_lease slot;
    struct building *building;
    bool is_built, is_stopped;
    struct turn turn;         /* on the node's GPUs, until this is closed */
    struct loop_timer *timer; /* of a run: looks whether it is timed */
    /* running */
    struct schedules *schedules;
    int64_t started_ms;
    struct evaluation *baseline; /* NULL: it was not needed */
};

enum { BASELINE_PASSES = 5, LOOK_MS = 20 };

static void finish(struct evaluation *evaluation)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        if ((evaluation->settings->node->waived >> layer & 1) != 0) {
            char *flag = xasprintf("insecure:%s", layer_name((enum layer)layer));
            result_add_flag(&evaluation->result, flag);
            free(flag);
        }
    }
    loop_timer_close(evaluation->timer);
    evaluation->timer = NULL;
    building_close(evaluation->building);
    evaluation->building = NULL;
    evaluation->job.done(evaluation->job.context);
}

/* ---- what times are worth ---- */

static void conclude(struct evaluation *evaluation, const struct result *baseline)
{
    struct standing standing = {.task = evaluation->job.task,
                                .world = evaluation->job.world,
                                .dtype = evaluation->job.dtype,
                                .roofline = evaluation->settings->roofline,
                                .baseline = baseline};

    standing_apply(&standing, &evaluation->result);
    if (baseline == NULL) {
        result_add_flag(&evaluation->result, "no_baseline");
    }
    finish(evaluation);
}

static struct baseline_key key_of(const struct evaluation *evaluation)
{
    return (struct baseline_key){.directory = evaluation->settings->baselines,
                                 .task = evaluation->job.task,
                                 .world = evaluation->job.world,
                                 .dtype = evaluation->job.dtype,
                                 .device = evaluation->job.device};
}

static void on_baseline_done(void *context)
{
    struct evaluation *evaluation = context;
    const struct result *result = evaluation_result(evaluation->baseline);
    struct baseline_key key = key_of(evaluation);
    struct error err = {0};

    if (result->verdict != VERDICT_ACCEPTED || result->timing_count == 0) {
        log_event(LOG_ERROR, "baseline.failed", "task=%d verdict=%s message=%s",
                  task_number(evaluation->job.task), verdict_name(result->verdict),
                  result->message == NULL ? "" : result->message);
        conclude(evaluation, NULL);
        return;
    }
    if (baseline_store(&key, result, &err) != OK) {
        log_event(LOG_WARN, "baseline.not_kept", "%s", err.message);
    }
    conclude(evaluation, result);
}

/* A job that was timed is held against the baseline, which runs after it, alone, unless its times
 * are known. */
static void find_baseline(struct evaluation *evaluation)
{
    struct evaluation_job job = evaluation->job;
    struct baseline_key key = key_of(evaluation);
    struct result known = {.rank = -1};
    struct error err = {0};

    if (baseline_load(&key, evaluation->result.gpu, time(NULL), &known, &err) == OK) {
        conclude(evaluation, &known);
        result_release(&known);
        return;
    }
    job.is_baseline = true;
    job.source = task_baseline(job.task);
    job.source_bytes = strlen(job.source);
    job.done = on_baseline_done;
    job.context = evaluation;
    if (evaluation_start(&evaluation->baseline, evaluation->settings, &job, &err) != OK) {
        log_event(LOG_ERROR, "baseline.failed", "task=%d message=%s", task_number(job.task),
                  err.message);
        conclude(evaluation, NULL);
    }
}

/* What is timed has the node alone: builds rest. */
static void on_look(void *context)
{
    const struct evaluation *evaluation = context;

    turns_set_alone(schedules_is_timing(evaluation->schedules));
}

static void watch_timing(struct evaluation *evaluation, bool is_running)
{
    bool is_exclusive = evaluation->job.is_bench && !evaluation->settings->is_timing_shared;

    loop_timer_close(evaluation->timer);
    evaluation->timer =
        is_running && is_exclusive ? loop_timer_open(LOOK_MS, LOOK_MS, on_look, evaluation) : NULL;
    if (!is_running && is_exclusive) {
        turns_set_alone(false);
    }
}

static void on_run_done(void *context)
{
    struct evaluation *evaluation = context;

    watch_timing(evaluation, false);
    schedules_finish(evaluation->schedules, &evaluation->result);
    mechanisms_note_traffic(&evaluation->result);
    naming_apply(&evaluation->result, evaluation->job.task, evaluation->job.world,
                 evaluation->job.dtype);
    evaluation->result.run_ms = clock_monotonic_ms() - evaluation->started_ms;
    if (evaluation->result.verdict == VERDICT_ACCEPTED && evaluation->result.timing_count > 0 &&
        evaluation->result.gpu != NULL && !evaluation->job.is_baseline && !evaluation->is_stopped) {
        find_baseline(evaluation);
    } else {
        finish(evaluation);
    }
}

static int passes_of(const struct evaluation_job *job)
{
    if (!job->is_bench) {
        return 0;
    }
    return job->is_baseline ? BASELINE_PASSES : 1;
}

/* The build's "accepted" becomes whatever the run makes of it. */
static void start_run(struct evaluation *evaluation)
{
    const struct evaluation_settings *settings = evaluation->settings;
    const struct evaluation_job *job = &evaluation->job;
    struct error err = {0};
    struct schedules_options options = {
        .launch = {.node = settings->node,
                   .slot = evaluation->slot.number,
                   .library = building_library(evaluation->building),
                   .job = {.task_number = task_number(job->task),
                           .world = job->world,
                           .dtype = (int32_t)job->dtype,
                           .device = (int32_t)job->device,
                           .no_multicast = settings->no_multicast,
                           .passes = passes_of(job),
                           .seed = job->seed,
                           .stall_ms = settings->stall_ms},
                   .schedule_seed = settings->schedule_seed,
                   .fuel = settings->fuel},
        .limits = {.run_ms = settings->run_ms, .stall_ms = settings->stall_ms},
        .count = settings->schedules,
        .task = task_name(job->task),
        .source = job->source,
        .source_bytes = job->source_bytes};
    struct result built = evaluation->result;

    /* Log, time and flags of the build stay. */
    free(built.message);
    free(built.stage);
    built.message = built.stage = NULL;
    evaluation->result = built;
    evaluation->started_ms = clock_monotonic_ms();
    enum status status =
        schedules_start(&evaluation->schedules, &options, on_run_done, evaluation, &err);
    if (status != OK) {
        evaluation->result.verdict = VERDICT_INTERNAL_ERROR;
        evaluation->result.stage = xstrdup("start");
        evaluation->result.message = xstrdup(err.message);
        finish(evaluation);
    } else {
        watch_timing(evaluation, true);
    }
}

/* ---- its build, and its turn ---- */

static void on_turn(void *context)
{
    start_run(context);
}

static void on_built(void *context)
{
    struct evaluation *evaluation = context;
    const struct evaluation_job *job = &evaluation->job;

    building_take(evaluation->building, &evaluation->result);
    evaluation->is_built = true;
    if (evaluation->result.verdict != VERDICT_ACCEPTED || evaluation->is_stopped) {
        finish(evaluation);
    } else if (job->device == DEVICE_SIM || job->is_baseline) { /* that is within a turn */
        start_run(evaluation);
    } else {
        turns_ask(&evaluation->turn);
    }
}

static void on_stopped(void *context)
{
    finish(context);
}

enum status evaluation_start(struct evaluation **evaluation,
                             const struct evaluation_settings *settings,
                             const struct evaluation_job *job, struct error *err)
{
    struct evaluation *made = xcalloc(1, sizeof *made);
    struct building_options options = {.build = {.node = settings->node,
                                                 .task = job->task,
                                                 .dtype = job->dtype,
                                                 .source = job->source,
                                                 .source_bytes = job->source_bytes,
                                                 .wall_ms = settings->build_ms,
                                                 .is_plain = settings->is_plain_build},
                                       .store = settings->builds,
                                       .done = on_built,
                                       .context = made};

    made->settings = settings;
    made->job = *job;
    made->result.rank = -1;
    made->turn = (struct turn){.begin = on_turn, .context = made};
    enum status status = slot_take(&made->slot, settings->node->uid_base, err);
    if (status != OK) {
        free(made);
        return status;
    }
    options.build.slot = made->slot.number;
    status = building_start(&made->building, &options, err);
    if (status != OK) {
        slot_release(&made->slot);
        free(made);
        return status;
    }
    *evaluation = made;
    return OK;
}

enum job_stage evaluation_stage(const struct evaluation *evaluation)
{
    if (evaluation->schedules == NULL) {
        return evaluation->is_built ? STAGE_WAITING : STAGE_BUILDING;
    }
    if (evaluation->baseline != NULL || schedules_is_timing(evaluation->schedules)) {
        return STAGE_TIMING;
    }
    return schedules_is_checking(evaluation->schedules) ? STAGE_CHECKING : STAGE_WAITING;
}

void evaluation_stop(struct evaluation *evaluation)
{
    evaluation->is_stopped = true;
    if (evaluation->baseline != NULL) {
        evaluation_stop(evaluation->baseline);
    } else if (!evaluation->is_built) {
        building_stop(evaluation->building);
    } else if (evaluation->schedules != NULL) {
        schedules_stop(evaluation->schedules);
    } else if (evaluation->turn.is_asked && evaluation->timer == NULL) { /* it waits */
        evaluation->timer = loop_timer_open(0, 0, on_stopped, evaluation);
    }
}

const struct result *evaluation_result(const struct evaluation *evaluation)
{
    return &evaluation->result;
}

const struct slot_lease *evaluation_slot(const struct evaluation *evaluation)
{
    return &evaluation->slot;
}

void evaluation_close(struct evaluation *evaluation)
{
    if (evaluation == NULL) {
        return;
    }
    loop_timer_close(evaluation->timer);
    evaluation_close(evaluation->baseline);
    schedules_close(evaluation->schedules);
    building_close(evaluation->building);
    result_release(&evaluation->result);
    slot_release(&evaluation->slot);
    turns_leave(&evaluation->turn);
    free(evaluation);
}
