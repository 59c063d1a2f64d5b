/* exec_bits.c — logic, shifts and bit fields. */
#include "sim/exec.h"

#define LOGIC(bits, lane_type)                                                                     \
    EXEC_BINARY(and_##bits, lane_type, lane_type, x &y)                                            \
    EXEC_BINARY(or_##bits, lane_type, lane_type, x | y)                                            \
    EXEC_BINARY(xor_##bits, lane_type, lane_type, x ^ y)                                           \
    EXEC_UNARY(not_##bits, lane_type, lane_type, ~x)
LOGIC(32, uint32_t)
LOGIC(64, uint64_t)
EXEC_UNARY(cnot_16, uint32_t, uint16_t, x == 0)
EXEC_UNARY(cnot_32, uint32_t, uint32_t, x == 0)
EXEC_UNARY(cnot_64, uint64_t, uint64_t, x == 0)

static void and_predicate(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    write_predicate(warp, insn->args[0],
                    source_predicate(warp, insn, 0) & source_predicate(warp, insn, 1), mask);
}

static void or_predicate(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    write_predicate(warp, insn->args[0],
                    source_predicate(warp, insn, 0) | source_predicate(warp, insn, 1), mask);
}

static void xor_predicate(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    write_predicate(warp, insn->args[0],
                    source_predicate(warp, insn, 0) ^ source_predicate(warp, insn, 1), mask);
}

static void not_predicate(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    write_predicate(warp, insn->args[0], ~source_predicate(warp, insn, 0), mask);
}

/* The amount is 32 bits whatever is shifted; one beyond the width shifts everything out. */
#define SHIFT(name, lane_type, type, bits, beyond, expression)                                     \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        const uint32_t *b = SOURCE(uint32_t, 1);                                                   \
        FOR_LANES(lane_type, type x = (type)a[lane]; uint32_t y = b[lane];                         \
                  uint32_t amount = y < (bits) ? y : (bits)-1;                                     \
                  result = y < (bits) ? (lane_type)(expression) : (lane_type)(beyond))             \
    }
SHIFT(shl_16, uint32_t, uint16_t, 16, 0, (uint32_t)x << amount)
SHIFT(shl_32, uint32_t, uint32_t, 32, 0, x << amount)
SHIFT(shl_64, uint64_t, uint64_t, 64, 0, x << amount)
SHIFT(shr_u16, uint32_t, uint16_t, 16, 0, x >> amount)
SHIFT(shr_u32, uint32_t, uint32_t, 32, 0, x >> amount)
SHIFT(shr_u64, uint64_t, uint64_t, 64, 0, x >> amount)
SHIFT(shr_s16, uint32_t, int16_t, 16, x < 0 ? -1 : 0, x >> amount)
SHIFT(shr_s32, uint32_t, int32_t, 32, x < 0 ? -1 : 0, x >> amount)
SHIFT(shr_s64, uint64_t, int64_t, 64, x < 0 ? -1 : 0, x >> amount)

/* A 32-bit window of the 64 bits b:a. */
#define FUNNEL(hi, lo) ((uint64_t)(hi) << 32 | (lo))
#define CLAMPED(amount) ((amount) > 32 ? 32 : (amount))
EXEC_TERNARY(shf_l_wrap, uint32_t, uint32_t, (FUNNEL(y, x) << (z & 31)) >> 32)
EXEC_TERNARY(shf_r_wrap, uint32_t, uint32_t, FUNNEL(y, x) >> (z & 31))
EXEC_TERNARY(shf_l_clamp, uint32_t, uint32_t, (FUNNEL(y, x) << CLAMPED(z)) >> 32)
EXEC_TERNARY(shf_r_clamp, uint32_t, uint32_t, FUNNEL(y, x) >> CLAMPED(z))

static void lop3(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t *d = DESTINATION(uint32_t, 0);
    const uint32_t *a = SOURCE(uint32_t, 0);
    const uint32_t *b = SOURCE(uint32_t, 1);
    const uint32_t *c = SOURCE(uint32_t, 2);
    uint32_t term[8];

    for (int i = 0; i < 8; i++) {
        term[i] = insn->imm >> i & 1 ? MASK_ALL : 0;
    }
    FOR_LANES(uint32_t, uint32_t x = a[lane]; uint32_t y = b[lane]; uint32_t z = c[lane];
              result = (term[0] & ~x & ~y & ~z) | (term[1] & ~x & ~y & z) |
                       (term[2] & ~x & y & ~z) | (term[3] & ~x & y & z) | (term[4] & x & ~y & ~z) |
                       (term[5] & x & ~y & z) | (term[6] & x & y & ~z) | (term[7] & x & y & z))
}

static void lop3_predicate(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const uint32_t *d = DESTINATION(uint32_t, 0);
    uint32_t given = source_predicate(warp, insn, 3);
    uint32_t nonzero = 0;

    lop3(warp, insn, mask);
    EACH_LANE
    {
        nonzero |= (uint32_t)(d[lane] != 0) << lane;
    }
    write_predicate(warp, insn->args[1],
                    insn->boolean == BOOL_AND ? nonzero & given : nonzero | given, mask);
}

/* Byte `selector & 7` of b:a, or its sign repeated where bit 3 is set. */
static uint32_t byte_of(uint64_t bytes, uint32_t selector)
{
    uint32_t byte = (uint32_t)(bytes >> ((selector & 7) * 8)) & 0xff;

    return selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
}

/* The four selectors of prmt's named modes, by the low two bits of c; the lowest byte's last. */
static const uint16_t prmt_selectors[][4] = {
    [PRMT_F4E] = {0x3210, 0x4321, 0x5432, 0x6543}, [PRMT_B4E] = {0x5670, 0x6701, 0x7012, 0x0123},
    [PRMT_RC8] = {0x0000, 0x1111, 0x2222, 0x3333}, [PRMT_ECL] = {0x3210, 0x3211, 0x3222, 0x3333},
    [PRMT_ECR] = {0x0000, 0x1110, 0x2210, 0x3210}, [PRMT_RC16] = {0x1010, 0x3232, 0x1010, 0x3232},
};

static void prmt(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t *d = DESTINATION(uint32_t, 0);
    const uint32_t *a = SOURCE(uint32_t, 0);
    const uint32_t *b = SOURCE(uint32_t, 1);
    const uint32_t *c = SOURCE(uint32_t, 2);

    EACH_LANE
    {
        uint64_t bytes = FUNNEL(b[lane], a[lane]);
        uint32_t selector =
            insn->sub == PRMT_INDEX ? c[lane] : prmt_selectors[insn->sub][c[lane] & 3];
        uint32_t value = 0;
        for (int i = 0; i < 4; i++) {
            value |= byte_of(bytes, selector >> (4 * i) & 15) << (8 * i);
        }
        if (mask >> lane & 1) {
            d[lane] = value;
        }
    }
}

/* ---- counting; the result is 32 bits ---- */

#define COUNT(name, lane_type, expression)                                                         \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        uint32_t *d = DESTINATION(uint32_t, 0);                                                    \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        FOR_LANES(uint32_t, lane_type x = a[lane]; result = (uint32_t)(expression))                \
    }
#define HIGHEST_32(x) ((x) ? 31 - __builtin_clz(x) : -1)
#define HIGHEST_64(x) ((x) ? 63 - __builtin_clzll(x) : -1)
#define MAGNITUDE_32(x) ((int32_t)(x) < 0 ? ~(x) : (x))
#define MAGNITUDE_64(x) ((int64_t)(x) < 0 ? ~(x) : (x))
#define FROM_TOP(found, bits) ((found) < 0 ? -1 : (bits)-1 - (found))
COUNT(popc_32, uint32_t, __builtin_popcount(x))
COUNT(popc_64, uint64_t, __builtin_popcountll(x))
COUNT(clz_32, uint32_t, x ? __builtin_clz(x) : 32)
COUNT(clz_64, uint64_t, x ? __builtin_clzll(x) : 64)
COUNT(bfind_u32, uint32_t, HIGHEST_32(x))
COUNT(bfind_u64, uint64_t, HIGHEST_64(x))
COUNT(bfind_s32, uint32_t, HIGHEST_32(MAGNITUDE_32(x)))
COUNT(bfind_s64, uint64_t, HIGHEST_64(MAGNITUDE_64(x)))
COUNT(shiftamt_u32, uint32_t, FROM_TOP(HIGHEST_32(x), 32))
COUNT(shiftamt_u64, uint64_t, FROM_TOP(HIGHEST_64(x), 64))
COUNT(shiftamt_s32, uint32_t, FROM_TOP(HIGHEST_32(MAGNITUDE_32(x)), 32))
COUNT(shiftamt_s64, uint64_t, FROM_TOP(HIGHEST_64(MAGNITUDE_64(x)), 64))

static uint32_t reversed_32(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
EXEC_UNARY(brev_32, uint32_t, uint32_t, reversed_32(x))
EXEC_UNARY(brev_64, uint64_t, uint64_t,
           (uint64_t)reversed_32((uint32_t)x) << 32 | reversed_32((uint32_t)(x >> 32)))

/* ---- bit fields: position and length are the low 8 bits of 32-bit operands ---- */

#define LOW_ONES(length) ((length) >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << (length)) - 1)

static uint64_t extract(uint64_t value, uint32_t position, uint32_t length, int bits,
                        bool is_signed)
{
    uint64_t field = position < 64 ? (value & LOW_ONES(bits)) >> position : 0;

    field &= LOW_ONES(length);
    if (is_signed && length > 0) {
        uint32_t top = position + length - 1;
        bool sign = value >> (top < (uint32_t)bits - 1 ? top : (uint32_t)bits - 1) & 1;
        uint32_t kept = position >= (uint32_t)bits           ? 0
                        : length < (uint32_t)bits - position ? length
                                                             : (uint32_t)bits - position;
        field = sign ? field | ~LOW_ONES(kept) : field;
    }
    return field;
}

static uint64_t insert(uint64_t field, uint64_t into, uint32_t position, uint32_t length)
{
    if (position >= 64) {
        return into;
    }
    uint64_t ones = LOW_ONES(length) << position;
    return (into & ~ones) | (field << position & ones);
}

#define FIELDS(name, lane_type, bits, is_signed)                                                   \
    static void bfe_##name(struct warp *warp, const struct insn *insn, uint32_t mask)              \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        const uint32_t *b = SOURCE(uint32_t, 1);                                                   \
        const uint32_t *c = SOURCE(uint32_t, 2);                                                   \
        FOR_LANES(lane_type, result = (lane_type)extract(a[lane], b[lane] & 0xff, c[lane] & 0xff,  \
                                                         bits, is_signed))                         \
    }
FIELDS(u32, uint32_t, 32, false)
FIELDS(s32, uint32_t, 32, true)
FIELDS(u64, uint64_t, 64, false)
FIELDS(s64, uint64_t, 64, true)

#define INSERTION(name, lane_type)                                                                 \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        __auto_type b = SOURCE(lane_type, 1);                                                      \
        const uint32_t *c = SOURCE(uint32_t, 2);                                                   \
        const uint32_t *e = SOURCE(uint32_t, 3);                                                   \
        FOR_LANES(lane_type,                                                                       \
                  result = (lane_type)insert(a[lane], b[lane], c[lane] & 0xff, e[lane] & 0xff))    \
    }
INSERTION(bfi_32, uint32_t)
INSERTION(bfi_64, uint64_t)

#define WRAPPED(amount) ((amount)&31)
#define MASK_OF(position, length)                                                                  \
    ((uint32_t)(LOW_ONES(length) << ((position) < 63 ? (position) : 63)))
EXEC_BINARY(bmsk_wrap, uint32_t, uint32_t, MASK_OF(WRAPPED(x), WRAPPED(y)))
EXEC_BINARY(bmsk_clamp, uint32_t, uint32_t, MASK_OF(x, y))

/* The low `y` bits, extended by zeros or by sign. */
static uint32_t extended(uint32_t x, uint32_t bits, bool is_signed)
{
    if (bits == 0) {
        return 0;
    }
    if (bits >= 32) {
        return x;
    }
    return is_signed ? (uint32_t)((int32_t)(x << (32 - bits)) >> (32 - bits))
                     : x & (uint32_t)LOW_ONES(bits);
}
EXEC_BINARY(szext_wrap_u32, uint32_t, uint32_t, extended(x, y & 31, false))
EXEC_BINARY(szext_wrap_s32, uint32_t, uint32_t, extended(x, y & 31, true))
EXEC_BINARY(szext_clamp_u32, uint32_t, uint32_t, extended(x, y, false))
EXEC_BINARY(szext_clamp_s32, uint32_t, uint32_t, extended(x, y, true))

/* The position of the n-th set bit from `base`, upwards or downwards. */
static uint32_t nth_set(uint32_t bits, uint32_t base, int32_t n)
{
    if (base > 31) {
        return MASK_ALL;
    }
    if (n == 0) {
        return bits >> base & 1 ? base : MASK_ALL;
    }
    int32_t step = n > 0 ? 1 : -1;
    int64_t left = n > 0 ? n : -(int64_t)n;
    for (int32_t at = (int32_t)base; at >= 0 && at < 32; at += step) {
        left -= bits >> at & 1;
        if (left == 0) {
            return (uint32_t)at;
        }
    }
    return MASK_ALL;
}
EXEC_TERNARY(fns, uint32_t, uint32_t, nth_set(x, y, (int32_t)z))

/* Dot products of the bytes of b with those, or the 16-bit halves, of a. */
static uint32_t dot(const struct insn *insn, uint32_t a, uint32_t b, uint32_t c)
{
    bool is_a_signed = insn->type == TYPE_S32;
    bool is_b_signed = insn->type2 == TYPE_S32;
    int count = insn->op == OP_DP4A ? 4 : 2;
    int width = 32 / count;

    if (count == 2 && insn->flags & FLAG_HI) {
        b >>= 16;
    }
    for (int i = 0; i < count; i++) {
        uint32_t x = extended(a >> (i * width), (uint32_t)width, is_a_signed);
        uint32_t y = extended(b >> (i * 8), 8, is_b_signed);
        c += x * y;
    }
    return c;
}
EXEC_TERNARY(dot_product, uint32_t, uint32_t, dot(insn, x, y, z))

/* |a - b| part by part, each as wide as it was, or their sum with c. */
static uint32_t absolute_differences(const struct insn *insn, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t parts = insn->sub & VABSDIFF_PARTS;
    uint32_t width = 32 / parts;
    bool is_signed = insn->sub & VABSDIFF_SIGNED;
    uint32_t sum = c;
    uint32_t result = 0;

    for (uint32_t i = 0; i < parts; i++) {
        int32_t x = (int32_t)extended(a >> (i * width), width, is_signed);
        int32_t y = (int32_t)extended(b >> (i * width), width, is_signed);
        uint32_t difference = (uint32_t)(x < y ? y - x : x - y);
        sum += difference;
        result |= (difference & (uint32_t)LOW_ONES(width)) << (i * width);
    }
    return insn->sub & VABSDIFF_ADD ? sum : result;
}
EXEC_TERNARY(vabsdiff, uint32_t, uint32_t, absolute_differences(insn, x, y, z))

/* clang-format off */
#define ALL_WIDTHS(op) [TYPE_B16] = op##_32, [TYPE_B32] = op##_32, [TYPE_B64] = op##_64
#define TWO_WIDTHS(op) [TYPE_B32] = op##_32, [TYPE_B64] = op##_64
#define SIGNS(op) [TYPE_U32] = op##_u32, [TYPE_S32] = op##_s32, [TYPE_U64] = op##_u64,             \
        [TYPE_S64] = op##_s64

static insn_exec *const plain[OPS][TYPES] = {
    [OP_AND] = {ALL_WIDTHS(and), [TYPE_PRED] = and_predicate},
    [OP_OR] = {ALL_WIDTHS(or), [TYPE_PRED] = or_predicate},
    [OP_XOR] = {ALL_WIDTHS(xor), [TYPE_PRED] = xor_predicate},
    [OP_NOT] = {ALL_WIDTHS(not), [TYPE_PRED] = not_predicate},
    [OP_CNOT] = {[TYPE_B16] = cnot_16, TWO_WIDTHS(cnot)},
    [OP_SHL] = {[TYPE_B16] = shl_16, TWO_WIDTHS(shl)},
    [OP_SHR] = {[TYPE_B16] = shr_u16, [TYPE_U16] = shr_u16, [TYPE_S16] = shr_s16,
                [TYPE_B32] = shr_u32, [TYPE_B64] = shr_u64, SIGNS(shr)},
    [OP_PRMT] = {[TYPE_B32] = prmt},
    [OP_POPC] = {TWO_WIDTHS(popc)},
    [OP_CLZ] = {TWO_WIDTHS(clz)},
    [OP_BREV] = {TWO_WIDTHS(brev)},
    [OP_BFIND] = {SIGNS(bfind)},
    [OP_BFE] = {SIGNS(bfe)},
    [OP_BFI] = {TWO_WIDTHS(bfi)},
    [OP_FNS] = {[TYPE_B32] = fns},
    [OP_DP4A] = {[TYPE_U32] = dot_product, [TYPE_S32] = dot_product},
    [OP_DP2A] = {[TYPE_U32] = dot_product, [TYPE_S32] = dot_product},
    [OP_BMSK] = {[TYPE_B32] = bmsk_clamp},
    [OP_SZEXT] = {[TYPE_U32] = szext_clamp_u32, [TYPE_S32] = szext_clamp_s32},
    [OP_SHF] = {[TYPE_B32] = shf_r_clamp},
};
static insn_exec *const shiftamt[TYPES] = {SIGNS(shiftamt)};
/* clang-format on */

insn_exec *find_bits(const struct insn *insn)
{
    switch (insn->op) {
    case OP_LOP3:
        return insn->flags || insn->type != TYPE_B32 ? NULL
               : insn->dst_count == 1                ? lop3
                                                     : lop3_predicate;
    case OP_SHF:
        if (!has_flags_only(insn, FLAG_LEFT | FLAG_WRAP) || insn->type != TYPE_B32) {
            return NULL;
        }
        if (insn->flags & FLAG_LEFT) {
            return insn->flags & FLAG_WRAP ? shf_l_wrap : shf_l_clamp;
        }
        return insn->flags & FLAG_WRAP ? shf_r_wrap : shf_r_clamp;
    case OP_VABSDIFF:
        return vabsdiff;
    default:
        break;
    }
    switch (insn->flags) {
    case 0:
        return plain[insn->op][insn->type];
    case FLAG_SHIFTAMT:
        return insn->op == OP_BFIND ? shiftamt[insn->type] : NULL;
    case FLAG_WRAP:
        return insn->op == OP_BMSK                              ? bmsk_wrap
               : insn->op == OP_SZEXT && insn->type == TYPE_U32 ? szext_wrap_u32
               : insn->op == OP_SZEXT && insn->type == TYPE_S32 ? szext_wrap_s32
                                                                : NULL;
    case FLAG_HI:
        return insn->op == OP_DP2A ? dot_product : NULL;
    default:
        return NULL;
    }
}
