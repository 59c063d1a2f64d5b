/*
 * schedules.h — the run of a job on the simulator under several schedule seeds, each another
 * interleaving, one after the other until one is not accepted; on hardware one run.
 *
 * `done` is called once, when no process is left; schedules_finish then gives the result: that of
 * the schedule that failed, or that of the first with what only the others found. It names how many
 * were tried, and what repeats the one that it is of.
 */
#pragma once

#include "common/result.h"
#include "worker/running.h"

/* Of pkb-worker and all that it starts. */
#define WORKER_VERSION "0.1"

struct schedules;

enum { SCHEDULES_MAX = 64, SCHEDULES_DEFAULT = 3 };

struct schedules_options {
    struct launch_options launch; /* schedule_seed: the first; the next ones count up from it */
    struct running_limits limits; /* run_ms: for all of them together */
    int count;                    /* 1..SCHEDULES_MAX */
    const char *task;
    const char *source; /* of `source_bytes`; borrowed for the call */
    size_t source_bytes;
};

enum status schedules_start(struct schedules **schedules, const struct schedules_options *options,
                            void (*done)(void *context), void *context, struct error *err);
/* Has the first one's start ended? */
bool schedules_is_checking(const struct schedules *schedules);
/* Is a case being timed? */
bool schedules_is_timing(const struct schedules *schedules);
/* Kills everything; `done` is still called. */
void schedules_stop(struct schedules *schedules);
/* Replaces all of `result` but what its build left there: log, flags, builder, build_ms. */
void schedules_finish(struct schedules *schedules, struct result *result);
void schedules_close(struct schedules *schedules);

/* Whether `source` is what `replay` was made of, and this build what made it. ERR_CONFLICT: not. */
enum status schedules_fit(const struct replay *replay, const char *source, size_t source_bytes,
                          struct error *err);
