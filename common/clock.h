/* clock.h — the three clocks, in ms or ns. Decisions take time as an argument. */
#pragma once

#include <stdint.h>

int64_t clock_wall_ms(void);      /* since 1970, may jump: for people and stored records only */
int64_t clock_boot_ms(void);      /* since boot, suspended time included: for leases */
int64_t clock_monotonic_ms(void); /* for timeouts */
int64_t clock_monotonic_ns(void); /* for measurements */
