/*
 * baseline.h — the times of the tasks' baselines on this node, kept on disk for a day.
 *
 * One file for each task, world, dtype, device kind and text of the baseline. What was measured
 * with another GPU, driver, CUDA or NCCL, or at other clocks, or too long ago, is not there.
 */
#pragma once

#include "common/job.h"
#include "common/result.h"
#include "tasks/task.h"

#include <time.h>

enum { BASELINE_AGE_MAX_S = 24 * 3600 };

struct baseline_key {
    const char *directory; /* made where it is missing */
    const struct task *task;
    int world;
    enum dtype dtype;
    enum device_kind device;
};

/* ERR_NOT_FOUND: none that holds for `gpu` at `now`. `result` is the caller's to release. */
enum status baseline_load(const struct baseline_key *key, const struct gpu *gpu, time_t now,
                          struct result *result, struct error *err);
/* What baseline_load gets from now on. ERR_DENIED: the directory is somebody else's. */
enum status baseline_store(const struct baseline_key *key, const struct result *result,
                           struct error *err);
