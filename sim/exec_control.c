/* exec_control.c — branches, ends, barriers, and what only takes time. */
#include "sim/exec.h"
#include "sim/print.h"
#include "sim/schedule.h"

#include <stdlib.h>

static void bra(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    if (mask == warp->active) {
        warp->pc = insn->target;
        if (insn->back_edge || warp->group_count > 1) {
            warp_jumped(warp, insn);
        }
        return;
    }
    warp_split(warp, mask, insn->target);
    if (insn->back_edge && warp->steps >= warp->steps_max) {
        warp_yield(warp);
    }
}

static void brx(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const uint32_t *a = SOURCE(uint32_t, 0);
    const uint32_t *targets = &warp->grid->bound->kernel->targets[insn->target];

    while (mask) {
        int first = __builtin_ctz(mask);
        uint32_t index = a[first];
        uint32_t lanes = 0;
        if (index >= (uint64_t)insn->imm) {
            warp_fault(warp, insn,
                       &(struct fault_place){.kind = FAULT_ILLEGAL_INSTRUCTION,
                                             .lane = first,
                                             .text = "brx.idx beyond its list of targets"});
            return;
        }
        EACH_LANE
        {
            lanes |= (uint32_t)(a[lane] == index) << lane;
        }
        lanes &= mask;
        mask &= ~lanes;
        if (lanes == warp->active) {
            warp->pc = targets[index];
            warp_jumped(warp, insn);
        } else {
            warp_split(warp, lanes, targets[index]);
        }
    }
}

static void exit_kernel(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    (void)insn;
    warp_exit(warp, mask);
}

static void trap(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    warp_fault(warp, insn, &(struct fault_place){.kind = FAULT_TRAP, .lane = __builtin_ctz(mask)});
}

static void nothing(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
}

static void nanosleep(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const uint32_t *a = SOURCE(uint32_t, 0);
    uint32_t longest_ns = a[__builtin_ctz(mask)];

    warp->engine->ticks += longest_ns < 1000000 ? longest_ns : 1000000;
    warp_yield(warp);
}

static void assert_fail(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    int lane = __builtin_ctz(mask);
    char *text = print_assertion(warp, insn, lane);

    warp_fault(warp, insn, &(struct fault_place){.kind = FAULT_ASSERT, .lane = lane, .text = text});
    free(text);
}

/* The id and the count of a barrier, which must be the same on all lanes. False: it faulted. */
static bool read_barrier(struct warp *warp, const struct insn *insn, uint32_t mask,
                         struct arrival *arrival)
{
    int lane = __builtin_ctz(mask);
    bool has_count = insn->src_count > 1 && !(insn->arg_predicate >> (insn->dst_count + 1) & 1);
    uint32_t number = SOURCE(uint32_t, 0)[lane];
    uint32_t expected = has_count ? SOURCE(uint32_t, 1)[lane] : 0;

    if (number >= BARRIERS || expected % WARP_LANES != 0 || (has_count && expected == 0)) {
        warp_fault(
            warp, insn,
            &(struct fault_place){.kind = FAULT_ILLEGAL_INSTRUCTION,
                                  .lane = lane,
                                  .text = "a barrier is 0 to 15, its count a multiple of 32"});
        return false;
    }
    arrival->number = (int)number;
    arrival->expected = expected;
    return true;
}

static void bar(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct arrival arrival = {.waits = true};

    if (read_barrier(warp, insn, mask, &arrival)) {
        barrier_arrive(warp, insn, mask, &arrival);
    }
}

static void bar_arrive(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct arrival arrival = {.waits = false};

    if (read_barrier(warp, insn, mask, &arrival)) {
        barrier_arrive(warp, insn, mask, &arrival);
    }
}

static void print(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const uint64_t *format = SOURCE(uint64_t, 0);
    const uint64_t *arguments = SOURCE(uint64_t, 1);
    int32_t *d = DESTINATION(int32_t, 0);

    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        d[lane] = print_line(warp, lane, format[lane], arguments[lane]);
    }
    proof_changed(warp->engine);
}

static insn_exec *const handlers[OPS] = {
    [OP_BRA] = bra,
    [OP_BRX] = brx,
    [OP_EXIT] = exit_kernel,
    [OP_TRAP] = trap,
    [OP_BRKPT] = trap,
    [OP_NANOSLEEP] = nanosleep,
    [OP_ASSERTFAIL] = assert_fail,
    [OP_VPRINTF] = print,
    [OP_BAR] = bar,
    [OP_BAR_RED] = bar,
    [OP_BARRIER_ARRIVE] = bar_arrive,
    [OP_MEMBAR] = nothing,
    [OP_FENCE] = nothing,
    [OP_FENCE_PROXY] = nothing,
    [OP_GRIDDEPCONTROL] = nothing,
    [OP_NOP] = nothing,
    [OP_PREFETCH] = nothing,
};

insn_exec *find_control(const struct insn *insn)
{
    return has_flags_only(insn, FLAG_UNI | FLAG_ALIGNED | FLAG_ADDR32 | FLAG_SYNC)
               ? handlers[insn->op]
               : NULL;
}
