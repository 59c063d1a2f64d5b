/*
 * exact_half.h — f16 and bf16 as the tests compute them: values from the definition of the format,
 * results rounded once from a double that holds them exactly, or to odd.
 *
 * half_use chooses the format for all that follows.
 */
#pragma once

#include "tests/exact.h"
#include "tests/rounded.h"

#include <math.h>

enum { HALF_ALL = 65536, HALF_NAN = 0x7fff, HALF_SIGN = 0x8000 };

static const struct narrow *half_format;
static double half_values[HALF_ALL];

static inline void half_use(const struct narrow *format)
{
    half_format = format;
    for (uint32_t i = 0; i < HALF_ALL; i++) {
        half_values[i] = (double)narrow_value(format, i);
    }
}

static inline double half_value(uint64_t bits)
{
    return half_values[bits & 0xffff];
}

static inline bool half_is_nan(uint64_t bits)
{
    return half_value(bits) != half_value(bits);
}

static inline uint64_t double_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(1023 + exponent) << 52;
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/*
 * The code of a format that is `value` rounded once: how many units in the last place there are,
 * made whole.
 */
static inline uint64_t narrow_code(const struct narrow *format, double value,
                                   enum direction direction, bool saturates)
{
    int fraction = format->fraction_bits;
    int lowest = 2 - (1 << (format->exponent_bits - 1));
    uint64_t sign = (uint64_t)1 << (format->exponent_bits + fraction);
    uint64_t infinity = (((uint64_t)1 << format->exponent_bits) - 1) << fraction;
    uint64_t largest = format->has_infinity ? infinity - 1 : sign - 2;
    uint64_t beyond = saturates ? largest : format->has_infinity ? infinity : sign - 1;
    bool is_negative = double_bits(value) >> 63;
    int exponent = (int)(double_bits(value) >> 52 & 0x7ff) - 1023;
    uint64_t code = beyond;

    if (value != value) {
        return sign - 1;
    }
    if (!isinf(value)) {
        exponent = exponent < lowest ? lowest : exponent;
        double exact = fabs(value) * power_of_two(fraction - exponent);
        uint64_t units = (uint64_t)exact;
        double rest = exact - (double)units;
        bool is_up = direction == TO_NEAREST        ? rest > 0.5 || (rest == 0.5 && units & 1)
                     : direction == TO_NEAREST_AWAY ? rest >= 0.5
                     : direction == TO_MINUS        ? is_negative && rest > 0
                     : direction == TO_PLUS         ? !is_negative && rest > 0
                                                    : false;
        bool is_to_zero = direction == TO_ZERO || (direction == TO_MINUS && !is_negative) ||
                          (direction == TO_PLUS && is_negative);
        /* A subnormal has no leading bit; one that carries over becomes the next exponent. */
        code = ((uint64_t)(exponent - lowest) << fraction) + units + is_up;
        code = code <= largest ? code : is_to_zero ? largest : beyond;
    }
    return (is_negative ? sign : 0) | code;
}

/* To nearest, ties to even. */
static inline uint64_t half_round(double value)
{
    return narrow_code(half_format, value, TO_NEAREST, false);
}

/* a + b, with the last bit set where something was lost, so that rounding again sees it. */
static inline double half_sum(double a, double b)
{
    double sum = a + b;
    double part = sum - a;
    double lost = (a - (sum - part)) + (b - part);
    uint64_t bits = double_bits(sum);

    if (isfinite(sum) && lost != 0 && !(bits & 1)) {
        bits += (lost > 0) == (sum > 0) ? 1 : -(uint64_t)1;
        memcpy(&sum, &bits, sizeof(sum));
    }
    return sum;
}

static inline uint64_t half_flushed(uint64_t bits)
{
    uint64_t exponents = (((uint64_t)1 << half_format->exponent_bits) - 1)
                         << half_format->fraction_bits;

    return bits & exponents ? bits : bits & HALF_SIGN;
}

static inline uint64_t half_saturated(double value)
{
    return half_round(value > 0 ? (value < 1 ? value : 1) : 0);
}
