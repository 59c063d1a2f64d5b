/*
 * devices.h — the GPUs of this node, asked of pkb-judge, since pkb-worker links no CUDA.
 */
#pragma once

#include "worker/sandbox.h"

enum { DEVICES_WAIT_MS = 60000 };

/*
 * Has pkb-judge look at every GPU (health and, for DEVICE_CUDA, whether others use it), and waits.
 * Kinds whose ranks need no GPU each: as many as a job can have ranks. ERR_UNAVAILABLE names what
 * is missing.
 */
enum status devices_count(const struct sandbox_node *node, enum device_kind kind, int *count,
                          struct error *err);
/* Can a job of that world run on so many GPUs? ERR_UNAVAILABLE: too few. */
enum status devices_suffice(enum device_kind kind, int count, int world, struct error *err);
