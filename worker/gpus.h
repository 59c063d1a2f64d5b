/*
 * gpus.h — the GPUs of this node, as CUDA and its management library see them; for pkb-judge.
 */
#pragma once

#include "common/error.h"
#include "common/result.h"

#include <stdbool.h>

/* What the job was timed on: allocated, the caller's. */
struct gpu *gpus_describe(int count);

/*
 * Is every GPU fit for work: can it run a kernel, and (where `is_exclusive`) does nobody else use
 * it? Returns how many there are in *count. ERR_UNAVAILABLE names what is missing.
 */
enum status gpus_check(bool is_exclusive, int *count, struct error *err);
