#include "worker/running.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/hearing.h"
#include "worker/loop.h"
#include "worker/standstill.h"
#include "worker/verdict.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICK_MS = 100,
    END_MS = 10000, /* for the judge to explain a crash, and for the simulator's last report */
};

struct running {
    struct launch launch;
    struct running_limits limits;
    void (*done)(void *context);
    void *context;
    struct loop_watch *box_watch, *judge_watch, *report_watch, *own_watch;
    struct loop_watch *output_watch[WORLD_MAX];
    struct loop_timer *tick;
    struct evidence evidence;
    struct hearing hearing;
    pid_t pids[BOX_PROGRAMS_MAX]; /* 0: not running */
    pid_t ranks_init;             /* the first process of the ranks' sandbox */
    int64_t started_ms, progress_ms, end_by_ms;
    struct standstill standstill;
    bool is_simulated;
    bool is_stopping;
    bool is_killed; /* whatever ends now was ended by this process */
};

static int device_program(const struct running *running)
{
    return LAUNCH_RANK_0 + running->launch.world;
}

/* All but the simulator, whose last report comes when nobody uses it any more. */
static void begin_stop(struct running *running)
{
    if (running->is_stopping) {
        return;
    }
    running->is_stopping = running->hearing.is_decided = true;
    running->end_by_ms = clock_monotonic_ms() + END_MS;
    for (int program = 0; program < device_program(running); program++) {
        box_kill_program(running->launch.box, program);
    }
    if (running->evidence.device_ending.has_ended) {
        box_kill(running->launch.box);
    }
}

static void close_ended(struct running *running)
{
    if (running->hearing.judge_ended) {
        loop_watch_close(running->judge_watch);
        running->judge_watch = NULL;
    }
    if (running->hearing.report_ended) {
        loop_watch_close(running->report_watch);
        running->report_watch = NULL;
    }
}

/* Takes in what was said, by the simulator first or by the judge. */
static void hear(struct running *running, void (*take)(struct hearing *hearing))
{
    unsigned progress = running->hearing.progress;
    bool was_reported = running->evidence.judge != NULL;

    take(&running->hearing);
    close_ended(running);
    if (running->hearing.progress != progress) {
        running->progress_ms = clock_monotonic_ms();
        running->standstill.at_ms = 0;
    }
    if (running->evidence.judge != NULL && !was_reported) {
        running->end_by_ms = clock_monotonic_ms() + END_MS;
    }
    if (running->hearing.is_decided) {
        begin_stop(running);
    }
}

/* A limit of all ranks together is the submission's doing; one of the simulator is, too, because of
 * what it was asked to hold. */
static void take_limit(struct running *running, enum stop_cause cause)
{
    if (!running->is_stopping) {
        running->evidence.stop = cause;
        begin_stop(running);
    }
}

/* Whoever is refused more processes or room need not end of it. */
static void look_at_limits(struct running *running)
{
    const struct sandbox *ranks = running->launch.ranks_sandbox;
    struct cgroup_hits hits = {0};

    if (ranks->group != NULL) {
        cgroup_read_hits(ranks->group, &hits);
    }
    if (hits.processes > 0) {
        take_limit(running, STOP_PROCESSES);
    } else if (running->ranks_init != 0 && sandbox_is_full(ranks, running->ranks_init)) {
        take_limit(running, STOP_DISK);
    }
}

/* A program has ended; what it said before that has been taken in. */
static void take_end(struct running *running, const struct box_event *event)
{
    struct evidence *evidence = &running->evidence;
    struct ending ending = {.has_ended = true, .wait_status = event->wait_status};

    running->pids[event->program] = 0;
    if (event->program == device_program(running)) {
        if (!running->is_killed) {
            evidence->device_ending = ending;
        }
        if (running->is_stopping) {
            box_kill(running->launch.box);
        } else if (!hearing_awaits_an_end(&running->hearing)) {
            /* Else it ended because a rank hung up, whose end, and the limit that caused it, are
             * told when its memory is given back. */
            begin_stop(running);
        }
    } else if (event->program == LAUNCH_JUDGE && !running->is_stopping) {
        evidence->judge_ending = ending;
        if (evidence->judge == NULL) {
            begin_stop(running);
        }
    } else if (!running->is_stopping && (evidence->judge == NULL ||
                                         evidence->judge->rank == event->program - LAUNCH_RANK_0)) {
        /* Any other rank was told that the job is over, by the end of the judge. */
        evidence->rank[event->program - LAUNCH_RANK_0] = ending;
        evidence->crashed_first |= evidence->device == NULL &&
                                   (!running->is_simulated || !evidence->device_ending.has_ended);
        if (evidence->judge != NULL && !hearing_awaits_an_end(&running->hearing)) {
            begin_stop(running);
        } else if (running->end_by_ms == 0) {
            running->end_by_ms = clock_monotonic_ms() + END_MS;
        }
    }
}

static void take_event(struct running *running, const struct box_event *event)
{
    switch (event->kind) {
    case BOX_OPENED:
        if (event->program == LAUNCH_RANK_0) {
            running->ranks_init = event->pid;
        }
        break;
    case BOX_STARTED:
        running->pids[event->program] = event->pid;
        break;
    case BOX_LIMIT:
        take_limit(running, event->limit == BOX_LIMIT_MEMORY ? STOP_MEMORY : STOP_PROCESSES);
        break;
    default:
        look_at_limits(running);
        take_end(running, event);
        break;
    }
}

/* Everybody is gone: takes in the rest, and tells the owner. */
static void finish(struct running *running)
{
    hear(running, hearing_report);
    hear(running, hearing_judge);
    for (int rank = 0; rank < running->launch.world; rank++) {
        (void)capture_read(&running->launch.outputs[rank]);
    }
    (void)capture_read(&running->launch.own);
    loop_watch_close(running->box_watch);
    running->box_watch = NULL;
    loop_timer_close(running->tick);
    running->tick = NULL;
    running->done(running->context);
}

static void on_box(void *context, unsigned events)
{
    struct running *running = context;
    struct box_event event = {0};
    struct error err = {0};
    enum status status = OK;

    (void)events;
    while ((status = box_next(running->launch.box, &event, &err)) == OK) {
        /* A cause was told before the process that it ended: so take what was told first. */
        hear(running, hearing_report);
        hear(running, hearing_judge);
        take_event(running, &event);
    }
    if (status == ERR_UNAVAILABLE) {
        running->evidence.is_keeper_lost = !running->is_stopping;
        finish(running);
    }
}

static void on_judge(void *context, unsigned events)
{
    (void)events;
    hear(context, hearing_judge);
}

static void on_report(void *context, unsigned events)
{
    (void)events;
    hear(context, hearing_report);
}

static void on_own_output(void *context, unsigned events)
{
    struct running *running = context;

    (void)events;
    if (!capture_read(&running->launch.own)) {
        loop_watch_close(running->own_watch);
        running->own_watch = NULL;
    }
}

static void on_output(void *context, unsigned events)
{
    struct running *running = context;

    (void)events;
    for (int rank = 0; rank < running->launch.world; rank++) {
        struct capture *capture = &running->launch.outputs[rank];
        if (running->output_watch[rank] == NULL) {
            continue;
        }
        if (!capture_read(capture)) {
            loop_watch_close(running->output_watch[rank]);
            running->output_watch[rank] = NULL;
        }
        if (capture_is_too_long(capture) && !running->is_stopping) {
            running->evidence.stop = STOP_LOG;
            running->evidence.stop_rank = rank;
            begin_stop(running);
        }
    }
}

/* ---- deadlines ---- */

static void on_tick(void *context)
{
    struct running *running = context;
    int64_t now_ms = clock_monotonic_ms();

    if (running->end_by_ms != 0 && now_ms >= running->end_by_ms) {
        if (running->is_stopping) {
            running->is_killed = true;
            box_kill(running->launch.box);
        }
        begin_stop(running);
    }
    look_at_limits(running);
    if (running->is_stopping) {
        return;
    }
    if (now_ms - running->started_ms >= running->limits.run_ms) {
        running->evidence.stop = STOP_WALL;
        begin_stop(running);
    } else if (now_ms - running->progress_ms >= running->limits.stall_ms - STANDSTILL_SAMPLE_MS) {
        int rank = -1;
        struct standstill_look look = {.now_ms = now_ms,
                                       .quiet_ms = now_ms - running->progress_ms,
                                       .pids = running->pids,
                                       .evidence = &running->evidence};
        enum stop_cause cause = standstill_look(&running->standstill, &look, &rank);
        if (cause != STOP_NONE) {
            running->evidence.stop = cause;
            running->evidence.stop_rank = rank;
            begin_stop(running);
        }
    }
}

/* ---- life ---- */

enum status running_start(struct running **running, const struct launch_options *options,
                          const struct running_limits *limits, void (*done)(void *context),
                          void *context, struct error *err)
{
    struct running *made = xcalloc(1, sizeof *made);

    enum status status = launch_start(&made->launch, options, err);
    if (status != OK) {
        free(made);
        return status;
    }
    made->limits = *limits;
    made->done = done;
    made->context = context;
    made->evidence.world = made->launch.world;
    made->is_simulated = options->job.device == DEVICE_SIM;
    if (!made->is_simulated) { /* a real device reports nothing */
        made->evidence.device_ending.has_ended = true;
        made->evidence.device_end = &made->hearing.device_end;
    }
    hearing_init(&made->hearing, made->launch.judge, made->launch.report, &made->evidence);
    made->started_ms = made->progress_ms = clock_monotonic_ms();
    made->box_watch = loop_watch_open(box_fd(made->launch.box), LOOP_READ, on_box, made);
    made->judge_watch = loop_watch_open(made->launch.judge, LOOP_READ, on_judge, made);
    made->report_watch = loop_watch_open(made->launch.report, LOOP_READ, on_report, made);
    made->own_watch = loop_watch_open(made->launch.own.fd, LOOP_READ, on_own_output, made);
    for (int rank = 0; rank < made->launch.world; rank++) {
        made->output_watch[rank] =
            loop_watch_open(made->launch.outputs[rank].fd, LOOP_READ, on_output, made);
    }
    made->tick = loop_timer_open(TICK_MS, TICK_MS, on_tick, made);
    *running = made;
    return OK;
}

bool running_is_checking(const struct running *running)
{
    return running->evidence.status.stage[0] != 0 &&
           strcmp(running->evidence.status.stage, "start") != 0;
}

bool running_is_timing(const struct running *running)
{
    return strcmp(running->evidence.status.stage, "timing") == 0;
}

void running_stop(struct running *running)
{
    running->is_stopping = running->is_killed = running->hearing.is_decided = true;
    box_kill(running->launch.box);
}

static void write_log(const struct running *running, struct result *result)
{
    size_t share = RESULT_LOG_MAX_BYTES / (size_t)running->launch.world;
    struct buffer text = {0};

    for (int rank = 0; rank < running->launch.world; rank++) {
        if (running->launch.outputs[rank].seen_bytes > 0) {
            size_t before = text.size_bytes;
            buffer_printf(&text, "[rank %d]\n", rank);
            capture_write(&running->launch.outputs[rank], &text,
                          share - (text.size_bytes - before) - 1);
            if (text.data[text.size_bytes - 1] != '\n') {
                buffer_printf(&text, "\n");
            }
        }
    }
    result->run_log = text.data;
}

void running_finish(const struct running *running, struct result *result)
{
    struct buffer own = {0};

    verdict_decide(&running->evidence, result);
    write_log(running, result);
    if (running->launch.own.seen_bytes > 0) {
        capture_write(&running->launch.own, &own, 1024);
        log_event(LOG_WARN, "job.output", "text=%s", own.data);
        buffer_release(&own);
    }
}

void running_close(struct running *running)
{
    if (running == NULL) {
        return;
    }
    loop_timer_close(running->tick);
    loop_watch_close(running->box_watch);
    loop_watch_close(running->judge_watch);
    loop_watch_close(running->report_watch);
    loop_watch_close(running->own_watch);
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        loop_watch_close(running->output_watch[rank]);
    }
    launch_release(&running->launch);
    hearing_release(&running->hearing);
    free(running);
}
