/*
 * exec_half.c — arithmetic of f16 and bf16, alone and in pairs: each result is rounded once.
 *
 * A slot is 64 halves; of a single one in the low bits the other is computed, too, and nobody looks
 * at it. Sums, products and fma are computed in f32, eight at a time. Its 24 bits are enough for a
 * second rounding to be harmless, but for fma, and for products of bf16 below the normal numbers of
 * f32: there the f32 result may lie on a boundary between two halves where the exact one does not.
 * Where one may, the eight are rounded to odd: what is inexact gets an odd last bit, which no
 * boundary has.
 */
#include "sim/exec.h"
#include "sim/half.h"

#include <math.h>

enum { HALVES = WARP_LANES * 2, EIGHT = 8 };

#define INLINE static inline __attribute__((always_inline))

INLINE __m256 widen(const uint16_t *from, bool is_bf16)
{
    __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)from);

    return is_bf16 ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))
                   : _mm256_cvtph_ps(bits);
}

INLINE __m128i cut(__m256i words)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

/* Rounds to nearest even; NaN becomes the canonical one. */
INLINE void narrow(uint16_t *to, __m256 value, bool is_bf16)
{
    const __m256i ones = _mm256_set1_epi32(1);
    __m256i bits = _mm256_castps_si256(value);
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    __m128i halves;

    if (is_bf16) {
        __m256i is_odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), ones);
        bits = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), is_odd);
        halves = cut(_mm256_srli_epi32(bits, 16));
    } else {
        halves = _mm256_cvtps_ph(value, 0);
    }
    __m128i nan_lanes =
        _mm_packs_epi32(_mm256_castsi256_si128(is_nan), _mm256_extracti128_si256(is_nan, 1));
    halves = _mm_blendv_epi8(halves, _mm_set1_epi16(0x7fff), nan_lanes);
    _mm_storeu_si128((__m128i *)(void *)to, halves);
}

static void write_halves(struct warp *warp, const struct insn *insn, uint32_t mask,
                         const uint16_t value[HALVES])
{
    uint32_t *d = DESTINATION(uint32_t, 0);
    uint32_t words[WARP_LANES];

    memcpy(words, value, sizeof(words));
    FOR_LANES(uint32_t, result = words[lane])
}

static bool is_bf16_type(const struct insn *insn)
{
    return insn->type == TYPE_BF16 || insn->type == TYPE_BF16X2;
}

/* .ftz: operands below the format's normal numbers. */
INLINE __m256 flush(__m256 value, bool is_bf16)
{
    const __m256i sign = _mm256_set1_epi32(INT32_MIN);
    __m256i bits = _mm256_castps_si256(value);
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(is_bf16 ? 0x00800000 : 0x38800000),
                                          _mm256_andnot_si256(sign, bits));

    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_andnot_si256(sign, is_small), bits));
}

/* ---- rounding to odd ---- */

/* The eights of an operation before their results are narrowed. */
struct eights {
    float a[EIGHT], b[EIGHT], c[EIGHT], value[EIGHT];
};

/* Makes the last bit of each inexact `value`, the nearest f32 to a * b + c, odd. */
static void round_to_odd(struct eights *eights)
{
    for (int i = 0; i < EIGHT; i++) {
        float value = eights->value[i];
        uint32_t bits = bits_of_float(value);
        double product = (double)eights->a[i] * eights->b[i]; /* exact: two narrow numbers */
        double c = eights->c[i];
        double sum = product + c;
        double part = sum - product;
        double lost = (product - (sum - part)) + (c - part);
        double error = (sum - value) + lost;          /* NaN where the operands are not finite */
        bool is_nearer = (error > 0) == (bits >> 31); /* to zero */
        bool is_inexact = error > 0 || error < 0;
        bits += is_inexact && !(bits & 1) ? (is_nearer ? -1u : 1u) : 0;
        eights->value[i] = float_of_bits(bits);
    }
}

/* Lanes of an f32 result that may be rounded wrongly a second time: on a boundary between two
 * halves, or so low that the boundaries lie elsewhere. */
INLINE __m256i doubts_of_fma(__m256 value, bool is_bf16)
{
    __m256i bits = _mm256_castps_si256(value);

    if (is_bf16) {
        return _mm256_cmpeq_epi32(_mm256_slli_epi32(bits, 16), _mm256_set1_epi32(INT32_MIN));
    }
    __m256i size = _mm256_slli_epi32(bits, 1);
    __m256i is_low = _mm256_and_si256(
        _mm256_cmpgt_epi32(_mm256_set1_epi32(0x38800000), _mm256_srli_epi32(size, 1)),
        _mm256_cmpgt_epi32(_mm256_srli_epi32(size, 1), _mm256_setzero_si256()));
    return _mm256_or_si256(
        is_low, _mm256_cmpeq_epi32(_mm256_slli_epi32(bits, 19), _mm256_set1_epi32(INT32_MIN)));
}

/* Products of bf16 that are below 2^-125, but no zeros. */
INLINE __m256i doubts_of_product(__m256 value)
{
    __m256i size = _mm256_srli_epi32(_mm256_slli_epi32(_mm256_castps_si256(value), 1), 1);

    return _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(0x01000000), size),
                            _mm256_cmpgt_epi32(size, _mm256_setzero_si256()));
}

static __m256 made_odd(__m256 a, __m256 b, __m256 c, __m256 value)
{
    struct eights eights;

    _mm256_storeu_ps(eights.a, a);
    _mm256_storeu_ps(eights.b, b);
    _mm256_storeu_ps(eights.c, c);
    _mm256_storeu_ps(eights.value, value);
    round_to_odd(&eights);
    return _mm256_loadu_ps(eights.value);
}

/* ---- sums, products, fma ---- */

INLINE __m256 compute(enum code_op op, bool is_bf16, __m256 a, __m256 b, __m256 c)
{
    const __m256 zero = _mm256_setzero_ps();
    __m256 value;

    switch (op) {
    case OP_ADD:
        return _mm256_add_ps(a, b);
    case OP_SUB:
        return _mm256_sub_ps(a, b);
    case OP_MUL: {
        value = _mm256_mul_ps(a, b);
        __m256i doubts = doubts_of_product(value);
        return is_bf16 && !_mm256_testz_si256(doubts, doubts) ? made_odd(a, b, zero, value) : value;
    }
    default: {
        value = _mm256_fmadd_ps(a, b, c);
        __m256i doubts = doubts_of_fma(value, is_bf16);
        return _mm256_testz_si256(doubts, doubts) ? value : made_odd(a, b, c, value);
    }
    }
}

/* To [0, 1]; NaN becomes 0. */
INLINE __m256 saturate(__m256 value)
{
    return _mm256_min_ps(_mm256_max_ps(value, _mm256_setzero_ps()), _mm256_set1_ps(1));
}

/* Negative numbers and -0 become +0; NaN stays. */
INLINE __m256 relu(__m256 value)
{
    __m256 is_number = _mm256_cmp_ps(value, value, _CMP_ORD_Q);
    __m256 is_negative = _mm256_castsi256_ps(_mm256_srai_epi32(_mm256_castps_si256(value), 31));

    return _mm256_andnot_ps(_mm256_and_ps(is_number, is_negative), value);
}

INLINE void flush_halves(uint16_t *halves, bool is_bf16)
{
    const uint16_t exponents = is_bf16 ? 0x7f80 : 0x7c00;

    for (int i = 0; i < EIGHT; i++) {
        halves[i] = halves[i] & exponents ? halves[i] : halves[i] & 0x8000;
    }
}

INLINE __m256 read_eight(const uint16_t *from, uint32_t flags, bool is_bf16)
{
    __m256 value = widen(from, is_bf16);

    return flags & FLAG_FTZ ? flush(value, is_bf16) : value;
}

INLINE void write_eight(uint16_t *to, __m256 value, uint32_t flags, bool is_bf16)
{
    if (flags & FLAG_SAT) {
        value = saturate(value);
    }
    if (flags & FLAG_RELU) {
        value = relu(value);
    }
    narrow(to, value, is_bf16);
    if (flags & FLAG_FTZ) {
        flush_halves(to, is_bf16);
    }
}

static const uint16_t *halves_of(const struct warp *warp, const struct insn *insn, int source)
{
    return source_4(warp, insn->args[insn->dst_count + source]);
}

/* Compiled once for each operation and type without flags, and once for any flags. */
#define ARITHMETIC(name, op)                                                                       \
    INLINE void name(struct warp *warp, const struct insn *insn, uint32_t mask, uint32_t flags,    \
                     bool is_bf16)                                                                 \
    {                                                                                              \
        const uint16_t *a = halves_of(warp, insn, 0);                                              \
        const uint16_t *b = halves_of(warp, insn, 1);                                              \
        const uint16_t *c = (op) == OP_FMA ? halves_of(warp, insn, 2) : a;                         \
        uint16_t result[HALVES];                                                                   \
        for (int i = 0; i < HALVES; i += EIGHT) {                                                  \
            __m256 x = read_eight(a + i, flags, is_bf16);                                          \
            __m256 y = read_eight(b + i, flags, is_bf16);                                          \
            __m256 z = read_eight(c + i, flags, is_bf16);                                          \
            write_eight(result + i, compute(op, is_bf16, x, y, z), flags, is_bf16);                \
        }                                                                                          \
        write_halves(warp, insn, mask, result);                                                    \
    }                                                                                              \
    static void name##_f16(struct warp *warp, const struct insn *insn, uint32_t mask)              \
    {                                                                                              \
        name(warp, insn, mask, 0, false);                                                          \
    }                                                                                              \
    static void name##_bf16(struct warp *warp, const struct insn *insn, uint32_t mask)             \
    {                                                                                              \
        name(warp, insn, mask, 0, true);                                                           \
    }                                                                                              \
    static void name##_moded(struct warp *warp, const struct insn *insn, uint32_t mask)            \
    {                                                                                              \
        name(warp, insn, mask, insn->flags, is_bf16_type(insn));                                   \
    }
ARITHMETIC(add_half, OP_ADD)
ARITHMETIC(sub_half, OP_SUB)
ARITHMETIC(mul_half, OP_MUL)
ARITHMETIC(fma_half, OP_FMA)

/* ---- extremes and signs: bits of the operands ---- */

/* -0 is below +0; XORSIGN compares sizes and gives the result the product's sign. */
INLINE void extreme(struct warp *warp, const struct insn *insn, uint32_t mask, uint32_t flags,
                    bool is_min)
{
    const int16_t infinity = is_bf16_type(insn) ? 0x7f80 : 0x7c00;
    const int16_t *given_a = (const int16_t *)halves_of(warp, insn, 0);
    const int16_t *given_b = (const int16_t *)halves_of(warp, insn, 1);
    int16_t result[HALVES];

    for (int i = 0; i < HALVES; i++) {
        int16_t a = given_a[i];
        int16_t b = given_b[i];
        if (flags & FLAG_FTZ) {
            a = a & 0x7c00 ? a : (int16_t)(a & 0x8000);
            b = b & 0x7c00 ? b : (int16_t)(b & 0x8000);
        }
        bool is_a_nan = (a & 0x7fff) > infinity;
        bool is_b_nan = (b & 0x7fff) > infinity;
        int16_t sign = 0;
        int16_t x = a;
        int16_t y = b;
        if (flags & FLAG_XORSIGN) {
            sign = (int16_t)((a ^ b) & 0x8000);
            x = (int16_t)(a & 0x7fff);
            y = (int16_t)(b & 0x7fff);
        }
        int16_t x_order = (int16_t)(x ^ (x >> 15 & 0x7fff));
        int16_t y_order = (int16_t)(y ^ (y >> 15 & 0x7fff));
        int16_t chosen = (int16_t)(((x_order < y_order) == is_min ? x : y) | sign);
        int16_t number = (int16_t)(is_a_nan ? y | sign : is_b_nan ? x | sign : chosen);
        bool is_nan = flags & FLAG_NAN ? is_a_nan || is_b_nan : is_a_nan && is_b_nan;
        result[i] = is_nan ? 0x7fff : number;
    }
    write_halves(warp, insn, mask, (const uint16_t *)result);
}

static void min_half(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    extreme(warp, insn, mask, 0, true);
}

static void max_half(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    extreme(warp, insn, mask, 0, false);
}

static void extreme_moded(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    extreme(warp, insn, mask, insn->flags, insn->op == OP_MIN);
}

/* NaN becomes the canonical one, unlike in f32: seen on an H200. */
static void sign_half(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const int16_t infinity = is_bf16_type(insn) ? 0x7f80 : 0x7c00;
    uint16_t flipped = insn->op == OP_NEG ? 0x8000 : 0;
    uint16_t kept = insn->op == OP_NEG ? 0xffff : 0x7fff;
    uint16_t a[HALVES];

    memcpy(a, halves_of(warp, insn, 0), sizeof(a));
    for (int i = 0; insn->flags & FLAG_FTZ && i < HALVES; i += EIGHT) {
        flush_halves(a + i, is_bf16_type(insn));
    }
    for (int i = 0; i < HALVES; i++) {
        bool is_nan = (int16_t)(a[i] & 0x7fff) > infinity;
        a[i] = is_nan ? 0x7fff : (uint16_t)((a[i] ^ flipped) & kept);
    }
    write_halves(warp, insn, mask, a);
}

/* ---- ex2 and tanh: approximations, rounded from f32 ---- */

static void function_half(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const uint16_t *a = halves_of(warp, insn, 0);
    bool is_bf16 = is_bf16_type(insn);
    uint16_t result[HALVES];
    float value[EIGHT];

    for (int i = 0; i < HALVES; i += EIGHT) {
        _mm256_storeu_ps(value, read_eight(a + i, insn->flags, is_bf16));
        for (int k = 0; k < EIGHT; k++) {
            value[k] = insn->op == OP_EX2 ? exp2f(value[k]) : tanhf(value[k]);
        }
        write_eight(result + i, _mm256_loadu_ps(value), insn->flags, is_bf16);
    }
    write_halves(warp, insn, mask, result);
}

static bool allows(const struct insn *insn, uint32_t flags)
{
    return has_flags_only(insn, flags) && (insn->round == ROUND_NONE || insn->round == ROUND_RN);
}

struct trio {
    insn_exec *f16, *bf16, *moded;
};
static const struct trio trios[OPS] = {
    [OP_ADD] = {add_half_f16, add_half_bf16, add_half_moded},
    [OP_SUB] = {sub_half_f16, sub_half_bf16, sub_half_moded},
    [OP_MUL] = {mul_half_f16, mul_half_bf16, mul_half_moded},
    [OP_FMA] = {fma_half_f16, fma_half_bf16, fma_half_moded},
    [OP_MIN] = {min_half, min_half, extreme_moded},
    [OP_MAX] = {max_half, max_half, extreme_moded},
};

static insn_exec *choose(const struct insn *insn)
{
    const struct trio *trio = &trios[insn->op];

    return insn->flags ? trio->moded : is_bf16_type(insn) ? trio->bf16 : trio->f16;
}

insn_exec *find_half(const struct insn *insn)
{
    switch (insn->op) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
        return allows(insn, FLAG_FTZ | FLAG_SAT) ? choose(insn) : NULL;
    case OP_FMA:
        return allows(insn, FLAG_FTZ | FLAG_SAT | FLAG_RELU) ? choose(insn) : NULL;
    case OP_MIN:
    case OP_MAX:
        return allows(insn, FLAG_FTZ | FLAG_NAN | FLAG_XORSIGN | FLAG_ABS) && insn->src_count == 2
                   ? choose(insn)
                   : NULL;
    case OP_NEG:
    case OP_ABS:
        return allows(insn, FLAG_FTZ) ? sign_half : NULL;
    case OP_EX2:
    case OP_TANH:
        return allows(insn, FLAG_FTZ | FLAG_APPROX) ? function_half : NULL;
    default:
        return NULL;
    }
}
