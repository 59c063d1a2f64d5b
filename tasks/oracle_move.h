/*
 * oracle_move.h — tasks that move what they are given: tensors of any bits, and where each run of
 * elements lands.
 */
#pragma once

#include "tasks/declare.h"

/* The first parameters and the variants of a task that moves one tensor X to one tensor Y. */
enum { MOVED_M, MOVED_N, MOVED_ROOT };
enum { MOVED_NORMAL, MOVED_BITS };
#define MOVED_VARIANTS                                                                             \
    {                                                                                              \
        [MOVED_NORMAL] = {"normal", AT_CHECK | AT_BENCH}, [MOVED_BITS] = { "bits", AT_CHECK }      \
    }
#define MOVED_CASES                                                                                \
    {.name = "check", .dim = {[MOVED_M] = 37, [MOVED_N] = 129}},                                   \
    {                                                                                              \
        .name = "bench", .dim = { [MOVED_M] = 1024, [MOVED_N] = 1024 }                             \
    }

/* Input 0 of every rank: N(0, 1), or every bit pattern in variant MOVED_BITS. */
void fill_moved(const struct run *run, const struct trial *trial, struct tensor *const *in);

/* The root is the last rank at "check", so that a rank 0 which is taken for granted shows. */
void derive_root(struct run *run);

/* `rows` runs of `count` elements; a stride is from the start of one run to that of the next. */
struct move {
    int64_t rows, count;
    int64_t from, from_stride;
    int64_t to, to_stride;
};

void expect_move(struct expected *out, const struct tensor *from, const struct move *move);

/* One block of `count` elements, the same number of blocks into both tensors. */
void expect_block(struct expected *out, int64_t to, const struct tensor *from, int64_t block,
                  int64_t count);
