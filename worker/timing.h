/*
 * timing.h — the times of one case: many calls, each with inputs of its own that are revealed to
 * all ranks at once, each judged like a call of the check stage.
 *
 * Between pkb_setup and pkb_teardown of a run whose calls were right. Rounds without the
 * submission's calls say what the judge's clock shows for nothing; the ranked time of a call is the
 * larger of what the ranks' events say and of what the judge's clock shows beyond that.
 */
#pragma once

#include "common/result.h"
#include "worker/report.h"
#include "worker/rounds.h"

struct timing_options {
    struct peers *peers;
    struct rounds *rounds;
    const struct place *place; /* the run */
    const struct layouts *layouts;
    int passes;        /* of the ranked times: the middle one counts */
    uint64_t seed;     /* of this run's times; secret */
    bool is_shared;    /* ranks share GPUs: times are shown, and mean nothing */
    int64_t budget_ms; /* after which no more is measured than what is needed least */
};

/* Adds the row, and the flags "noisy" or what the verdict is; sets *is_decided where the job is
 * over: then `result` has the verdict, but for ranks that have failed (peers_failed) and for ranks
 * that do not move, of which *is_stalled tells. */
struct timing_end {
    bool is_decided, has_failed, has_stalled;
};
enum status timing_run(const struct timing_options *options, struct result *result,
                       struct timing_end *end, struct error *err);
