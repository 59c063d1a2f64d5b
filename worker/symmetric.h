/*
 * symmetric.h — one allocation of symmetric memory as the judge makes it: as much on every rank's
 * GPU, at the same offset in every window and, where there is multicast, one object over all.
 *
 * Starts as {0}; symmetric_make, then symmetric_release. The ranks map it by its descriptors.
 */
#pragma once

#include "common/job.h"
#include "worker/multicast.h"

struct symmetric {
    struct arena arenas[WORLD_MAX];
    struct multicast multicast; /* not open: there is none */
};

struct symmetric_place {
    uint64_t offset, size_bytes; /* in every window */
    int world;
    bool has_multicast;
};

/* Rounds up the offset and the size. Bytes are not cleared. ERR_LIMIT: no memory left. */
enum status symmetric_round(struct symmetric_place *place, struct error *err);
enum status symmetric_make(struct symmetric *symmetric, const struct symmetric_place *place,
                           struct error *err);
enum { SYMMETRIC_FDS_MAX = WORLD_MAX + 1 };
/* Those of ranks 0..world-1, then that of the multicast object where there is one; how many. */
int symmetric_fds(const struct symmetric *symmetric, int fds[static SYMMETRIC_FDS_MAX]);
void symmetric_release(struct symmetric *symmetric);
