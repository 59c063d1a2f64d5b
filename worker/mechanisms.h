/*
 * mechanisms.h — by what means a submission moves data, as far as can be seen: what its code has,
 * what it calls, and what a simulator saw it do. Advice: a text that is never used counts, too.
 *
 *     code:tensor  code:bulk  code:multimem  code:system_scope     instructions of its PTX
 *     calls:copy_engine  calls:nccl  calls:cublas                  functions that it links
 *     moved:MECHANISM                                              between ranks, as in `traffic`
 */
#pragma once

#include "common/result.h"

/* `data` is the library as nvcc made it, with PTX in plain text. */
void mechanisms_scan(const void *data, size_t size_bytes, struct result *result);
void mechanisms_note_traffic(struct result *result);
