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
extern "C" __global__ void pkb_gate(const struct reveal_line *line, uint32_t round, uint32_t *words,
                                    unsigned long long *sum)
{
    while (load(&line->round) != round) {
    }
    __threadfence_system();
    for (int i = 0; i < KEYSTREAM_KEY_WORDS; i++) {
        words[i] = load(&line->words[i]);
    }
    *sum = 0;
}

/* One thread a block of the keystream. */
extern "C" __global__ void pkb_mask(uint4 *to, const uint4 *from, uint64_t blocks,
                                    const uint32_t *key, uint64_t stream)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;

    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < blocks; i += stride) {
        uint32_t block[KEYSTREAM_BLOCK_WORDS];
        keystream_block(key, stream, i, block);
        for (int part = 0; part < 4; part++) {
            uint4 word = from[i * 4 + part];
            word.x ^= block[part * 4];
            word.y ^= block[part * 4 + 1];
            word.z ^= block[part * 4 + 2];
            word.w ^= block[part * 4 + 3];
            to[i * 4 + part] = word;
        }
    }
}

extern "C" __global__ void pkb_done(struct reveal_answer *answer, uint32_t round)
{
    __threadfence_system();
    answer->done = round;
    __threadfence_system();
}

/* Adds the terms of `count` words, which have the indexes from `first` on, to *sum. */
extern "C" __global__ void pkb_prove(const uint32_t *words, uint64_t count, uint64_t first,
                                     const uint32_t *nonce, unsigned long long *sum)
{
    uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
    unsigned long long mine = 0;

    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        mine += possession_term(nonce, first + i, words[i]);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        mine += __shfl_down_sync(~0u, mine, distance);
    }
    if ((threadIdx.x & 31) == 0) {
        atomicAdd(sum, mine);
    }
}

extern "C" __global__ void pkb_proved(struct reveal_answer *answer, uint32_t round,
                                      const unsigned long long *sum)
{
    answer->proof = *sum;
    __threadfence_system();
    answer->proved = round;
    __threadfence_system();
}

/* Takes every place on the GPU for a fixed time: who sits on one makes it twice as long. */
extern "C" __global__ void __launch_bounds__(KERNELS_CANARY_THREADS, 2)
    pkb_canary(uint32_t turns, uint32_t *result)
{
    uint32_t value = threadIdx.x;

    for (uint32_t i = 0; i < turns; i++) {
        value = value * 1664525u + 1013904223u;
    }
    if (value == 1) {
        *result = value;
    }
}
