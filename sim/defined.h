/*
 * defined.h — reads of memory that nothing has written.
 *
 * Global memory that a rank allocated is undefined until something writes it: its last writers tell
 * (space.h), by words of four bytes. Shared and local memory is filled with a pattern, which no
 * program computes, when a CTA starts: who reads a whole word of it reads what was never written.
 * Each instruction is reported once for each device.
 */
#pragma once

#include "sim/access.h"

/* Fills `size_bytes`, rounded down to words, with what marks memory as not written. */
void defined_forget(uint8_t *bytes, size_t size_bytes);

/* The rest of defined_look, where there is anything to look at. */
void defined_check(struct warp *warp, const struct insn *insn, uint32_t mask,
                   const struct access_request *request, const struct access *access);

/* Whether defined_check has anything to look at. */
static inline bool defined_is_asked(const struct warp *warp, const struct access_request *request,
                                    const struct access *access)
{
    if (request->kind == ACCESS_STORE) {
        return false;
    }
    if (access->region) {
        return access->region->is_undefined && !access->region->memory->is_whole;
    }
    if (request->space == SPACE_SHARED) {
        return !warp->cta->is_whole;
    }
    return access->is_mixed || request->space == SPACE_LOCAL;
}

/* Looks at what the lanes of `mask` are about to read. */
static inline void defined_look(struct warp *warp, const struct insn *insn, uint32_t mask,
                                const struct access_request *request, const struct access *access)
{
    if (defined_is_asked(warp, request, access)) {
        defined_check(warp, insn, mask, request, access);
    }
}
