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
    EMPTY_ROUNDS = 10, /* before the first call, and then */
    EMPTY_EVERY = 4,   /* calls one more */
    LATENCY_ROUNDS = 100,
    THROUGHPUT_ROUNDS = 25,
    THROUGHPUT_CALLS = CHANNEL_SLOTS,
    SLOW_ROUNDS = 12,  /* whose inputs are revealed slowly, */
    SLOW_PASSES = 24,  /* so much more slowly */
    FEWER_ROUNDS = 30, /* of calls that take long, or when the time is over */
    LEAST_ROUNDS = 5,
    ROUNDS_MAX = 2 * LATENCY_ROUNDS,
    BLOCK_ATTEMPTS = 3,
    PASSES_MAX = 5,
    MEMORY_MAX_MIB = 3072,
    JUDGE_MS = 10000,
};
#define LONG_US 50000.0

struct times {
    double events_us[ROUNDS_MAX], window_us[ROUNDS_MAX], answer_us[ROUNDS_MAX], skew_us[ROUNDS_MAX];
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
    struct times times;   /* of the last series */
    struct times empties; /* of the rounds without calls in it */
    double answer_us;     /* what an answer took in those of the last pass */
};

/* Rounds of one kind, with an empty one after each few of them. */
struct series {
    int rounds, calls, passes;
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

static void plan_round(struct stage *stage, const struct series *series, bool is_empty,
                       struct round *round)
{
    const struct run *run = stage->options->place->run;

    *round = (struct round){.run = run,
                            .layouts = stage->options->layouts,
                            .first_call = stage->next_call,
                            .calls = series->calls,
                            .passes = series->passes,
                            .is_empty = is_empty,
                            .poison = (uint8_t)(1 + (unsigned)stage->next_call * 37 % 254)};
    stage->next_call += series->calls;
    for (int call = 0; call < series->calls; call++) {
        int set = take_set(stage, series->is_warm || is_empty);
        for (int rank = 0; rank < run_world(run); rank++) {
            round->inputs[call][rank] = sets_inputs(stage->sets, set, rank);
        }
        round->outputs[call] =
            series->is_kept && !is_empty ? sets_keep(stage->sets, set, round->poison) : NULL;
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

/* Where this and the following are right, the job may be decided. */
static enum status one_round(struct stage *stage, const struct series *series, bool is_empty,
                             struct error *err)
{
    struct times *times = is_empty ? &stage->empties : &stage->times;
    struct round round;
    struct round_result result;

    plan_round(stage, series, is_empty, &round);
    enum status status = rounds_one(stage->options->rounds, &round, &result, err);
    if (status != OK) {
        return status;
    }
    if (result.end != ROUND_DONE) {
        report_round(stage, &result, round.first_call);
        return OK;
    }
    assert(times->count < ROUNDS_MAX);
    times->events_us[times->count] = result.events_us;
    times->window_us[times->count] = result.window_us;
    times->answer_us[times->count] = result.answer_us;
    times->skew_us[times->count++] = result.skew_us;
    return OK;
}

static enum status run_series(struct stage *stage, const struct series *series, struct error *err)
{
    enum status status = OK;

    stage->times.count = stage->empties.count = 0;
    for (int i = 0; i < EMPTY_ROUNDS && status == OK && !stage->end->is_decided; i++) {
        status = one_round(stage, series, true, err);
    }
    for (int i = 1; i <= series->rounds && status == OK && !stage->end->is_decided; i++) {
        status = one_round(stage, series, false, err);
        if (status == OK && !stage->end->is_decided && i % EMPTY_EVERY == 0) {
            status = one_round(stage, series, true, err);
        }
        if (status == OK && !stage->end->is_decided) {
            bool is_long =
                stage->times.window_us[stage->times.count - 1] > LONG_US || is_late(stage);
            if (is_long && i >= (series->is_kept ? FEWER_ROUNDS : LEAST_ROUNDS)) {
                break;
            }
        }
    }
    return status;
}

/* What the judge's clock shows for the calls of the last series beyond what their events do. */
static enum status calibrate(struct stage *stage, int calls, double *calibration_us,
                             struct error *err)
{
    double gap_us = 0;
    enum status status = rounds_gap(stage->options->rounds, calls, &gap_us, err);

    if (status == OK) {
        struct times *empties = &stage->empties;
        *calibration_us = statistics_median(empties->window_us, empties->count) - gap_us;
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
        ranked_us[i] = statistics_ranked(times->events_us[i], times->window_us[i]);
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

/* Runs the series until nobody disturbs it; somebody who always does is a kernel that stays. */
static enum status run_quietly(struct stage *stage, const struct series *series, struct error *err)
{
    struct rounds *rounds = stage->options->rounds;
    double now_us = 0;
    double quiet_us = 0;
    int kept = sets_kept(stage->sets);

    for (int attempt = 0; attempt < BLOCK_ATTEMPTS; attempt++) {
        sets_drop(stage->sets, kept);
        rounds_watch(rounds);
        enum status status = run_series(stage, series, err);
        if (status != OK || stage->end->is_decided ||
            !rounds_is_disturbed(rounds, &now_us, &quiet_us)) {
            return status;
        }
    }
    struct place place = *stage->options->place;
    place.call = -1;
    report_verdict(stage->result, &place, VERDICT_CONTRACT_VIOLATION, "resident_kernel",
                   "a kernel stays on a GPU between calls: what takes %.1f us when nobody is "
                   "there takes %.1f us",
                   quiet_us, now_us);
    stage->end->is_decided = true;
    return OK;
}

/* One pass. Noisy times, and those at low clocks, are taken once more; they still are such where
 * *is_noisy. */
static enum status pass(struct stage *stage, struct timing *timing, struct regime *regime,
                        bool *is_noisy, struct error *err)
{
    struct series timed = {.rounds = LATENCY_ROUNDS, .calls = 1, .passes = 1, .is_kept = true};
    struct spread spread = {0};
    int kept = sets_kept(stage->sets);
    enum status status = OK;

    for (int attempt = 0; attempt < 2; attempt++) {
        sets_drop(stage->sets, kept);
        status = run_quietly(stage, &timed, err);
        if (status == OK && !stage->end->is_decided) {
            status = calibrate(stage, 1, &timing->calibration_us, err);
        }
        if (status != OK || stage->end->is_decided) {
            break;
        }
        summarize(stage, 1, timing->calibration_us, regime, &spread);
        timing->answer_us = statistics_median(stage->times.answer_us, stage->times.count);
        stage->answer_us = statistics_median(stage->empties.answer_us, stage->empties.count);
        *is_noisy = statistics_is_noisy(&spread) || rounds_are_slow(stage->options->rounds);
        if (!*is_noisy) {
            break;
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
    struct series warm = {.rounds = WARM_ROUNDS, .calls = 1, .passes = 1, .is_warm = true};
    struct regime regimes[PASSES_MAX];
    int passes = stage->options->passes;
    bool is_noisy = false;
    enum status status = run_series(stage, &warm, err);

    assert(passes >= 1);
    assert(passes <= PASSES_MAX);
    for (int i = 0; i < passes && status == OK && !stage->end->is_decided; i++) {
        status = pass(stage, timing, &regimes[i], &is_noisy, err);
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
    struct series timed = {
        .rounds = THROUGHPUT_ROUNDS, .calls = THROUGHPUT_CALLS, .passes = 1, .is_kept = true};
    struct spread spread = {0};
    double calibration_us = 0;
    enum status status = run_quietly(stage, &timed, err);

    if (status == OK && !stage->end->is_decided) {
        status = calibrate(stage, THROUGHPUT_CALLS, &calibration_us, err);
    }
    if (status == OK && !stage->end->is_decided) {
        summarize(stage, THROUGHPUT_CALLS, calibration_us, &timing->throughput, &spread);
    }
    return status;
}

/* Calls whose inputs are revealed slowly take as long as others, from then on: whose do not has
 * worked on them before. */
static enum status measure_slowly(struct stage *stage, struct timing *timing, struct error *err)
{
    struct series slow = {
        .rounds = SLOW_ROUNDS, .calls = 1, .passes = SLOW_PASSES, .is_kept = true};
    double calibration_us = 0;
    struct regime regime = {0};
    struct spread spread = {0};
    enum status status = run_series(stage, &slow, err);

    if (status == OK && !stage->end->is_decided) {
        status = calibrate(stage, 1, &calibration_us, err);
    }
    if (status == OK && !stage->end->is_decided) {
        summarize(stage, 1, calibration_us, &regime, &spread);
        timing->slow_us = statistics_spread(stage->times.window_us, stage->times.count).high;
    }
    return status;
}

/* What the times themselves say against the submission. Where ranks share a GPU they say nothing.
 */
static void suspect(struct stage *stage, const struct timing *timing)
{
    const struct regime *latency = &timing->latency;
    struct place place = *stage->options->place;
    const char *reason = NULL;
    char *message = NULL;

    if (stage->options->is_shared) {
        return;
    }
    place.call = -1;
    if (statistics_is_suspect(latency->events_us, latency->window_us)) {
        reason = "clocks";
        message = xasprintf("the ranks' events say %.2f us, the judge's clock %.2f us",
                            latency->events_us, latency->window_us);
    } else if (statistics_is_suspect(timing->answer_us, stage->answer_us)) {
        reason = "answer";
        message = xasprintf("it takes %.2f us to prove that the outputs are there, and %.2f us "
                            "where there was nothing to do",
                            timing->answer_us, stage->answer_us);
    } else if (statistics_is_suspect(latency->low_us, timing->slow_us)) {
        reason = "overlap";
        message = xasprintf("a call takes %.2f us, and %.2f us where its inputs are revealed "
                            "slowly: it does not wait for that",
                            latency->window_us, timing->slow_us);
    }
    if (reason != NULL) {
        report_verdict(stage->result, &place, VERDICT_SUSPECT, reason, "%s", message);
        stage->end->is_decided = true;
    }
    free(message);
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
        .count = WARM_SETS + LATENCY_ROUNDS + SLOW_ROUNDS + THROUGHPUT_ROUNDS * THROUGHPUT_CALLS,
        .kept_max =
            options->passes * LATENCY_ROUNDS + SLOW_ROUNDS + THROUGHPUT_ROUNDS * THROUGHPUT_CALLS,
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
        status = measure_slowly(stage, &timing, err);
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
