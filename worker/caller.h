/*
 * caller.h — the submission as pkb-rank sees it: the library, one run at a time, and the calls.
 *
 * Opened once per process. caller_begin_run, any number of caller_call, caller_end_run, and again.
 * While a function of the submission is on the stack nothing here touches CUDA.
 */
#pragma once

#include "worker/channel.h"
#include "worker/symm.h"

struct caller;

struct caller_options {
    const char *library;
    int judge;
    int rank, world, device;
    cudaStream_t stream;
};

/* Loads the library, whose constructors run now. ERR_INVALID: it cannot be loaded. */
enum status caller_open(struct caller **caller, const struct caller_options *options,
                        struct error *err);

/* Runs pkb_setup where there is one, and waits for what it started. */
enum status caller_begin_run(struct caller *caller, struct symm *symm, const struct run_body *run,
                             struct progress_body *ready, struct error *err);
/* Makes the calls and tells the judge of each step. */
enum status caller_calls(struct caller *caller, const struct calls_body *calls, struct error *err);
/* Makes one call, and records `done` on the stream behind it. */
enum status caller_call(struct caller *caller, int call, int slot, cudaEvent_t done,
                        struct error *err);
/* Is the device of this process simulated? */
bool caller_is_simulated(void);
/* A pause of whoever polls the stream since `since_ms`: none at first, so that ends are seen at
 * once, and none on a simulator, which has to be polled. */
void caller_pause(int64_t since_ms);
/* Waits for the device, runs pkb_teardown where there is one, frees symmetric memory. */
void caller_end_run(struct caller *caller, struct symm *symm, struct progress_body *ended);
