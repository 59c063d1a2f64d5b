/*
 * evaluation.h — one job from its source to its result: build, start, check, verdict.
 *
 * Runs on the loop. `done` is called exactly once, after every process of the job is gone; then
 * evaluation_result has the result, until evaluation_close. evaluation_stop kills a job; its result
 * is then of no use, and `done` is still called.
 */
#pragma once

#include "common/job.h"
#include "common/result.h"
#include "tasks/task.h"
#include "worker/sandbox.h"
#include "worker/slot.h"

#include <stdbool.h>

struct evaluation;

/* Of the node, the same for all jobs; lives longer than they do. */
struct evaluation_settings {
    const struct sandbox_node *node;
    bool is_timing_shared;        /* builds go on while a job is timed */
    bool is_plain_build;          /* by nvcc itself, and everything is built */
    bool no_multicast;            /* even where the devices have it */
    uint64_t schedule_seed, fuel; /* of the first schedule; of each */
    int schedules;                /* to try on the simulator */
    int64_t build_ms, run_ms;     /* at most */
    int64_t stall_ms;             /* so long may nothing happen */
    const char *baselines;        /* the directory that keeps their times */
    const struct store *builds;   /* what was built before; NULL: everything is built */
    const struct roofline *roofline;
};

struct evaluation_job {
    const struct task *task;
    int world;
    enum dtype dtype;
    enum device_kind device;
    uint64_t seed;
    bool is_bench;      /* times the cases "bench", too, and then the baseline; hardware only */
    bool is_baseline;   /* with is_bench: it is the baseline */
    const char *source; /* borrowed until `done` */
    size_t source_bytes;
    void (*done)(void *context);
    void *context;
};

/* ERR_UNAVAILABLE: this worker has no device of that kind. ERR_IO: the build could not start. */
enum status evaluation_start(struct evaluation **evaluation,
                             const struct evaluation_settings *settings,
                             const struct evaluation_job *job, struct error *err);
enum job_stage evaluation_stage(const struct evaluation *evaluation);
void evaluation_stop(struct evaluation *evaluation);
const struct result *evaluation_result(const struct evaluation *evaluation);
/* Its place on this machine, until evaluation_close. */
const struct slot_lease *evaluation_slot(const struct evaluation *evaluation);
/* Only after `done`, or inside it. NULL: nothing. */
void evaluation_close(struct evaluation *evaluation);
