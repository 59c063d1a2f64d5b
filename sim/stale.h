/*
 * stale.h — waits that are over because of what an earlier pkb_run left behind.
 *
 * A flag that a rank sets in each pkb_run and nobody takes back works once. From the second call on
 * it is set already: who waits for it goes on at once. Every word that ranks share and that is
 * written as a flag (a strong store, an atomic that can leave it as it is) is remembered with its
 * writer, the value and the call. When another rank's wait loop in a later call is ended by that
 * value, and the writer then stores the same value over it in that same call, the wait was for this
 * store and did not wait for it: that is the finding. Counters and flags that toggle or are reset
 * never store what is there already.
 */
#pragma once

#include "sim/access.h"

struct flags;

/* The rest of those below, where there is something to do. */
void stale_store(struct warp *warp, uint32_t mask, const struct access *access, uint32_t size_bytes,
                 bool is_same);
void stale_poll(struct warp *warp, const struct insn *insn, uint32_t mask,
                const struct access *access, uint32_t size_bytes);
void flags_release(struct flags *flags);

/* After a store as a flag of one element per lane, before its writer is noted. `is_same`: no byte
 * was changed by it. */
static inline void stale_stored(struct warp *warp, uint32_t mask, const struct access *access,
                                uint32_t size_bytes, bool is_same)
{
    if (access->region || access->is_mixed) {
        stale_store(warp, mask, access, size_bytes, is_same);
    }
}

/* Before a strong load of one element per lane. */
static inline void stale_polled(struct warp *warp, const struct insn *insn, uint32_t mask,
                                const struct access *access, uint32_t size_bytes)
{
    if (access->is_mixed || (access->region && access->region->memory->flags)) {
        stale_poll(warp, insn, mask, access, size_bytes);
    }
}
