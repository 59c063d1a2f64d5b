/* warp.c — the groups of lanes of one warp: splits, waits, yields. */
#include "sim/schedule.h"

#include <assert.h>

/* Back edges with a strong access before a warp rests although what it read has changed. */
enum { EDGES_MAX = 16, SPIN_REPEATS = 1 };

void warp_start(struct warp *warp, uint32_t threads)
{
    warp->live = threads >= WARP_LANES ? 0xffffffffu : (1u << threads) - 1;
    warp->group_count = 1;
    warp->groups[0] = (struct group){.mask = warp->live, .state = GROUP_READY};
    warp->current = warp->group_count;
}

static void put_back(struct warp *warp)
{
    struct group *group = &warp->groups[warp->current];

    group->pc = warp->pc;
    group->mask = warp->active;
    group->spin = warp->spin;
    warp->current = warp->group_count;
}

static void remove_group(struct warp *warp, uint32_t index)
{
    warp->groups[index] = warp->groups[--warp->group_count];
}

static bool is_resting(const struct group *group)
{
    return group->state == GROUP_READY || group->state == GROUP_YIELDED;
}

/* Groups that rest where `groups[index]` stands become part of it. Returns its index then. */
static uint32_t merge(struct warp *warp, uint32_t index)
{
    for (uint32_t k = 0; k < warp->group_count;) {
        const struct group *other = &warp->groups[k];
        if (k == index || other->pc != warp->groups[index].pc || !is_resting(other)) {
            k++;
            continue;
        }
        warp->groups[index].mask |= other->mask;
        remove_group(warp, k);
        index = index == warp->group_count ? k : index;
    }
    return index;
}

/* Where the active group meets the next other one. */
static uint32_t meeting_pc(const struct warp *warp, uint32_t pc)
{
    uint32_t lowest = UINT32_MAX;

    for (uint32_t i = 0; i < warp->group_count; i++) {
        const struct group *group = &warp->groups[i];
        if (i != warp->current && is_resting(group) && group->pc > pc && group->pc < lowest) {
            lowest = group->pc;
        }
    }
    return lowest;
}

/* Lanes meet at one instruction; in bar.warp also those that wait in another one. */
static bool is_meeting(const struct warp *warp, const struct group *group,
                       const struct group *other)
{
    return other->state == GROUP_CONVERGE && other->members == group->members &&
           (other->pc == group->pc ||
            (warp->insns[group->pc].op == OP_BAR_WARP && warp->insns[other->pc].op == OP_BAR_WARP));
}

/* Groups whose members have all arrived, less those that exited, run their instruction as one. */
static void release_converged(struct warp *warp)
{
    for (uint32_t i = 0; i < warp->group_count; i++) {
        const struct group group = warp->groups[i];
        uint32_t there = 0;
        for (uint32_t k = 0; k < warp->group_count; k++) {
            if (is_meeting(warp, &group, &warp->groups[k])) {
                there |= warp->groups[k].mask;
            }
        }
        if (there == 0 || (group.members & warp->live & ~there) != 0) {
            continue;
        }
        for (uint32_t k = 0; k < warp->group_count; k++) {
            struct group *other = &warp->groups[k];
            if (is_meeting(warp, &group, other)) {
                other->state = GROUP_READY;
                other->pc += warp->insns[other->pc].op == OP_BAR_WARP;
            }
        }
    }
}

static uint32_t lowest_ready(const struct warp *warp)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < warp->group_count; i++) {
        if (warp->groups[i].state == GROUP_READY &&
            (best == UINT32_MAX || warp->groups[i].pc < warp->groups[best].pc)) {
            best = i;
        }
    }
    return best;
}

static bool has_converging(const struct warp *warp)
{
    for (uint32_t i = 0; i < warp->group_count; i++) {
        if (warp->groups[i].state == GROUP_CONVERGE) {
            return true;
        }
    }
    return false;
}

/* Makes the ready group at the lowest pc the active one. False: none is ready. */
static bool select_group(struct warp *warp)
{
    if (has_converging(warp)) {
        release_converged(warp);
    }
    uint32_t best = lowest_ready(warp);
    if (best == UINT32_MAX) {
        return false;
    }
    best = merge(warp, best);
    warp->current = best;
    warp->pc = warp->groups[best].pc;
    warp->active = warp->groups[best].mask;
    warp->spin = warp->groups[best].spin;
    warp->leave = LEAVE_NONE;
    warp->stop_pc = warp->group_count > 1 ? meeting_pc(warp, warp->pc) : UINT32_MAX;
    return true;
}

static void leave_with(struct warp *warp, enum leave leave)
{
    warp->leave = leave;
    warp->stop_pc = 0;
}

void warp_split(struct warp *warp, uint32_t mask, uint32_t pc)
{
    assert(warp->group_count < WARP_LANES);

    warp->active &= ~mask;
    warp->groups[warp->current].mask = warp->active;
    warp->groups[warp->group_count] =
        (struct group){.pc = pc, .mask = mask, .state = GROUP_READY, .spin = warp->spin};
    warp->group_count++;
    leave_with(warp, LEAVE_SELECT);
}

void warp_yield(struct warp *warp)
{
    leave_with(warp, LEAVE_YIELD);
}

void warp_jumped(struct warp *warp, const struct insn *insn)
{
    if (insn->back_edge) {
        bool rests = warp->steps >= warp->steps_max;
        if (warp->is_strong) {
            warp->is_strong = false;
            rests = rests || warp->spin.repeats >= SPIN_REPEATS || ++warp->edges >= EDGES_MAX;
        }
        if (rests) {
            leave_with(warp, LEAVE_YIELD);
            return;
        }
    }
    if (warp->group_count > 1) {
        leave_with(warp, LEAVE_SELECT);
    }
}

void warp_spin(struct warp *warp, const struct insn *insn, int lane, uint64_t address,
               uint64_t value)
{
    uint32_t pc = (uint32_t)(insn - warp->insns);
    struct spin *spin = &warp->spin;
    bool is_same = spin->pc == pc && spin->address == address && spin->value == value;

    warp->is_strong = true;
    *spin = (struct spin){.pc = pc,
                          .lane = lane,
                          .address = address,
                          .value = value,
                          .repeats = is_same ? spin->repeats + 1 : 0};
}

void warp_exit(struct warp *warp, uint32_t mask)
{
    warp->live &= ~mask;
    warp->active &= ~mask;
    warp->cta->live_lanes -= (uint32_t)__builtin_popcount(mask);
    if (warp->active == 0) {
        leave_with(warp, LEAVE_BLOCK);
        remove_group(warp, warp->current);
        warp->current = warp->group_count;
    } else {
        leave_with(warp, LEAVE_SELECT);
    }
    if (warp->live == 0) {
        warp->cta->live_warps--;
    }
    if (warp->cta->barriers_waiting > 0) {
        barrier_recheck(warp->cta);
    }
}

struct group *warp_wait(struct warp *warp, uint32_t mask, enum group_state state)
{
    uint32_t pc = warp->pc - 1;
    struct group *group = NULL;

    if (mask == warp->active) {
        group = &warp->groups[warp->current];
        warp->pc = pc;
        put_back(warp);
        leave_with(warp, LEAVE_BLOCK);
    } else {
        warp_split(warp, mask, pc);
        group = &warp->groups[warp->group_count - 1];
    }
    group->state = (uint8_t)state;
    return group;
}

/* Runs the active group until it leaves or meets another. */
static void run_straight(struct warp *warp)
{
    const struct insn *insns = warp->insns;
    uint64_t threads = 0;

    while (warp->pc < warp->stop_pc) {
        const struct insn *insn = &insns[warp->pc++];
        uint32_t mask = warp->active;
        threads += (uint32_t)__builtin_popcount(mask);
        warp->steps++;
        if (insn->guard >= 0) {
            uint32_t guard = warp->predicates[insn->guard];
            mask &= insn->guard_not ? ~guard : guard;
            if (mask == 0) {
                continue;
            }
        }
        insn->exec(warp, insn, mask);
    }
    warp->threads += threads;
}

void warp_visit(struct warp *warp)
{
    warp->steps = 0;
    warp->edges = 0;
    for (uint32_t i = 0; i < warp->group_count; i++) {
        if (warp->groups[i].state == GROUP_YIELDED) {
            warp->groups[i].state = GROUP_READY;
        }
    }
    warp_resume(warp);
}

void warp_resume(struct warp *warp)
{
    while (warp->group_count > 0 && select_group(warp)) {
        run_straight(warp);
        if (warp->leave == LEAVE_FAULT) {
            return;
        }
        if (warp->current == warp->group_count) {
            continue; /* the group waits or is gone */
        }
        bool rests = warp->leave == LEAVE_YIELD;
        struct group *group = &warp->groups[warp->current];
        put_back(warp);
        if (rests) {
            group->state = GROUP_YIELDED;
        }
    }
}
