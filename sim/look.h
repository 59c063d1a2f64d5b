/*
 * look.h — what is looked at before an instruction accesses memory: whether somebody wrote what it
 * reads, and whether its stream is ordered behind others that touch the same.
 */
#pragma once

#include "sim/defined.h"
#include "sim/order.h"

struct order;

/* The rest of access_look, for work whose order is followed. (order.c) */
void order_access(struct warp *warp, const struct insn *insn, uint32_t mask,
                  const struct access_request *request, const struct access *access);
/* A multimem access of one replica's word. */
void order_replica(struct warp *warp, struct memory *memory, const uint8_t *host, bool is_write);
void order_forget(struct order *order);

static inline void access_look(struct warp *warp, const struct insn *insn, uint32_t mask,
                               const struct access_request *request, const struct access *access)
{
    defined_look(warp, insn, mask, request, access);
    if (warp->order && (access->region || access->is_mixed)) {
        order_access(warp, insn, mask, request, access);
    }
}
