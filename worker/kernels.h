/*
 * kernels.h — the kernels of ours that run around a timed call.
 *
 * They are compiled into the programs as one image and loaded into the current context by
 * kernels_load, on hardware only. All work goes to `stream` and nothing waits for it. Addresses are
 * device addresses.
 */
#pragma once

#include "worker/reveal.h"

#include <stdint.h>

enum { KERNELS_CANARY_THREADS = 1024, KERNELS_REGIONS_MAX = 4 };

/* What a rank's or the judge's kernels need in device memory; starts as zeroes. */
struct kernels_scratch {
    uint32_t words[REVEAL_WORDS]; /* of the line that was waited for last */
    uint32_t round;               /* whose nonce is in `words` */
    uint32_t finished;            /* blocks that have added to the sum */
    uint64_t sum;
};

/* Outputs that a rank proves to have. */
struct answering {
    uint64_t from[KERNELS_REGIONS_MAX];
    uint64_t words;  /* of each region */
    uint64_t sample; /* so many of them, where there are more */
    uint32_t regions, round, rank;
};

/* One region of the same. */
struct proving {
    uint64_t from, words;
    uint64_t first; /* the index of its first word in the proof */
    uint64_t sample;
    struct kernels_scratch *scratch;
};

/* When the blocks of a canary ran, in nanoseconds. */
struct kernels_span {
    uint64_t first, last;
    uint64_t least; /* that one of them took */
};

#ifndef __CUDACC__

#include "common/error.h"

#include <cuda_runtime_api.h>

struct kernels; /* for one context */

enum status kernels_load(struct kernels **kernels, struct error *err);
void kernels_unload(struct kernels *kernels);

/* Waits for the round, then has the line's words in scratch->words and 0 in scratch->sum. */
enum status kernels_gate(const struct kernels *kernels, cudaStream_t stream,
                         const struct reveal_line *line, uint32_t round,
                         struct kernels_scratch *scratch, struct error *err);

struct masking {
    uint64_t to, from, size_bytes; /* whole blocks of the keystream; may be the same memory */
    uint64_t key;                  /* the words of its line */
    uint64_t stream;
};
enum status kernels_mask(const struct kernels *kernels, cudaStream_t stream,
                         const struct masking *masking, struct error *err);

/* Says done, waits for the nonce, and answers with the proof. */
enum status kernels_answer(const struct kernels *kernels, cudaStream_t stream,
                           const struct answering *answering, struct reveal_page *page,
                           struct kernels_scratch *scratch, struct error *err);

/* Adds to scratch->sum, under the nonce in scratch->words. */
enum status kernels_prove(const struct kernels *kernels, cudaStream_t stream,
                          const struct proving *proving, struct error *err);

/* `turns` of some 10 clocks each, where every place is taken. `span` is device memory and starts
 * as {UINT64_MAX, 0, UINT64_MAX}. */
enum status kernels_canary(const struct kernels *kernels, cudaStream_t stream, uint32_t turns,
                           struct kernels_span *span, struct error *err);

#endif
