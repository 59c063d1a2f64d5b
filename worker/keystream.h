/*
 * keystream.h — what hides inputs until they are revealed, and what proves that outputs are there:
 * the same functions for gcc and nvcc.
 *
 * Inputs are XORed with the keystream of ChaCha8 under a key that is used once. The proof of
 * possession is a sum, in any order, of one keyed term for each word, or for so many of them that
 * who lacks a ten-thousandth is found out.
 */
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define KEYSTREAM_API static __host__ __device__ __forceinline__
#else
#define KEYSTREAM_API static inline
#endif

enum { KEYSTREAM_KEY_WORDS = 8, KEYSTREAM_BLOCK_WORDS = 16, KEYSTREAM_BLOCK_BYTES = 64 };

KEYSTREAM_API uint32_t keystream_rotate(uint32_t value, int bits)
{
    return value << bits | value >> (32 - bits);
}

KEYSTREAM_API void keystream_quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    *a += *b;
    *d = keystream_rotate(*d ^ *a, 16);
    *c += *d;
    *b = keystream_rotate(*b ^ *c, 12);
    *a += *b;
    *d = keystream_rotate(*d ^ *a, 8);
    *c += *d;
    *b = keystream_rotate(*b ^ *c, 7);
}

/* Block `counter` of stream `stream`. */
KEYSTREAM_API void keystream_block(const uint32_t *key, uint64_t stream, uint64_t counter,
                                   uint32_t *block)
{
    uint32_t start[KEYSTREAM_BLOCK_WORDS] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};

    for (int i = 0; i < KEYSTREAM_KEY_WORDS; i++) {
        start[4 + i] = key[i];
    }
    start[12] = (uint32_t)counter;
    start[13] = (uint32_t)(counter >> 32);
    start[14] = (uint32_t)stream;
    start[15] = (uint32_t)(stream >> 32);
    for (int i = 0; i < KEYSTREAM_BLOCK_WORDS; i++) {
        block[i] = start[i];
    }
    for (int round = 0; round < 8; round += 2) {
        keystream_quarter(&block[0], &block[4], &block[8], &block[12]);
        keystream_quarter(&block[1], &block[5], &block[9], &block[13]);
        keystream_quarter(&block[2], &block[6], &block[10], &block[14]);
        keystream_quarter(&block[3], &block[7], &block[11], &block[15]);
        keystream_quarter(&block[0], &block[5], &block[10], &block[15]);
        keystream_quarter(&block[1], &block[6], &block[11], &block[12]);
        keystream_quarter(&block[2], &block[7], &block[8], &block[13]);
        keystream_quarter(&block[3], &block[4], &block[9], &block[14]);
    }
    for (int i = 0; i < KEYSTREAM_BLOCK_WORDS; i++) {
        block[i] += start[i];
    }
}

/* The term of word `index` under the nonce. */
KEYSTREAM_API uint64_t possession_term(const uint32_t *nonce, uint64_t index, uint32_t word)
{
    uint64_t value = (index << 32 | word) ^ ((uint64_t)nonce[1] << 32 | nonce[0]);

    value += (uint64_t)nonce[3] << 32 | nonce[2];
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    value ^= (uint64_t)nonce[5] << 32 | nonce[4];
    value = (value ^ (value >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return value ^ (value >> 32);
}

/* Which of `count` < 2^32 words is looked at as the i-th under the nonce, where not all are. */
KEYSTREAM_API uint64_t possession_index(const uint32_t *nonce, uint64_t i, uint64_t count)
{
    return (possession_term(nonce, i, ~0u) >> 32) * count >> 32;
}
