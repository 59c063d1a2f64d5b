/* barrier.c — the barriers of a CTA. A warp that is there with all its live lanes counts as 32. */
#include "common/mem.h"
#include "sim/exec.h"
#include "sim/schedule.h"

#include <stdlib.h>

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

/* Two places of which a CTA's threads came to one barrier, or wait at. */
static void note_places(struct warp *warp, uint32_t pc, uint32_t other_pc, const char *what)
{
    const struct insn *insn = &warp->insns[pc];

    if (engine_has_noted(warp, insn, NOTED_BARRIER)) {
        return;
    }
    engine_set_noted(warp, insn, NOTED_BARRIER);
    char *kernel = kernel_text(warp->grid->bound->kernel);
    char *source = source_of(warp->grid, insn);
    char *other = source_of(warp->grid, &warp->insns[other_pc]);
    char *message = xasprintf("%s: %s at %s and at %s (block %lu, warp %u)", kernel, what, other,
                              source, warp->cta->index, warp->index);

    engine_note(warp->engine, warp->space->rank, "barrier_divergence", source, message);
    free(message);
    free(other);
    free(source);
    free(kernel);
}

static bool is_same_line(const struct warp *warp, uint32_t pc, uint32_t other_pc)
{
    return pc == other_pc || warp->insns[pc].line == warp->insns[other_pc].line;
}

/* Lanes of one warp have to meet at one instruction, and all threads of a CTA at one
 * __syncthreads: with a count, warps may do what they agree on. */
static void note_divergence(struct cta *cta, int number)
{
    bool is_whole = cta->barriers[number].expected == 0;
    uint32_t first_pc = UINT32_MAX;

    for (uint32_t i = 0; i < cta->warp_count; i++) {
        struct warp *warp = &cta->warps[i];
        first_pc = is_whole ? first_pc : UINT32_MAX;
        for (uint32_t k = 0; k < warp->group_count; k++) {
            const struct group *group = &warp->groups[k];
            if (group->state != GROUP_BARRIER || group->barrier != number) {
                continue;
            }
            if (first_pc == UINT32_MAX) {
                first_pc = group->pc;
            } else if (!is_same_line(warp, group->pc, first_pc)) {
                note_places(warp, group->pc, first_pc, "threads of a block meet in barriers");
                return;
            }
        }
    }
}

void barrier_note_stuck(const struct cta *cta)
{
    const struct group *first = NULL;

    for (uint32_t i = 0; i < cta->warp_count; i++) {
        for (uint32_t k = 0; k < cta->warps[i].group_count; k++) {
            const struct group *group = &cta->warps[i].groups[k];
            if (group->state != GROUP_BARRIER) {
                continue;
            }
            if (first && group->barrier != first->barrier) {
                note_places((struct warp *)&cta->warps[i], group->pc, first->pc,
                            "threads of a block wait in different barriers");
                return;
            }
            first = first ? first : group;
        }
    }
}

static void release(struct cta *cta, int number)
{
    struct barrier *barrier = &cta->barriers[number];

    note_divergence(cta, number);

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

    if (barrier->lanes + barrier->arrived > 0 && barrier->expected != arrival->expected) {
        uint32_t pc = (uint32_t)(insn - warp->insns);
        note_places(warp, pc, pc, "a barrier is given another count of threads than before");
    }
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
