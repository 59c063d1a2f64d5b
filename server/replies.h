/*
 * replies.h — the same request twice under one Idempotency-Key is done once.
 *
 * The answer of a write that succeeded is stored in its transaction, for REPLY_KEPT_MS, under the
 * token and the key. Who never got it asks again with the same request and gets the stored one. A
 * body that is streamed (batches) has its own way.
 */
#pragma once

#include "server/calls.h"

#define REPLY_KEPT_MS (INT64_C(7) * 24 * 3600 * 1000)

/* Sets the stored answer of a call that has a key and was answered before; else call->http_status
 * stays 0. ERR_CONFLICT: the key came with another request. ERR_INVALID: it is no key. */
enum status reply_find(struct call *call, struct error *err);

/* Stores the answer of a call that has a key, and drops those that are too old. */
enum status reply_keep(struct call *call, struct error *err);
