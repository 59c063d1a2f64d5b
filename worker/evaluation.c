#include "worker/evaluation.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/baseline.h"
#include "worker/build.h"
#include "worker/loop.h"
#include "worker/naming.h"
#include "worker/schedules.h"
#include "worker/standing.h"
#include "worker/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct evaluation {
    const struct evaluation_settings *settings;
    struct evaluation_job job;
    struct result result;
    struct slot_lease slot;
    /* building */
    struct build build;
    char build_name[STORE_NAME_MAX]; /* in the store */
    struct box *box;                 /* NULL: not building */
    struct capture output;
    struct loop_watch *box_watch, *output_watch;
    struct loop_timer *late;
    bool is_stopped;
    /* running */
    struct schedules *schedules;
    int64_t started_ms;
    struct evaluation *baseline; /* NULL: it was not needed */
};

enum { BASELINE_PASSES = 5 };

static void finish(struct evaluation *evaluation)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        if ((evaluation->settings->node->waived >> layer & 1) != 0) {
            char *flag = xasprintf("insecure:%s", layer_name((enum layer)layer));
            result_add_flag(&evaluation->result, flag);
            free(flag);
        }
    }
    build_release(&evaluation->build);
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

static void on_run_done(void *context)
{
    struct evaluation *evaluation = context;

    schedules_finish(evaluation->schedules, &evaluation->result);
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
                   .library = evaluation->build.library,
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
    }
}

static void close_build(struct evaluation *evaluation)
{
    loop_watch_close(evaluation->box_watch);
    loop_watch_close(evaluation->output_watch);
    loop_timer_close(evaluation->late);
    evaluation->box_watch = evaluation->output_watch = NULL;
    evaluation->late = NULL;
    box_close(evaluation->box);
    evaluation->box = NULL;
}

static void take_build(struct evaluation *evaluation)
{
    evaluation->result.build_ms = clock_monotonic_ms() - evaluation->started_ms;
    if (evaluation->result.verdict == VERDICT_ACCEPTED && !evaluation->is_stopped) {
        start_run(evaluation);
    } else {
        finish(evaluation);
    }
}

static void end_build(struct evaluation *evaluation)
{
    const struct store *builds = evaluation->settings->builds;
    const struct result *result = &evaluation->result;
    struct error err = {0};

    (void)capture_read(&evaluation->output);
    close_build(evaluation);
    build_judge(&evaluation->build, &evaluation->output, &evaluation->result);
    capture_release(&evaluation->output);
    if (builds != NULL && store_keeps(result) &&
        store_save(builds, evaluation->build_name, result, evaluation->build.library, &err) != OK) {
        log_event(LOG_WARN, "build.not_kept", "%s", err.message);
    }
    take_build(evaluation);
}

/* ---- what was built before ---- */

static void on_known_build(void *context)
{
    struct evaluation *evaluation = context;

    loop_timer_close(evaluation->late);
    evaluation->late = NULL;
    take_build(evaluation);
}

/* True: the build is there, and the evaluation goes on from the loop. */
static bool find_build(struct evaluation *evaluation, const struct build_options *options)
{
    const struct store *builds = evaluation->settings->builds;
    struct build known = {.out = -1, .library = -1};
    struct error err = {0};

    if (builds == NULL) {
        return false;
    }
    build_identify(options, evaluation->build_name);
    if (store_load(builds, evaluation->build_name, &evaluation->result, &known.library, &err) !=
        OK) {
        return false;
    }
    evaluation->build = known;
    evaluation->result.builder = xstrdup(BUILD_BY_STORE);
    evaluation->late = loop_timer_open(0, 0, on_known_build, evaluation);
    return true;
}

/* ---- building ---- */

static void on_build_box(void *context, unsigned events)
{
    struct evaluation *evaluation = context;
    struct box_event event = {0};
    struct error err = {0};
    enum status status = OK;

    (void)events;
    while ((status = box_next(evaluation->box, &event, &err)) == OK) {
        if (build_note(&evaluation->build, &event)) {
            box_kill(evaluation->box); /* whatever the compiler left behind */
        }
    }
    if (status == ERR_UNAVAILABLE) {
        end_build(evaluation);
    }
}

static void on_build_output(void *context, unsigned events)
{
    struct evaluation *evaluation = context;

    (void)events;
    if (!capture_read(&evaluation->output)) {
        loop_watch_close(evaluation->output_watch);
        evaluation->output_watch = NULL;
    }
    if (capture_is_too_long(&evaluation->output)) {
        box_kill(evaluation->box);
    }
}

static void on_build_late(void *context)
{
    struct evaluation *evaluation = context;

    evaluation->build.is_late = true;
    box_kill(evaluation->box);
}

static enum status start_build(struct evaluation *evaluation, struct error *err)
{
    int output = -1;
    enum status status = capture_init(&evaluation->output, &output, err);

    if (status != OK) {
        return status;
    }
    struct box_program program = evaluation->build.program;
    program.output = output;
    status = box_start(&evaluation->box, &program, 1, err);
    close(output);
    if (status != OK) {
        capture_release(&evaluation->output);
        return status;
    }
    evaluation->box_watch =
        loop_watch_open(box_fd(evaluation->box), LOOP_READ, on_build_box, evaluation);
    evaluation->output_watch =
        loop_watch_open(evaluation->output.fd, LOOP_READ, on_build_output, evaluation);
    evaluation->late =
        loop_timer_open(evaluation->settings->build_ms, 0, on_build_late, evaluation);
    return OK;
}

enum status evaluation_start(struct evaluation **evaluation,
                             const struct evaluation_settings *settings,
                             const struct evaluation_job *job, struct error *err)
{
    struct build_options options = {.node = settings->node,
                                    .task = job->task,
                                    .dtype = job->dtype,
                                    .source = job->source,
                                    .source_bytes = job->source_bytes,
                                    .wall_ms = settings->build_ms,
                                    .is_plain = settings->is_plain_build};

    struct evaluation *made = xcalloc(1, sizeof *made);
    made->settings = settings;
    made->job = *job;
    made->result.rank = -1;
    made->started_ms = clock_monotonic_ms();
    enum status status = slot_take(&made->slot, settings->node->uid_base, err);
    if (status != OK) {
        free(made);
        return status;
    }
    options.slot = made->slot.number;
    bool is_known = find_build(made, &options);
    if (!is_known) {
        status = build_prepare(&made->build, &options, err);
    }
    if (status == OK && !is_known) {
        status = start_build(made, err);
        if (status != OK) {
            build_release(&made->build);
        }
    }
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
        return STAGE_BUILDING;
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
    } else if (evaluation->box != NULL) {
        box_kill(evaluation->box);
    } else if (evaluation->schedules != NULL) {
        schedules_stop(evaluation->schedules);
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
    assert(evaluation->box == NULL);
    evaluation_close(evaluation->baseline);
    schedules_close(evaluation->schedules);
    result_release(&evaluation->result);
    build_release(&evaluation->build);
    slot_release(&evaluation->slot);
    free(evaluation);
}
