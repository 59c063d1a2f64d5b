/* Integers of 64 bits: edge values against each other, and random ones of random lengths. */
#include "tests/exact.h"

enum { EDGES = 64, ROUNDS = 4 };

#define EXPECT(name, expression)                                                                   \
    static uint64_t name(uint64_t u, uint64_t v, uint64_t w)                                       \
    {                                                                                              \
        int64_t s = (int64_t)u;                                                                    \
        int64_t t = (int64_t)v;                                                                    \
        int64_t r = (int64_t)w;                                                                    \
        (void)v;                                                                                   \
        (void)w;                                                                                   \
        (void)s;                                                                                   \
        (void)t;                                                                                   \
        (void)r;                                                                                   \
        return (uint64_t)(expression);                                                             \
    }
#define WIDE(x) ((unsigned __int128)(x))
#define SIGNED(x) ((__int128)(x))

EXPECT(sum, u + v)
EXPECT(difference, u - v)
EXPECT(product, u *v)
EXPECT(high_u, WIDE(u) * v >> 64)
EXPECT(high_s, SIGNED(s) * t >> 64)
EXPECT(mad_lo, u *v + w)
EXPECT(mad_hi_u, (uint64_t)(WIDE(u) * v >> 64) + w)
EXPECT(mad_hi_s, (uint64_t)(SIGNED(s) * t >> 64) + w)
EXPECT(quotient_u, v ? u / v : UINT64_MAX)
EXPECT(quotient_s, t ? SIGNED(s) / t : -1)
EXPECT(remainder_u, v ? u % v : u)
EXPECT(remainder_s, t ? SIGNED(s) % t : s)
EXPECT(least_u, u < v ? u : v)
EXPECT(least_s, s < t ? s : t)
EXPECT(most_u, u > v ? u : v)
EXPECT(most_s, s > t ? s : t)
EXPECT(distance_u, (u > v ? u - v : v - u) + w)
EXPECT(distance_s, (s > t ? u - v : v - u) + w)
EXPECT(negative, 0 - u)
EXPECT(magnitude, s < 0 ? 0 - u : u)
EXPECT(carry_out, (WIDE(u) + v) >> 64)
EXPECT(sum_and_carry, w + w + (uint64_t)((WIDE(u) + v) >> 64))
EXPECT(borrow_out, u < v)
EXPECT(difference_and_borrow, w - u - (u < v))
EXPECT(mad_carry, (WIDE(u * v) + w) >> 64)
EXPECT(madc_of_carry, (uint64_t)(WIDE(u) * v >> 64) + w + (uint64_t)((WIDE(u * v) + w) >> 64))

static const struct exact_row arithmetic_rows[] = {
    {"add.u64 %d, %a, %b;", 8, sum},
    {"add.s64 %d, %a, %b;", 8, sum},
    {"sub.u64 %d, %a, %b;", 8, difference},
    {"sub.s64 %d, %a, %b;", 8, difference},
    {"mul.lo.u64 %d, %a, %b;", 8, product},
    {"mul.lo.s64 %d, %a, %b;", 8, product},
    {"mul.hi.u64 %d, %a, %b;", 8, high_u},
    {"mul.hi.s64 %d, %a, %b;", 8, high_s},
    {"mad.lo.u64 %d, %a, %b, %c;", 8, mad_lo},
    {"mad.hi.u64 %d, %a, %b, %c;", 8, mad_hi_u},
    {"mad.hi.s64 %d, %a, %b, %c;", 8, mad_hi_s},
    {"div.u64 %d, %a, %b;", 8, quotient_u},
    {"div.s64 %d, %a, %b;", 8, quotient_s},
    {"rem.u64 %d, %a, %b;", 8, remainder_u},
    {"rem.s64 %d, %a, %b;", 8, remainder_s},
    {"min.u64 %d, %a, %b;", 8, least_u},
    {"min.s64 %d, %a, %b;", 8, least_s},
    {"max.u64 %d, %a, %b;", 8, most_u},
    {"max.s64 %d, %a, %b;", 8, most_s},
    {"sad.u64 %d, %a, %b, %c;", 8, distance_u},
    {"sad.s64 %d, %a, %b, %c;", 8, distance_s},
    {"neg.s64 %d, %a;", 8, negative},
    {"abs.s64 %d, %a;", 8, magnitude},
    {"add.cc.u64 %d, %a, %b; addc.u64 %d, 0, 0;", 8, carry_out},
    {"add.cc.s64 %d, %a, %b; addc.s64 %d, %c, %c;", 8, sum_and_carry},
    {"sub.cc.u64 %d, %a, %b; subc.u64 %d, 0, 0; neg.s64 %d, %d;", 8, borrow_out},
    {"sub.cc.s64 %d, %a, %b; subc.s64 %d, %c, %a;", 8, difference_and_borrow},
    {"mad.lo.cc.u64 %d, %a, %b, %c; addc.u64 %d, 0, 0;", 8, mad_carry},
    {"mad.lo.cc.u64 %d, %a, %b, %c; madc.hi.u64 %d, %a, %b, %c;", 8, madc_of_carry},
};

/* ---- bits; positions and lengths are the low 32 bits of v and w ---- */

static uint64_t leading(uint64_t value)
{
    uint64_t count = 0;

    while (count < 64 && !(value >> (63 - count) & 1)) {
        count++;
    }
    return count;
}

static uint64_t reversed(uint64_t value)
{
    uint64_t result = 0;

    for (int i = 0; i < 64; i++) {
        result |= (value >> i & 1) << (63 - i);
    }
    return result;
}

static uint64_t ones(uint64_t value)
{
    uint64_t count = 0;

    for (int i = 0; i < 64; i++) {
        count += value >> i & 1;
    }
    return count;
}

/* bfe, as the manual's pseudocode. */
static uint64_t field(uint64_t value, uint64_t position, uint64_t length, bool is_signed)
{
    uint64_t pos = position & 255;
    uint64_t len = length & 255;
    uint64_t top = pos + len - 1 < 63 ? pos + len - 1 : 63;
    uint64_t sign = !is_signed || len == 0 ? 0 : value >> top & 1;
    uint64_t result = 0;

    for (uint64_t i = 0; i < 64; i++) {
        bool is_inside = i < len && pos + i <= 63;
        result |= (is_inside ? value >> (pos + i) & 1 : sign) << i;
    }
    return result;
}

static uint64_t with_field(uint64_t from, uint64_t into, uint64_t position, uint64_t length)
{
    uint64_t pos = position & 255;

    for (uint64_t i = 0; i < (length & 255) && pos + i <= 63; i++) {
        into = (into & ~((uint64_t)1 << (pos + i))) | (from >> i & 1) << (pos + i);
    }
    return into;
}

EXPECT(both, u &v)
EXPECT(either, u | v)
EXPECT(one_of, u ^ v)
EXPECT(inverse, ~u)
EXPECT(is_zero, u == 0)
EXPECT(left, (uint32_t)v > 63 ? 0 : u << (uint32_t)v)
EXPECT(right_u, (uint32_t)v > 63 ? 0 : u >> (uint32_t)v)
EXPECT(right_s, s >> ((uint32_t)v > 63 ? 63 : (uint32_t)v))
EXPECT(ones_u, ones(u))
EXPECT(leading_u, leading(u))
EXPECT(reversed_u, reversed(u))
EXPECT(highest_u, u ? 63 - leading(u) : UINT32_MAX)
EXPECT(highest_s, s != 0 && s != -1 ? 63 - leading(s < 0 ? ~u : u) : UINT32_MAX)
EXPECT(shift_u, u ? leading(u) : UINT32_MAX)
EXPECT(shift_s, s != 0 && s != -1 ? leading(s < 0 ? ~u : u) : UINT32_MAX)
EXPECT(field_u, field(u, v, w, false))
EXPECT(field_s, field(u, v, w, true))
EXPECT(inserted, with_field(u, v, w, 13))
EXPECT(inserted_at, with_field(u, v, 21, w))
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
EXPECT(mask_less_s, s < t ? UINT32_MAX : 0)
EXPECT(not_less_or, !(s < t) || (u < w))
EXPECT(chosen, s < t ? u : w)
EXPECT(by_sign, (int32_t)(uint32_t)w >= 0 ? u : v)

#define B "cvt.u32.u64 %x, %b; "
#define C "cvt.u32.u64 %y, %c; "
#define SETP(name) "setp." name " %p, %a, %b; selp.b64 %d, 1, 0, %p;"
static const struct exact_row bit_rows[] = {
    {"and.b64 %d, %a, %b;", 8, both},
    {"or.b64 %d, %a, %b;", 8, either},
    {"xor.b64 %d, %a, %b;", 8, one_of},
    {"not.b64 %d, %a;", 8, inverse},
    {"cnot.b64 %d, %a;", 8, is_zero},
    {B "shl.b64 %d, %a, %x;", 8, left},
    {B "shr.b64 %d, %a, %x;", 8, right_u},
    {B "shr.u64 %d, %a, %x;", 8, right_u},
    {B "shr.s64 %d, %a, %x;", 8, right_s},
    {"popc.b64 %d, %a;", 4, ones_u},
    {"clz.b64 %d, %a;", 4, leading_u},
    {"brev.b64 %d, %a;", 8, reversed_u},
    {"bfind.u64 %d, %a;", 4, highest_u},
    {"bfind.s64 %d, %a;", 4, highest_s},
    {"bfind.shiftamt.u64 %d, %a;", 4, shift_u},
    {"bfind.shiftamt.s64 %d, %a;", 4, shift_s},
    {B C "bfe.u64 %d, %a, %x, %y;", 8, field_u},
    {B C "bfe.s64 %d, %a, %x, %y;", 8, field_s},
    {C "bfi.b64 %d, %a, %b, %y, 13;", 8, inserted},
    {C "bfi.b64 %d, %a, %b, 21, %y;", 8, inserted_at},
    {SETP("eq.b64"), 8, equal},
    {SETP("ne.u64"), 8, unequal},
    {SETP("lt.u64"), 8, less_u},
    {SETP("lo.u64"), 8, less_u},
    {SETP("lt.s64"), 8, less_s},
    {SETP("le.u64"), 8, at_most_u},
    {SETP("ls.u64"), 8, at_most_u},
    {SETP("le.s64"), 8, at_most_s},
    {SETP("gt.u64"), 8, more_u},
    {SETP("hi.u64"), 8, more_u},
    {SETP("gt.s64"), 8, more_s},
    {SETP("ge.u64"), 8, at_least_u},
    {SETP("hs.u64"), 8, at_least_u},
    {SETP("ge.s64"), 8, at_least_s},
    {"set.lt.u32.s64 %d, %a, %b;", 4, mask_less_s},
    {"setp.lt.u64 %p, %a, %c; setp.lt.or.s64 %p|%q, %a, %b, %p; selp.b64 %d, 1, 0, %q;", 8,
     not_less_or},
    {"setp.lt.s64 %p, %a, %b; selp.b64 %d, %a, %c, %p;", 8, chosen},
    {C "slct.b64.s32 %d, %a, %b, %y;", 8, by_sign},
};

/* ---- */

static uint64_t edge(uint32_t index)
{
    static const uint64_t centres[EDGES / 4] = {1,
                                                8,
                                                15,
                                                31,
                                                63,
                                                127,
                                                255,
                                                0xffff,
                                                0x7fffffff,
                                                0xffffffff,
                                                0x100000000000,
                                                0xfffffffffffff,
                                                0x7fffffffffffffff,
                                                0x8000000000000001,
                                                0xffffffff80000000,
                                                0xfffffffffffffffd};

    return centres[index / 4] + index % 4 - 1;
}

static uint64_t of_some_length(uint64_t *random)
{
    uint64_t length = batch_random(random);

    return batch_random(random) >> (length & 63 & -(length >> 20 & 1));
}

static void check_rows(const struct exact_row *rows, int count)
{
    static const int bytes[BATCH_SOURCES] = {8, 8, 8};
    uint32_t random_count = batch_count(BATCH_ELEMENTS * 2, BATCH_ELEMENTS * 32);
    uint64_t random = 88172645463325252u;
    struct batch batch;

    exact_open(&batch, rows, count, bytes);
    uint64_t *a = batch.sources[0];
    uint64_t *b = batch.sources[1];
    uint64_t *c = batch.sources[2];
    for (uint32_t i = 0; i < EDGES * EDGES * ROUNDS; i++) {
        uint32_t pair = i % (EDGES * EDGES);
        a[i] = edge(pair / EDGES);
        b[i] = edge(pair % EDGES);
        c[i] = edge((pair * 7 + pair / EDGES * 5 + i / (EDGES * EDGES) * 23) % EDGES);
    }
    exact_check(&batch, rows, count, bytes, EDGES * EDGES * ROUNDS);
    for (uint32_t done = 0; done < random_count; done += BATCH_ELEMENTS) {
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            a[i] = of_some_length(&random);
            b[i] = of_some_length(&random);
            c[i] = of_some_length(&random);
        }
        exact_check(&batch, rows, count, bytes, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}

static void test_arithmetic_of_longs_is_exact(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(arithmetic_rows));
}

static void test_bits_and_comparisons_of_longs_are_exact(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(bit_rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic_of_longs_is_exact),
        cmocka_unit_test(test_bits_and_comparisons_of_longs_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
