/*
 * holdings.h — the runs of a job, and the memory that the judge holds for all of them: inputs,
 * outputs and signal pads of every rank, as large as the largest run needs.
 *
 * Starts as {0}. holdings_open_runs, holdings_make, then holdings_attach sends all of it to ranks
 * that have said hello; holdings_release whatever came of it.
 */
#pragma once

#include "worker/peers.h"
#include "worker/symmetric.h"
#include "worker/tensors.h"

enum { HOLDINGS_RUNS_MAX = 256 };

struct holdings {
    struct run *runs[HOLDINGS_RUNS_MAX]; /* those that are timed come last */
    int run_count, timed_count;
    int world;
    bool has_multicast;
    uint64_t inputs_bytes, outputs_bytes, signal_bytes;
    uint64_t near_bytes; /* of an arena of outputs, at its start: all slots of any run */
    struct arena inputs[WORLD_MAX], outputs[WORLD_MAX];
    struct symmetric signals;
};

/* Every variant of each case "check", and with job->passes of each case "bench". */
enum status holdings_open_runs(struct holdings *holdings, const struct job_body *job,
                               struct error *err);
enum status holdings_make(struct holdings *holdings, struct error *err);
void holdings_attach(const struct holdings *holdings, struct peers *peers);
enum status holdings_clear_signals(const struct holdings *holdings, struct error *err);
void holdings_release(struct holdings *holdings);
