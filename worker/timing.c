#include "worker/timing.h"

#include "common/clock.h"
#include "common/mem.h"
#include "worker/sets.h"
#include "worker/statistics.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_SETS = 8, /* whose outputs nobody looks at */
    WARM_ROUNDS = 50,
    EMPTY_ROUNDS = 30,
    LATENCY_ROUNDS = 100,
    THROUGHPUT_ROUNDS = 25,
    THROUGHPUT_CALLS = CHANNEL_SLOTS,
    FEWER_ROUNDS = 30, /* of calls that take long, or when the time is over */
    LEAST_ROUNDS = 5,
    ROUNDS_MAX = 2 * LATENCY_ROUNDS,
    PASSES_MAX = 5,
    MEMORY_MAX_MIB = 3072,
    JUDGE_MS = 10000,
};
#define LONG_US 50000.0

struct times {
    double events_us[ROUNDS_MAX], window_us[ROUNDS_MAX], skew_us[ROUNDS_MAX];
    size_t count;
};

struct stage {
    const struct timing_options *options;
    struct result *result;
    struct timing_end *end;
    struct sets *sets;
    int next_set;
    int next_call;
    int64_t started_ms;
    struct times times; /* of the last series */
};

/* Rounds of one kind. */
struct series {
    int rounds, calls;
    bool is_empty, is_kept, is_warm;
};

static void show_life(void *context)
{
    const struct stage *stage = context;
    struct error err = {0};

    peers_show_life(stage->options->peers);
    (void)peers_turn(stage->options->peers, &err);
}

static bool is_late(const struct stage *stage)
{
    return clock_monotonic_ms() - stage->started_ms > stage->options->budget_ms;
}

static int take_set(struct stage *stage, bool is_warm)
{
    int count = sets_count(stage->sets);

    if (count <= WARM_SETS) {
        return stage->next_set++ % count;
    }
    return is_warm ? stage->next_set++ % WARM_SETS
                   : WARM_SETS + stage->next_set++ % (count - WARM_SETS);
}

static void plan_round(struct stage *stage, const struct series *series, struct round *round)
{
    const struct run *run = stage->options->place->run;

    *round = (struct round){.run = run,
                            .layouts = stage->options->layouts,
                            .first_call = stage->next_call,
                            .calls = series->calls,
                            .is_empty = series->is_empty,
                            .poison = (uint8_t)(1 + (unsigned)stage->next_call * 37 % 254)};
    stage->next_call += series->calls;
    for (int call = 0; call < series->calls; call++) {
        int set = take_set(stage, series->is_warm || series->is_empty);
        for (int rank = 0; rank < run_world(run); rank++) {
            round->inputs[call][rank] = sets_inputs(stage->sets, set, rank);
        }
        round->outputs[call] = series->is_kept ? sets_keep(stage->sets, set, round->poison) : NULL;
    }
}

static void report_round(struct stage *stage, const struct round_result *round, int call)
{
    struct place place = *stage->options->place;

    place.call = call;
    stage->end->is_decided = true;
    switch (round->end) {
    case ROUND_DONE:
        assert(!"nothing to report");
        break;
    case ROUND_FAILED:
        stage->end->has_failed = true;
        return;
    case ROUND_STALLED:
        stage->end->has_stalled = true;
        return;
    case ROUND_CHANGED:
        report_verdict(stage->result, &place, VERDICT_CONTRACT_VIOLATION, "late_write",
                       "outputs of rank %d were not there, or changed, after its work of call %d "
                       "was done",
                       round->rank, call);
        break;
    case ROUND_INPUTS_CHANGED:
        report_verdict(stage->result, &place, VERDICT_CONTRACT_VIOLATION, "input_overwritten",
                       "inputs of rank %d were changed in call %d", round->rank, call);
        break;
    }
    stage->result->rank = round->rank;
}

/* Where this is right, the job may be decided. */
static enum status run_series(struct stage *stage, const struct series *series, struct error *err)
{
    stage->times.count = 0;
    for (int i = 0; i < series->rounds && !stage->end->is_decided; i++) {
        struct round round;
        struct round_result result;
        plan_round(stage, series, &round);
        enum status status = rounds_one(stage->options->rounds, &round, &result, err);
        if (status != OK) {
            return status;
        }
        if (result.end != ROUND_DONE) {
            report_round(stage, &result, round.first_call);
            return OK;
        }
        stage->times.events_us[stage->times.count] = result.events_us;
        stage->times.window_us[stage->times.count] = result.window_us;
        stage->times.skew_us[stage->times.count++] = result.skew_us;
        bool is_long = result.window_us > LONG_US || is_late(stage);
        if (is_long && i + 1 >= (series->is_kept ? FEWER_ROUNDS : LEAST_ROUNDS)) {
            break;
        }
    }
    return OK;
}

/* What the judge's clock shows for `calls` calls of nothing. */
static enum status calibrate(struct stage *stage, int calls, double *calibration_us,
                             struct error *err)
{
    struct series series = {.rounds = EMPTY_ROUNDS, .calls = calls, .is_empty = true};
    enum status status = run_series(stage, &series, err);

    if (status == OK && !stage->end->is_decided) {
        *calibration_us = statistics_median(stage->times.window_us, stage->times.count);
    }
    return status;
}

/* The times of the last series, per call. */
static void summarize(struct stage *stage, int calls, double calibration_us, struct regime *regime,
                      struct spread *spread)
{
    struct times *times = &stage->times;
    double ranked_us[ROUNDS_MAX];

    for (size_t i = 0; i < times->count; i++) {
        double window_us = times->window_us[i] - calibration_us;
        times->window_us[i] = window_us > 0 ? window_us / calls : 0;
        times->events_us[i] /= calls;
        ranked_us[i] =
            times->events_us[i] > times->window_us[i] ? times->events_us[i] : times->window_us[i];
    }
    *spread = statistics_spread(ranked_us, times->count);
    *regime = (struct regime){.median_us = spread->median,
                              .p10_us = spread->p10,
                              .p90_us = spread->p90,
                              .low_us = spread->low,
                              .high_us = spread->high,
                              .events_us = statistics_median(times->events_us, times->count),
                              .window_us = statistics_median(times->window_us, times->count),
                              .skew_us = statistics_median(times->skew_us, times->count),
                              .iterations = (int)times->count};
}

/* One pass. Noisy times are taken once more; they still are where *is_noisy. */
static enum status pass(struct stage *stage, double calibration_us, struct regime *regime,
                        bool *is_noisy, struct error *err)
{
    struct series timed = {.rounds = LATENCY_ROUNDS, .calls = 1, .is_kept = true};
    struct spread spread = {0};
    enum status status = OK;

    for (int attempt = 0; attempt < 2 && status == OK && !stage->end->is_decided; attempt++) {
        status = run_series(stage, &timed, err);
        if (status == OK && !stage->end->is_decided) {
            summarize(stage, 1, calibration_us, regime, &spread);
            *is_noisy = statistics_is_noisy(&spread);
            if (!*is_noisy) {
                break;
            }
        }
    }
    return status;
}

static int compare_regimes(const void *one, const void *other)
{
    double a = ((const struct regime *)one)->median_us;
    double b = ((const struct regime *)other)->median_us;

    return (a > b) - (a < b);
}

static enum status measure_latency(struct stage *stage, struct timing *timing, struct error *err)
{
    struct series warm = {.rounds = WARM_ROUNDS, .calls = 1, .is_warm = true};
    struct regime regimes[PASSES_MAX];
    int passes = stage->options->passes;
    bool is_noisy = false;
    enum status status = calibrate(stage, 1, &timing->calibration_us, err);

    assert(passes >= 1);
    assert(passes <= PASSES_MAX);
    if (status == OK && !stage->end->is_decided) {
        status = run_series(stage, &warm, err);
    }
    for (int i = 0; i < passes && status == OK && !stage->end->is_decided; i++) {
        status = pass(stage, timing->calibration_us, &regimes[i], &is_noisy, err);
    }
    if (status != OK || stage->end->is_decided) {
        return status;
    }
    qsort(regimes, (size_t)passes, sizeof *regimes, compare_regimes);
    timing->latency = regimes[passes / 2];
    if (is_noisy) {
        result_add_flag(stage->result, "noisy");
    }
    return OK;
}

static enum status measure_throughput(struct stage *stage, struct timing *timing, struct error *err)
{
    struct series timed = {.rounds = THROUGHPUT_ROUNDS, .calls = THROUGHPUT_CALLS, .is_kept = true};
    struct spread spread = {0};
    double calibration_us = 0;
    enum status status = calibrate(stage, THROUGHPUT_CALLS, &calibration_us, err);

    if (status == OK && !stage->end->is_decided) {
        status = run_series(stage, &timed, err);
    }
    if (status == OK && !stage->end->is_decided) {
        summarize(stage, THROUGHPUT_CALLS, calibration_us, &timing->throughput, &spread);
    }
    return status;
}

/* What the times themselves say against the submission. */
static void suspect(struct stage *stage, const struct timing *timing)
{
    const struct regime *latency = &timing->latency;
    struct place place = *stage->options->place;
    double now_us = 0;
    double quiet_us = 0;

    place.call = -1;
    if (rounds_is_disturbed(stage->options->rounds, &now_us, &quiet_us)) {
        report_verdict(stage->result, &place, VERDICT_CONTRACT_VIOLATION, "resident_kernel",
                       "a kernel stays on a GPU between calls: what takes %.1f us when nobody is "
                       "there takes %.1f us",
                       quiet_us, now_us);
        stage->end->is_decided = true;
    } else if (!stage->options->is_shared &&
               statistics_is_suspect(latency->events_us, latency->window_us)) {
        report_verdict(stage->result, &place, VERDICT_SUSPECT, "clocks",
                       "the ranks' events say %.2f us, the judge's clock %.2f us",
                       latency->events_us, latency->window_us);
        stage->end->is_decided = true;
    }
}

static enum status judge(struct stage *stage, struct error *err)
{
    struct verdict_detail detail = {0};
    struct place place = *stage->options->place;
    int wrong = -1;
    enum status status = sets_judge(stage->sets, &wrong, &detail, err);

    if (status == OK && wrong >= 0) {
        place.call = wrong;
        report_judgement(stage->result, &place, &detail);
        stage->end->is_decided = true;
    }
    return status;
}

static enum status run_steps(struct stage *stage, struct error *err)
{
    const struct timing_options *options = stage->options;
    const struct run *run = options->place->run;
    struct sets_options wanted = {
        .run = run,
        .layouts = options->layouts,
        .seed = options->seed,
        .count = WARM_SETS + LATENCY_ROUNDS + THROUGHPUT_ROUNDS * THROUGHPUT_CALLS,
        .kept_max = 2 * LATENCY_ROUNDS + THROUGHPUT_ROUNDS * THROUGHPUT_CALLS,
        .memory_bytes = (uint64_t)MEMORY_MAX_MIB << 20,
        .judge_ms = JUDGE_MS,
        .alive = show_life,
        .context = stage};
    struct timing timing = {0};
    enum status status = sets_open(&stage->sets, &wanted, err);

    if (status == OK) {
        status = measure_latency(stage, &timing, err);
    }
    if (status == OK && !stage->end->is_decided) {
        status = measure_throughput(stage, &timing, err);
    }
    if (status == OK && !stage->end->is_decided) {
        status = judge(stage, err);
    }
    if (status == OK && !stage->end->is_decided) {
        suspect(stage, &timing);
        timing.case_name = xstrdup(run_case(run));
        timing.variant = xstrdup(run_variant(run));
        result_add_timing(stage->result, timing);
        if (options->is_shared) {
            result_add_flag(stage->result, "not_comparable");
        }
    }
    return status;
}

enum status timing_run(const struct timing_options *options, struct result *result,
                       struct timing_end *end, struct error *err)
{
    struct stage *stage = xcalloc(1, sizeof *stage);

    *end = (struct timing_end){0};
    stage->options = options;
    stage->result = result;
    stage->end = end;
    stage->started_ms = clock_monotonic_ms();
    enum status status = run_steps(stage, err);
    sets_close(stage->sets);
    free(stage);
    return status;
}
