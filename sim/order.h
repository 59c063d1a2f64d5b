/*
 * order.h — which work of a rank is ordered before which, and work that touches the same bytes
 * without being ordered.
 *
 * Each stream of a rank is a lane; its kernels, copies and sets are numbered. A clock says of every
 * lane up to which number all is done before. lanes.h keeps the clocks by what streams, events and
 * the host do; here they follow what kernels tell each other through memory: a strong store or an
 * atomic passes on all that is ordered before it, and a strong load takes it. That only adds order,
 * so what is reported has none.
 *
 * Of each word of four bytes that checked work touches, the last writer and a reader are
 * remembered, with the bytes of it that they touched. Strong accesses and atomics are no data: they
 * never conflict, but for an atomic with a copy or a set. Nothing is kept or checked before some
 * rank has work that is not ordered.
 */
#pragma once

#include "sim/engine.h"

enum {
    ORDER_LANES = 256,
    ORDER_NAME_MAX = 64,
    ORDER_PAST = 64, /* pieces of work of a lane that are known by name */
    ORDER_NUMBER_MAX = (1 << 20) - 1,
};

struct clock {
    uint32_t done[ORDER_LANES];
};

struct past {
    char what[ORDER_NAME_MAX]; /* "kernel k"; "": a mark that is no work */
    bool is_nccl;
};

/* A stream's lane; lane 0 is none. */
struct lane {
    int rank;
    bool is_open;
    bool is_unjoined; /* and that was reported */
    char stream[ORDER_NAME_MAX];
    uint32_t number; /* of the work queued last */
    struct past past[ORDER_PAST];
};

struct order_state {
    bool is_on;     /* some rank had work that was not ordered */
    bool is_whole;  /* and whatever runs is followed */
    int lane_count; /* those that were ever used, and 1 */
    struct lane lanes[ORDER_LANES];
};
struct order_state *engine_order(struct engine *engine);

/* One piece of work. */
struct work_order {
    struct clock clock; /* what is ordered before it, but for its own lane */
    struct clock *host; /* of its process: what the host's code knows to be done */
    int lane, rank;
    uint32_t number, call;
    bool is_checked; /* its data is looked at */
    /* Tensors are there once this lane has done this; 0: they are. */
    int run_lane;
    uint32_t run_end;
};

void clock_join(const struct order_state *state, struct clock *clock, const struct clock *other);
/* The work that has this number; NULL: it is forgotten, or a mark. */
const struct past *lane_past(const struct lane *lane, uint32_t number);

/* Whether every kernel of a rank that runs is followed: what one passes on that is not would not be
 * seen, so that nothing is checked before. */
bool order_is_whole(struct engine *engine);

/* What a copy, a set or a free touches. */
struct order_range {
    uint64_t address, size_bytes;
    bool is_write;
    const char *what; /* "a copy" */
};
void order_touch(struct space *space, struct work_order *work, const struct order_range *range);
/* A stream wrote a word, or waited for it. */
void order_wrote(struct space *space, struct work_order *work, uint64_t address);
void order_waited(struct space *space, struct work_order *work, uint64_t address);
