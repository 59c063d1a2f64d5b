/*
 * Values get slots by linear scan over live ranges. A range is the hull of where the value is live,
 * found per value by walking back from its uses over basic blocks; where that would cost too much
 * (all kernels of an image share what may be spent) a value is taken to be live everywhere. A
 * guarded definition does not end what was before.
 */
#include "sim/ptx_flow.h"

#include "common/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct range {
    uint32_t first, last; /* insns; first > last: not used */
};

/* One place where a value is read or written. */
struct mention {
    uint32_t insn;
    bool is_read, is_write; /* of a guarded write is_read too */
};

struct liveness {
    struct lowering *lowering;
    struct flow flow;
    struct range *ranges;
    struct mention *mentions; /* those of value v: from starts[v] to starts[v + 1], by insn */
    uint32_t *starts;
    uint32_t *work;
    uint32_t work_capacity;
};

static uint32_t arg_count(const struct insn *insn)
{
    return (uint32_t)insn->dst_count + insn->src_count;
}

static void count_mention(struct liveness *live, int32_t value, uint32_t insn, bool is_read,
                          bool is_write, bool is_counting)
{
    if (value <= 0) {
        return; /* a constant, or the predicate that is always true */
    }
    if (!is_counting) {
        live->mentions[live->starts[value]] = (struct mention){insn, is_read, is_write};
    }
    live->starts[value]++;
}

static void each_mention(struct liveness *live, bool is_counting)
{
    const struct lowering *lowering = live->lowering;

    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        const struct insn *insn = &lowering->insns[i];
        const int32_t *args = lowering->args + lowering->arg_starts[i];
        bool is_guarded = lowering->guards[i] != 0;
        count_mention(live, (int32_t)lowering->guards[i], i, true, false, is_counting);
        for (uint32_t arg = insn->dst_count; arg < arg_count(insn); arg++) {
            count_mention(live, args[arg], i, true, false, is_counting);
        }
        for (uint32_t arg = 0; arg < insn->dst_count; arg++) {
            count_mention(live, args[arg], i, is_guarded, true, is_counting);
        }
    }
}

/* Sorts the mentions by value: first counts, then places; starts[v] is v's first afterwards. */
static void collect_mentions(struct liveness *live)
{
    uint32_t count = live->lowering->value_count;
    uint32_t total = 0;

    live->starts = xcalloc(count + 1, sizeof *live->starts);
    each_mention(live, true);
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t mentions = live->starts[i];
        live->starts[i] = total;
        total += mentions;
    }
    live->mentions = xmalloc(total * sizeof *live->mentions);
    each_mention(live, false);
    memmove(live->starts + 1, live->starts, count * sizeof *live->starts);
    live->starts[0] = 0;
}

static void extend(struct range *range, uint32_t from, uint32_t to)
{
    range->first = from < range->first ? from : range->first;
    range->last = to > range->last ? to : range->last;
}

static void push_predecessors(struct liveness *live, const struct block *block, uint32_t *count)
{
    for (uint32_t i = 0; i < block->predecessor_count; i++) {
        ptx_grow(&live->work, &live->work_capacity, *count, sizeof *live->work);
        live->work[(*count)++] = block->predecessors[i];
    }
}

/* False once that many steps were not left. */
static bool spend(struct lowering *lowering, uint32_t steps)
{
    bool is_left = lowering->steps_left > steps;

    lowering->steps_left = is_left ? lowering->steps_left - steps : 0;
    return is_left;
}

/* The last mention of `value` in the block that is a full definition, or PTX_NONE. */
static uint32_t last_definition(const struct liveness *live, uint32_t value,
                                const struct block *block)
{
    uint32_t low = live->starts[value], high = live->starts[value + 1];

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (live->mentions[middle].insn < block->end) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low > live->starts[value] && live->mentions[low - 1].insn >= block->first &&
           spend(live->lowering, 1)) {
        const struct mention *mention = &live->mentions[--low];
        if (mention->is_write && !mention->is_read) {
            return mention->insn;
        }
    }
    return PTX_NONE;
}

/* The value is live at the start of this block: so it is at the end of those before it. */
static void flow_back(struct liveness *live, uint32_t value, struct block *block)
{
    const struct range everywhere = {0, live->lowering->insn_count - 1};
    struct range *range = &live->ranges[value];
    uint32_t count = 0;

    if (block->mark == value + 1) {
        return;
    }
    block->mark = value + 1;
    if (!spend(live->lowering, block->predecessor_count)) {
        *range = everywhere;
        return;
    }
    push_predecessors(live, block, &count);
    while (count > 0) {
        struct block *before = &live->flow.blocks[live->work[--count]];
        uint32_t definition = last_definition(live, value, before);
        if (!spend(live->lowering, 1 + before->predecessor_count)) {
            *range = everywhere;
            return;
        }
        if (definition != PTX_NONE) {
            extend(range, definition, before->end - 1);
            continue;
        }
        extend(range, before->first, before->end - 1);
        if (before->mark != value + 1) {
            before->mark = value + 1;
            push_predecessors(live, before, &count);
        }
    }
}

static void find_range(struct liveness *live, uint32_t value)
{
    struct range *range = &live->ranges[value];
    uint32_t start = live->starts[value], end = live->starts[value + 1];
    uint32_t defined_in = PTX_NONE; /* block of the latest full definition seen */

    *range = (struct range){PTX_NONE, 0};
    for (uint32_t i = start; i < end; i++) {
        const struct mention *mention = &live->mentions[i];
        uint32_t block = live->flow.block_of[mention->insn];
        extend(range, mention->insn, mention->insn);
        if (mention->is_read && defined_in != block) {
            extend(range, live->flow.blocks[block].first, mention->insn);
            flow_back(live, value, &live->flow.blocks[block]);
            if (block == 0) {
                range->first = 0;
            }
        }
        if (mention->is_write && !mention->is_read) {
            defined_in = block;
        }
    }
}

/* Values by where their ranges start. */
static uint32_t *sort_by_start(const struct liveness *live, uint32_t *count)
{
    const struct lowering *lowering = live->lowering;
    uint32_t *heads = xcalloc(lowering->insn_count + 1, sizeof *heads);
    uint32_t *sorted = xmalloc(lowering->value_count * sizeof *sorted);
    uint32_t total = 0;

    for (uint32_t value = 1; value < lowering->value_count; value++) {
        if (live->ranges[value].first != PTX_NONE) {
            heads[live->ranges[value].first]++;
        }
    }
    for (uint32_t i = 0; i <= lowering->insn_count; i++) {
        uint32_t values = heads[i];
        heads[i] = total;
        total += values;
    }
    for (uint32_t value = 1; value < lowering->value_count; value++) {
        if (live->ranges[value].first != PTX_NONE) {
            sorted[heads[live->ranges[value].first]++] = value;
        }
    }
    free(heads);
    *count = total;
    return sorted;
}

/* Units of one kind: which are free, and when the others become so. */
struct pool {
    uint32_t *free;
    uint32_t free_count, free_capacity;
    uint32_t count;
};

struct expiry {
    uint32_t unit, next; /* of those that end at one insn */
};

/* Numbers units per kind; units[v] is v's. A unit is free again behind the range's last insn. */
static void scan(const struct liveness *live, uint32_t *units, uint32_t *counts)
{
    const struct lowering *lowering = live->lowering;
    struct pool pools[VALUE_KINDS] = {0};
    uint32_t count;
    uint32_t *sorted = sort_by_start(live, &count);
    uint32_t *ends = xmalloc((lowering->insn_count + 1) * sizeof *ends); /* heads of lists */
    uint32_t *next_end = xmalloc(lowering->value_count * sizeof *next_end);
    uint32_t done = 0;

    memset(ends, 0xff, (lowering->insn_count + 1) * sizeof *ends);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = sorted[i];
        struct pool *pool = &pools[lowering->kinds[value]];
        for (; done < live->ranges[value].first; done++) {
            for (uint32_t ended = ends[done]; ended != PTX_NONE; ended = next_end[ended]) {
                struct pool *home = &pools[lowering->kinds[ended]];
                ptx_grow(&home->free, &home->free_capacity, home->free_count, sizeof *home->free);
                home->free[home->free_count++] = units[ended];
            }
        }
        units[value] = pool->free_count > 0 ? pool->free[--pool->free_count] : pool->count++;
        next_end[value] = ends[live->ranges[value].last];
        ends[live->ranges[value].last] = value;
    }
    for (int kind = 0; kind < VALUE_KINDS; kind++) {
        counts[kind] = pools[kind].count;
        free(pools[kind].free);
    }
    free(next_end);
    free(ends);
    free(sorted);
}

/* Slots of one size follow those of another, the largest first, so that all are aligned. */
static int32_t slot_of(uint8_t kind, uint32_t unit, const uint32_t *counts)
{
    switch (kind) {
    case VALUE_PREDICATE:
        return (int32_t)unit + 1;
    case VALUE_128:
        return (int32_t)(unit * 4);
    case VALUE_64:
        return (int32_t)(counts[VALUE_128] * 4 + unit * 2);
    default:
        return (int32_t)(counts[VALUE_128] * 4 + counts[VALUE_64] * 2 + unit);
    }
}

static void rewrite(struct lowering *lowering, const uint32_t *units, const uint32_t *counts)
{
    for (uint32_t i = 0; i < lowering->arg_count; i++) {
        int32_t value = lowering->args[i];
        if (value > 0) {
            lowering->args[i] = slot_of(lowering->kinds[value], units[value], counts);
        }
    }
    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        uint32_t guard = lowering->guards[i];
        lowering->insns[i].guard =
            guard == 0 ? -1 : (int16_t)slot_of(VALUE_PREDICATE, units[guard], counts);
    }
}

void slots_assign(struct lowering *lowering)
{
    struct liveness live = {.lowering = lowering};
    uint32_t *units = xcalloc(lowering->value_count, sizeof *units);
    uint32_t counts[VALUE_KINDS];
    uint64_t slots;

    flow_init(&live.flow, lowering);
    collect_mentions(&live);
    live.ranges = xmalloc(lowering->value_count * sizeof *live.ranges);
    for (uint32_t value = 0; value < lowering->value_count; value++) {
        find_range(&live, value);
    }
    scan(&live, units, counts);
    slots = (uint64_t)counts[VALUE_128] * 4 + (uint64_t)counts[VALUE_64] * 2 + counts[VALUE_32];
    if (slots > CODE_SLOTS_MAX || counts[VALUE_PREDICATE] + 1 > CODE_PREDICATES_MAX) {
        lowering->is_full = true;
    } else {
        lowering->kernel->slot_count = (uint32_t)slots;
        lowering->kernel->predicate_count = counts[VALUE_PREDICATE] + 1;
        rewrite(lowering, units, counts);
    }
    flow_release(&live.flow);
    free(live.ranges);
    free(live.mentions);
    free(live.starts);
    free(live.work);
    free(units);
}
