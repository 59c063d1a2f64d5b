/*
 * standstill.h — when nothing has been told for too long: does anybody work, or do all wait?
 *
 * Starts as {0}, and is that again after whatever was told. standstill_look is asked repeatedly,
 * until it gives a cause. On GPUs, a rank that loads or sets up has more time than others to be
 * busy: the libraries it uses bring hundreds of megabytes of kernels, and tell nobody when.
 */
#pragma once

#include "worker/box.h"
#include "worker/verdict.h"

#include <stdint.h>

enum {
    STANDSTILL_SAMPLE_MS = 1000, /* over which activity is measured */
    STANDSTILL_SETUP_MS = 30000, /* of host code at work before it is a loop without end */
};

struct standstill {
    int64_t at_ms; /* 0: not measured yet */
    int64_t active_ns[BOX_PROGRAMS_MAX];
};

struct standstill_look {
    int64_t now_ms;
    int64_t quiet_ms;  /* so long ago was something told */
    const pid_t *pids; /* BOX_PROGRAMS_MAX: judge, ranks and simulator; 0: not running */
    const struct evidence *evidence;
};

/* STOP_NONE: look again. STOP_HOST_BUSY: *rank has a loop on the host. STOP_WAITING: everybody
 * waits. */
enum stop_cause standstill_look(struct standstill *standstill, const struct standstill_look *look,
                                int *rank);
