#include "worker/building.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/loop.h"
#include "worker/process.h"
#include "worker/turns.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct building {
    struct building_options options;
    char name[STORE_NAME_MAX]; /* in the store */
    struct build build;
    struct box *box; /* NULL: not begun, or ended */
    struct capture output;
    struct loop_watch *box_watch, *output_watch;
    struct loop_timer *late; /* before it has begun: what calls `done` */
    struct beside beside;
    struct result result;
    int64_t started_ms, rests_since_ms, rested_ms;
    bool is_resting, is_stopped;
};

static void end(struct building *building)
{
    turns_go(&building->beside);
    building->result.build_ms = clock_monotonic_ms() - building->started_ms - building->rested_ms;
    building->options.done(building->options.context);
}

/* Without a box there is nobody who would tell of an end. */
static void on_end(void *context)
{
    struct building *building = context;

    loop_timer_close(building->late);
    building->late = NULL;
    end(building);
}

static void end_soon(struct building *building)
{
    if (building->late == NULL) {
        building->late = loop_timer_open(0, 0, on_end, building);
    }
}

/* ---- in its box ---- */

static void close_box(struct building *building)
{
    loop_watch_close(building->box_watch);
    loop_watch_close(building->output_watch);
    loop_timer_close(building->late);
    building->box_watch = building->output_watch = NULL;
    building->late = NULL;
    box_close(building->box);
    building->box = NULL;
}

static void judge(struct building *building)
{
    const struct store *store = building->options.store;
    struct error err = {0};

    (void)capture_read(&building->output);
    close_box(building);
    build_judge(&building->build, &building->output, &building->result);
    capture_release(&building->output);
    if (store != NULL && !building->is_stopped && store_keeps(&building->result) &&
        store_save(store, building->name, &building->result, building->build.library, &err) != OK) {
        log_event(LOG_WARN, "build.not_kept", "%s", err.message);
    }
    end(building);
}

static void on_box(void *context, unsigned events)
{
    struct building *building = context;
    struct box_event event = {0};
    struct error err = {0};
    enum status status = OK;

    (void)events;
    while ((status = box_next(building->box, &event, &err)) == OK) {
        if (build_note(&building->build, &event)) {
            box_kill(building->box); /* whatever the compiler left behind */
        }
    }
    if (status == ERR_UNAVAILABLE) {
        judge(building);
    }
}

static void on_output(void *context, unsigned events)
{
    struct building *building = context;

    (void)events;
    if (!capture_read(&building->output)) {
        loop_watch_close(building->output_watch);
        building->output_watch = NULL;
    }
    if (capture_is_too_long(&building->output)) {
        box_kill(building->box);
    }
}

static int64_t time_left_ms(const struct building *building)
{
    int64_t now_ms = clock_monotonic_ms();
    int64_t rested_ms =
        building->rested_ms + (building->is_resting ? now_ms - building->rests_since_ms : 0);

    return building->options.build.wall_ms - (now_ms - building->started_ms - rested_ms);
}

static void on_late(void *context)
{
    struct building *building = context;
    int64_t left_ms = time_left_ms(building);

    if (left_ms > 0) { /* it has rested */
        loop_timer_close(building->late);
        building->late = loop_timer_open(left_ms, 0, on_late, building);
        return;
    }
    building->build.is_late = true;
    box_kill(building->box);
}

static enum status begin(struct building *building, struct error *err)
{
    int output = -1;
    enum status status = capture_init(&building->output, &output, err);

    if (status != OK) {
        return status;
    }
    struct box_program program = building->build.program;
    program.output = output;
    status = box_start(&building->box, &program, 1, err);
    close(output);
    if (status != OK) {
        capture_release(&building->output);
        return status;
    }
    building->box_watch = loop_watch_open(box_fd(building->box), LOOP_READ, on_box, building);
    building->output_watch = loop_watch_open(building->output.fd, LOOP_READ, on_output, building);
    building->late = loop_timer_open(time_left_ms(building), 0, on_late, building);
    return OK;
}

/* ---- resting ---- */

static void begin_late(struct building *building)
{
    struct error err = {0};

    if (begin(building, &err) != OK) {
        building->result.verdict = VERDICT_INTERNAL_ERROR;
        building->result.stage = xstrdup("build");
        building->result.message = xstrdup(err.message);
        end_soon(building);
    }
}

/* Where the layer `uid` is waived the user is also others': such a build does not rest. */
static void signal_box(const struct building *building, int number)
{
    uid_t user = building->build.sandbox->uid;

    if (user != 0) {
        process_signal_all(user, number);
    }
}

static void on_rest(void *context, bool is_resting)
{
    struct building *building = context;
    int64_t now_ms = clock_monotonic_ms();

    if (is_resting) {
        building->rests_since_ms = now_ms;
    } else if (building->is_resting) {
        building->rested_ms += now_ms - building->rests_since_ms;
    }
    building->is_resting = is_resting;
    if (building->box != NULL) {
        signal_box(building, is_resting ? SIGSTOP : SIGCONT);
    } else if (!is_resting && building->late == NULL) {
        begin_late(building);
    }
}

/* ---- life ---- */

/* True: it was built before, and `done` comes from the loop. */
static bool find(struct building *building)
{
    const struct store *store = building->options.store;
    struct error err = {0};

    if (store == NULL) {
        return false;
    }
    build_identify(&building->options.build, building->name);
    if (store_load(store, building->name, &building->result, &building->build.library, &err) !=
        OK) {
        return false;
    }
    building->result.builder = xstrdup(BUILD_BY_STORE);
    end_soon(building);
    return true;
}

enum status building_start(struct building **building, const struct building_options *options,
                           struct error *err)
{
    struct building *made = xcalloc(1, sizeof *made);
    enum status status = OK;

    made->options = *options;
    made->build = (struct build){.out = -1, .library = -1};
    made->result.rank = -1;
    made->started_ms = clock_monotonic_ms();
    made->beside = (struct beside){.rest = on_rest, .context = made};
    if (!find(made)) {
        status = build_prepare(&made->build, &options->build, err);
        if (status == OK) {
            turns_stand_beside(&made->beside);
            status = made->is_resting ? OK : begin(made, err);
        }
    }
    if (status != OK) {
        turns_go(&made->beside);
        build_release(&made->build);
        free(made);
        return status;
    }
    *building = made;
    return OK;
}

void building_stop(struct building *building)
{
    building->is_stopped = true;
    if (building->box != NULL) {
        box_kill(building->box);
    } else {
        end_soon(building);
    }
}

void building_take(struct building *building, struct result *result)
{
    result_release(result);
    *result = building->result;
    building->result = (struct result){.rank = -1};
}

int building_library(const struct building *building)
{
    return building->build.library;
}

void building_close(struct building *building)
{
    if (building == NULL) {
        return;
    }
    assert(building->box == NULL);
    loop_timer_close(building->late);
    turns_go(&building->beside);
    result_release(&building->result);
    build_release(&building->build);
    free(building);
}
