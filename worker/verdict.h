/*
 * verdict.h — one result from what the judge said, what the device reported, how the processes
 * ended, and what the worker itself saw.
 *
 * A cause beats its symptoms: a crash or a fault of the device explains the errors that follow it.
 * Nothing that goes into verdict, message or rows depends on time or process numbers.
 */
#pragma once

#include "common/result.h"
#include "worker/channel.h"

#include <stdbool.h>

/* Why the worker ended the job itself. */
enum stop_cause {
    STOP_NONE,
    STOP_LOG,       /* a rank wrote too much */
    STOP_MEMORY,    /* the ranks use more of the node's than they may */
    STOP_PROCESSES, /* they want more processes and threads than they may have */
    STOP_DISK,      /* they have filled what they may write to */
    STOP_HOST_BUSY, /* nothing happens, and a rank's host code uses the CPU */
    STOP_WAITING,   /* nothing happens, and everybody waits */
    STOP_WALL,      /* the whole job takes too long */
};

struct ending {
    bool has_ended; /* by itself, before the worker stopped the job */
    int wait_status;
};

struct evidence {
    int world;
    const struct result *judge;      /* NULL: no report */
    const struct result *device;     /* the first trouble that the simulator reported, or NULL */
    const struct result *device_end; /* its last line: traffic and findings, or NULL */
    bool crashed_first;              /* a rank ended before the device reported anything */
    struct ending rank[WORLD_MAX], judge_ending, device_ending;
    bool is_keeper_lost; /* all processes are gone, and the worker had not stopped them */
    enum stop_cause stop;
    int stop_rank;             /* STOP_LOG, STOP_HOST_BUSY */
    struct status_body status; /* the last that the judge said */
};

/* Fills in all but logs and times of `result`, which starts as {.rank = -1}. */
void verdict_decide(const struct evidence *evidence, struct result *result);
