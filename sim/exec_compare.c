/* exec_compare.c — comparisons into predicates and registers, and choices by them. */
#include "sim/exec.h"

#include "sim/half.h"

/* One bit a lane, in vectors: the compiler turns the loop into compares and a move of signs. */
#define COMPARE(name, lane_type, expression)                                                       \
    static uint32_t name(const lane_type *a, const lane_type *b)                                   \
    {                                                                                              \
        uint32_t bits[WARP_LANES];                                                                 \
        uint32_t value = 0;                                                                        \
        EACH_LANE                                                                                  \
        {                                                                                          \
            lane_type x = a[lane];                                                                 \
            lane_type y = b[lane];                                                                 \
            bits[lane] = (uint32_t)(expression) << lane;                                           \
        }                                                                                          \
        EACH_LANE                                                                                  \
        {                                                                                          \
            value |= bits[lane];                                                                   \
        }                                                                                          \
        return value;                                                                              \
    }

#define COMPARES(name, lane_type)                                                                  \
    COMPARE(eq_##name, lane_type, x == y)                                                          \
    COMPARE(ne_##name, lane_type, x != y)                                                          \
    COMPARE(lt_##name, lane_type, x < y)                                                           \
    COMPARE(le_##name, lane_type, x <= y)                                                          \
    COMPARE(gt_##name, lane_type, x > y)                                                           \
    COMPARE(ge_##name, lane_type, x >= y)
COMPARES(u32, uint32_t)
COMPARES(s32, int32_t)
COMPARES(u64, uint64_t)
COMPARES(s64, int64_t)
COMPARES(f32, float)
COMPARES(f64, double)
COMPARE(unordered_f32, float, x != x || y != y)
COMPARE(unordered_f64, double, x != x || y != y)

/* NaN is unordered: plain comparisons are false there, those that end in u are true. */
#define COMPARISON(name, lane_type)                                                                \
    static uint32_t compare_##name(enum code_cmp cmp, const lane_type *a, const lane_type *b)      \
    {                                                                                              \
        switch (cmp) {                                                                             \
        case CMP_EQ:                                                                               \
            return eq_##name(a, b);                                                                \
        case CMP_NE:                                                                               \
            return ne_##name(a, b);                                                                \
        case CMP_LT:                                                                               \
        case CMP_LO:                                                                               \
            return lt_##name(a, b);                                                                \
        case CMP_LE:                                                                               \
        case CMP_LS:                                                                               \
            return le_##name(a, b);                                                                \
        case CMP_GT:                                                                               \
        case CMP_HI:                                                                               \
            return gt_##name(a, b);                                                                \
        default:                                                                                   \
            return ge_##name(a, b);                                                                \
        }                                                                                          \
    }
COMPARISON(u32, uint32_t)
COMPARISON(s32, int32_t)
COMPARISON(u64, uint64_t)
COMPARISON(s64, int64_t)
COMPARISON(f32, float)
COMPARISON(f64, double)

#define FLOAT_COMPARISON(name, lane_type)                                                          \
    static uint32_t compare_any_##name(enum code_cmp cmp, const lane_type *a, const lane_type *b)  \
    {                                                                                              \
        switch (cmp) {                                                                             \
        case CMP_NUM:                                                                              \
            return ~unordered_##name(a, b);                                                        \
        case CMP_NAN:                                                                              \
            return unordered_##name(a, b);                                                         \
        case CMP_NE:                                                                               \
            return ne_##name(a, b) & ~unordered_##name(a, b);                                      \
        case CMP_NEU:                                                                              \
            return ne_##name(a, b);                                                                \
        case CMP_EQU:                                                                              \
        case CMP_LTU:                                                                              \
        case CMP_LEU:                                                                              \
        case CMP_GTU:                                                                              \
        case CMP_GEU:                                                                              \
            return compare_##name(CMP_EQ + (cmp - CMP_EQU), a, b) | unordered_##name(a, b);        \
        default:                                                                                   \
            return compare_##name(cmp, a, b);                                                      \
        }                                                                                          \
    }
FLOAT_COMPARISON(f32, float)
FLOAT_COMPARISON(f64, double)

static void widen(float to[WARP_LANES], const uint32_t *from, uint8_t type, int shift)
{
    bool is_bf16 = type == TYPE_BF16 || type == TYPE_BF16X2;

    EACH_LANE
    {
        uint16_t bits = (uint16_t)(from[lane] >> shift);
        to[lane] = is_bf16 ? float_of_bf16(bits) : float_of_f16(bits);
    }
}

static void flush(float to[WARP_LANES], const float *from)
{
    EACH_LANE
    {
        uint32_t bits = bits_of_float(from[lane]);
        to[lane] = float_of_bits(bits & 0x7f800000 ? bits : bits & 0x80000000);
    }
}

/* f16's subnormals; bf16 has no such modifier. */
static void flush_halves(float value[WARP_LANES])
{
    EACH_LANE
    {
        uint32_t bits = bits_of_float(value[lane]);
        value[lane] = float_of_bits((bits & 0x7fffffff) < 0x38800000 ? bits & 0x80000000 : bits);
    }
}

static uint32_t compare_halves(struct warp *warp, const struct insn *insn, uint8_t type, int shift)
{
    float a[WARP_LANES];
    float b[WARP_LANES];

    widen(a, SOURCE(uint32_t, 0), type, shift);
    widen(b, SOURCE(uint32_t, 1), type, shift);
    if (insn->flags & FLAG_FTZ) {
        flush_halves(a);
        flush_halves(b);
    }
    return compare_any_f32(insn->cmp, a, b);
}

static uint32_t compare_floats(struct warp *warp, const struct insn *insn)
{
    float a[WARP_LANES];
    float b[WARP_LANES];

    if (!(insn->flags & FLAG_FTZ)) {
        return compare_any_f32(insn->cmp, SOURCE(float, 0), SOURCE(float, 1));
    }
    flush(a, SOURCE(float, 0));
    flush(b, SOURCE(float, 1));
    return compare_any_f32(insn->cmp, a, b);
}

static uint32_t compare_16(struct warp *warp, const struct insn *insn, bool is_signed)
{
    const uint32_t *x = SOURCE(uint32_t, 0);
    const uint32_t *y = SOURCE(uint32_t, 1);
    int32_t a[WARP_LANES];
    int32_t b[WARP_LANES];

    EACH_LANE
    {
        a[lane] = is_signed ? (int16_t)x[lane] : (uint16_t)x[lane];
        b[lane] = is_signed ? (int16_t)y[lane] : (uint16_t)y[lane];
    }
    return compare_s32(insn->cmp, a, b);
}

/* Compares operands of `type`; the low half of pairs. */
static uint32_t compare(struct warp *warp, const struct insn *insn, uint8_t type)
{
    switch (type) {
    case TYPE_S32:
        return compare_s32(insn->cmp, SOURCE(int32_t, 0), SOURCE(int32_t, 1));
    case TYPE_U64:
    case TYPE_B64:
        return compare_u64(insn->cmp, SOURCE(uint64_t, 0), SOURCE(uint64_t, 1));
    case TYPE_S64:
        return compare_s64(insn->cmp, SOURCE(int64_t, 0), SOURCE(int64_t, 1));
    case TYPE_F32:
        return compare_floats(warp, insn);
    case TYPE_F64:
        return compare_any_f64(insn->cmp, SOURCE(double, 0), SOURCE(double, 1));
    case TYPE_F16:
    case TYPE_BF16:
    case TYPE_F16X2:
    case TYPE_BF16X2:
        return compare_halves(warp, insn, type, 0);
    case TYPE_S16:
        return compare_16(warp, insn, true);
    case TYPE_U16:
    case TYPE_B16:
        return compare_16(warp, insn, false);
    default:
        return compare_u32(insn->cmp, SOURCE(uint32_t, 0), SOURCE(uint32_t, 1));
    }
}

static bool is_pair(uint8_t type)
{
    return type == TYPE_F16X2 || type == TYPE_BF16X2;
}

static uint32_t combined(struct warp *warp, const struct insn *insn, uint32_t value)
{
    if (insn->boolean == BOOL_NONE) {
        return value;
    }
    uint32_t given = source_predicate(warp, insn, 2);
    return insn->boolean == BOOL_AND  ? value & given
           : insn->boolean == BOOL_OR ? value | given
                                      : value ^ given;
}

static void setp(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t value = compare(warp, insn, insn->type);
    uint32_t other = is_pair(insn->type) ? compare_halves(warp, insn, insn->type, 16) : ~value;
    uint32_t first = combined(warp, insn, value);
    uint32_t second = combined(warp, insn, other);

    write_predicate(warp, insn->args[0], first, mask);
    if (insn->dst_count == 2) {
        write_predicate(warp, insn->args[1], second, mask);
    }
}

/* The commonest: no boolean, one result. */
#define SETP(name, lane_type)                                                                      \
    static void setp_##name(struct warp *warp, const struct insn *insn, uint32_t mask)             \
    {                                                                                              \
        uint32_t value = compare_##name(insn->cmp, SOURCE(lane_type, 0), SOURCE(lane_type, 1));    \
        write_predicate(warp, insn->args[0], value, mask);                                         \
    }
SETP(u32, uint32_t)
SETP(s32, int32_t)
SETP(u64, uint64_t)
SETP(s64, int64_t)

/* What true is in a type. */
static uint32_t truth_of(uint8_t type)
{
    switch (type) {
    case TYPE_F32:
        return 0x3f800000;
    case TYPE_F16:
        return 0x3c00;
    case TYPE_BF16:
        return 0x3f80;
    case TYPE_F16X2:
        return 0x3c003c00;
    case TYPE_BF16X2:
        return 0x3f803f80;
    case TYPE_U16:
    case TYPE_S16:
        return 0xffff;
    default:
        return MASK_ALL;
    }
}

static void set(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t *d = DESTINATION(uint32_t, 0);
    uint32_t truth = truth_of(insn->type);
    uint32_t low = combined(warp, insn, compare(warp, insn, insn->type2));
    uint32_t high = low;

    if (is_pair(insn->type2)) {
        high = combined(warp, insn, compare_halves(warp, insn, insn->type2, 16));
    }
    FOR_LANES(uint32_t, result = (low >> lane & 1 ? truth & 0xffff : 0) |
                                 (high >> lane & 1 ? truth & 0xffff0000 : 0))
}

#define SELECT(bits, lane_type)                                                                    \
    static void selp_##bits(struct warp *warp, const struct insn *insn, uint32_t mask)             \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        __auto_type b = SOURCE(lane_type, 1);                                                      \
        uint32_t chosen = source_predicate(warp, insn, 2);                                         \
        FOR_LANES(lane_type, result = chosen >> lane & 1 ? a[lane] : b[lane])                      \
    }                                                                                              \
    static void slct_s32_##bits(struct warp *warp, const struct insn *insn, uint32_t mask)         \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        __auto_type b = SOURCE(lane_type, 1);                                                      \
        const int32_t *c = SOURCE(int32_t, 2);                                                     \
        FOR_LANES(lane_type, result = c[lane] >= 0 ? a[lane] : b[lane])                            \
    }                                                                                              \
    static void slct_f32_##bits(struct warp *warp, const struct insn *insn, uint32_t mask)         \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        __auto_type b = SOURCE(lane_type, 1);                                                      \
        float c[WARP_LANES];                                                                       \
        flush(c, SOURCE(float, 2));                                                                \
        const float *given = insn->flags & FLAG_FTZ ? c : SOURCE(float, 2);                        \
        FOR_LANES(lane_type, result = given[lane] >= 0 ? a[lane] : b[lane])                        \
    }
SELECT(32, uint32_t)
SELECT(64, uint64_t)

static bool is_64(uint8_t type)
{
    return type == TYPE_B64 || type == TYPE_U64 || type == TYPE_S64 || type == TYPE_F64;
}

static insn_exec *find_setp(const struct insn *insn)
{
    bool is_plain = insn->boolean == BOOL_NONE && insn->dst_count == 1 && insn->flags == 0;

    if (!has_flags_only(insn, FLAG_FTZ) || insn->cmp == CMP_NONE || insn->type == TYPE_B8) {
        return NULL;
    }
    if (!is_plain) {
        return setp;
    }
    switch (insn->type) {
    case TYPE_B32:
    case TYPE_U32:
        return setp_u32;
    case TYPE_S32:
        return setp_s32;
    case TYPE_B64:
    case TYPE_U64:
        return setp_u64;
    case TYPE_S64:
        return setp_s64;
    default:
        return setp;
    }
}

insn_exec *find_compare(const struct insn *insn)
{
    switch (insn->op) {
    case OP_SETP:
        return find_setp(insn);
    case OP_SET:
        return has_flags_only(insn, FLAG_FTZ) && insn->cmp != CMP_NONE ? set : NULL;
    case OP_SELP:
        return insn->flags ? NULL : is_64(insn->type) ? selp_64 : selp_32;
    default:
        if (!has_flags_only(insn, FLAG_FTZ)) {
            return NULL;
        }
        if (insn->type2 == TYPE_F32) {
            return is_64(insn->type) ? slct_f32_64 : slct_f32_32;
        }
        return is_64(insn->type) ? slct_s32_64 : slct_s32_32;
    }
}
