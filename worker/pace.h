/* pace.h — how long to wait before the server is asked again, after it could not be. */
#pragma once

#include "common/clock.h"

enum { PACE_FIRST_MS = 250, PACE_MAX_MS = 10000 };

/* Returns when (clock_monotonic_ms), and doubles *backoff_ms, which starts as 0. */
static inline int64_t pace_back_off(int64_t *backoff_ms)
{
    int64_t wait_ms = *backoff_ms == 0 ? PACE_FIRST_MS : *backoff_ms;

    *backoff_ms = wait_ms * 2 > PACE_MAX_MS ? PACE_MAX_MS : wait_ms * 2;
    return clock_monotonic_ms() + wait_ms;
}
