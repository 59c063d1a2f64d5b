/*
 * access.h — the addresses of one memory instruction, checked, turned into places in this process,
 * and counted.
 *
 * The common case is cheap: all lanes in one region, which one lookup finds for the lowest and the
 * highest address; lanes spread over regions or state spaces are looked up one by one.
 */
#pragma once

#include "sim/core.h"

struct access {
    uint64_t address[WARP_LANES];       /* generic, as reports call it */
    uint8_t *at[WARP_LANES];            /* of lanes of the mask */
    struct region *region;              /* that holds all; NULL: not global memory, or is_mixed */
    struct region *regions[WARP_LANES]; /* where is_mixed: each lane's, NULL: not global */
    bool is_mixed;
    bool is_contiguous; /* all 32 lanes, one behind the other */
    bool is_uniform;    /* all lanes at one address */
    uint32_t writer;    /* of a write to global memory */
};

enum access_kind { ACCESS_LOAD, ACCESS_STORE, ACCESS_ATOMIC };

struct access_request {
    enum access_kind kind;
    int source;    /* which source operand is the address */
    bool is_plain; /* it is 8 bytes and has no offset: not the instruction's first address */
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

/* Where one lane's access at a generic address is, counted and noted. NULL: it is a fault. */
uint8_t *access_place(struct warp *warp, const struct insn *insn, int lane,
                      const struct access_request *request, uint64_t address);

/* Copies from a generic address that one lane can read. False: it cannot. */
bool access_read(struct warp *warp, int lane, uint64_t address, void *to, uint32_t size_bytes);
