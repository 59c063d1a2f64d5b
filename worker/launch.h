/*
 * launch.h — the programs that run one job: pkb-judge, a pkb-rank for each rank in a sandbox that
 * they share and, for the simulator, pkb-simd in one of its own, with the sockets between them.
 */
#pragma once

#include "common/job.h"
#include "worker/box.h"
#include "worker/capture.h"
#include "worker/channel.h"
#include "worker/sandbox.h"

struct launch_options {
    const struct sandbox_node *node;
    int slot;
    int library;                        /* the submission's, a sealed memory file */
    const struct cgroup_limits *limits; /* of all ranks together; NULL: the policy's */
    struct job_body job;
    uint64_t schedule_seed;
    uint64_t fuel; /* thread-instructions of the whole job */
};

/* Program numbers in the box: the judge is 0, rank r is 1 + r, the simulator the last. */
enum { LAUNCH_JUDGE = 0, LAUNCH_RANK_0 = 1 };

struct launch {
    struct box *box;
    struct sandbox *judge_sandbox, *ranks_sandbox, *simd_sandbox;
    int world;
    int judge;                         /* socket to the judge */
    int report;                        /* end of the pipe from pkb-simd: lines of JSON; -1: none */
    struct capture outputs[WORLD_MAX]; /* of the ranks */
    struct capture own;                /* of our programs */
};

/* Starts everything and sends the job. ERR_UNAVAILABLE: no such device here. */
enum status launch_start(struct launch *launch, const struct launch_options *options,
                         struct error *err);
void launch_release(struct launch *launch); /* kills what still runs */
