/*
 * confine.h — gives up what pkb-simd needs no more once its descriptors are open.
 *
 * From then on the process may use these descriptors and memory, and nothing else: another system
 * call kills it, and what it holds is bounded. It is done before the first byte of a client or of
 * an image is looked at, and cannot be undone. The sandbox around it is the worker's.
 */
#pragma once

#include "common/error.h"

#include <stdint.h>

struct confinement {
    uint64_t address_bytes;   /* of the whole address space */
    uint64_t descriptors_max; /* or what the hard limit allows */
};

/* After an error nothing may go on. A build for a sanitizer, which needs system calls of its own,
 * is limited in descriptors alone. */
enum status confine(const struct confinement *confinement, struct error *err);
