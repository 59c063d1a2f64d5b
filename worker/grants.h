/*
 * grants.h — the symmetric memory of a run: pkb_symm_alloc as the judge serves it.
 *
 * Starts as {0}; grants_begin before the ranks' pkb_setup, grants_release after the run, then the
 * next run may begin. An allocation is collective: all ranks ask for the same size, or whoever asks
 * is refused, and `refusal` says why.
 */
#pragma once

#include "worker/report.h"
#include "worker/symmetric.h"

enum { SYMM_ALLOCATIONS_MAX = 64 };

struct grants {
    struct symmetric allocations[SYMM_ALLOCATIONS_MAX];
    int count;
    uint64_t next; /* offset in every window */
    bool has_multicast;
    enum symm_refusal refusal;
};

/* The signal pads lie in front of everything else. */
void grants_begin(struct grants *grants, uint64_t signal_bytes, bool has_multicast);
/* Answers those that ask, once it is clear what the others do. */
void grants_serve(struct grants *grants, struct peers *peers);
void grants_release(struct grants *grants);
