#include "worker/statistics.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define NOISY_SHARE 0.02
#define NOISY_LEAST_US 0.5
#define SUSPECT_SHARE 0.05
#define SUSPECT_LEAST_US 3.0
/* By so much the judge's clock errs in one iteration. */
#define CLOCK_LEAST_US 0.5
/* Of the normal distribution: 95 % lie within so many standard deviations. */
#define DEVIATIONS_95 1.959964

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one;
    double b = *(const double *)other;

    return (a > b) - (a < b);
}

/* Of sorted values: between two of them by where it lies. */
static double quantile(const double *sorted, size_t count, double share)
{
    double at = share * (double)(count - 1);
    size_t below = (size_t)at;

    if (below + 1 >= count) {
        return sorted[count - 1];
    }
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

struct spread statistics_spread(double *values, size_t count)
{
    assert(count > 0);
    qsort(values, count, sizeof *values, compare);
    /* How many of `count` values lie below the median is binomial with 1/2. */
    double half = (double)count / 2;
    double reach = DEVIATIONS_95 * sqrt((double)count) / 2;
    double low = floor(half - reach);
    double high = ceil(half + reach);

    return (struct spread){
        .median = quantile(values, count, 0.5),
        .p10 = quantile(values, count, 0.1),
        .p90 = quantile(values, count, 0.9),
        .low = values[low < 1 ? 0 : (size_t)low - 1],
        .high = values[high >= (double)count ? count - 1 : (size_t)high],
    };
}

double statistics_median(double *values, size_t count)
{
    return statistics_spread(values, count).median;
}

bool statistics_is_noisy(const struct spread *spread)
{
    double width = spread->high - spread->low;

    return width > NOISY_SHARE * spread->median && width > NOISY_LEAST_US;
}

bool statistics_is_suspect(double larger_us, double smaller_us)
{
    return larger_us - smaller_us > SUSPECT_SHARE * larger_us + SUSPECT_LEAST_US;
}

double statistics_ranked(double events_us, double window_us)
{
    return events_us > window_us - CLOCK_LEAST_US ? events_us : window_us - CLOCK_LEAST_US;
}
