/*
 * exec_float.c — arithmetic of f32 and f64.
 *
 * Rounding and flushing of subnormals are the processor's own: MXCSR is set round the loop. NaN
 * results of f32 are 0x7fffffff, as on the device.
 */
#include "sim/float_mode.h"
#include "sim/half.h"

#include <math.h>

static inline float canonical(float value)
{
    return value == value ? value : float_of_bits(0x7fffffff);
}

static inline float magnitude(float value)
{
    return float_of_bits(bits_of_float(value) & 0x7fffffff);
}

EXEC_BINARY(add_f32, float, float, canonical(x + y))
EXEC_BINARY(sub_f32, float, float, canonical(x - y))
EXEC_BINARY(mul_f32, float, float, canonical(x *y))
EXEC_BINARY(div_f32, float, float, canonical(x / y))
EXEC_TERNARY(fma_f32, float, float, canonical(__builtin_fmaf(x, y, z)))
EXEC_UNARY(neg_f32, uint32_t, uint32_t, x ^ 0x80000000)
EXEC_UNARY(abs_f32, uint32_t, uint32_t, x & 0x7fffffff)

EXEC_BINARY(add_f64, double, double, x + y)
EXEC_BINARY(sub_f64, double, double, x - y)
EXEC_BINARY(mul_f64, double, double, x *y)
EXEC_BINARY(div_f64, double, double, x / y)
EXEC_TERNARY(fma_f64, double, double, __builtin_fma(x, y, z))
EXEC_UNARY(neg_f64, uint64_t, uint64_t, x ^ (uint64_t)1 << 63)
EXEC_UNARY(abs_f64, uint64_t, uint64_t, x & ~((uint64_t)1 << 63))

/* A number wins over NaN, and +0 is more than -0. */
#define IS_LESS(x, y) ((x) < (y) || ((x) == (y) && signbit(x)))
#define LESSER(x, y) ((x) != (x) ? (y) : (y) != (y) ? (x) : IS_LESS(x, y) ? (x) : (y))
#define GREATER(x, y) ((x) != (x) ? (y) : (y) != (y) ? (x) : IS_LESS(x, y) ? (y) : (x))
#define SIGNED_BY(value, x, y)                                                                     \
    float_of_bits(bits_of_float(value) | ((bits_of_float(x) ^ bits_of_float(y)) & 0x80000000))
EXEC_BINARY(min_f32, float, float, canonical(LESSER(x, y)))
EXEC_BINARY(max_f32, float, float, canonical(GREATER(x, y)))
EXEC_BINARY(min_f64, double, double, LESSER(x, y))
EXEC_BINARY(max_f64, double, double, GREATER(x, y))
EXEC_BINARY(min_nan_f32, float, float, canonical(x != x || y != y ? x + y : LESSER(x, y)))
EXEC_BINARY(max_nan_f32, float, float, canonical(x != x || y != y ? x + y : GREATER(x, y)))
EXEC_BINARY(min_xorsign, float, float,
            canonical(SIGNED_BY(LESSER(magnitude(x), magnitude(y)), x, y)))
EXEC_BINARY(max_xorsign, float, float,
            canonical(SIGNED_BY(GREATER(magnitude(x), magnitude(y)), x, y)))

EXEC_BINARY(min_nan_xorsign, float, float,
            canonical(x != x || y != y ? x + y
                                       : SIGNED_BY(LESSER(magnitude(x), magnitude(y)), x, y)))
EXEC_BINARY(max_nan_xorsign, float, float,
            canonical(x != x || y != y ? x + y
                                       : SIGNED_BY(GREATER(magnitude(x), magnitude(y)), x, y)))

EXEC_BINARY(copysign_f32, uint32_t, uint32_t, (x & 0x80000000) | (y & 0x7fffffff))
EXEC_BINARY(copysign_f64, uint64_t, uint64_t, (x & (uint64_t)1 << 63) | (y & ~((uint64_t)1 << 63)))

/* Extremes, signs: subnormal inputs are flushed, the rest is as without. */
static void flushed_operands(struct warp *warp, const struct insn *insn, uint32_t mask,
                             insn_exec *run)
{
    uint32_t *d = DESTINATION(uint32_t, 0);

    run(warp, insn, mask);
    FOR_LANES(uint32_t, uint32_t x = d[lane]; result = x & 0x7f800000 ? x : x & 0x80000000)
}

/* Runs a handler in the instruction's mode and saturates what it wrote. */
#define MODED(name)                                                                                \
    static void name##_moded(struct warp *warp, const struct insn *insn, uint32_t mask)            \
    {                                                                                              \
        uint32_t saved = mode_enter(insn);                                                         \
        name(warp, insn, mask);                                                                    \
        mode_leave(saved);                                                                         \
        if (insn->flags & FLAG_SAT) {                                                              \
            float *d = DESTINATION(float, 0);                                                      \
            FOR_LANES(float, float x = d[lane]; result = x > 0 ? (x < 1 ? x : 1) : 0)              \
        }                                                                                          \
    }
MODED(add_f32)
MODED(sub_f32)
MODED(mul_f32)
MODED(div_f32)
MODED(fma_f32)
MODED(add_f64)
MODED(sub_f64)
MODED(mul_f64)
MODED(div_f64)
MODED(fma_f64)

/* Flushed before they are compared: under DAZ the comparison sees zeros, the result is flushed. */
#define FLUSHED(name)                                                                              \
    static void name##_ftz(struct warp *warp, const struct insn *insn, uint32_t mask)              \
    {                                                                                              \
        uint32_t saved = mode_enter(insn);                                                         \
        flushed_operands(warp, insn, mask, name);                                                  \
        mode_leave(saved);                                                                         \
    }
FLUSHED(neg_f32)
FLUSHED(abs_f32)
FLUSHED(min_f32)
FLUSHED(max_f32)
FLUSHED(min_nan_f32)
FLUSHED(max_nan_f32)
FLUSHED(min_xorsign)
FLUSHED(max_xorsign)
FLUSHED(min_nan_xorsign)
FLUSHED(max_nan_xorsign)

static bool is_kind(double value, bool is_subnormal, uint8_t sub)
{
    switch (sub) {
    case TESTP_FINITE:
        return isfinite(value);
    case TESTP_INFINITE:
        return isinf(value);
    case TESTP_NUMBER:
        return value == value;
    case TESTP_NAN:
        return value != value;
    case TESTP_NORMAL:
        return isfinite(value) && value != 0 && !is_subnormal;
    default:
        return is_subnormal;
    }
}

static void testp_f32(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const float *a = SOURCE(float, 0);
    uint32_t value = 0;

    EACH_LANE
    {
        bool is_subnormal = fpclassify(a[lane]) == FP_SUBNORMAL;
        value |= (uint32_t)is_kind(a[lane], is_subnormal, insn->sub) << lane;
    }
    write_predicate(warp, insn->args[0], value, mask);
}

static void testp_f64(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const double *a = SOURCE(double, 0);
    uint32_t value = 0;

    EACH_LANE
    {
        bool is_subnormal = fpclassify(a[lane]) == FP_SUBNORMAL;
        value |= (uint32_t)is_kind(a[lane], is_subnormal, insn->sub) << lane;
    }
    write_predicate(warp, insn->args[0], value, mask);
}

/* ---- */

struct pair {
    insn_exec *plain, *moded;
};
static const struct pair f32_pairs[OPS] = {
    [OP_ADD] = {add_f32, add_f32_moded},  [OP_SUB] = {sub_f32, sub_f32_moded},
    [OP_MUL] = {mul_f32, mul_f32_moded},  [OP_DIV] = {div_f32, div_f32_moded},
    [OP_FMA] = {fma_f32, fma_f32_moded},  [OP_MAD] = {fma_f32, fma_f32_moded},
    [OP_NEG] = {neg_f32, neg_f32_ftz},    [OP_ABS] = {abs_f32, abs_f32_ftz},
    [OP_MIN] = {min_f32, min_f32_ftz},    [OP_MAX] = {max_f32, max_f32_ftz},
    [OP_COPYSIGN] = {copysign_f32, NULL}, [OP_TESTP] = {testp_f32, NULL},
};
static const struct pair f64_pairs[OPS] = {
    [OP_ADD] = {add_f64, add_f64_moded},  [OP_SUB] = {sub_f64, sub_f64_moded},
    [OP_MUL] = {mul_f64, mul_f64_moded},  [OP_DIV] = {div_f64, div_f64_moded},
    [OP_FMA] = {fma_f64, fma_f64_moded},  [OP_MAD] = {fma_f64, fma_f64_moded},
    [OP_NEG] = {neg_f64, NULL},           [OP_ABS] = {abs_f64, NULL},
    [OP_MIN] = {min_f64, NULL},           [OP_MAX] = {max_f64, NULL},
    [OP_COPYSIGN] = {copysign_f64, NULL}, [OP_TESTP] = {testp_f64, NULL},
};

static const struct pair *find_extreme(const struct insn *insn)
{
    static const struct pair nan_pairs[2] = {{min_nan_f32, min_nan_f32_ftz},
                                             {max_nan_f32, max_nan_f32_ftz}};
    static const struct pair xorsign_pairs[2] = {{min_xorsign, min_xorsign_ftz},
                                                 {max_xorsign, max_xorsign_ftz}};
    static const struct pair both_pairs[2] = {{min_nan_xorsign, min_nan_xorsign_ftz},
                                              {max_nan_xorsign, max_nan_xorsign_ftz}};
    bool is_max = insn->op == OP_MAX;

    switch (insn->flags & ~(uint32_t)FLAG_FTZ) {
    case 0:
        return &f32_pairs[insn->op];
    case FLAG_NAN:
        return &nan_pairs[is_max];
    case FLAG_XORSIGN:
    case FLAG_XORSIGN | FLAG_ABS:
        return &xorsign_pairs[is_max];
    case FLAG_NAN | FLAG_XORSIGN | FLAG_ABS:
        return &both_pairs[is_max];
    default:
        return NULL;
    }
}

insn_exec *find_float(const struct insn *insn)
{
    bool is_f32 = insn->type == TYPE_F32;
    bool is_extreme = insn->op == OP_MIN || insn->op == OP_MAX;
    bool is_plain = insn->round == ROUND_NONE || insn->round == ROUND_RN;
    const struct pair *pair = is_f32 ? &f32_pairs[insn->op] : &f64_pairs[insn->op];
    uint32_t allowed = is_f32 ? FLAG_FTZ | FLAG_SAT : 0;

    if ((!is_f32 && insn->type != TYPE_F64) || insn->round > ROUND_RP) {
        return NULL;
    }
    if (is_extreme && insn->src_count != 2) {
        return NULL;
    }
    if (is_f32 && is_extreme) {
        pair = find_extreme(insn);
        allowed |= FLAG_NAN | FLAG_XORSIGN | FLAG_ABS;
    }
    if (insn->op == OP_DIV) {
        allowed |= FLAG_APPROX | FLAG_FULL;
    }
    if (!pair || !has_flags_only(insn, allowed)) {
        return NULL;
    }
    return is_plain && !(insn->flags & (FLAG_FTZ | FLAG_SAT)) ? pair->plain : pair->moded;
}
