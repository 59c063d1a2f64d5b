/*
 * arena.h — device memory at a fixed address that other processes can map: the driver's virtual
 * memory calls, for the judge, who makes and owns all of it, and for the ranks, who import it.
 *
 * Starts as {0}. The primary context of the process exists before the first call.
 */
#pragma once

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

struct arena {
    uint64_t address;
    uint64_t size_bytes; /* whole granules */
    uint64_t handle;
    int fd; /* of arena_make: to send to others; closed by arena_release */
    bool is_open;
};

struct arena_place {
    uint64_t address;
    uint64_t size_bytes;
    int first_device, device_count; /* that may access it */
    bool is_read_only;
};

/* The GPU of a rank: its own where there are as many, else shared in turn. */
int arena_device(int rank);
/* How many GPUs `world` ranks have. */
int arena_device_count(int world);
/* Rounds up to whole granules of `device`. */
enum status arena_round(uint64_t *size_bytes, int device, struct error *err);
/* Allocates on `device` and maps; the size is whole granules already. ERR_LIMIT: no memory left. */
enum status arena_make(struct arena *arena, int device, const struct arena_place *place,
                       struct error *err);
/* Maps what another process made; `fd` stays the caller's. */
enum status arena_import(struct arena *arena, int fd, const struct arena_place *place,
                         struct error *err);
void arena_release(struct arena *arena);

/* Says which driver call failed with which CUresult. ERR_LIMIT: no memory left; else ERR_IO. */
enum status arena_failed(struct error *err, int result, const char *call);
