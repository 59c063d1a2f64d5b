/* exec_cvt_integer.c — conversions from and to integers. */
#include "sim/exec_cvt.h"
#include "sim/float_mode.h"
#include "sim/half.h"

/* ---- integer to integer: cut or extended ---- */

#define TO_EACH(X, from, from_lane, from_type)                                                     \
    X(u8, uint32_t, uint8_t, from, from_lane, from_type)                                           \
    X(s8, int32_t, int8_t, from, from_lane, from_type)                                             \
    X(u16, uint32_t, uint16_t, from, from_lane, from_type)                                         \
    X(s16, int32_t, int16_t, from, from_lane, from_type)                                           \
    X(u32, uint32_t, uint32_t, from, from_lane, from_type)                                         \
    X(s32, int32_t, int32_t, from, from_lane, from_type)                                           \
    X(u64, uint64_t, uint64_t, from, from_lane, from_type)                                         \
    X(s64, int64_t, int64_t, from, from_lane, from_type)
#define EACH_PAIR(X)                                                                               \
    TO_EACH(X, u8, uint32_t, uint8_t)                                                              \
    TO_EACH(X, s8, uint32_t, int8_t)                                                               \
    TO_EACH(X, u16, uint32_t, uint16_t)                                                            \
    TO_EACH(X, s16, uint32_t, int16_t)                                                             \
    TO_EACH(X, u32, uint32_t, uint32_t)                                                            \
    TO_EACH(X, s32, uint32_t, int32_t)                                                             \
    TO_EACH(X, u64, uint64_t, uint64_t)                                                            \
    TO_EACH(X, s64, uint64_t, int64_t)

#define CONVERT(to, to_lane, to_type, from, from_lane, from_type)                                  \
    static void cvt_##to##_##from(struct warp *warp, const struct insn *insn, uint32_t mask)       \
    {                                                                                              \
        __auto_type d = DESTINATION(to_lane, 0);                                                   \
        __auto_type a = SOURCE(from_lane, 0);                                                      \
        FOR_LANES(to_lane, result = (to_lane)(to_type)(from_type)a[lane])                          \
    }
EACH_PAIR(CONVERT)

struct whole {
    __int128 lowest, highest;
};

static struct whole range_of(uint8_t type)
{
    switch (type) {
    case TYPE_U8:
        return (struct whole){0, UINT8_MAX};
    case TYPE_S8:
        return (struct whole){INT8_MIN, INT8_MAX};
    case TYPE_U16:
        return (struct whole){0, UINT16_MAX};
    case TYPE_S16:
        return (struct whole){INT16_MIN, INT16_MAX};
    case TYPE_U32:
        return (struct whole){0, UINT32_MAX};
    case TYPE_S32:
        return (struct whole){INT32_MIN, INT32_MAX};
    case TYPE_U64:
        return (struct whole){0, UINT64_MAX};
    default:
        return (struct whole){INT64_MIN, INT64_MAX};
    }
}

static bool is_64(uint8_t type)
{
    return type == TYPE_U64 || type == TYPE_S64 || type == TYPE_B64;
}

/* The integers of all lanes, of any type. */
static void read_whole(struct warp *warp, const struct insn *insn, __int128 value[WARP_LANES])
{
    const uint32_t *narrow = SOURCE(uint32_t, 0);
    const uint64_t *wide = SOURCE(uint64_t, 0);

    EACH_LANE
    {
        switch (insn->type2) {
        case TYPE_U8:
            value[lane] = (uint8_t)narrow[lane];
            break;
        case TYPE_S8:
            value[lane] = (int32_t)(int8_t)narrow[lane];
            break;
        case TYPE_U16:
            value[lane] = (uint16_t)narrow[lane];
            break;
        case TYPE_S16:
            value[lane] = (int16_t)narrow[lane];
            break;
        case TYPE_U32:
            value[lane] = narrow[lane];
            break;
        case TYPE_S32:
            value[lane] = (int32_t)narrow[lane];
            break;
        case TYPE_U64:
            value[lane] = wide[lane];
            break;
        default:
            value[lane] = (int64_t)wide[lane];
            break;
        }
    }
}

static void write_whole(struct warp *warp, const struct insn *insn, uint32_t mask,
                        const uint64_t value[WARP_LANES])
{
    if (is_64(insn->type)) {
        uint64_t *d = DESTINATION(uint64_t, 0);
        FOR_LANES(uint64_t, result = value[lane])
    } else {
        uint32_t *d = DESTINATION(uint32_t, 0);
        FOR_LANES(uint32_t, result = (uint32_t)value[lane])
    }
}

static void cvt_saturated(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct whole range = range_of(insn->type);
    __int128 value[WARP_LANES];
    uint64_t result[WARP_LANES];

    read_whole(warp, insn, value);
    EACH_LANE
    {
        __int128 x = value[lane];
        x = x < range.lowest ? range.lowest : x > range.highest ? range.highest : x;
        result[lane] = (uint64_t)x;
    }
    write_whole(warp, insn, mask, result);
}

/* NaN is zero, but for f64 and for 64-bit results, where it is the highest bit. */
static uint64_t nan_as_integer(const struct insn *insn)
{
    if (insn->type2 != TYPE_F64 && !is_64(insn->type)) {
        return 0;
    }
    switch (insn->type) {
    case TYPE_U8:
    case TYPE_S8:
        return 0x80;
    case TYPE_U16:
    case TYPE_S16:
        return 0x8000;
    case TYPE_U32:
    case TYPE_S32:
        return 0x80000000;
    default:
        return (uint64_t)1 << 63;
    }
}

static void cvt_to_integer(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct whole range = range_of(insn->type);
    double lowest = (double)range.lowest;
    double highest = (double)range.highest; /* 2^63 and 2^64 for 64 bits: beyond the range */
    uint64_t nan = nan_as_integer(insn);
    double value[WARP_LANES];
    uint64_t result[WARP_LANES];

    cvt_read_real(warp, insn, 0, 0, value);
    EACH_LANE
    {
        double x = cvt_to_whole(value[lane], insn->round);
        result[lane] = x != x         ? nan
                       : x >= highest ? (uint64_t)range.highest
                       : x <= lowest  ? (uint64_t)range.lowest
                       : x < 0        ? (uint64_t)(int64_t)x
                                      : (uint64_t)x;
    }
    write_whole(warp, insn, mask, result);
}

/* ---- integer to floating point: in the instruction's rounding ---- */

#define FROM_INTEGER(name, to_lane, from_lane, from_type)                                          \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        __auto_type d = DESTINATION(to_lane, 0);                                                   \
        __auto_type a = SOURCE(from_lane, 0);                                                      \
        uint32_t saved = mode_enter(insn);                                                         \
        FOR_LANES(to_lane, result = (to_lane)(from_type)a[lane])                                   \
        mode_leave(saved);                                                                         \
    }
FROM_INTEGER(f32_u8, float, uint32_t, uint8_t)
FROM_INTEGER(f32_s8, float, uint32_t, int8_t)
FROM_INTEGER(f32_u16, float, uint32_t, uint16_t)
FROM_INTEGER(f32_s16, float, uint32_t, int16_t)
FROM_INTEGER(f32_u32, float, uint32_t, uint32_t)
FROM_INTEGER(f32_s32, float, uint32_t, int32_t)
FROM_INTEGER(f32_u64, float, uint64_t, uint64_t)
FROM_INTEGER(f32_s64, float, uint64_t, int64_t)
FROM_INTEGER(f64_u8, double, uint32_t, uint8_t)
FROM_INTEGER(f64_s8, double, uint32_t, int8_t)
FROM_INTEGER(f64_u16, double, uint32_t, uint16_t)
FROM_INTEGER(f64_s16, double, uint32_t, int16_t)
FROM_INTEGER(f64_u32, double, uint32_t, uint32_t)
FROM_INTEGER(f64_s32, double, uint32_t, int32_t)
FROM_INTEGER(f64_u64, double, uint64_t, uint64_t)
FROM_INTEGER(f64_s64, double, uint64_t, int64_t)

static void cvt_narrow_from_integer(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    __int128 value[WARP_LANES];
    uint32_t *d = DESTINATION(uint32_t, 0);

    read_whole(warp, insn, value);
    if (insn->flags & FLAG_SAT) {
        EACH_LANE
        {
            value[lane] = value[lane] > 1 ? 1 : value[lane] < 0 ? 0 : value[lane];
        }
    }
    FOR_LANES(uint32_t, double nearest = (double)value[lane];
              __int128 lost = value[lane] - (__int128)nearest;
              result = cvt_narrowed(insn, nearest, (lost > 0) - (lost < 0)))
}

/* .sat: all above 0 is 1. */
static void f64_saturated(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    __int128 value[WARP_LANES];
    double *d = DESTINATION(double, 0);

    read_whole(warp, insn, value);
    FOR_LANES(double, result = value[lane] > 0 ? 1 : 0)
}

/* ---- two integers cut to the range of a narrow one and put side by side ---- */

static int32_t clamped(int32_t value, int32_t bits, bool is_signed)
{
    int32_t highest = (1 << (is_signed ? bits - 1 : bits)) - 1;
    int32_t lowest = is_signed ? -highest - 1 : 0;

    return value < lowest ? lowest : value > highest ? highest : value;
}

static void cvt_pack(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    int32_t bits = insn->sub & ~PACK_SIGNED;
    bool is_signed = insn->sub & PACK_SIGNED;
    uint32_t ones = (1u << bits) - 1;
    uint32_t *d = DESTINATION(uint32_t, 0);
    const int32_t *a = SOURCE(int32_t, 0);
    const int32_t *b = SOURCE(int32_t, 1);
    const uint32_t *c = insn->src_count > 2 ? SOURCE(uint32_t, 2) : NULL;

    FOR_LANES(uint32_t, uint32_t high = (uint32_t)clamped(a[lane], bits, is_signed) & ones;
              uint32_t low = (uint32_t)clamped(b[lane], bits, is_signed) & ones;
              result = (c ? c[lane] << (2 * bits) : 0) | high << bits | low)
}

/* ---- finding ---- */

/* clang-format off */
#define ROW(to, to_lane, to_type, from, from_lane, from_type)                                      \
    [TYPE_OF_##to][TYPE_OF_##from] = cvt_##to##_##from,
#define TYPE_OF_u8 TYPE_U8
#define TYPE_OF_s8 TYPE_S8
#define TYPE_OF_u16 TYPE_U16
#define TYPE_OF_s16 TYPE_S16
#define TYPE_OF_u32 TYPE_U32
#define TYPE_OF_s32 TYPE_S32
#define TYPE_OF_u64 TYPE_U64
#define TYPE_OF_s64 TYPE_S64
static insn_exec *const between_integers[TYPES][TYPES] = {EACH_PAIR(ROW)};

#define FROM_EACH(to) {[TYPE_U8] = to##_u8, [TYPE_S8] = to##_s8, [TYPE_U16] = to##_u16,            \
    [TYPE_S16] = to##_s16, [TYPE_U32] = to##_u32, [TYPE_S32] = to##_s32, [TYPE_U64] = to##_u64,    \
    [TYPE_S64] = to##_s64}
static insn_exec *const from_integers[TYPES][TYPES] = {
    [TYPE_F32] = FROM_EACH(f32), [TYPE_F64] = FROM_EACH(f64),
};
/* clang-format on */

static bool is_integer(uint8_t type)
{
    return type >= TYPE_U8 && type <= TYPE_S64;
}

static bool is_real(uint8_t type)
{
    return type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F32 || type == TYPE_F64;
}

insn_exec *find_cvt(const struct insn *insn)
{
    if (insn->op == OP_CVT_PACK) {
        return cvt_pack;
    }
    if (is_integer(insn->type) && is_integer(insn->type2)) {
        return insn->flags == 0          ? between_integers[insn->type][insn->type2]
               : insn->flags == FLAG_SAT ? cvt_saturated
                                         : NULL;
    }
    if (is_integer(insn->type)) {
        return is_real(insn->type2) && has_flags_only(insn, FLAG_FTZ | FLAG_SAT) &&
                       insn->round >= ROUND_RNI
                   ? cvt_to_integer
                   : NULL;
    }
    if (is_integer(insn->type2)) {
        bool is_narrow = insn->type == TYPE_F16 || insn->type == TYPE_BF16;
        if (is_narrow || insn->flags & FLAG_SAT) {
            return !has_flags_only(insn, FLAG_SAT | FLAG_SATFINITE | FLAG_FTZ) ? NULL
                   : insn->type == TYPE_F64                                    ? f64_saturated
                                            : cvt_narrow_from_integer;
        }
        return insn->flags == 0 ? from_integers[insn->type][insn->type2] : NULL;
    }
    return find_cvt_real(insn);
}
