/*
 * oracle_generate.h — inputs from a seed.
 *
 * A trial is one call of a run; each tensor of each rank has a stream in it, and a stream any
 * number of streams inside it, for what a tensor draws besides its elements. The same trial gives
 * the same bytes everywhere, another call other bytes.
 */
#pragma once

#include "tasks/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct trial {
    uint64_t seed;
    int call; /* 0, 1, ... */
};

/* The key of a stream, for fill.h. `tensor` is an index of the plan, or anything else that tells
 * streams apart; rank -1 is a stream that the ranks share. */
uint64_t trial_stream(const struct trial *trial, int rank, int tensor);
uint64_t stream_inside(uint64_t key, uint64_t number);

/* Each fills a tensor; nothing happens where a rank lacks it. The product is rounded to fp32 (fp64
 * for an fp64 tensor) and then to the tensor's dtype. */
void fill_tensor_normal(const struct tensor *tensor, uint64_t key, double scale);
void fill_tensor_integers(const struct tensor *tensor, uint64_t key, int64_t low, int64_t high);
/* Every bit pattern, NaN too. */
void fill_tensor_bits(const struct tensor *tensor, uint64_t key);

/* Every input of every rank: N(0, 1). */
struct run;
void fill_normal_inputs(const struct run *run, const struct trial *trial, struct tensor *const *in);

/* For what is only moved: every bit pattern, or N(0, 1). */
void fill_payload(bool bits, const struct tensor *tensor, uint64_t key);
