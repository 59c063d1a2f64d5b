/*
 * exec_math.c — roots, reciprocals and approximations of f32 and f64. What the device approximates
 * is computed better here; the bounds of the PTX manual hold with room to spare.
 */
#include "sim/float_mode.h"
#include "sim/half.h"

#include <math.h>

static inline float canonical(float value)
{
    return value == value ? value : float_of_bits(0x7fffffff);
}

EXEC_UNARY(rcp_f32, float, float, canonical(1 / x))
EXEC_UNARY(sqrt_f32, float, float, canonical(__builtin_sqrtf(x)))
EXEC_UNARY(rcp_f64, double, double, 1 / x)
EXEC_UNARY(sqrt_f64, double, double, __builtin_sqrt(x))
EXEC_UNARY(rsqrt_f32, float, float, canonical((float)(1 / __builtin_sqrt((double)x))))
EXEC_UNARY(rsqrt_f64, double, double, 1 / __builtin_sqrt(x))
EXEC_UNARY(sin_f32, float, float, canonical(sinf(x)))
EXEC_UNARY(cos_f32, float, float, canonical(cosf(x)))
EXEC_UNARY(lg2_f32, float, float, canonical(log2f(x)))
EXEC_UNARY(ex2_f32, float, float, canonical(exp2f(x)))
EXEC_UNARY(tanh_f32, float, float, canonical(tanhf(x)))

#define MODED(name)                                                                                \
    static void name##_moded(struct warp *warp, const struct insn *insn, uint32_t mask)            \
    {                                                                                              \
        uint32_t saved = mode_enter(insn);                                                         \
        name(warp, insn, mask);                                                                    \
        mode_leave(saved);                                                                         \
    }
MODED(rcp_f32)
MODED(sqrt_f32)
MODED(rcp_f64)
MODED(sqrt_f64)

/* rcp and rsqrt .approx.ftz.f64: the low 32 bits of operand and result do not exist. */
#define HIGH_WORD(name, expression)                                                                \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        uint64_t *d = DESTINATION(uint64_t, 0);                                                    \
        const uint64_t *a = SOURCE(uint64_t, 0);                                                   \
        FOR_LANES(uint64_t, uint64_t bits = a[lane] & ~(uint64_t)UINT32_MAX; double x;             \
                  bits &= bits & (uint64_t)0x7ff << 52 ? ~(uint64_t)0 : (uint64_t)1 << 63;         \
                  memcpy(&x, &bits, sizeof(x)); x = (expression); memcpy(&bits, &x, sizeof(x));    \
                  result = bits & ~(uint64_t)UINT32_MAX)                                           \
    }
HIGH_WORD(rcp_high_f64, 1 / x)
HIGH_WORD(rsqrt_high_f64, 1 / __builtin_sqrt(x))

/* Approximations that flush: operands before, results after, for libm must not see the mode. */
static void flush(uint32_t to[WARP_LANES], const uint32_t *from)
{
    EACH_LANE
    {
        to[lane] = from[lane] & 0x7f800000 ? from[lane] : from[lane] & 0x80000000;
    }
}

static void function_ftz(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    float *d = DESTINATION(float, 0);
    uint32_t bits[WARP_LANES];
    float value[WARP_LANES];

    flush(bits, SOURCE(uint32_t, 0));
    EACH_LANE
    {
        float x = float_of_bits(bits[lane]);
        switch (insn->op) {
        case OP_SIN:
            value[lane] = sinf(x);
            break;
        case OP_COS:
            value[lane] = cosf(x);
            break;
        case OP_LG2:
            value[lane] = log2f(x);
            break;
        case OP_EX2:
            value[lane] = exp2f(x);
            break;
        case OP_RSQRT:
            value[lane] = (float)(1 / sqrt((double)x));
            break;
        default:
            value[lane] = tanhf(x);
            break;
        }
        value[lane] = canonical(value[lane]);
    }
    memcpy(bits, value, sizeof(bits));
    flush(bits, bits);
    memcpy(value, bits, sizeof(bits));
    FOR_LANES(float, result = value[lane])
}

static insn_exec *const f32_functions[OPS] = {
    [OP_RSQRT] = rsqrt_f32, [OP_SIN] = sin_f32, [OP_COS] = cos_f32,
    [OP_LG2] = lg2_f32,     [OP_EX2] = ex2_f32, [OP_TANH] = tanh_f32,
};

static insn_exec *find_f64(const struct insn *insn)
{
    bool is_high = (insn->flags & (FLAG_APPROX | FLAG_FTZ)) == (FLAG_APPROX | FLAG_FTZ);

    if (!has_flags_only(insn, FLAG_APPROX | FLAG_FTZ)) {
        return NULL;
    }
    switch (insn->op) {
    case OP_RCP:
        return is_high ? rcp_high_f64 : rcp_f64_moded;
    case OP_SQRT:
        return insn->flags ? NULL : sqrt_f64_moded;
    case OP_RSQRT:
        return is_high ? rsqrt_high_f64 : rsqrt_f64;
    default:
        return NULL;
    }
}

insn_exec *find_math(const struct insn *insn)
{
    bool is_plain = insn->round <= ROUND_RN && !(insn->flags & FLAG_FTZ);

    if (insn->type == TYPE_F64) {
        return find_f64(insn);
    }
    if (insn->type != TYPE_F32 || !has_flags_only(insn, FLAG_APPROX | FLAG_FTZ) ||
        insn->round > ROUND_RP) {
        return NULL;
    }
    switch (insn->op) {
    case OP_RCP:
        return is_plain ? rcp_f32 : rcp_f32_moded;
    case OP_SQRT:
        return is_plain ? sqrt_f32 : sqrt_f32_moded;
    default:
        return insn->flags & FLAG_FTZ ? function_ftz : f32_functions[insn->op];
    }
}
