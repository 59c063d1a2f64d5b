/*
 * layout.h — where device memory lies: the same addresses in the judge and in every rank, on
 * hardware and in the simulator.
 *
 * Rank r's window starts at WINDOW_BASE + r * WINDOW_STRIDE, so a peer's copy of a tensor is a
 * stride away. Inside a window lie the inputs, then the outputs, then symmetric memory with the
 * signal pad first. One window more, after the last rank's, has the multicast memory: all ranks'
 * symmetric memory at once, at the same offset.
 */
#pragma once

#include "common/job.h"

#include <stdint.h>

#define WINDOW_BASE UINT64_C(0x200000000000)
#define WINDOW_STRIDE (UINT64_C(1) << 38)
enum { WINDOW_MULTICAST = WORLD_MAX, WINDOW_COUNT };
#define WINDOW_INPUTS UINT64_C(0)
#define WINDOW_OUTPUTS (UINT64_C(1) << 36)
#define WINDOW_SYMM (UINT64_C(1) << 37)
#define WINDOW_SYMM_BYTES (UINT64_C(1) << 37)
/* cudaMalloc of the simulator; on hardware the driver chooses. */
#define PRIVATE_BASE UINT64_C(0x300000000000)

/* Unmapped space between two allocations of symmetric memory. */
#define SYMM_GAP_BYTES (UINT64_C(1) << 21)

static inline uint64_t window_address(int rank, uint64_t offset)
{
    return WINDOW_BASE + (uint64_t)rank * WINDOW_STRIDE + offset;
}
