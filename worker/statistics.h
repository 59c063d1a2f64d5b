/*
 * statistics.h — what is said of many times: median, percentiles, and how sure the median is.
 *
 * Order statistics only: nothing is assumed of how the times are spread. The arrays get sorted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct spread {
    double median, p10, p90;
    double low, high; /* the median lies between them with 95 % (as far as so few values can say) */
};

/* `count` > 0. */
struct spread statistics_spread(double *values, size_t count);
double statistics_median(double *values, size_t count);
/* Is the interval of the median wide: over 2 % of it, and over 0.5 us? */
bool statistics_is_noisy(const struct spread *spread);
/* Is what should be no larger so by over 5 % and 3 us? */
bool statistics_is_suspect(double larger_us, double smaller_us);
/* The time of an iteration: what its events say, unless the judge's clock shows more than that by
 * over 0.5 us, by which it may err. */
double statistics_ranked(double events_us, double window_us);
