/*
 * Integers of 8 and 16 bits: every value, every pair of bytes, a grid of 64 edge values against
 * each other, and ten million random pairs.
 */
#include "tests/exact.h"

enum { EDGES = 64, RANDOM = 10000000, ALL = 65536 };

/* ---- what the manual says, of operands u and v, as signed numbers s and t ---- */

#define EXPECT(name, expression)                                                                   \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        uint32_t u = (uint16_t)a;                                                                  \
        uint32_t v = (uint16_t)b;                                                                  \
        int32_t s = (int16_t)a;                                                                    \
        int32_t t = (int16_t)b;                                                                    \
        (void)u;                                                                                   \
        (void)v;                                                                                   \
        (void)s;                                                                                   \
        (void)t;                                                                                   \
        (void)c;                                                                                   \
        return (uint64_t)(expression);                                                             \
    }
EXPECT(sum, u + v)
EXPECT(difference, u - v)
EXPECT(product, u *v)
EXPECT(high_u, u *v >> 16)
EXPECT(high_s, s *t >> 16)
EXPECT(wide_u, u *v)
EXPECT(wide_s, s *t)
EXPECT(mad_lo, u *v + u)
EXPECT(mad_hi_u, (u * v >> 16) + u)
EXPECT(mad_hi_s, (s * t >> 16) + s)
EXPECT(mad_wide_u, u *v + 0x12345678u)
EXPECT(mad_wide_s, (uint32_t)(s *t) + 0x12345678u)
EXPECT(quotient_u, v ? u / v : 0xffff)
EXPECT(quotient_s, t ? s / t : -1)
EXPECT(remainder_u, v ? u % v : u)
EXPECT(remainder_s, t ? s % t : s)
EXPECT(least_u, u < v ? u : v)
EXPECT(least_s, s < t ? s : t)
EXPECT(most_u, u > v ? u : v)
EXPECT(most_s, s > t ? s : t)
EXPECT(distance_u, (u > v ? u - v : v - u) + 77)
EXPECT(distance_s, (s > t ? s - t : t - s) + 77)
EXPECT(both, u &v)
EXPECT(either, u | v)
EXPECT(one_of, u ^ v)
EXPECT(left, v > 15 ? 0 : u << v)
EXPECT(right_u, v > 15 ? 0 : u >> v)
EXPECT(right_s, s >> (v > 15 ? 15 : v))
EXPECT(equal, u == v)
EXPECT(unequal, u != v)
EXPECT(less_u, u < v)
EXPECT(less_s, s < t)
EXPECT(at_most_u, u <= v)
EXPECT(at_most_s, s <= t)
EXPECT(more_u, u > v)
EXPECT(more_s, s > t)
EXPECT(at_least_u, u >= v)
EXPECT(at_least_s, s >= t)
EXPECT(mask_less_s, s < t ? 0xffffffffu : 0)
EXPECT(one_less_u, u < v ? 0x3f800000u : 0)
EXPECT(chosen, u < v ? u : v)
EXPECT(by_sign, t >= 0 ? u : v)

/* Pairs: {a, b} with {b, a}. */
#define PAIR(low, high) (((low)&0xffffu) | (uint32_t)(high) << 16)
EXPECT(pair_sum, PAIR(u + v, v + u))
EXPECT(pair_least_u, PAIR(least_u(a, b, c), least_u(b, a, c)))
EXPECT(pair_least_s, PAIR((uint32_t)least_s(a, b, c), least_s(b, a, c)))
EXPECT(pair_most_u, PAIR(most_u(a, b, c), most_u(b, a, c)))
EXPECT(pair_most_s, PAIR((uint32_t)most_s(a, b, c), most_s(b, a, c)))
EXPECT(pair_least_relu, s < 0 || t < 0 ? 0 : pair_least_s(a, b, c))
EXPECT(pair_most_relu, s < 0 && t < 0 ? 0 : pair_most_s(a, b, c))
EXPECT(pair_distance, PAIR(u > v ? u - v : v - u, u > v ? u - v : v - u))
EXPECT(pair_distance_s, PAIR(s > t ? s - t : t - s, s > t ? s - t : t - s))
EXPECT(pair_distances, 2 * (u > v ? u - v : v - u) + 5)

#define SETP(name) "setp." name " %p, %a, %b; selp.b16 %d, 1, 0, %p;"
#define PAIRS(name) "mov.b32 %x, {%a, %b}; mov.b32 %y, {%b, %a}; " name

static const struct exact_row rows[] = {
    {"add.u16 %d, %a, %b;", 2, sum},
    {"add.s16 %d, %a, %b;", 2, sum},
    {"sub.u16 %d, %a, %b;", 2, difference},
    {"sub.s16 %d, %a, %b;", 2, difference},
    {"mul.lo.u16 %d, %a, %b;", 2, product},
    {"mul.lo.s16 %d, %a, %b;", 2, product},
    {"mul.hi.u16 %d, %a, %b;", 2, high_u},
    {"mul.hi.s16 %d, %a, %b;", 2, high_s},
    {"mul.wide.u16 %d, %a, %b;", 4, wide_u},
    {"mul.wide.s16 %d, %a, %b;", 4, wide_s},
    {"mad.lo.s16 %d, %a, %b, %a;", 2, mad_lo},
    {"mad.hi.u16 %d, %a, %b, %a;", 2, mad_hi_u},
    {"mad.hi.s16 %d, %a, %b, %a;", 2, mad_hi_s},
    {"mad.wide.u16 %d, %a, %b, 0x12345678;", 4, mad_wide_u},
    {"mad.wide.s16 %d, %a, %b, 0x12345678;", 4, mad_wide_s},
    {"div.u16 %d, %a, %b;", 2, quotient_u},
    {"div.s16 %d, %a, %b;", 2, quotient_s},
    {"rem.u16 %d, %a, %b;", 2, remainder_u},
    {"rem.s16 %d, %a, %b;", 2, remainder_s},
    {"min.u16 %d, %a, %b;", 2, least_u},
    {"min.s16 %d, %a, %b;", 2, least_s},
    {"max.u16 %d, %a, %b;", 2, most_u},
    {"max.s16 %d, %a, %b;", 2, most_s},
    {"sad.u16 %d, %a, %b, 77;", 2, distance_u},
    {"sad.s16 %d, %a, %b, 77;", 2, distance_s},
    {"and.b16 %d, %a, %b;", 2, both},
    {"or.b16 %d, %a, %b;", 2, either},
    {"xor.b16 %d, %a, %b;", 2, one_of},
    {"cvt.u32.u16 %x, %b; shl.b16 %d, %a, %x;", 2, left},
    {"cvt.u32.u16 %x, %b; shr.b16 %d, %a, %x;", 2, right_u},
    {"cvt.u32.u16 %x, %b; shr.u16 %d, %a, %x;", 2, right_u},
    {"cvt.u32.u16 %x, %b; shr.s16 %d, %a, %x;", 2, right_s},
    {SETP("eq.b16"), 2, equal},
    {SETP("ne.s16"), 2, unequal},
    {SETP("lt.u16"), 2, less_u},
    {SETP("lo.u16"), 2, less_u},
    {SETP("lt.s16"), 2, less_s},
    {SETP("le.u16"), 2, at_most_u},
    {SETP("ls.u16"), 2, at_most_u},
    {SETP("le.s16"), 2, at_most_s},
    {SETP("gt.u16"), 2, more_u},
    {SETP("hi.u16"), 2, more_u},
    {SETP("gt.s16"), 2, more_s},
    {SETP("ge.u16"), 2, at_least_u},
    {SETP("hs.u16"), 2, at_least_u},
    {SETP("ge.s16"), 2, at_least_s},
    {"set.lt.u32.s16 %d, %a, %b;", 4, mask_less_s},
    {"set.lt.f32.u16 %d, %a, %b;", 4, one_less_u},
    {"setp.lt.u16 %p, %a, %b; selp.b16 %d, %a, %b, %p;", 2, chosen},
    {"cvt.s32.s16 %x, %b; slct.b16.s32 %d, %a, %b, %x;", 2, by_sign},
    {PAIRS("add.u16x2 %d, %x, %y;"), 4, pair_sum},
    {PAIRS("add.s16x2 %d, %x, %y;"), 4, pair_sum},
    {PAIRS("min.u16x2 %d, %x, %y;"), 4, pair_least_u},
    {PAIRS("min.s16x2 %d, %x, %y;"), 4, pair_least_s},
    {PAIRS("max.u16x2 %d, %x, %y;"), 4, pair_most_u},
    {PAIRS("max.s16x2 %d, %x, %y;"), 4, pair_most_s},
    {PAIRS("min.relu.s16x2 %d, %x, %y;"), 4, pair_least_relu},
    {PAIRS("max.relu.s16x2 %d, %x, %y;"), 4, pair_most_relu},
    {PAIRS("vabsdiff2.u32.u32.u32 %d, %x, %y, 0;"), 4, pair_distance},
    {PAIRS("vabsdiff2.s32.s32.s32 %d, %x, %y, 0;"), 4, pair_distance_s},
    {PAIRS("vabsdiff2.u32.u32.u32.add %d, %x, %y, 5;"), 4, pair_distances},
};

/* ---- one operand ---- */

static uint64_t count_leading(uint32_t value)
{
    uint64_t count = 0;

    while (count < 32 && !(value >> (31 - count) & 1)) {
        count++;
    }
    return count;
}

static uint64_t reversed(uint32_t value)
{
    uint64_t result = 0;

    for (int i = 0; i < 32; i++) {
        result |= (uint64_t)(value >> i & 1) << (31 - i);
    }
    return result;
}

static uint64_t bits_set(uint32_t value)
{
    uint64_t count = 0;

    for (int i = 0; i < 32; i++) {
        count += value >> i & 1;
    }
    return count;
}

EXPECT(negative, -s)
EXPECT(magnitude, s < 0 ? -s : s)
EXPECT(inverse, ~u)
EXPECT(is_zero, u == 0)
EXPECT(ones_u, bits_set(u))
EXPECT(ones_s, bits_set((uint32_t)s))
EXPECT(ones_high, bits_set(u << 16))
EXPECT(leading_u, count_leading(u))
EXPECT(leading_s, count_leading((uint32_t)s))
EXPECT(leading_high, count_leading(u << 16))
EXPECT(reversed_u, reversed(u))
EXPECT(reversed_s, reversed((uint32_t)s))
EXPECT(reversed_high, reversed(u << 16))
EXPECT(highest_u, u ? 31 - count_leading(u) : 0xffffffffu)
EXPECT(highest_s, s != 0 && s != -1 ? 31 - count_leading((uint32_t)(s < 0 ? ~s : s)) : 0xffffffffu)
EXPECT(shift_u, u ? count_leading(u) : 0xffffffffu)
EXPECT(shift_s, s != 0 && s != -1 ? count_leading((uint32_t)(s < 0 ? ~s : s)) : 0xffffffffu)

#define WIDE(type, rest) "cvt." type " %x, %a; " rest
static const struct exact_row unary_rows[] = {
    {"neg.s16 %d, %a;", 2, negative},
    {"abs.s16 %d, %a;", 2, magnitude},
    {"not.b16 %d, %a;", 2, inverse},
    {"cnot.b16 %d, %a;", 2, is_zero},
    {WIDE("u32.u16", "popc.b32 %d, %x;"), 4, ones_u},
    {WIDE("s32.s16", "popc.b32 %d, %x;"), 4, ones_s},
    {WIDE("u32.u16", "shl.b32 %x, %x, 16; popc.b32 %d, %x;"), 4, ones_high},
    {WIDE("u32.u16", "clz.b32 %d, %x;"), 4, leading_u},
    {WIDE("s32.s16", "clz.b32 %d, %x;"), 4, leading_s},
    {WIDE("u32.u16", "shl.b32 %x, %x, 16; clz.b32 %d, %x;"), 4, leading_high},
    {WIDE("u32.u16", "brev.b32 %d, %x;"), 4, reversed_u},
    {WIDE("s32.s16", "brev.b32 %d, %x;"), 4, reversed_s},
    {WIDE("u32.u16", "shl.b32 %x, %x, 16; brev.b32 %d, %x;"), 4, reversed_high},
    {WIDE("u32.u16", "bfind.u32 %d, %x;"), 4, highest_u},
    {WIDE("s32.s16", "bfind.s32 %d, %x;"), 4, highest_s},
    {WIDE("u32.u16", "bfind.shiftamt.u32 %d, %x;"), 4, shift_u},
    {WIDE("s32.s16", "bfind.shiftamt.s32 %d, %x;"), 4, shift_s},
};

/* ---- bytes: all pairs ---- */

static int32_t signed_byte(uint64_t word)
{
    return (int32_t)(word & 255) - ((word & 128) != 0 ? 256 : 0);
}

#define EXPECT_BYTES(name, expression)                                                             \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        int32_t u = (uint8_t)a;                                                                    \
        int32_t v = (uint8_t)b;                                                                    \
        int32_t s = signed_byte(a);                                                                \
        int32_t t = signed_byte(b);                                                                \
        (void)u;                                                                                   \
        (void)v;                                                                                   \
        (void)s;                                                                                   \
        (void)t;                                                                                   \
        (void)c;                                                                                   \
        return (uint64_t)(int64_t)(expression);                                                    \
    }
EXPECT_BYTES(dot_uu, 2 * u * v + 9)
EXPECT_BYTES(dot_us, 2 * u * t + 9)
EXPECT_BYTES(dot_su, 2 * s * v + 9)
EXPECT_BYTES(dot_ss, 2 * s * t + 9)
EXPECT_BYTES(bytes_apart, (u > v ? u - v : v - u) * 0x10001)
EXPECT_BYTES(bytes_apart_s, (s > t ? s - t : t - s) * 0x10001)
EXPECT_BYTES(sum_apart, 2 * (u > v ? u - v : v - u) + 9)
EXPECT_BYTES(cut_sum, signed_byte((uint64_t)(int64_t)(s + t)))
EXPECT_BYTES(cut_sum_u, (uint8_t)(u + v))
EXPECT_BYTES(clamped_sum, s + t > 127 ? 127 : s + t < -128 ? -128 : s + t)
EXPECT_BYTES(clamped_difference, u - v < 0 ? 0 : u - v)
EXPECT_BYTES(two_bytes, v << 8 | u)
EXPECT_BYTES(packed_u4, (u > 15 ? 15 : u) << 4 | (v > 15 ? 15 : v))
EXPECT_BYTES(packed_s4, ((s > 7    ? 7
                          : s < -8 ? -8
                                   : s) &
                         15) << 4 |
                            ((t > 7    ? 7
                              : t < -8 ? -8
                                       : t) &
                             15))
EXPECT_BYTES(packed_s2, ((s > 1    ? 1
                          : s < -2 ? -2
                                   : s) &
                         3) << 2 |
                            ((t > 1    ? 1
                              : t < -2 ? -2
                                       : t) &
                             3))
EXPECT_BYTES(packed_u2, (u > 3 ? 3 : u) << 2 | (v > 3 ? 3 : v))

/* The byte of a in bytes 0 and 2 of %x, that of b in %y. */
#define BYTES(rest)                                                                                \
    "cvt.u32.u8 %x, %a; cvt.u32.u8 %y, %b; mul.lo.u32 %x, %x, 0x10001;"                            \
    " mul.lo.u32 %y, %y, 0x10001; " rest
#define SIGNED(rest) "cvt.s32.s8 %x, %a; cvt.s32.s8 %y, %b; " rest
#define UNSIGNED(rest) "cvt.u32.u8 %x, %a; cvt.u32.u8 %y, %b; " rest
static const struct exact_row byte_rows[] = {
    {BYTES("dp4a.u32.u32 %d, %x, %y, 9;"), 4, dot_uu},
    {BYTES("dp4a.u32.s32 %d, %x, %y, 9;"), 4, dot_us},
    {BYTES("dp4a.s32.u32 %d, %x, %y, 9;"), 4, dot_su},
    {BYTES("dp4a.s32.s32 %d, %x, %y, 9;"), 4, dot_ss},
    {BYTES("vabsdiff4.u32.u32.u32 %d, %x, %y, 0;"), 4, bytes_apart},
    {BYTES("vabsdiff4.s32.s32.s32 %d, %x, %y, 0;"), 4, bytes_apart_s},
    {BYTES("vabsdiff4.u32.u32.u32.add %d, %x, %y, 9;"), 4, sum_apart},
    {SIGNED("add.s32 %x, %x, %y; cvt.s32.s8 %d, %x;"), 4, cut_sum},
    {UNSIGNED("add.s32 %x, %x, %y; cvt.u32.u8 %d, %x;"), 4, cut_sum_u},
    {SIGNED("add.s32 %x, %x, %y; cvt.sat.s8.s32 %d, %x;"), 4, clamped_sum},
    {UNSIGNED("sub.s32 %x, %x, %y; cvt.sat.u8.s32 %d, %x;"), 4, clamped_difference},
    {UNSIGNED("prmt.b32 %d, %x, %y, 0x7740;"), 4, two_bytes},
    {UNSIGNED("cvt.pack.sat.u8.s32.b32 %d, %y, %x, 0;"), 4, two_bytes},
    {UNSIGNED("cvt.pack.sat.u4.s32.b32 %d, %x, %y, 0;"), 4, packed_u4},
    {SIGNED("cvt.pack.sat.s4.s32.b32 %d, %x, %y, 0;"), 4, packed_s4},
    {SIGNED("cvt.pack.sat.s2.s32.b32 %d, %x, %y, 0;"), 4, packed_s2},
    {UNSIGNED("cvt.pack.sat.u2.s32.b32 %d, %x, %y, 0;"), 4, packed_u2},
};

/* ---- */

static const int one_source[BATCH_SOURCES] = {2};
static const int two_sources[BATCH_SOURCES] = {2, 2};
static const int two_bytes_each[BATCH_SOURCES] = {1, 1};

static void test_every_16_bit_value_has_its_result(void **state)
{
    struct batch batch;

    (void)state;
    exact_open(&batch, EXACT_ROWS(unary_rows), one_source);
    for (uint32_t i = 0; i < ALL; i++) {
        ((uint16_t *)batch.sources[0])[i] = (uint16_t)i;
    }
    exact_check(&batch, EXACT_ROWS(unary_rows), one_source, ALL);
    batch_close(&batch);
}

static void test_every_pair_of_bytes_has_its_result(void **state)
{
    struct batch batch;

    (void)state;
    exact_open(&batch, EXACT_ROWS(byte_rows), two_bytes_each);
    for (uint32_t i = 0; i < ALL; i++) {
        ((uint8_t *)batch.sources[0])[i] = (uint8_t)i;
        ((uint8_t *)batch.sources[1])[i] = (uint8_t)(i >> 8);
    }
    exact_check(&batch, EXACT_ROWS(byte_rows), two_bytes_each, ALL);
    batch_close(&batch);

    /* As 16 bits, extended by zeros and by sign. */
    exact_open(&batch, EXACT_ROWS(rows), two_sources);
    for (int extension = 0; extension < 4; extension++) {
        for (uint32_t i = 0; i < ALL; i++) {
            uint16_t a = (uint8_t)i;
            uint16_t b = (uint8_t)(i >> 8);
            ((uint16_t *)batch.sources[0])[i] = extension & 1 ? (uint16_t)(int8_t)a : a;
            ((uint16_t *)batch.sources[1])[i] = extension & 2 ? (uint16_t)(int8_t)b : b;
        }
        exact_check(&batch, EXACT_ROWS(rows), two_sources, ALL);
    }
    batch_close(&batch);
}

/* Values where something changes, and their neighbours. */
static uint16_t edge(uint32_t index)
{
    static const uint16_t centres[EDGES / 4] = {
        0, 4, 8, 15, 31, 63, 127, 255, 511, 1023, 4095, 8191, 0x7ffe, 0x8000, 0xaaaa, 0xfffe};

    return (uint16_t)(centres[index / 4] + index % 4 - 1);
}

static void test_pairs_of_edges_and_ten_million_random_ones_have_their_results(void **state)
{
    struct batch batch;
    uint64_t random = 88172645463325252u;

    (void)state;
    exact_open(&batch, EXACT_ROWS(rows), two_sources);
    uint16_t *a = batch.sources[0];
    uint16_t *b = batch.sources[1];
    for (uint32_t i = 0; i < EDGES * EDGES; i++) {
        a[i] = edge(i / EDGES);
        b[i] = edge(i % EDGES);
    }
    exact_check(&batch, EXACT_ROWS(rows), two_sources, EDGES * EDGES);
    for (uint32_t done = 0; done < RANDOM; done += BATCH_ELEMENTS) {
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            uint64_t bits = batch_random(&random);
            a[i] = (uint16_t)bits;
            b[i] = (uint16_t)(bits >> 16) >> (bits >> 32 & 15 & -(bits >> 40 & 1));
        }
        exact_check(&batch, EXACT_ROWS(rows), two_sources, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_16_bit_value_has_its_result),
        cmocka_unit_test(test_every_pair_of_bytes_has_its_result),
        cmocka_unit_test(test_pairs_of_edges_and_ten_million_random_ones_have_their_results),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
