/*
 * standstill.h — when nothing has been told for too long: does anybody work, or do all wait?
 *
 * Starts as {0}, and is that again after whatever was told. standstill_look is asked repeatedly,
 * until it gives a cause.
 */
#pragma once

#include "worker/box.h"
#include "worker/verdict.h"

#include <stdint.h>

enum { STANDSTILL_SAMPLE_MS = 1000 }; /* over which activity is measured */

struct standstill {
    int64_t at_ms; /* 0: not measured yet */
    int64_t active_ns[BOX_PROGRAMS_MAX];
};

/* STOP_NONE: look again. STOP_HOST_BUSY: *rank has a loop on the host. STOP_WAITING: everybody
 * waits. `pids` are those of the judge, the ranks and the simulator; 0: not running. */
enum stop_cause standstill_look(struct standstill *standstill,
                                const pid_t pids[static BOX_PROGRAMS_MAX],
                                const struct evidence *evidence, int *rank);
