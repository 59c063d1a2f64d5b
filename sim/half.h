/*
 * half.h — numbers narrower than 32 bits: what they are worth, and exact rounding to them.
 *
 * Rounding is done once, from a double and what the double itself lost: `residue` is the sign of
 * (exact value - value), 0 where the double is exact.
 */
#pragma once

#include "sim/code.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float float_of_f16(uint16_t bits)
{
    return _cvtsh_ss(bits);
}

static inline float float_of_bf16(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

/* A floating-point format of at most 32 bits. */
struct format {
    uint8_t exponent_bits, fraction_bits;
    bool has_infinity; /* e4m3 has none: its largest exponent holds numbers, and one NaN */
    uint32_t nan;      /* the canonical one */
};
extern const struct format format_f16, format_bf16, format_tf32, format_e4m3, format_e5m2,
    format_f32;

struct rounding {
    enum code_round mode;
    bool saturates; /* beyond the largest: that one; NaN stays, e4m3 and e5m2 like .satfinite */
};

/* The bits of `value` (with `residue`) in the format, rounded once. */
uint32_t format_round(const struct format *format, double value, int residue,
                      const struct rounding *rounding);
/* What e4m3 and e5m2 codes are worth. */
float float_of_e4m3(uint8_t code);
float float_of_e5m2(uint8_t code);

/* a * b + c with what the double lost. */
double fma_residue(double a, double b, double c, int *residue);
double sum_residue(double a, double b, int *residue);

/* One f16 or bf16 of two, as atomics and multicast reductions combine them. */
enum half_op { HALF_ADD, HALF_MIN, HALF_MAX };
uint16_t half_combine(uint16_t a, uint16_t b, bool is_bf16, enum half_op op);
