/* options.h — the command line of pkb-worker. */
#pragma once

#include "worker/agent.h"
#include "worker/once.h"
#include "worker/staging.h"

struct options {
    struct agent_options agent;
    struct once_options once;
    const char *token_file, *task, *work_dir, *bin_dir, *replay_file, *baselines, *rates;
    const char *builds;
    struct replay replay;
    const char *driver_min, *cuda_min;
    struct sandbox_node node;
    struct staging staging;
    struct devices devices;
    uint64_t disk_free_mib, builds_mib;
    uint64_t world, slots, seed, schedule_seed, schedules, fuel, stall_ms, build_ms, run_ms;
    bool has_seed, no_multicast, is_plain_build, is_timing_shared;
};

/* Fills in what the command line says, and the defaults, but for options->bin_dir, which the caller
 * sets before. --help is answered, and ends this process. ERR_INVALID: wrong usage. */
enum status options_parse(struct options *options, int argc, char **argv, struct error *err);
