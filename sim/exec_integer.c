/* exec_integer.c — integer arithmetic: add to mad, division, extremes, carries. */
#include "sim/exec.h"

#define LOW_MAX(x, y) ((x) > (y) ? (x) : (y))
#define LOW_MIN(x, y) ((x) < (y) ? (x) : (y))
/* A device divides by zero without a fault: all ones, and the remainder is the dividend. */
#define QUOTIENT(x, y, type) ((y) == 0 ? (type)-1 : (type)((x) / (y)))
#define REMAINDER(x, y, type) ((y) == 0 ? (x) : (type)((x) % (y)))
#define SIGNED_QUOTIENT(x, y, type)                                                                \
    ((y) == 0 ? (type)-1 : (y) == -1 ? (type)(0 - (uint64_t)(x)) : (x) / (y))
#define SIGNED_REMAINDER(x, y, type) ((y) == 0 ? (x) : (y) == -1 ? 0 : (x) % (y))

/* What does not depend on the sign, of 16, 32 and 64 bits. */
#define MODULAR(bits, lane_type, type)                                                             \
    EXEC_BINARY(add_##bits, lane_type, type, x + y)                                                \
    EXEC_BINARY(sub_##bits, lane_type, type, x - y)                                                \
    EXEC_BINARY(mul_##bits, lane_type, type, x *y)                                                 \
    EXEC_TERNARY(mad_##bits, lane_type, type, x *y + z)                                            \
    EXEC_UNARY(neg_##bits, lane_type, type, 0 - x)
MODULAR(16, uint32_t, uint32_t)
MODULAR(32, uint32_t, uint32_t)
MODULAR(64, uint64_t, uint64_t)

#define EXTREMES(name, lane_type, type)                                                            \
    EXEC_BINARY(min_##name, lane_type, type, LOW_MIN(x, y))                                        \
    EXEC_BINARY(max_##name, lane_type, type, LOW_MAX(x, y))                                        \
    EXEC_TERNARY(sad_##name, lane_type, type,                                                      \
                 (lane_type)z +                                                                    \
                     (x < y ? (lane_type)y - (lane_type)x : (lane_type)x - (lane_type)y))
EXTREMES(u16, uint32_t, uint16_t)
EXTREMES(s16, uint32_t, int16_t)
EXTREMES(u32, uint32_t, uint32_t)
EXTREMES(s32, uint32_t, int32_t)
EXTREMES(u64, uint64_t, uint64_t)
EXTREMES(s64, uint64_t, int64_t)

#define UNSIGNED_DIVISION(name, lane_type, type)                                                   \
    EXEC_BINARY(div_##name, lane_type, type, QUOTIENT(x, y, type))                                 \
    EXEC_BINARY(rem_##name, lane_type, type, REMAINDER(x, y, type))
#define SIGNED_DIVISION(name, lane_type, type)                                                     \
    EXEC_BINARY(div_##name, lane_type, type, SIGNED_QUOTIENT(x, y, type))                          \
    EXEC_BINARY(rem_##name, lane_type, type, SIGNED_REMAINDER(x, y, type))                         \
    EXEC_UNARY(abs_##name, lane_type, type, x < 0 ? 0 - (lane_type)x : (lane_type)x)
UNSIGNED_DIVISION(u16, uint32_t, uint16_t)
UNSIGNED_DIVISION(u32, uint32_t, uint32_t)
UNSIGNED_DIVISION(u64, uint64_t, uint64_t)
SIGNED_DIVISION(s16, uint32_t, int16_t)
SIGNED_DIVISION(s32, uint32_t, int32_t)
SIGNED_DIVISION(s64, uint64_t, int64_t)

#define HIGH(x, y, type, wide, bits) ((type)(((wide)(x) * (wide)(y)) >> (bits)))
#define HIGH_PRODUCTS(name, lane_type, type, wide, bits)                                           \
    EXEC_BINARY(mul_hi_##name, lane_type, type, HIGH(x, y, type, wide, bits))                      \
    EXEC_TERNARY(mad_hi_##name, lane_type, type,                                                   \
                 (lane_type)HIGH(x, y, type, wide, bits) + (lane_type)z)
HIGH_PRODUCTS(u16, uint32_t, uint16_t, uint32_t, 16)
HIGH_PRODUCTS(s16, uint32_t, int16_t, int32_t, 16)
HIGH_PRODUCTS(u32, uint32_t, uint32_t, uint64_t, 32)
HIGH_PRODUCTS(s32, uint32_t, int32_t, int64_t, 32)
HIGH_PRODUCTS(u64, uint64_t, uint64_t, unsigned __int128, 64)
HIGH_PRODUCTS(s64, uint64_t, int64_t, __int128, 64)

#define WIDE_PRODUCTS(name, type, wide_lane, wide)                                                 \
    static void mul_wide_##name(struct warp *warp, const struct insn *insn, uint32_t mask)         \
    {                                                                                              \
        __auto_type d = DESTINATION(wide_lane, 0);                                                 \
        const uint32_t *a = SOURCE(uint32_t, 0);                                                   \
        const uint32_t *b = SOURCE(uint32_t, 1);                                                   \
        FOR_LANES(wide_lane, result = (wide_lane)((wide)(type)a[lane] * (wide)(type)b[lane]))      \
    }                                                                                              \
    static void mad_wide_##name(struct warp *warp, const struct insn *insn, uint32_t mask)         \
    {                                                                                              \
        __auto_type d = DESTINATION(wide_lane, 0);                                                 \
        const uint32_t *a = SOURCE(uint32_t, 0);                                                   \
        const uint32_t *b = SOURCE(uint32_t, 1);                                                   \
        __auto_type c = SOURCE(wide_lane, 2);                                                      \
        FOR_LANES(wide_lane,                                                                       \
                  result = (wide_lane)((wide)(type)a[lane] * (wide)(type)b[lane]) + c[lane])       \
    }
WIDE_PRODUCTS(u16, uint16_t, uint32_t, uint32_t)
WIDE_PRODUCTS(s16, int16_t, uint32_t, int32_t)
WIDE_PRODUCTS(u32, uint32_t, uint64_t, uint64_t)
WIDE_PRODUCTS(s32, int32_t, uint64_t, int64_t)

/* 24-bit factors: the low 32 bits of the product, or those from bit 16. */
#define LOW24_U(x) ((uint64_t)((x)&0xffffff))
#define LOW24_S(x) ((int64_t)((int32_t)((uint32_t)(x) << 8) >> 8))
EXEC_BINARY(mul24_u32, uint32_t, uint32_t, LOW24_U(x) * LOW24_U(y))
EXEC_BINARY(mul24_s32, uint32_t, uint32_t, LOW24_S(x) * LOW24_S(y))
EXEC_BINARY(mul24_hi_u32, uint32_t, uint32_t, (LOW24_U(x) * LOW24_U(y)) >> 16)
EXEC_BINARY(mul24_hi_s32, uint32_t, uint32_t, (LOW24_S(x) * LOW24_S(y)) >> 16)
EXEC_TERNARY(mad24_u32, uint32_t, uint32_t, (uint32_t)(LOW24_U(x) * LOW24_U(y)) + z)
EXEC_TERNARY(mad24_s32, uint32_t, uint32_t, (uint32_t)(LOW24_S(x) * LOW24_S(y)) + z)
EXEC_TERNARY(mad24_hi_u32, uint32_t, uint32_t, (uint32_t)((LOW24_U(x) * LOW24_U(y)) >> 16) + z)
EXEC_TERNARY(mad24_hi_s32, uint32_t, uint32_t, (uint32_t)((LOW24_S(x) * LOW24_S(y)) >> 16) + z)

#define CLAMP_S32(value)                                                                           \
    ((value) > INT32_MAX ? INT32_MAX : (value) < INT32_MIN ? INT32_MIN : (value))
EXEC_BINARY(add_sat, uint32_t, int32_t, CLAMP_S32((int64_t)x + y))
EXEC_BINARY(sub_sat, uint32_t, int32_t, CLAMP_S32((int64_t)x - y))
EXEC_TERNARY(mad24_hi_sat, uint32_t, int32_t,
             CLAMP_S32((int64_t)(int32_t)((LOW24_S(x) * LOW24_S(y)) >> 16) + z))
EXEC_TERNARY(mad_hi_sat, uint32_t, int32_t, CLAMP_S32((((int64_t)x * y) >> 32) + z))

/* Two 16-bit integers in a slot. */
#define PAIR(low, high) (((uint32_t)(low)&0xffff) | ((uint32_t)(high) << 16))
#define HALVES(name, type)                                                                         \
    EXEC_BINARY(min_##name, uint32_t, uint32_t,                                                    \
                PAIR(LOW_MIN((type)x, (type)y), LOW_MIN((type)(x >> 16), (type)(y >> 16))))        \
    EXEC_BINARY(max_##name, uint32_t, uint32_t,                                                    \
                PAIR(LOW_MAX((type)x, (type)y), LOW_MAX((type)(x >> 16), (type)(y >> 16))))
HALVES(u16x2, uint16_t)
HALVES(s16x2, int16_t)
EXEC_BINARY(add_16x2, uint32_t, uint32_t, PAIR(x + y, (x >> 16) + (y >> 16)))

/* With relu: negative results become zero. */
EXEC_BINARY(min_relu, uint32_t, int32_t, LOW_MAX(LOW_MIN(x, y), 0))
EXEC_BINARY(max_relu, uint32_t, int32_t, LOW_MAX(LOW_MAX(x, y), 0))
EXEC_BINARY(min_relu_x2, uint32_t, uint32_t,
            PAIR(LOW_MAX(LOW_MIN((int16_t)x, (int16_t)y), 0),
                 LOW_MAX(LOW_MIN((int16_t)(x >> 16), (int16_t)(y >> 16)), 0)))
EXEC_BINARY(max_relu_x2, uint32_t, uint32_t,
            PAIR(LOW_MAX(LOW_MAX((int16_t)x, (int16_t)y), 0),
                 LOW_MAX(LOW_MAX((int16_t)(x >> 16), (int16_t)(y >> 16)), 0)))

/* Sums with a carry: `term` is what is added to c, the carry-in comes last. */
#define CARRIES(bits, lane_type, sum_type)                                                         \
    static void carry_##bits(struct warp *warp, const struct insn *insn, uint32_t mask)            \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        bool has_carry = insn->op == OP_ADDC || insn->op == OP_SUBC || insn->op == OP_MADC;        \
        bool is_mad = insn->op == OP_MAD || insn->op == OP_MADC;                                   \
        bool is_sub = insn->op == OP_SUB || insn->op == OP_SUBC;                                   \
        uint32_t carry = has_carry ? source_predicate(warp, insn, insn->src_count - 1) : 0;        \
        uint32_t carry_out = 0;                                                                    \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        __auto_type b = SOURCE(lane_type, 1);                                                      \
        __auto_type c = is_mad ? SOURCE(lane_type, 2) : b;                                         \
        EACH_LANE                                                                                  \
        {                                                                                          \
            sum_type sum = is_mad ? c[lane] : is_sub ? (lane_type)~b[lane] : b[lane];              \
            lane_type term = a[lane];                                                              \
            bool in = carry >> lane & 1;                                                           \
            if (is_mad) {                                                                          \
                term = product_##bits(insn, a[lane], b[lane]);                                     \
            }                                                                                      \
            sum += (sum_type)term + (is_sub ? !in : in);                                           \
            if (mask >> lane & 1) {                                                                \
                bool out = sum >> (bits);                                                          \
                d[lane] = (lane_type)sum;                                                          \
                carry_out |= (uint32_t)(is_sub ? !out : out) << lane;                              \
            }                                                                                      \
        }                                                                                          \
        if (insn->flags & FLAG_CC) {                                                               \
            write_predicate(warp, insn->args[1], carry_out, mask);                                 \
        }                                                                                          \
    }

static uint32_t product_32(const struct insn *insn, uint32_t a, uint32_t b)
{
    if (!(insn->flags & FLAG_HI)) {
        return a * b;
    }
    return insn->type == TYPE_S32 ? (uint32_t)(((int64_t)(int32_t)a * (int32_t)b) >> 32)
                                  : (uint32_t)(((uint64_t)a * b) >> 32);
}

static uint64_t product_64(const struct insn *insn, uint64_t a, uint64_t b)
{
    if (!(insn->flags & FLAG_HI)) {
        return a * b;
    }
    return insn->type == TYPE_S64 ? (uint64_t)(((__int128)(int64_t)a * (int64_t)b) >> 64)
                                  : (uint64_t)(((unsigned __int128)a * b) >> 64);
}

CARRIES(32, uint32_t, uint64_t)
CARRIES(64, uint64_t, unsigned __int128)

/* clang-format off */
#define ANY_SIGN(op) [TYPE_U16] = op##_16, [TYPE_S16] = op##_16, [TYPE_U32] = op##_32,             \
        [TYPE_S32] = op##_32, [TYPE_U64] = op##_64, [TYPE_S64] = op##_64
#define EACH_SIGN(op) [TYPE_U16] = op##_u16, [TYPE_S16] = op##_s16, [TYPE_U32] = op##_u32,         \
        [TYPE_S32] = op##_s32, [TYPE_U64] = op##_u64, [TYPE_S64] = op##_s64
#define EACH_NARROW(op) [TYPE_U16] = op##_u16, [TYPE_S16] = op##_s16, [TYPE_U32] = op##_u32,       \
        [TYPE_S32] = op##_s32
#define SIGNED(op) [TYPE_S16] = op##_s16, [TYPE_S32] = op##_s32, [TYPE_S64] = op##_s64
#define PAIRS(op) [TYPE_U16X2] = op##_u16x2, [TYPE_S16X2] = op##_s16x2

static insn_exec *const plain[OPS][TYPES] = {
    [OP_ADD] = {ANY_SIGN(add), [TYPE_U16X2] = add_16x2, [TYPE_S16X2] = add_16x2},
    [OP_SUB] = {ANY_SIGN(sub)},
    [OP_MUL] = {ANY_SIGN(mul)},
    [OP_MAD] = {ANY_SIGN(mad)},
    [OP_NEG] = {ANY_SIGN(neg)},
    [OP_ABS] = {SIGNED(abs)},
    [OP_MIN] = {EACH_SIGN(min), PAIRS(min)},
    [OP_MAX] = {EACH_SIGN(max), PAIRS(max)},
    [OP_SAD] = {EACH_SIGN(sad)},
    [OP_DIV] = {EACH_SIGN(div)},
    [OP_REM] = {EACH_SIGN(rem)},
    [OP_MUL24] = {[TYPE_U32] = mul24_u32, [TYPE_S32] = mul24_s32},
    [OP_MAD24] = {[TYPE_U32] = mad24_u32, [TYPE_S32] = mad24_s32},
    [OP_ADDC] = {[TYPE_U32] = carry_32, [TYPE_S32] = carry_32, [TYPE_U64] = carry_64,
                 [TYPE_S64] = carry_64},
    [OP_SUBC] = {[TYPE_U32] = carry_32, [TYPE_S32] = carry_32, [TYPE_U64] = carry_64,
                 [TYPE_S64] = carry_64},
    [OP_MADC] = {[TYPE_U32] = carry_32, [TYPE_S32] = carry_32, [TYPE_U64] = carry_64,
                 [TYPE_S64] = carry_64},
};
static insn_exec *const high[OPS][TYPES] = {
    [OP_MUL] = {EACH_SIGN(mul_hi)},
    [OP_MAD] = {EACH_SIGN(mad_hi)},
    [OP_MUL24] = {[TYPE_U32] = mul24_hi_u32, [TYPE_S32] = mul24_hi_s32},
    [OP_MAD24] = {[TYPE_U32] = mad24_hi_u32, [TYPE_S32] = mad24_hi_s32},
};
static insn_exec *const wide[OPS][TYPES] = {
    [OP_MUL] = {EACH_NARROW(mul_wide)},
    [OP_MAD] = {EACH_NARROW(mad_wide)},
};
static insn_exec *const saturated[OPS][TYPES] = {
    [OP_ADD] = {[TYPE_S32] = add_sat},
    [OP_SUB] = {[TYPE_S32] = sub_sat},
};
static insn_exec *const relu[OPS][TYPES] = {
    [OP_MIN] = {[TYPE_S32] = min_relu, [TYPE_S16X2] = min_relu_x2},
    [OP_MAX] = {[TYPE_S32] = max_relu, [TYPE_S16X2] = max_relu_x2},
};
/* clang-format on */

insn_exec *find_integer(const struct insn *insn)
{
    uint32_t op = insn->op;
    bool has_carry = op == OP_ADDC || op == OP_SUBC || op == OP_MADC;

    if (has_carry || insn->flags & FLAG_CC) {
        return has_flags_only(insn, FLAG_CC | FLAG_HI) ? plain[OP_ADDC][insn->type] : NULL;
    }
    switch (insn->flags) {
    case 0:
        return plain[op][insn->type];
    case FLAG_HI:
        return high[op][insn->type];
    case FLAG_WIDE:
        return wide[op][insn->type];
    case FLAG_SAT:
        return saturated[op][insn->type];
    case FLAG_RELU:
        return relu[op][insn->type];
    case FLAG_HI | FLAG_SAT:
        return insn->type != TYPE_S32 ? NULL
               : op == OP_MAD         ? mad_hi_sat
               : op == OP_MAD24       ? mad24_hi_sat
                                      : NULL;
    default:
        return NULL;
    }
}
