/*
 * access.h — the addresses of one memory instruction, checked, turned into places in this process,
 * and counted.
 *
 * The commonest cases are cheap: 32 lanes one behind the other, or loads of all from one address,
 * are one check for all. Other lanes of one region or window take a loop over them; lanes spread
 * over regions or state spaces are looked up one by one.
 */
#pragma once

#include "sim/core.h"

struct access {
    uint64_t address[WARP_LANES];       /* of the first lane; the others' are for access.c alone */
    uint8_t *at[WARP_LANES];            /* of lanes of the mask; see request.is_brief */
    struct region *region;              /* that holds all; NULL: not global memory, or is_mixed */
    struct region *regions[WARP_LANES]; /* where is_mixed: each lane's, NULL: not global */
    bool is_mixed;
    bool is_contiguous; /* 32 lanes, one behind the other: only the first lane's place is given */
    bool is_uniform;    /* 32 lanes at one address: likewise */
    uint32_t writer;    /* of a write to global memory */
};

enum access_kind { ACCESS_LOAD, ACCESS_STORE, ACCESS_ATOMIC };

struct access_request {
    enum access_kind kind;
    int source;    /* which source operand is the address */
    bool is_plain; /* it is 8 bytes and has no offset: not the instruction's first address */
    bool is_brief; /* the caller knows is_contiguous and is_uniform; otherwise they are not set */
    uint32_t size_bytes;
    enum code_space space;
    enum mechanism mechanism;
};

/* False: a lane's access is a fault, which is recorded. */
bool access_resolve(struct warp *warp, const struct insn *insn, uint32_t mask,
                    const struct access_request *request, struct access *access);

/* Notes that the lanes of `mask` wrote `size_bytes` each: last writers, host memory. */
void access_wrote(struct warp *warp, const struct access *access, uint32_t mask,
                  uint32_t size_bytes);

/* Where a block of bytes is that may be accessed as one; its region, NULL in a window. NULL: it may
 * not, or not as one. Nothing is counted: that is access_count. */
uint8_t *access_block(struct warp *warp, const struct access_request *request, uint64_t address,
                      uint64_t block_bytes, struct region **region);
void access_count(struct warp *warp, const struct region *region, enum mechanism mechanism,
                  uint64_t bytes);

/* Where one lane's access at a generic address is, counted and noted. NULL: it is a fault. */
uint8_t *access_place(struct warp *warp, const struct insn *insn, int lane,
                      const struct access_request *request, uint64_t address);

/* Copies from a generic address that one lane can read. False: it cannot. */
bool access_read(struct warp *warp, int lane, uint64_t address, void *to, uint32_t size_bytes);
