/*
 * running.h — the programs of one job, from their start until all of them are gone.
 *
 * Takes in what they say and write, watches over the deadlines, and stops everything once the job
 * is decided. `done` is called once, when no process is left; running_finish then gives the
 * verdict.
 */
#pragma once

#include "common/result.h"
#include "worker/launch.h"

struct running;

struct running_limits {
    int64_t run_ms;   /* for everything */
    int64_t stall_ms; /* without any progress */
};

enum status running_start(struct running **running, const struct launch_options *options,
                          const struct running_limits *limits, void (*done)(void *context),
                          void *context, struct error *err);
/* Has the ranks' own start ended? */
bool running_is_checking(const struct running *running);
/* Is a case being timed? */
bool running_is_timing(const struct running *running);
/* Kills everything; `done` is still called. */
void running_stop(struct running *running);
/* Fills in verdict, evidence and run_log. */
void running_finish(const struct running *running, struct result *result);
void running_close(struct running *running);
