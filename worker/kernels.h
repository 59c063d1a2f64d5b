/*
 * kernels.h — the kernels of ours that run around a timed call.
 *
 * They are compiled into the programs as one image and loaded into the current context by
 * kernels_load, on hardware only. All work goes to `stream` and nothing waits for it. Addresses are
 * device addresses.
 */
#pragma once

enum { KERNELS_CANARY_THREADS = 1024 };

#ifndef __CUDACC__

#include "common/error.h"
#include "worker/reveal.h"

#include <cuda_runtime_api.h>

struct kernels; /* for one context */

enum status kernels_load(struct kernels **kernels, struct error *err);
void kernels_unload(struct kernels *kernels);

/* What a rank's or the judge's kernels need in device memory; starts as zeroes. */
struct kernels_scratch {
    uint32_t words[KEYSTREAM_KEY_WORDS]; /* of the line that a gate waited for */
    uint64_t sum;
};

/* Waits for the round, then has the line's words in scratch->words and 0 in scratch->sum. */
enum status kernels_gate(const struct kernels *kernels, cudaStream_t stream,
                         const struct reveal_line *line, uint32_t round,
                         struct kernels_scratch *scratch, struct error *err);

struct masking {
    uint64_t to, from, size_bytes; /* whole blocks of the keystream; may be the same memory */
    uint64_t key;                  /* the words */
    uint64_t stream;
};
enum status kernels_mask(const struct kernels *kernels, cudaStream_t stream,
                         const struct masking *masking, struct error *err);

enum status kernels_done(const struct kernels *kernels, cudaStream_t stream,
                         struct reveal_answer *answer, uint32_t round, struct error *err);

struct proving {
    uint64_t from, size_bytes; /* whole words */
    uint64_t first;            /* the index of its first word in the proof */
    struct kernels_scratch *scratch;
};
/* Adds to scratch->sum, under the nonce in scratch->words. */
enum status kernels_prove(const struct kernels *kernels, cudaStream_t stream,
                          const struct proving *proving, struct error *err);
enum status kernels_proved(const struct kernels *kernels, cudaStream_t stream,
                           struct reveal_answer *answer, uint32_t round,
                           struct kernels_scratch *scratch, struct error *err);
/* `turns` of about 4 clocks each. */
enum status kernels_canary(const struct kernels *kernels, cudaStream_t stream, uint32_t turns,
                           struct kernels_scratch *scratch, struct error *err);

#endif
