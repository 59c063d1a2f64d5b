#include "worker/evaluation.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/build.h"
#include "worker/loop.h"
#include "worker/naming.h"
#include "worker/schedules.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

struct evaluation {
    const struct evaluation_settings *settings;
    struct evaluation_job job;
    struct result result;
    /* building */
    struct build build;
    struct box *box; /* NULL: not building */
    struct capture output;
    struct loop_watch *box_watch, *output_watch;
    struct loop_timer *late;
    struct build_end end;
    bool is_stopped;
    /* running */
    struct schedules *schedules;
    int64_t started_ms;
};

static void finish(struct evaluation *evaluation)
{
    build_remove(&evaluation->build);
    evaluation->job.done(evaluation->job.context);
}

static void on_run_done(void *context)
{
    struct evaluation *evaluation = context;

    schedules_finish(evaluation->schedules, &evaluation->result);
    naming_apply(&evaluation->result, evaluation->job.task, evaluation->job.world,
                 evaluation->job.dtype);
    evaluation->result.run_ms = clock_monotonic_ms() - evaluation->started_ms;
    finish(evaluation);
}

/* The build's "accepted" becomes whatever the run makes of it. */
static void start_run(struct evaluation *evaluation)
{
    const struct evaluation_settings *settings = evaluation->settings;
    const struct evaluation_job *job = &evaluation->job;
    struct error err = {0};
    struct schedules_options options = {
        .launch = {.bin_dir = settings->bin_dir,
                   .sim_dir = settings->sim_dir,
                   .nccl_dir = settings->nccl_dir,
                   .cuda_home = settings->cuda_home,
                   .library = evaluation->build.library,
                   .job = {.task_number = task_number(job->task),
                           .world = job->world,
                           .dtype = (int32_t)job->dtype,
                           .device = (int32_t)job->device,
                           .no_multicast = settings->no_multicast,
                           .seed = job->seed},
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
    if (schedules_start(&evaluation->schedules, &options, on_run_done, evaluation, &err) != OK) {
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

static void end_build(struct evaluation *evaluation)
{
    (void)capture_read(&evaluation->output);
    close_build(evaluation);
    build_judge(&evaluation->build, &evaluation->end, &evaluation->output, &evaluation->result);
    capture_release(&evaluation->output);
    evaluation->result.build_ms = clock_monotonic_ms() - evaluation->started_ms;
    if (evaluation->result.verdict == VERDICT_ACCEPTED && !evaluation->is_stopped) {
        start_run(evaluation);
    } else {
        finish(evaluation);
    }
}

static void on_build_box(void *context, unsigned events)
{
    struct evaluation *evaluation = context;
    struct box_event event = {0};
    struct error err = {0};
    enum status status = OK;

    (void)events;
    while ((status = box_next(evaluation->box, &event, &err)) == OK) {
        if (event.kind == BOX_ENDED) {
            evaluation->end.wait_status = event.wait_status;
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

    evaluation->end.is_late = true;
    box_kill(evaluation->box);
}

static enum status start_build(struct evaluation *evaluation, struct error *err)
{
    int output = -1;
    enum status status = capture_init(&evaluation->output, &output, err);

    if (status != OK) {
        return status;
    }
    struct box_program program = {.argv = evaluation->build.argv,
                                  .env = evaluation->build.env,
                                  .directory = evaluation->build.directory,
                                  .output = output,
                                  .limits = evaluation->build.limits};
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
    struct build_options options = {.work_dir = settings->work_dir,
                                    .cuda_home = settings->cuda_home,
                                    .task = job->task,
                                    .dtype = job->dtype,
                                    .source = job->source,
                                    .source_bytes = job->source_bytes,
                                    .wall_ms = settings->build_ms};

    struct evaluation *made = xcalloc(1, sizeof *made);
    made->settings = settings;
    made->job = *job;
    made->result.rank = -1;
    made->started_ms = clock_monotonic_ms();
    enum status status = build_prepare(&made->build, &options, err);
    if (status == OK) {
        status = start_build(made, err);
        if (status != OK) {
            build_remove(&made->build);
        }
    }
    if (status != OK) {
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
    return schedules_is_checking(evaluation->schedules) ? STAGE_CHECKING : STAGE_WAITING;
}

void evaluation_stop(struct evaluation *evaluation)
{
    evaluation->is_stopped = true;
    if (evaluation->box != NULL) {
        box_kill(evaluation->box);
    } else if (evaluation->schedules != NULL) {
        schedules_stop(evaluation->schedules);
    }
}

const struct result *evaluation_result(const struct evaluation *evaluation)
{
    return &evaluation->result;
}

void evaluation_close(struct evaluation *evaluation)
{
    if (evaluation == NULL) {
        return;
    }
    assert(evaluation->box == NULL);
    schedules_close(evaluation->schedules);
    result_release(&evaluation->result);
    build_remove(&evaluation->build);
    free(evaluation);
}
