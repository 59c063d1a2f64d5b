/*
 * rounded.h — an independent rounding for the tests: from numbers of 113 bits to narrow formats.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct narrow {
    int exponent_bits, fraction_bits;
    bool has_infinity;
};
static const struct narrow narrow_f16 = {5, 10, true};
static const struct narrow narrow_bf16 = {8, 7, true};

enum direction { TO_NEAREST, TO_ZERO, TO_MINUS, TO_PLUS, TO_NEAREST_AWAY };

/* What a code is worth. */
static inline __float128 narrow_value(const struct narrow *format, uint32_t code)
{
    int bias = (1 << (format->exponent_bits - 1)) - 1;
    int exponent = (int)(code >> format->fraction_bits) & ((1 << format->exponent_bits) - 1);
    int fraction = (int)(code & ((1u << format->fraction_bits) - 1));
    bool is_negative = code >> (format->exponent_bits + format->fraction_bits) & 1;
    bool is_special = exponent == (1 << format->exponent_bits) - 1;
    __float128 value = fraction;

    if (is_special && format->has_infinity) {
        value = fraction ? (__float128)__builtin_nanf("") : (__float128)__builtin_inff();
        return is_negative ? -value : value;
    }
    if (is_special && fraction == (1 << format->fraction_bits) - 1) {
        return (__float128)__builtin_nanf("");
    }
    if (exponent) {
        value += 1 << format->fraction_bits;
    } else {
        exponent = 1;
    }
    int shift = exponent - bias - format->fraction_bits;
    for (; shift > 0; shift--) {
        value *= 2;
    }
    for (; shift < 0; shift++) {
        value /= 2;
    }
    return is_negative ? -value : value;
}

/* a + b with the last bit set where something is lost, so that it is not lost. */
static inline __float128 sum_to_odd(__float128 a, __float128 b)
{
    __float128 sum = a + b;
    __float128 part = sum - a;
    __float128 lost = (a - (sum - part)) + (b - part);
    unsigned __int128 bits;

    memcpy(&bits, &sum, sizeof(bits));
    if (lost != 0 && lost == lost && !(bits & 1)) {
        bits += (lost > 0) == (sum > 0) ? 1 : -1;
        memcpy(&sum, &bits, sizeof(sum));
    }
    return sum;
}

/* The nearest codes below and above, by a search over all magnitudes: slow and plain. */
static inline uint32_t narrow_round(const struct narrow *format, __float128 value,
                                    enum direction direction, bool saturates)
{
    uint32_t sign = (uint32_t)1 << (format->exponent_bits + format->fraction_bits);
    uint32_t infinity = ((1u << format->exponent_bits) - 1) << format->fraction_bits;
    uint32_t largest = format->has_infinity ? infinity - 1 : sign - 2;
    bool is_negative = __builtin_signbit((double)value);
    __float128 magnitude = is_negative ? -value : value;
    uint32_t low = 0;
    uint32_t high = largest;

    if (value != value) {
        return sign - 1;
    }
    while (low < high) { /* the largest code that is not above */
        uint32_t middle = (low + high + 1) / 2;
        if (narrow_value(format, middle) <= magnitude) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    uint32_t result = low;
    __float128 below = narrow_value(format, low);
    /* Beyond the largest the next one would be as far again. */
    __float128 next = low == largest ? below + (below - narrow_value(format, low - 1))
                                     : narrow_value(format, low + 1);
    bool is_up = false;
    if (magnitude != below) {
        __float128 half = (below + next) / 2;
        is_up = direction == TO_NEAREST        ? magnitude > half || (magnitude == half && low & 1)
                : direction == TO_NEAREST_AWAY ? magnitude >= half
                : direction == TO_MINUS        ? is_negative
                : direction == TO_PLUS         ? !is_negative
                                               : false;
    }
    if (low == largest && (is_up || magnitude > next)) {
        bool is_infinite = magnitude > (__float128)1e308;
        bool stays = saturates || (!is_up && !is_infinite);
        return (is_negative ? sign : 0) | (stays                  ? largest
                                           : format->has_infinity ? infinity
                                                                  : sign - 1);
    }
    result += is_up;
    return (is_negative ? sign : 0) | result;
}
