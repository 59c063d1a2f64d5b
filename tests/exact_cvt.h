/*
 * exact_cvt.h — conversions between all types, and what the PTX manual says they give.
 *
 * A list holds conversions of one source type; check_list runs them all on one array.
 */
#pragma once

#include "tests/exact_half.h"

enum { CODE_TEXT = 128 };

struct type {
    const char *name;
    int bytes;
    bool is_signed;
    const struct narrow *format; /* NULL: an integer, or f64 */
};
static const struct narrow narrow_f32 = {8, 23, true};
static const struct narrow narrow_tf32 = {8, 10, true};
static const struct narrow narrow_e4m3 = {4, 3, false};
static const struct narrow narrow_e5m2 = {5, 2, true};

enum { U8, S8, U16, S16, U32, S32, U64, S64, F16, BF16, F32, F64, TF32, E4M3, E5M2 };
static const struct type types[] = {
    [U8] = {"u8", 1, false, NULL},
    [S8] = {"s8", 1, true, NULL},
    [U16] = {"u16", 2, false, NULL},
    [S16] = {"s16", 2, true, NULL},
    [U32] = {"u32", 4, false, NULL},
    [S32] = {"s32", 4, true, NULL},
    [U64] = {"u64", 8, false, NULL},
    [S64] = {"s64", 8, true, NULL},
    [F16] = {"f16", 2, true, &narrow_f16},
    [BF16] = {"bf16", 2, true, &narrow_bf16},
    [F32] = {"f32", 4, true, &narrow_f32},
    [F64] = {"f64", 8, true, NULL},
    [TF32] = {"tf32", 4, true, &narrow_tf32},
    [E4M3] = {"e4m3", 1, true, &narrow_e4m3},
    [E5M2] = {"e5m2", 1, true, &narrow_e5m2},
};

static const struct {
    const char *name;
    enum direction direction;
} roundings[] = {{".rn", TO_NEAREST}, {".rz", TO_ZERO}, {".rm", TO_MINUS}, {".rp", TO_PLUS}};
static const struct {
    const char *name;
    double (*round)(double value);
} whole_roundings[] = {{".rni", nearbyint}, {".rzi", trunc}, {".rmi", floor}, {".rpi", ceil}};

struct conversion {
    char code[CODE_TEXT];
    int to, from;
    enum direction direction;
    double (*round)(double value); /* to a whole number first; NULL: not */
    bool saturates;                /* .sat */
    bool is_finite;                /* .satfinite */
    bool is_relu;
    bool is_flushed; /* .ftz */
};

static inline bool is_integer(int type)
{
    return type <= S64;
}

/* All values of a format of 8 or 16 bits. */
static inline const double *narrow_values(int type)
{
    static double values[E5M2 + 1][65536];
    static bool is_known[E5M2 + 1];

    for (uint32_t i = 0; !is_known[type] && i < (types[type].bytes == 1 ? 256 : 65536); i++) {
        values[type][i] = (double)narrow_value(types[type].format, i);
    }
    is_known[type] = true;
    return values[type];
}

/* What a value of a type of 32 bits or less, or f64, is worth; integers of 64 bits stand apart. */
static inline double value_of(int type, uint64_t bits)
{
    double value;
    float single;
    uint32_t low = (uint32_t)bits;

    switch (type) {
    case S8:
        return (int8_t)bits;
    case S16:
        return (int16_t)bits;
    case S32:
        return (int32_t)low;
    case F64:
        memcpy(&value, &bits, sizeof(value));
        return value;
    case F32:
        memcpy(&single, &low, sizeof(single));
        return single;
    case U8:
    case U16:
    case U32:
        return (double)bits;
    default:
        return narrow_values(type)[low];
    }
}

static inline uint64_t to_integer(const struct conversion *conversion, double value)
{
    const struct type *to = &types[conversion->to];
    int width = to->bytes * 8;
    double least = to->is_signed ? -ldexp(1, width - 1) : 0;
    double beyond = ldexp(1, to->is_signed ? width - 1 : width);
    uint64_t most = to->is_signed ? ((uint64_t)1 << (width - 1)) - 1 : ~(uint64_t)0 >> (64 - width);

    if (is_integer(conversion->from) && !conversion->saturates) {
        return (uint64_t)(int64_t)value;
    }
    if (value != value) {
        bool is_high = conversion->from == F64 || to->bytes == 8;
        return is_high ? (uint64_t)1 << (width - 1) : 0;
    }
    value = conversion->round ? conversion->round(value) : value;
    return value >= beyond  ? most
           : value <= least ? (uint64_t)(int64_t)least
           : value < 0      ? (uint64_t)(int64_t)value
                            : (uint64_t)value;
}

static inline uint64_t to_real(const struct conversion *conversion, double value)
{
    const struct type *to = &types[conversion->to];
    bool is_negative = double_bits(value) >> 63;

    value = conversion->round ? conversion->round(value) : value;
    if (conversion->saturates) {
        value = value > 0 ? (value < 1 ? value : 1) : 0;
    }
    if (conversion->is_relu && value == value && is_negative) {
        value = 0;
    }
    if (conversion->to == F64) {
        return double_bits(value);
    }
    uint64_t code = narrow_code(to->format, value, conversion->direction, conversion->is_finite);
    if (conversion->to == TF32) {
        return value == value ? code << 13 : 0x7fffffff;
    }
    if (conversion->is_flushed && conversion->to == F32 && !(code & 0x7f800000)) {
        code &= 0x80000000;
    }
    return code;
}

static inline uint64_t expected_of(const struct conversion *conversion, uint64_t bits)
{
    double value = value_of(conversion->from, bits);

    if (conversion->is_flushed && conversion->from == F32 && !(bits & 0x7f800000)) {
        value = copysign(0, value);
    }
    return is_integer(conversion->to) ? to_integer(conversion, value) : to_real(conversion, value);
}

static inline bool is_right(const struct conversion *conversion, uint64_t bits, uint64_t got)
{
    const struct type *to = &types[conversion->to];
    uint64_t wanted = expected_of(conversion, bits);

    if (to->bytes < 8) {
        wanted &= ((uint64_t)1 << (to->bytes * 8)) - 1;
    }
    if (conversion->to == F64 && value_of(F64, wanted) != value_of(F64, wanted)) {
        return value_of(F64, got) != value_of(F64, got);
    }
    /* A NaN of bf16 is widened as it is. */
    if (conversion->to == F32 && conversion->from == BF16 && wanted == 0x7fffffff) {
        wanted = bits << 16;
    }
    return got == wanted;
}

/* ---- many conversions of one array ---- */

struct list {
    struct conversion conversions[BATCH_OPERATIONS];
    int count;
};

static inline void add(struct list *list, struct conversion conversion, const char *modifiers)
{
    struct conversion *added = &list->conversions[list->count++];

    assert_true(list->count <= BATCH_OPERATIONS);
    *added = conversion;
    (void)snprintf(added->code, sizeof(added->code), "cvt%s%s.%s.%s %%d, %%a;", modifiers,
                   conversion.saturates ? ".sat" : "", types[conversion.to].name,
                   types[conversion.from].name);
}

static inline void open_list(struct batch *batch, const struct list *list)
{
    struct batch_operation operations[BATCH_OPERATIONS];
    int bytes[BATCH_SOURCES] = {types[list->conversions[0].from].bytes};

    for (int i = 0; i < list->count; i++) {
        operations[i] = (struct batch_operation){list->conversions[i].code,
                                                 types[list->conversions[i].to].bytes};
    }
    batch_open(batch, operations, list->count, bytes);
}

static inline void check_list(struct batch *batch, const struct list *list, uint32_t elements)
{
    batch_run(batch, elements);
    for (int k = 0; k < list->count; k++) {
        const struct conversion *conversion = &list->conversions[k];
        for (uint32_t i = 0; i < elements; i++) {
            uint64_t bits = batch_element(batch->sources[0], i, types[conversion->from].bytes);
            uint64_t got = batch_result(batch, k, i, types[conversion->to].bytes);
            if (!is_right(conversion, bits, got)) {
                fail_msg("%s %#lx gave %#lx, not %#lx", conversion->code, bits, got,
                         expected_of(conversion, bits));
            }
        }
    }
}
