/*
 * exec_half.c — arithmetic of f16 and bf16, alone and in pairs: each result is rounded once.
 *
 * A slot is 64 halves; of a single one in the low bits the other is computed, too, and nobody looks
 * at it. Sums, products, quotients and fma are computed in f32, whose 24 bits are enough for a
 * second rounding to be harmless, but for fma (and for bf16 below the normal numbers of f32): there
 * the f32 result may lie on a boundary where the exact one does not. Such results are few; they
 * are computed again, exactly.
 */
#include "sim/exec.h"
#include "sim/half.h"

#include <math.h>

enum { HALVES = WARP_LANES * 2 };

static void widen(float to[HALVES], const void *slot, bool is_bf16)
{
    const uint16_t *from = slot;

    for (int i = 0; i < HALVES; i += 8) {
        __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)&from[i]);
        __m256 value = is_bf16
                           ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))
                           : _mm256_cvtph_ps(bits);
        _mm256_storeu_ps(&to[i], value);
    }
}

/* Rounds to nearest even; NaN becomes the canonical one. */
static void narrow(uint16_t to[HALVES], const float from[HALVES], bool is_bf16)
{
    for (int i = 0; i < HALVES; i += 8) {
        __m256 value = _mm256_loadu_ps(&from[i]);
        if (!is_bf16) {
            _mm_storeu_si128((__m128i *)(void *)&to[i], _mm256_cvtps_ph(value, 0));
        }
    }
    for (int i = 0; i < HALVES; i++) {
        uint32_t bits = bits_of_float(from[i]);
        uint16_t rounded = is_bf16 ? (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : to[i];
        to[i] = from[i] == from[i] ? rounded : 0x7fff;
    }
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

static bool is_pair_type(const struct insn *insn)
{
    return insn->type == TYPE_F16X2 || insn->type == TYPE_BF16X2;
}

/* f16's ftz: results and operands below its normal numbers; bf16 has no such modifier. */
static void flush(float value[HALVES])
{
    for (int i = 0; i < HALVES; i++) {
        uint32_t bits = bits_of_float(value[i]);
        bool is_small = (bits & 0x7fffffff) < 0x38800000; /* 2^-14 */
        value[i] = float_of_bits(is_small ? bits & 0x80000000 : bits);
    }
}

static void saturate(float value[HALVES])
{
    for (int i = 0; i < HALVES; i++) {
        float x = value[i];
        value[i] = x > 0 ? (x < 1 ? x : 1) : 0;
    }
}

static void relu(float value[HALVES])
{
    for (int i = 0; i < HALVES; i++) {
        value[i] = value[i] < 0 || (value[i] == 0 && signbit(value[i])) ? 0 : value[i];
    }
}

static void finish(struct warp *warp, const struct insn *insn, uint32_t mask, float value[HALVES])
{
    uint16_t narrowed[HALVES];

    if (insn->flags & FLAG_SAT) {
        saturate(value);
    }
    if (insn->flags & FLAG_RELU) {
        relu(value);
    }
    narrow(narrowed, value, is_bf16_type(insn));
    if (insn->flags & FLAG_FTZ) {
        for (int i = 0; i < HALVES; i++) {
            narrowed[i] = narrowed[i] & 0x7c00 ? narrowed[i] : narrowed[i] & 0x8000;
        }
    }
    write_halves(warp, insn, mask, narrowed);
}

static void read_operand(struct warp *warp, const struct insn *insn, int source,
                         float value[HALVES])
{
    widen(value, SOURCE(uint32_t, source), is_bf16_type(insn));
    if (insn->flags & FLAG_FTZ) {
        flush(value);
    }
}

/* One result, exactly, as an f32 that narrows to the right half without rounding again. */
static float exact(bool is_bf16, double value, int residue)
{
    struct rounding nearest = {ROUND_RN, false};
    const struct format *format = is_bf16 ? &format_bf16 : &format_f16;
    uint16_t bits = (uint16_t)format_round(format, value, residue, &nearest);

    return is_bf16 ? float_of_bf16(bits) : float_of_f16(bits);
}

/* Whether an f32 result may be rounded wrongly a second time: it lies on a boundary between two
 * halves, or so low that the boundaries lie elsewhere. */
static bool is_doubtful(float value, bool is_bf16)
{
    uint32_t bits = bits_of_float(value) & 0x7fffffff;
    uint32_t low = is_bf16 ? 0x01000000 : 0x38800000;
    bool is_boundary = is_bf16 ? (bits & 0xffff) == 0x8000 : (bits & 0x1fff) == 0x1000;

    return bits != 0 && bits < 0x7f800000 && (is_boundary || bits < low);
}

#define SIMPLE(name, expression, exact_value)                                                      \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        bool is_bf16 = is_bf16_type(insn);                                                         \
        int step = is_pair_type(insn) ? 1 : 2;                                                     \
        float a[HALVES];                                                                           \
        float b[HALVES];                                                                           \
        float value[HALVES];                                                                       \
        read_operand(warp, insn, 0, a);                                                            \
        read_operand(warp, insn, 1, b);                                                            \
        for (int i = 0; i < HALVES; i++) {                                                         \
            float x = a[i];                                                                        \
            float y = b[i];                                                                        \
            value[i] = (expression);                                                               \
        }                                                                                          \
        for (int i = 0; is_bf16 && i < HALVES; i += step) {                                        \
            if (is_doubtful(value[i], true)) {                                                     \
                double x = a[i];                                                                   \
                double y = b[i];                                                                   \
                value[i] = exact(true, (exact_value), 0);                                          \
            }                                                                                      \
        }                                                                                          \
        finish(warp, insn, mask, value);                                                           \
    }
SIMPLE(add_half, x + y, x + y)
SIMPLE(sub_half, x - y, x - y)
SIMPLE(mul_half, x *y, x *y)

static void fma_half(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    bool is_bf16 = is_bf16_type(insn);
    int step = is_pair_type(insn) ? 1 : 2;
    float a[HALVES];
    float b[HALVES];
    float c[HALVES];
    float value[HALVES];

    read_operand(warp, insn, 0, a);
    read_operand(warp, insn, 1, b);
    read_operand(warp, insn, 2, c);
    for (int i = 0; i < HALVES; i++) {
        value[i] = __builtin_fmaf(a[i], b[i], c[i]);
    }
    for (int i = 0; i < HALVES; i += step) {
        if (is_doubtful(value[i], is_bf16)) {
            int residue = 0;
            double sum = fma_residue(a[i], b[i], c[i], &residue);
            value[i] = exact(is_bf16, sum, residue);
        }
    }
    finish(warp, insn, mask, value);
}

/* ---- extremes and signs: bits of the operands ---- */

static uint16_t extreme(uint16_t a, uint16_t b, const struct insn *insn)
{
    bool is_bf16 = is_bf16_type(insn);
    uint32_t infinity = is_bf16 ? 0x7f80 : 0x7c00;
    bool is_a_nan = (a & 0x7fffu) > infinity;
    bool is_b_nan = (b & 0x7fffu) > infinity;
    uint16_t sign = 0;

    if (is_a_nan || is_b_nan) {
        bool is_nan = insn->flags & FLAG_NAN || (is_a_nan && is_b_nan);
        return is_nan ? 0x7fff : is_a_nan ? b : a;
    }
    if (insn->flags & FLAG_XORSIGN) {
        sign = (a ^ b) & 0x8000;
        a &= 0x7fff;
        b &= 0x7fff;
    }
    /* Magnitude and sign in order: -0 is below +0. */
    int32_t x = a & 0x8000 ? ~(int32_t)(a & 0x7fff) : a;
    int32_t y = b & 0x8000 ? ~(int32_t)(b & 0x7fff) : b;
    return sign | ((x < y) == (insn->op == OP_MIN) ? a : b);
}

static void extreme_half(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint16_t a[HALVES];
    uint16_t b[HALVES];

    memcpy(a, SOURCE(uint32_t, 0), sizeof(a));
    memcpy(b, SOURCE(uint32_t, 1), sizeof(b));
    for (int i = 0; i < HALVES; i++) {
        if (insn->flags & FLAG_FTZ) {
            a[i] = a[i] & 0x7c00 ? a[i] : a[i] & 0x8000;
            b[i] = b[i] & 0x7c00 ? b[i] : b[i] & 0x8000;
        }
        a[i] = extreme(a[i], b[i], insn);
    }
    write_halves(warp, insn, mask, a);
}

/* NaN becomes the canonical one, unlike in f32: seen on an H200. */
static void sign_half(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    int infinity = is_bf16_type(insn) ? 0x7f80 : 0x7c00;
    uint16_t a[HALVES];

    memcpy(a, SOURCE(uint32_t, 0), sizeof(a));
    for (int i = 0; i < HALVES; i++) {
        if (insn->flags & FLAG_FTZ) {
            a[i] = a[i] & 0x7c00 ? a[i] : a[i] & 0x8000;
        }
        bool is_nan = (a[i] & 0x7fff) > infinity;
        a[i] = is_nan ? 0x7fff : insn->op == OP_NEG ? a[i] ^ 0x8000 : a[i] & 0x7fff;
    }
    write_halves(warp, insn, mask, a);
}

/* ---- ex2 and tanh: approximations, rounded from f32 ---- */

static void function_half(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    float value[HALVES];

    read_operand(warp, insn, 0, value);
    for (int i = 0; i < HALVES; i++) {
        value[i] = insn->op == OP_EX2 ? exp2f(value[i]) : tanhf(value[i]);
    }
    finish(warp, insn, mask, value);
}

static bool allows(const struct insn *insn, uint32_t flags)
{
    return has_flags_only(insn, flags) && (insn->round == ROUND_NONE || insn->round == ROUND_RN);
}

insn_exec *find_half(const struct insn *insn)
{
    switch (insn->op) {
    case OP_ADD:
        return allows(insn, FLAG_FTZ | FLAG_SAT) ? add_half : NULL;
    case OP_SUB:
        return allows(insn, FLAG_FTZ | FLAG_SAT) ? sub_half : NULL;
    case OP_MUL:
        return allows(insn, FLAG_FTZ | FLAG_SAT) ? mul_half : NULL;
    case OP_FMA:
        return allows(insn, FLAG_FTZ | FLAG_SAT | FLAG_RELU) ? fma_half : NULL;
    case OP_MIN:
    case OP_MAX:
        return allows(insn, FLAG_FTZ | FLAG_NAN | FLAG_XORSIGN | FLAG_ABS) && insn->src_count == 2
                   ? extreme_half
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
