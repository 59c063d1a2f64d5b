/*
 * fill.h — random numbers with the same bits from gcc and from nvcc, on the host and on a GPU.
 *
 * Element `i` of a stream depends on `i` and the stream's key alone, so that any part of a tensor
 * can be made anywhere. There is integer arithmetic and one exactly rounded multiplication: nothing
 * that a compiler may contract or a library may round in its own way. Plain functions, no state.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define FILL_FUNCTION __host__ __device__ static inline
#else
#define FILL_FUNCTION static inline
#endif

struct fill_words {
    uint32_t word[4];
};

/* Philox 4x32-10: four uniform words for each counter. */
FILL_FUNCTION struct fill_words fill_philox(uint64_t counter, uint64_t key)
{
    uint32_t c0 = (uint32_t)counter;
    uint32_t c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = 0;
    uint32_t c3 = 0;
    uint32_t k0 = (uint32_t)key;
    uint32_t k1 = (uint32_t)(key >> 32);

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53U * c0;
        uint64_t b = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    struct fill_words words = {{c0, c1, c2, c3}};
    return words;
}

FILL_FUNCTION uint64_t fill_bits(uint64_t i, uint64_t key)
{
    struct fill_words words = fill_philox(i, key);
    return words.word[0] | (uint64_t)words.word[1] << 32;
}

/* Standard normal, near enough: the sum of eight uniform 16-bit words, exact in fp32, whose
 * variance is 8 * (65536^2 - 1) / 12. */
FILL_FUNCTION float fill_normal(uint64_t i, uint64_t key)
{
    struct fill_words words = fill_philox(i, key);
    int32_t sum = 0;

    for (int k = 0; k < 4; k++) {
        sum += (int32_t)(words.word[k] & 0xffff) + (int32_t)(words.word[k] >> 16);
    }
    return (float)(2 * sum - 8 * 65535) * (float)(0.5 / 53509.5);
}

/* Uniform in [0, 1): a multiple of 2^-24. */
FILL_FUNCTION float fill_uniform(uint64_t i, uint64_t key)
{
    return (float)(fill_philox(i, key).word[0] >> 8) * (1.0F / 16777216);
}

/* Uniform among low, low + 1, ..., high; the span is below 2^63. */
FILL_FUNCTION int64_t fill_integer(uint64_t i, uint64_t key, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    unsigned __int128 product = (unsigned __int128)fill_bits(i, key) * span;
    return (int64_t)((uint64_t)low + (uint64_t)(product >> 64));
}

/* The bits of `value` rounded to bf16, nearest even; a NaN becomes the canonical one. */
FILL_FUNCTION uint16_t fill_to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return 0x7fff;
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The bits of `value` rounded to fp16, nearest even; a NaN becomes the canonical one. */
FILL_FUNCTION uint16_t fill_to_fp16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return 0x7fff;
    }
    if (magnitude >= 0x47800000) { /* 2^16 and above */
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude < 0x33000000) { /* below half of the smallest subnormal */
        return (uint16_t)sign;
    }
    uint32_t exponent = magnitude >> 23;
    uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    uint32_t shift = exponent < 113 ? 126 - exponent : 13;
    uint32_t code = mantissa >> shift;
    uint32_t rest = mantissa & ((1U << shift) - 1);
    uint32_t half = 1U << (shift - 1);

    code += exponent < 113 ? 0 : (exponent - 113) << 10;
    code += rest > half || (rest == half && (code & 1));
    return (uint16_t)(sign | code);
}
