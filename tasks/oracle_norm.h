/*
 * oracle_norm.h — normalisations and norms in double.
 */
#pragma once

#include "tasks/declare.h"

/* One column of the gradients of LayerNorm's shift and scale: the sums over all rows and ranks of
 * dy and of p = dy xhat. */
struct layernorm_column {
    double beta, gamma;
    double beta_partials, gamma_partials;   /* sums of the magnitudes of the ranks' sums */
    double beta_magnitude, gamma_magnitude; /* sums of the terms' magnitudes */
    double gamma_squares;
};

/* Adds the rows of one rank to columns that start as zero; both tensors are [rows, columns]. */
void layernorm_add(struct layernorm_column *columns, const struct tensor *xhat,
                   const struct tensor *dy);

/*
 * How far kernels may be off that round each rank's sums to the dtype and add them with rounding,
 * and p, too: 1.05 W u of the partials, 4 u of the root of p's squares, 2^-20 of the magnitudes.
 */
double layernorm_beta_bound(const struct layernorm_column *column, const struct run *run);
double layernorm_gamma_bound(const struct layernorm_column *column, const struct run *run);

/* The sum of |x|^p over `count` elements from `first`. */
double power_sum(const struct tensor *tensor, int64_t first, int64_t count, double p);

/* A norm, and what gradients are multiplied by: 1 unless the norm is above the maximum. */
struct clipping {
    double norm, scale;
};
struct clipping clip_at(double norm, double max_norm);

/* All of a gradient, divided by `divisor`, rounded, multiplied and rounded: by one rounding, or in
 * fp32, where the norm decides, by the table. */
void expect_clipped(struct expected *out, const struct clipping *clipping,
                    const struct tensor *gradient, double divisor);

extern const struct tolerance norm_tolerance, clipped_tolerance;
