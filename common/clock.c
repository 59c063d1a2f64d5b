#include "common/clock.h"

#include <assert.h>
#include <time.h>

static int64_t now_ns(clockid_t clock)
{
    struct timespec now = {0};

    int failed = clock_gettime(clock, &now);
    assert(failed == 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_wall_ms(void)
{
    return now_ns(CLOCK_REALTIME) / 1000000;
}

int64_t clock_boot_ms(void)
{
    return now_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_monotonic_ms(void)
{
    return now_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_monotonic_ns(void)
{
    return now_ns(CLOCK_MONOTONIC);
}
