/*
 * ptx_flow.h — the basic blocks of a kernel that is being made.
 *
 * flow_init reads the lowering's instructions as they are; after they change it must be made anew.
 */
#pragma once

#include "sim/ptx_lower.h"

struct block {
    uint32_t first, end; /* insns */
    uint32_t *predecessors;
    uint32_t predecessor_count, predecessor_capacity;
    uint32_t mark; /* for whoever walks; 0 at first */
};

struct flow {
    struct lowering *lowering;
    struct block *blocks;
    uint32_t block_count;
    uint32_t *block_of;  /* by insn */
    uint32_t *dominator; /* by block, after flow_dominators: its closest; PTX_NONE: unreachable */
    uint32_t *depth;     /* by block: how many dominate it */
};

void flow_init(struct flow *flow, struct lowering *lowering);
void flow_release(struct flow *flow);

uint32_t flow_target_count(const struct insn *insn);
uint32_t flow_target(const struct lowering *lowering, const struct insn *insn, uint32_t index);

void flow_dominators(struct flow *flow);
/* Every way to insn `second` leads over insn `first`. */
bool flow_dominates(const struct flow *flow, uint32_t first, uint32_t second);
