/*
 * cuda_memory.h — what this process knows of its own addresses, and copies in every direction.
 *
 * Device memory is what simd gave (private) and what was reserved; pinned memory is the host's and
 * the device's. The tables are shared by threads and guarded by a lock.
 */
#pragma once

#include "sim/cuda_link.h"

enum range_kind { RANGE_RESERVED, RANGE_PINNED, RANGE_REGISTERED, RANGE_MANAGED };
struct range {
    uint64_t address, size_bytes;  /* as the caller gave them */
    uint64_t mapped, mapped_bytes; /* whole pages */
    enum range_kind kind;
    unsigned int flags;
};

/* False where the table cannot grow. */
bool range_add(const struct range *range);
/* The range that holds `address`, copied; false where there is none. */
bool range_find(uint64_t address, struct range *range);
void range_remove(uint64_t address);

enum memory_kind { MEMORY_HOST, MEMORY_PINNED, MEMORY_DEVICE };
enum memory_kind memory_kind(const void *address);

/* A copy of `depth` planes (0: one) of `height` rows between any two places; `to` and `from` may be
 * of the host or the device. Stream ids as in wire.h. */
struct copy {
    void *to;
    const void *from;
    size_t to_pitch_bytes, from_pitch_bytes;
    size_t width_bytes, height;
    size_t depth, to_plane_bytes, from_plane_bytes;
    uint64_t stream;
    bool is_async;
};
/* The copy that the parameters of a node or call describe. */
CUresult copy_from_3d(const CUDA_MEMCPY3D *params, struct copy *copy);
/* Does it, or adds it to the graph that the stream captures. */
CUresult copy_queue(const struct copy *copy);
/* Does it. */
CUresult copy_run(const struct copy *copy);

/* The id of a stream handle; the per-thread stream is made on first use. */
CUresult stream_id(CUstream stream, uint64_t *id);
/* Whether it takes part in the order of the legacy stream. */
bool stream_is_blocking(uint64_t id);
