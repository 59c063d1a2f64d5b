/*
 * kernels.cu — the kernels of the judge and of pkb-rank around a timed call; see kernels.h.
 */
#include "worker/kernels.h"
#include "worker/keystream.h"
#include "worker/reveal.h"

#include <cstdint>

static __device__ uint32_t load(const volatile uint32_t *from)
{
    uint32_t value;

    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"((const uint32_t *)from)
                 : "memory");
    return value;
}

/* Waits for the round, and brings its words to device memory. */
static __device__ void await(const struct reveal_line *line, uint32_t round, uint32_t *words)
{
    while (load(&line->round) != round) {
    }
    __threadfence_system();
    for (int i = 0; i < REVEAL_WORDS; i++) {
        words[i] = load(&line->words[i]);
    }
}

extern "C" __global__ void pkb_gate(const struct reveal_line *line, uint32_t round,
                                    struct kernels_scratch *scratch)
{
    await(line, round, scratch->words);
    scratch->sum = 0;
    scratch->finished = 0;
}

/* One thread a block of the keystream, or of several of them on top of each other. */
extern "C" __global__ void pkb_mask(uint4 *to, const uint4 *from, uint64_t blocks,
                                    const uint32_t *key, uint64_t stream)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    uint32_t passes = key[REVEAL_PASSES];

    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < blocks; i += stride) {
        uint32_t sum[KEYSTREAM_BLOCK_WORDS] = {};
        for (uint32_t pass = 0; pass < passes; pass++) {
            uint32_t block[KEYSTREAM_BLOCK_WORDS];
            keystream_block(key, stream, (uint64_t)pass << 40 | i, block);
            for (int word = 0; word < KEYSTREAM_BLOCK_WORDS; word++) {
                sum[word] ^= block[word];
            }
        }
        for (int part = 0; part < 4; part++) {
            uint4 word = from[i * 4 + part];
            word.x ^= sum[part * 4];
            word.y ^= sum[part * 4 + 1];
            word.z ^= sum[part * 4 + 2];
            word.w ^= sum[part * 4 + 3];
            to[i * 4 + part] = word;
        }
    }
}

/* This thread's share of the terms of a region of words, which have the indexes from `first` on. */
static __device__ unsigned long long sum_region(const struct proving *region, const uint32_t *nonce)
{
    const uint32_t *words = (const uint32_t *)region->from;
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    bool is_whole = region->words <= region->sample;
    uint64_t count = is_whole ? region->words : region->sample;
    unsigned long long sum = 0;

    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        uint64_t at = is_whole ? i : possession_index(nonce, i, region->words);
        sum += possession_term(nonce, region->first + at, words[at]);
    }
    return sum;
}

static __device__ void add(unsigned long long mine, struct kernels_scratch *scratch)
{
    for (int distance = 16; distance > 0; distance /= 2) {
        mine += __shfl_down_sync(~0u, mine, distance);
    }
    if ((threadIdx.x & 31) == 0) {
        atomicAdd((unsigned long long *)&scratch->sum, mine);
    }
}

extern "C" __global__ void pkb_prove(struct proving proving)
{
    add(sum_region(&proving, proving.scratch->words), proving.scratch);
}

/* The first block asks for the nonce and the last one to end answers. Nobody waits for a later
 * block, so they need not all have a place at once. */
extern "C" __global__ void pkb_answer(struct answering answering, struct reveal_page *page,
                                      struct kernels_scratch *scratch)
{
    struct reveal_answer *answer = &page->answers[answering.rank];
    unsigned long long mine = 0;

    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
            __threadfence_system();
            answer->done = answering.round;
            await(&page->nonce, answering.round, scratch->words);
            __threadfence();
            *(volatile uint32_t *)&scratch->round = answering.round;
        }
        while (load(&scratch->round) != answering.round) {
        }
        __threadfence();
    }
    __syncthreads();
    for (uint32_t i = 0; i < answering.regions; i++) {
        struct proving region = {answering.from[i], answering.words, i * answering.words,
                                 answering.sample, scratch};
        mine += sum_region(&region, scratch->words);
    }
    add(mine, scratch);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(&scratch->finished, 1) == gridDim.x - 1) {
        answer->proof = atomicAdd((unsigned long long *)&scratch->sum, 0);
        __threadfence_system();
        answer->proved = answering.round;
    }
}

static __device__ uint64_t now_ns()
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

/* Takes every place on the GPU for a fixed time: who sits on one makes it twice as long. */
extern "C" __global__ void __launch_bounds__(KERNELS_CANARY_THREADS, 2)
    pkb_canary(uint32_t turns, struct kernels_span *span)
{
    uint64_t before = now_ns();
    uint32_t value = threadIdx.x;

    for (uint32_t i = 0; i < turns; i++) {
        value = value * 1664525u + 1013904223u;
    }
    /* A use of the value that does nothing: without one, nobody would make the turns. */
    if (value == 1) {
        atomicMin((unsigned long long *)&span->first, before);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint64_t after = now_ns();
        atomicMin((unsigned long long *)&span->first, before);
        atomicMax((unsigned long long *)&span->last, after);
        atomicMin((unsigned long long *)&span->least, after - before);
    }
}
