#include "worker/standing.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

/* Clocks err by less than this. */
#define FLOOR_SHARE 0.95
#define CALIBRATION_SHARE 0.1
#define CALIBRATION_LEAST_US 5.0

static bool is_same(const struct timing *one, const struct timing *other)
{
    return strcmp(one->case_name, other->case_name) == 0 &&
           strcmp(one->variant, other->variant) == 0;
}

static void hold_against(struct timing *timing, const struct timing *baseline)
{
    const struct regime *theirs = &baseline->latency;

    timing->baseline_us = theirs->median_us;
    timing->baseline_low_us = theirs->low_us;
    timing->baseline_high_us = theirs->high_us;
    timing->speedup =
        timing->latency.median_us > 0 ? theirs->median_us / timing->latency.median_us : 0;
    timing->is_faster =
        timing->latency.median_us < theirs->median_us && timing->latency.high_us < theirs->low_us;
}

/* False: the task has no such case or variant. */
static bool find_work(const struct standing *standing, const struct timing *timing,
                      struct work *work)
{
    const struct task *task = standing->task;
    struct error err = {0};

    for (int i = 0; i < task_case_count(task); i++) {
        if (strcmp(task_case_name(task, i), timing->case_name) != 0) {
            continue;
        }
        for (int variant = 0; variant < task_variant_count(task, i); variant++) {
            struct run_choice choice = {.case_index = i,
                                        .variant = variant,
                                        .world = standing->world,
                                        .dtype = standing->dtype};
            struct run *run = NULL;
            if (strcmp(task_variant_name(task, i, variant), timing->variant) == 0 &&
                run_open(&run, task, &choice, &err) == OK) {
                *work = run_work(run);
                run_close(run);
                return true;
            }
        }
    }
    return false;
}

/* `message` is the result's from now on. The first reason stays. */
static void make_suspect(struct result *result, const char *reason, char *message)
{
    if (result->verdict != VERDICT_ACCEPTED) {
        free(message);
        return;
    }
    free(result->message);
    free(result->reason);
    result->verdict = VERDICT_SUSPECT;
    result->reason = xstrdup(reason);
    result->message = message;
}

/* Nothing takes as long in the submission's processes as in the baseline's. Who makes it take
 * longer makes its calls look shorter. */
static void check_calibration(struct result *result, const struct timing *timing,
                              const struct timing *baseline)
{
    double limit_us = baseline->calibration_us * (1 + CALIBRATION_SHARE) + CALIBRATION_LEAST_US;

    if (baseline->calibration_us > 0 && timing->calibration_us > limit_us) {
        make_suspect(result, "calibration",
                     xasprintf("iterations without a call took %.2f us, and %.2f us for the "
                               "baseline",
                               timing->calibration_us, baseline->calibration_us));
    }
}

static void add_roofline(const struct standing *standing, const struct rates *rates,
                         struct result *result, struct timing *timing)
{
    struct work work = {0};

    if (!find_work(standing, timing, &work)) {
        return;
    }
    struct least_times least = roofline_times(rates, &work, standing->dtype);
    timing->floor_us = least.floor_us;
    timing->target_us = least.target_us;
    timing->target_percent =
        timing->latency.median_us > 0 ? 100 * least.target_us / timing->latency.median_us : 0;
    if (timing->latency.median_us < FLOOR_SHARE * timing->floor_us) {
        make_suspect(result, "floor",
                     xasprintf("case %s took %.2f us, and what has to be moved takes %.2f us",
                               timing->case_name, timing->latency.median_us, timing->floor_us));
    }
}

void standing_apply(const struct standing *standing, struct result *result)
{
    const struct result *baseline = standing->baseline;
    const struct rates *rates = NULL;

    if (result->gpu != NULL && result->gpu->name != NULL) {
        rates = roofline_find(standing->roofline, result->gpu->name);
    }
    for (size_t i = 0; i < result->timing_count; i++) {
        struct timing *timing = &result->timings[i];
        for (size_t j = 0; baseline != NULL && j < baseline->timing_count; j++) {
            if (is_same(timing, &baseline->timings[j])) {
                hold_against(timing, &baseline->timings[j]);
                check_calibration(result, timing, &baseline->timings[j]);
            }
        }
        if (rates != NULL) {
            add_roofline(standing, rates, result, timing);
        }
    }
}
