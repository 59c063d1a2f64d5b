/* exec_async.c — cp.async: the copy is done at once, so waiting for it has nothing to do. */
#include "sim/access.h"
#include "sim/exec.h"
#include "sim/schedule.h"

#include <string.h>

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
        uint8_t bytes[16] = {0};
        if (size[lane]) {
            memcpy(bytes, global.at[lane], size[lane]);
        }
        warp->engine->changes += memcmp(shared.at[lane], bytes, insn->vector) != 0;
        memcpy(shared.at[lane], bytes, insn->vector);
    }
}

static void nothing(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
}

insn_exec *find_async(const struct insn *insn)
{
    bool is_size = insn->vector == 4 || insn->vector == 8 || insn->vector == 16;

    if (insn->op != OP_CP_ASYNC) {
        return insn->flags ? NULL : nothing;
    }
    return has_flags_only(insn, FLAG_ADDR32) && is_size ? cp_async : NULL;
}
