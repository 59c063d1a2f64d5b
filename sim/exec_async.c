/*
 * exec_async.c — cp.async: it reads at once, but what it read is seen only when the thread waits
 * for the copy's group, as late as a device may show it. Who forgets to wait reads what was there.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/access.h"
#include "sim/exec.h"
#include "sim/schedule.h"

enum { COPIES_FIRST = 64 };

/* How many bytes of each lane come from global memory; the rest are zeros. */
static void read_sizes(struct warp *warp, const struct insn *insn, uint32_t size[WARP_LANES])
{
    uint32_t all = insn->vector;

    EACH_LANE
    {
        size[lane] = all;
    }
    if (insn->src_count < 3) {
        return;
    }
    if (insn->arg_predicate >> 2 & 1) {
        uint32_t ignored = source_predicate(warp, insn, 2);
        EACH_LANE
        {
            size[lane] = ignored >> lane & 1 ? 0 : all;
        }
        return;
    }
    const uint32_t *given = SOURCE(uint32_t, 2);
    EACH_LANE
    {
        size[lane] = given[lane] < all ? given[lane] : all;
    }
}

/* Makes a copy seen. */
static void land(struct warp *warp, const struct async_copy *copy)
{
    uint8_t *to = warp->cta->shared + copy->shared_at;

    warp->engine->changes += memcmp(to, copy->bytes, copy->size_bytes) != 0;
    memcpy(to, copy->bytes, copy->size_bytes);
}

static void issue(struct warp *warp, const struct async_copy *copy)
{
    if (warp->engine->async_copies == ASYNC_COPIES_MAX) {
        land(warp, copy);
        return;
    }
    if (warp->copy_count == warp->copy_capacity) {
        warp->copy_capacity = warp->copy_capacity ? warp->copy_capacity * 2 : COPIES_FIRST;
        warp->copies = xrealloc(warp->copies, warp->copy_capacity * sizeof(*warp->copies));
    }
    warp->copies[warp->copy_count++] = *copy;
    warp->engine->async_copies++;
}

static void cp_async(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct access_request to = {.kind = ACCESS_STORE,
                                .size_bytes = insn->vector,
                                .space = SPACE_SHARED,
                                .mechanism = MECHANISM_SM_STORE};
    struct access_request from = {.kind = ACCESS_LOAD,
                                  .source = 1,
                                  .is_plain = true,
                                  .size_bytes = insn->vector,
                                  .space = SPACE_GLOBAL,
                                  .mechanism = MECHANISM_SM_LOAD};
    struct access shared;
    struct access global;
    uint32_t size[WARP_LANES];
    uint32_t reads = 0;

    read_sizes(warp, insn, size);
    EACH_LANE
    {
        reads |= (uint32_t)(size[lane] > 0) << lane;
    }
    reads &= mask;
    if (!access_resolve(warp, insn, mask, &to, &shared) ||
        (reads && !access_resolve(warp, insn, reads, &from, &global))) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct async_copy copy = {.group = warp->commits[lane],
                                  .shared_at = (uint32_t)(shared.at[lane] - warp->cta->shared),
                                  .lane = (uint8_t)lane,
                                  .size_bytes = insn->vector};
        if (size[lane]) {
            memcpy(copy.bytes, global.at[lane], size[lane]);
        }
        issue(warp, &copy);
    }
}

static void commit(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    (void)insn;
    for (uint32_t left = mask; left; left &= left - 1) {
        warp->commits[__builtin_ctz(left)]++;
    }
}

/* Lands what the lanes wait for: all, or all groups but the last `imm` that were closed. */
static void wait(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < warp->copy_count; i++) {
        const struct async_copy *copy = &warp->copies[i];
        bool is_waiting = mask >> copy->lane & 1;
        int64_t closed_after = (int64_t)warp->commits[copy->lane] - copy->group;
        if (is_waiting && (insn->sub == 1 || closed_after > insn->imm)) {
            land(warp, copy);
        } else {
            warp->copies[kept++] = *copy;
        }
    }
    warp->engine->async_copies -= warp->copy_count - kept;
    warp->copy_count = kept;
}

void async_drop(struct warp *warp)
{
    warp->engine->async_copies -= warp->copy_count;
    free(warp->copies);
    warp->copies = NULL;
    warp->copy_count = warp->copy_capacity = 0;
}

insn_exec *find_async(const struct insn *insn)
{
    bool is_size = insn->vector == 4 || insn->vector == 8 || insn->vector == 16;

    switch (insn->op) {
    case OP_CP_ASYNC_COMMIT:
        return commit;
    case OP_CP_ASYNC_WAIT:
        return insn->imm >= 0 ? wait : NULL;
    default:
        break;
    }
    return has_flags_only(insn, FLAG_ADDR32) && is_size ? cp_async : NULL;
}
