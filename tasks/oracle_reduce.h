/*
 * oracle_reduce.h — sums over ranks, and how far a sum of rounded partial sums may be off.
 */
#pragma once

#include "tasks/declare.h"

struct sum {
    double value, bound;
};

/*
 * Element `index` of input `input`, summed over all ranks in double. The bound admits a chain of
 * world - 1 additions in any order, each rounded to the input's dtype: 1.02 (world - 1) u sum |x|.
 * With one rank that is 0: a copy.
 */
struct sum sum_ranks(const struct run *run, struct tensor *const *in, int input, int64_t index);

/* The pages' table for such a sum of one tensor over up to eight ranks. */
extern const struct tolerance sum_tolerance;

/* Integers in [-15, 15], whose sums over eight ranks are exact in every dtype and order; or
 * (1 + rank) * N(0, 1), so that no rank's share goes unnoticed. */
void fill_summands(bool integers, const struct tensor *tensor, uint64_t key, int rank);
