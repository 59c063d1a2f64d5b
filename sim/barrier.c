/* barrier.c — the barriers of a CTA. A warp that is there with all its live lanes counts as 32. */
#include "sim/exec.h"
#include "sim/schedule.h"

static uint32_t waiting_lanes(const struct warp *warp, int number)
{
    uint32_t mask = 0;

    for (uint32_t i = 0; i < warp->group_count; i++) {
        const struct group *group = &warp->groups[i];
        if (group->state == GROUP_BARRIER && group->barrier == number) {
            mask |= group->mask;
        }
    }
    return mask;
}

static uint32_t threads_of(const struct warp *warp, uint32_t mask)
{
    return mask == warp->live ? WARP_LANES : (uint32_t)__builtin_popcount(mask);
}

/* How many threads wait, as the barrier counts them. */
static uint32_t waiting_threads(const struct cta *cta, int number)
{
    uint32_t threads = 0;

    for (uint32_t i = 0; i < cta->warp_count; i++) {
        const struct warp *warp = &cta->warps[i];
        if (warp->live) {
            threads += threads_of(warp, waiting_lanes(warp, number));
        }
    }
    return threads;
}

static void write_reduction(struct warp *warp, const struct insn *insn,
                            const struct barrier *barrier, uint32_t mask)
{
    if (insn->boolean == BOOL_POPC) {
        uint32_t *d = slot_of(warp, insn->args[0]);
        for (int lane = 0; lane < WARP_LANES; lane++) {
            d[lane] = mask >> lane & 1 ? barrier->popc : d[lane];
        }
        return;
    }
    bool value = insn->boolean == BOOL_AND ? barrier->all : barrier->any;
    uint32_t *predicate = &warp->predicates[insn->args[0]];
    *predicate = value ? *predicate | mask : *predicate & ~mask;
}

static void release(struct cta *cta, int number)
{
    struct barrier *barrier = &cta->barriers[number];

    for (uint32_t i = 0; i < cta->warp_count; i++) {
        struct warp *warp = &cta->warps[i];
        for (uint32_t k = 0; k < warp->group_count; k++) {
            struct group *group = &warp->groups[k];
            if (group->state == GROUP_BARRIER && group->barrier == number) {
                const struct insn *insn = &warp->insns[group->pc];
                if (insn->op == OP_BAR_RED) {
                    write_reduction(warp, insn, barrier, group->mask);
                }
                group->state = GROUP_READY;
                group->pc++;
                cta->barriers_waiting--;
            }
        }
    }
    *barrier = (struct barrier){.all = true};
    cta->has_released = true;
}

static bool is_complete(const struct cta *cta, int number)
{
    const struct barrier *barrier = &cta->barriers[number];

    if (barrier->expected == 0) {
        return barrier->lanes == cta->live_lanes;
    }
    return waiting_threads(cta, number) + barrier->arrived >= barrier->expected;
}

void barrier_arrive(struct warp *warp, const struct insn *insn, uint32_t mask,
                    const struct arrival *arrival)
{
    struct cta *cta = warp->cta;
    struct barrier *barrier = &cta->barriers[arrival->number];

    barrier->expected = arrival->expected;
    if (insn->op == OP_BAR_RED) {
        uint32_t bits = source_predicate(warp, insn, insn->src_count - 1);
        barrier->popc += (uint32_t)__builtin_popcount(bits & mask);
        barrier->all = barrier->all && (bits & mask) == mask;
        barrier->any = barrier->any || (bits & mask) != 0;
    }
    if (arrival->waits) {
        struct group *group = warp_wait(warp, mask, GROUP_BARRIER);
        group->barrier = (uint8_t)arrival->number;
        barrier->lanes += (uint32_t)__builtin_popcount(mask);
        cta->barriers_waiting++;
    } else {
        barrier->arrived += threads_of(warp, mask);
    }
    if (is_complete(cta, arrival->number)) {
        release(cta, arrival->number);
    }
}

void barrier_recheck(struct cta *cta)
{
    for (int number = 0; number < BARRIERS; number++) {
        const struct barrier *barrier = &cta->barriers[number];
        if (barrier->lanes > 0 && is_complete(cta, number)) {
            release(cta, number);
        }
    }
}
