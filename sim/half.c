#include "sim/half.h"

#include <math.h>

const struct format format_f16 = {5, 10, true, 0x7fff};
const struct format format_bf16 = {8, 7, true, 0x7fff};
const struct format format_tf32 = {8, 10, true, 0x3ffff};
const struct format format_e4m3 = {4, 3, false, 0x7f};
const struct format format_e5m2 = {5, 2, true, 0x7f};
const struct format format_f32 = {8, 23, true, 0x7fffffff};

static uint64_t bits_of_double(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Whether a magnitude with this remainder goes up. `half` is half a unit; `below` and `above` say
 * that the exact value lies a trifle to that side of the remainder. */
static bool goes_up(uint64_t remainder, uint64_t half, int residue, bool is_odd,
                    enum code_round mode, bool is_negative)
{
    bool is_inexact = remainder != 0 || residue != 0;

    switch (mode) {
    case ROUND_RZ:
        return false;
    case ROUND_RM:
        return is_negative && is_inexact;
    case ROUND_RP:
        return !is_negative && is_inexact;
    case ROUND_RNA:
        return remainder > half || (remainder == half && residue >= 0);
    default:
        if (remainder != half) {
            return remainder > half;
        }
        return residue > 0 || (residue == 0 && is_odd);
    }
}

static uint32_t overflow(const struct format *format, const struct rounding *rounding,
                         bool is_negative)
{
    uint32_t top = (1u << (format->exponent_bits + format->fraction_bits)) - 1;
    uint32_t infinity = ((1u << format->exponent_bits) - 1) << format->fraction_bits;
    uint32_t largest = format->has_infinity ? infinity - 1 : top - 1;
    bool is_to_zero = rounding->mode == ROUND_RZ || (rounding->mode == ROUND_RM && !is_negative) ||
                      (rounding->mode == ROUND_RP && is_negative);

    if (rounding->saturates || is_to_zero) {
        return largest;
    }
    return format->has_infinity ? infinity : format->nan;
}

uint32_t format_round(const struct format *format, double value, int residue,
                      const struct rounding *rounding)
{
    uint64_t bits = bits_of_double(value);
    bool is_negative = bits >> 63;
    uint32_t sign = (uint32_t)is_negative << (format->exponent_bits + format->fraction_bits);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t significand = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    int bias = (1 << (format->exponent_bits - 1)) - 1;
    uint32_t largest_exponent = (1u << format->exponent_bits) - 1;

    if (value != value) {
        return format->nan;
    }
    if (isinf(value)) {
        struct rounding to_infinity = {ROUND_RN, rounding->saturates};
        return sign | overflow(format, &to_infinity, is_negative);
    }
    if (exponent == -1023) { /* zero, or so small that only its sign and residue matter */
        if (value == 0) {
            return sign;
        }
        exponent = -1022;
        significand &= ~((uint64_t)1 << 52);
    }
    if (is_negative) {
        residue = -residue;
    }
    int drop = 52 - format->fraction_bits;
    if (exponent < 1 - bias) {
        drop += 1 - bias - exponent;
    }
    if (drop > 60) {
        significand = 1; /* far below half of the smallest number */
        drop = 60;
        residue = 0;
    }
    if (residue < 0) { /* the exact magnitude is a trifle smaller: make the remainder say so */
        significand = significand * 2 - 1;
        drop++;
        residue = 0;
    }
    uint64_t kept = significand >> drop;
    uint64_t remainder = significand & (((uint64_t)1 << drop) - 1);
    kept += goes_up(remainder, (uint64_t)1 << (drop - 1), residue, kept & 1, rounding->mode,
                    is_negative);
    uint32_t result = (uint32_t)kept; /* of a subnormal; a carry makes it the smallest normal */
    if (exponent >= 1 - bias) {
        result = (uint32_t)(kept + ((uint64_t)(exponent + bias - 1) << format->fraction_bits));
        if (exponent + bias > (int)largest_exponent) {
            return sign | overflow(format, rounding, is_negative);
        }
    }
    uint32_t beyond = format->has_infinity ? largest_exponent << format->fraction_bits
                                           : (largest_exponent << format->fraction_bits) + 7;
    return result >= beyond ? sign | overflow(format, rounding, is_negative) : sign | result;
}

static float float_of_code(uint8_t code, int fraction_bits, int bias)
{
    int exponent = code >> fraction_bits & (fraction_bits == 3 ? 15 : 31);
    int fraction = code & ((1 << fraction_bits) - 1);
    float magnitude = exponent == 0 ? ldexpf((float)fraction, 1 - bias - fraction_bits)
                                    : ldexpf((float)(fraction + (1 << fraction_bits)),
                                             exponent - bias - fraction_bits);

    return code & 0x80 ? -magnitude : magnitude;
}

float float_of_e4m3(uint8_t code)
{
    return (code & 0x7f) == 0x7f ? float_of_bits(0x7fffffff) : float_of_code(code, 3, 7);
}

float float_of_e5m2(uint8_t code)
{
    if ((code & 0x7c) == 0x7c) {
        return code & 3 ? float_of_bits(0x7fffffff) : code & 0x80 ? -INFINITY : INFINITY;
    }
    return float_of_code(code, 2, 15);
}

double sum_residue(double a, double b, int *residue)
{
    double sum = a + b;
    double part = sum - a;
    double lost = (a - (sum - part)) + (b - part);

    *residue = isfinite(sum) ? (lost > 0) - (lost < 0) : 0;
    return sum;
}

double fma_residue(double a, double b, double c, int *residue)
{
    return sum_residue(a * b, c, residue); /* the product of two narrow numbers is exact */
}

uint16_t half_combine(uint16_t a, uint16_t b, bool is_bf16, enum half_op op)
{
    struct rounding rounding = {ROUND_RN, false};
    float x = is_bf16 ? float_of_bf16(a) : float_of_f16(a);
    float y = is_bf16 ? float_of_bf16(b) : float_of_f16(b);
    const struct format *format = is_bf16 ? &format_bf16 : &format_f16;
    int residue = 0;

    if (op != HALF_ADD) {
        if (x != x || y != y) {
            return x == x ? a : y == y ? b : (uint16_t)format->nan;
        }
        bool is_less = x < y || (x == y && a >> 15 > b >> 15);
        return is_less == (op == HALF_MIN) ? a : b;
    }
    double sum = sum_residue(x, y, &residue);
    return (uint16_t)format_round(format, sum, residue, &rounding);
}
