#include "sim/ptx_flow.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

static bool ends_block(const struct insn *insn)
{
    return insn->op == OP_BRA || insn->op == OP_BRX || insn->op == OP_EXIT || insn->op == OP_TRAP;
}

uint32_t flow_target_count(const struct insn *insn)
{
    return insn->op == OP_BRA ? 1 : insn->op == OP_BRX ? (uint32_t)insn->imm : 0;
}

uint32_t flow_target(const struct lowering *lowering, const struct insn *insn, uint32_t index)
{
    return insn->op == OP_BRA ? insn->target : lowering->targets[insn->target + index];
}

static void add_edge(struct flow *flow, uint32_t from, uint32_t to_insn)
{
    struct block *to;

    if (to_insn >= flow->lowering->insn_count) {
        return;
    }
    to = &flow->blocks[flow->block_of[to_insn]];
    ptx_grow(&to->predecessors, &to->predecessor_capacity, to->predecessor_count,
             sizeof *to->predecessors);
    to->predecessors[to->predecessor_count++] = from;
}

static void find_blocks(struct flow *flow)
{
    const struct lowering *lowering = flow->lowering;
    bool *starts = xcalloc(lowering->insn_count + 1, 1);

    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        const struct insn *insn = &lowering->insns[i];
        for (uint32_t target = 0; target < flow_target_count(insn); target++) {
            starts[flow_target(lowering, insn, target)] = true;
        }
        starts[i + 1] |= ends_block(insn);
    }
    flow->blocks = xcalloc(lowering->insn_count, sizeof *flow->blocks);
    flow->block_of = xmalloc(lowering->insn_count * sizeof *flow->block_of);
    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        if (i == 0 || starts[i]) {
            flow->blocks[flow->block_count++].first = i;
        }
        flow->block_of[i] = flow->block_count - 1;
        flow->blocks[flow->block_count - 1].end = i + 1;
    }
    free(starts);
    for (uint32_t i = 0; i < flow->block_count; i++) {
        uint32_t last = flow->blocks[i].end - 1;
        const struct insn *insn = &lowering->insns[last];
        bool is_jump = ends_block(insn) && lowering->guards[last] == 0;
        for (uint32_t target = 0; target < flow_target_count(insn); target++) {
            add_edge(flow, i, flow_target(lowering, insn, target));
        }
        if (!is_jump) {
            add_edge(flow, i, last + 1);
        }
    }
}

void flow_init(struct flow *flow, struct lowering *lowering)
{
    *flow = (struct flow){.lowering = lowering};
    find_blocks(flow);
}

void flow_release(struct flow *flow)
{
    for (uint32_t i = 0; i < flow->block_count; i++) {
        free(flow->blocks[i].predecessors);
    }
    free(flow->blocks);
    free(flow->block_of);
    free(flow->dominator);
    free(flow->depth);
}

/* The blocks that follow this one: those it branches to, then the next if it can fall into it. */
static uint32_t successor(const struct flow *flow, uint32_t block, uint32_t index)
{
    const struct lowering *lowering = flow->lowering;
    uint32_t last = flow->blocks[block].end - 1;
    const struct insn *insn = &lowering->insns[last];
    uint32_t targets = flow_target_count(insn);
    uint32_t next = PTX_NONE;

    if (index < targets) {
        next = flow_target(lowering, insn, index);
    } else if (index == targets && (!ends_block(insn) || lowering->guards[last] != 0)) {
        next = last + 1;
    }
    return next < lowering->insn_count ? flow->block_of[next] : PTX_NONE;
}

/* Blocks so that each comes before those it leads to, but for loops: places[b] is b's number from
 * the end. Returns how many can be reached. */
static uint32_t sort_blocks(struct flow *flow, uint32_t *sorted, uint32_t *places)
{
    uint32_t *stack = xmalloc(flow->block_count * sizeof *stack);
    uint32_t *at = xcalloc(flow->block_count, sizeof *at); /* successors looked at */
    uint32_t depth = 0, count = 0;

    memset(places, 0xff, flow->block_count * sizeof *places);
    stack[depth++] = 0;
    flow->blocks[0].mark = 1;
    while (depth > 0) {
        uint32_t block = stack[depth - 1];
        const struct insn *insn = &flow->lowering->insns[flow->blocks[block].end - 1];
        if (at[block] > flow_target_count(insn)) {
            places[block] = count;
            sorted[count++] = block;
            depth--;
            continue;
        }
        uint32_t next = successor(flow, block, at[block]++);
        if (next != PTX_NONE && flow->blocks[next].mark == 0) {
            flow->blocks[next].mark = 1;
            stack[depth++] = next;
        }
    }
    free(stack);
    free(at);
    return count;
}

static uint32_t meet(const struct flow *flow, const uint32_t *places, uint32_t a, uint32_t b)
{
    while (a != b && flow->lowering->steps_left > 0) {
        uint32_t *lower = places[a] < places[b] ? &a : &b;
        *lower = flow->dominator[*lower];
        flow->lowering->steps_left--;
    }
    return a;
}

static uint32_t find_dominator(const struct flow *flow, const uint32_t *places, uint32_t block)
{
    const struct block *it = &flow->blocks[block];
    uint32_t found = PTX_NONE;

    for (uint32_t i = 0; i < it->predecessor_count; i++) {
        uint32_t before = it->predecessors[i];
        if (flow->dominator[before] != PTX_NONE) {
            found = found == PTX_NONE ? before : meet(flow, places, before, found);
        }
    }
    return found;
}

/* Cooper, Harvey and Kennedy: repeat until nothing changes; two turns do for ordinary code. */
void flow_dominators(struct flow *flow)
{
    uint32_t *sorted = xmalloc(flow->block_count * sizeof *sorted);
    uint32_t *places = xmalloc(flow->block_count * sizeof *places);
    uint32_t count = sort_blocks(flow, sorted, places);
    bool is_changed = true;

    flow->dominator = xmalloc(flow->block_count * sizeof *flow->dominator);
    flow->depth = xcalloc(flow->block_count, sizeof *flow->depth);
    memset(flow->dominator, 0xff, flow->block_count * sizeof *flow->dominator);
    flow->dominator[0] = 0;
    while (is_changed) {
        is_changed = false;
        for (uint32_t i = count - 1; i-- > 0;) {
            uint32_t found = find_dominator(flow, places, sorted[i]);
            is_changed |= found != flow->dominator[sorted[i]];
            flow->dominator[sorted[i]] = found;
        }
        if (flow->lowering->steps_left == 0) {
            /* Not worth more: nothing dominates anything. */
            memset(flow->dominator, 0xff, flow->block_count * sizeof *flow->dominator);
            break;
        }
    }
    for (uint32_t i = count - 1; i-- > 0;) {
        if (flow->dominator[sorted[i]] != PTX_NONE) {
            flow->depth[sorted[i]] = flow->depth[flow->dominator[sorted[i]]] + 1;
        }
    }
    free(sorted);
    free(places);
}

bool flow_dominates(const struct flow *flow, uint32_t first, uint32_t second)
{
    uint32_t above = flow->block_of[first];
    uint32_t below = flow->block_of[second];

    if (above == below) {
        return first < second;
    }
    if (flow->dominator[above] == PTX_NONE || flow->dominator[below] == PTX_NONE) {
        return false;
    }
    while (flow->depth[below] > flow->depth[above] && flow->lowering->steps_left > 0) {
        below = flow->dominator[below];
        flow->lowering->steps_left--;
    }
    return above == below;
}
