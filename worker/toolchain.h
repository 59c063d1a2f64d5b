/*
 * toolchain.h — what a node needs besides pkb-worker: CUDA, our other programs, and the simulator's
 * libraries. Asked once before the first job, so that a node that lacks something takes none.
 */
#pragma once

#include "worker/evaluation.h"

/* ERR_UNAVAILABLE: the first file that is missing, or may not be read or run. */
enum status toolchain_check(const struct sandbox_node *node, enum device_kind device,
                            struct error *err);
