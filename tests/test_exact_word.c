/* Integers of 32 bits: arithmetic, carries, bit fields. */
#include "tests/exact_words.h"

/* ---- arithmetic ---- */

static int64_t clamped(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
}

static int64_t low_24(uint64_t value)
{
    int64_t low = (int64_t)(value & 0xffffff);

    return low & 0x800000 ? low - 0x1000000 : low;
}

EXPECT(sum, u + v)
EXPECT(sum_clamped, clamped(s + t))
EXPECT(difference, u - v)
EXPECT(difference_clamped, clamped(s - t))
EXPECT(product, u *v)
EXPECT(high_u, u *v >> 32)
EXPECT(high_s, s *t >> 32)
EXPECT(wide_s, s *t)
EXPECT(mad_lo, u *v + w)
EXPECT(mad_hi_u, (u * v >> 32) + w)
EXPECT(mad_hi_s, (s * t >> 32) + r)
EXPECT(mad_hi_clamped, clamped((s * t >> 32) + r))
EXPECT(mad_wide_u, u *v + w)
EXPECT(mad_wide_s, (uint64_t)(s *t) + w)
EXPECT(mul24_u, (u & 0xffffff) * (v & 0xffffff))
EXPECT(mul24_s, low_24(u) * low_24(v))
EXPECT(mul24_hi_u, (u & 0xffffff) * (v & 0xffffff) >> 16)
EXPECT(mul24_hi_s, low_24(u) * low_24(v) >> 16)
EXPECT(mad24_u, (u & 0xffffff) * (v & 0xffffff) + w)
EXPECT(mad24_hi_s, (low_24(u) * low_24(v) >> 16) + r)
EXPECT(mad24_hi_clamped, clamped((int32_t)(low_24(u) * low_24(v) >> 16) + r))
EXPECT(quotient_u, v ? u / v : UINT32_MAX)
EXPECT(quotient_s, t ? s / t : -1)
EXPECT(remainder_u, v ? u % v : u)
EXPECT(remainder_s, t ? s % t : s)
EXPECT(least_u, u < v ? u : v)
EXPECT(least_s, s < t ? s : t)
EXPECT(most_u, u > v ? u : v)
EXPECT(most_s, s > t ? s : t)
EXPECT(least_relu, (s < t ? s : t) < 0 ? 0 : (s < t ? s : t))
EXPECT(most_relu, (s > t ? s : t) < 0 ? 0 : (s > t ? s : t))
EXPECT(distance_u, (u > v ? u - v : v - u) + w)
EXPECT(distance_s, (s > t ? s - t : t - s) + r)
EXPECT(negative, -s)
EXPECT(magnitude, s < 0 ? -s : s)

static const struct exact_row arithmetic_rows[] = {
    {"add.u32 %d, %a, %b;", 4, sum},
    {"add.s32 %d, %a, %b;", 4, sum},
    {"add.sat.s32 %d, %a, %b;", 4, sum_clamped},
    {"sub.u32 %d, %a, %b;", 4, difference},
    {"sub.sat.s32 %d, %a, %b;", 4, difference_clamped},
    {"mul.lo.u32 %d, %a, %b;", 4, product},
    {"mul.lo.s32 %d, %a, %b;", 4, product},
    {"mul.hi.u32 %d, %a, %b;", 4, high_u},
    {"mul.hi.s32 %d, %a, %b;", 4, high_s},
    {"mul.wide.u32 %d, %a, %b;", 8, product},
    {"mul.wide.s32 %d, %a, %b;", 8, wide_s},
    {"mad.lo.u32 %d, %a, %b, %c;", 4, mad_lo},
    {"mad.hi.u32 %d, %a, %b, %c;", 4, mad_hi_u},
    {"mad.hi.s32 %d, %a, %b, %c;", 4, mad_hi_s},
    {"mad.hi.sat.s32 %d, %a, %b, %c;", 4, mad_hi_clamped},
    {"cvt.u64.u32 %at, %c; mad.wide.u32 %d, %a, %b, %at; mad.wide.u32 %at, %i, 8, %to;", 8,
     mad_wide_u},
    {"cvt.u64.u32 %at, %c; mad.wide.s32 %d, %a, %b, %at; mad.wide.u32 %at, %i, 8, %to;", 8,
     mad_wide_s},
    {"mul24.lo.u32 %d, %a, %b;", 4, mul24_u},
    {"mul24.lo.s32 %d, %a, %b;", 4, mul24_s},
    {"mul24.hi.u32 %d, %a, %b;", 4, mul24_hi_u},
    {"mul24.hi.s32 %d, %a, %b;", 4, mul24_hi_s},
    {"mad24.lo.u32 %d, %a, %b, %c;", 4, mad24_u},
    {"mad24.hi.s32 %d, %a, %b, %c;", 4, mad24_hi_s},
    {"mad24.hi.sat.s32 %d, %a, %b, %c;", 4, mad24_hi_clamped},
    {"div.u32 %d, %a, %b;", 4, quotient_u},
    {"div.s32 %d, %a, %b;", 4, quotient_s},
    {"rem.u32 %d, %a, %b;", 4, remainder_u},
    {"rem.s32 %d, %a, %b;", 4, remainder_s},
    {"min.u32 %d, %a, %b;", 4, least_u},
    {"min.s32 %d, %a, %b;", 4, least_s},
    {"max.u32 %d, %a, %b;", 4, most_u},
    {"max.s32 %d, %a, %b;", 4, most_s},
    {"min.relu.s32 %d, %a, %b;", 4, least_relu},
    {"max.relu.s32 %d, %a, %b;", 4, most_relu},
    {"sad.u32 %d, %a, %b, %c;", 4, distance_u},
    {"sad.s32 %d, %a, %b, %c;", 4, distance_s},
    {"neg.s32 %d, %a;", 4, negative},
    {"abs.s32 %d, %a;", 4, magnitude},
};

/* ---- carries ---- */

EXPECT(carry_out, (u + v) >> 32)
EXPECT(sum_and_carry, w + w + ((u + v) >> 32))
EXPECT(borrow_out, u < v)
EXPECT(difference_and_borrow, w - u - (u < v))
EXPECT(two_carries, (w + u + ((u + v) >> 32)) >> 32)
EXPECT(two_borrows, w < u + (u < v))
EXPECT(mad_carry, ((uint32_t)(u * v) + w) >> 32)
EXPECT(mad_hi_carry, ((u * v >> 32) + w) >> 32)
EXPECT(mad_hi_s_sum, (uint32_t)(s *t >> 32) + w)
EXPECT(madc_of_carry, (u * v >> 32) + w + (((uint32_t)(u * v) + w) >> 32))
EXPECT(madc_lo_of_carry, u *v + w + ((u + v) >> 32))
EXPECT(wide_by_carries, u *v + (w << 32 | w))

#define CARRY "; addc.u32 %d, 0, 0;"
/* A subtraction sees a borrow as one less. */
#define BORROW "; subc.u32 %x, 0, 0; neg.s32 %d, %x;"
static const struct exact_row carry_rows[] = {
    {"add.cc.u32 %x, %a, %b" CARRY, 4, carry_out},
    {"add.cc.s32 %d, %a, %b;", 4, sum},
    {"add.cc.u32 %x, %a, %b; addc.u32 %d, %c, %c;", 4, sum_and_carry},
    {"add.cc.u32 %x, %a, %b; addc.cc.u32 %x, %c, %a" CARRY, 4, two_carries},
    {"sub.cc.u32 %x, %a, %b" BORROW, 4, borrow_out},
    {"sub.cc.s32 %d, %a, %b;", 4, difference},
    {"sub.cc.u32 %x, %a, %b; subc.u32 %d, %c, %a;", 4, difference_and_borrow},
    {"sub.cc.u32 %x, %a, %b; subc.cc.u32 %x, %c, %a" BORROW, 4, two_borrows},
    {"mad.lo.cc.u32 %d, %a, %b, %c;", 4, mad_lo},
    {"mad.lo.cc.u32 %x, %a, %b, %c" CARRY, 4, mad_carry},
    {"mad.hi.cc.u32 %x, %a, %b, %c" CARRY, 4, mad_hi_carry},
    {"mad.hi.cc.s32 %d, %a, %b, %c;", 4, mad_hi_s_sum},
    {"mad.lo.cc.u32 %x, %a, %b, %c; madc.hi.u32 %d, %a, %b, %c;", 4, madc_of_carry},
    {"add.cc.u32 %x, %a, %b; madc.lo.u32 %d, %a, %b, %c;", 4, madc_lo_of_carry},
    {"mad.lo.cc.u32 %x, %a, %b, %c; madc.hi.u32 %y, %a, %b, %c; mov.b64 %d, {%x, %y};", 8,
     wide_by_carries},
};

/* ---- bits ---- */

static uint64_t leading(uint64_t value)
{
    uint64_t count = 0;

    while (count < 32 && !(value >> (31 - count) & 1)) {
        count++;
    }
    return count;
}

static uint64_t reversed(uint64_t value)
{
    uint64_t result = 0;

    for (int i = 0; i < 32; i++) {
        result |= (value >> i & 1) << (31 - i);
    }
    return result;
}

static uint64_t ones(uint64_t value)
{
    uint64_t count = 0;

    for (int i = 0; i < 32; i++) {
        count += value >> i & 1;
    }
    return count;
}

/* bfe, as the manual's pseudocode. */
static uint64_t field(uint64_t value, uint64_t position, uint64_t length, bool is_signed)
{
    uint64_t pos = position & 255;
    uint64_t len = length & 255;
    uint64_t top = pos + len - 1 < 31 ? pos + len - 1 : 31;
    uint64_t sign = !is_signed || len == 0 ? 0 : value >> top & 1;
    uint64_t result = 0;

    for (uint64_t i = 0; i < 32; i++) {
        bool is_inside = i < len && pos + i <= 31;
        result |= (is_inside ? value >> (pos + i) & 1 : sign) << i;
    }
    return result;
}

static uint64_t with_field(uint64_t from, uint64_t into, uint64_t position, uint64_t length)
{
    uint64_t pos = position & 255;

    for (uint64_t i = 0; i < (length & 255) && pos + i <= 31; i++) {
        into = (into & ~((uint64_t)1 << (pos + i))) | (from >> i & 1) << (pos + i);
    }
    return into;
}

/* Bits from `position` up, `length` of them, as far as there are any. */
static uint64_t mask_of(uint64_t position, uint64_t length)
{
    uint64_t result = 0;

    for (uint64_t i = position; i < 32 && i - position < length; i++) {
        result |= (uint64_t)1 << i;
    }
    return result;
}

static uint64_t extended(uint64_t value, uint64_t bits, bool is_signed)
{
    uint64_t sign = bits > 0 && bits < 32 && is_signed ? value >> (bits - 1) & 1 : 0;
    uint64_t result = 0;

    for (uint64_t i = 0; i < 32; i++) {
        result |= (i < bits ? value >> i & 1 : sign) << i;
    }
    return result;
}

/* fns, as the manual's pseudocode. */
static uint64_t nth(uint64_t value, uint64_t base, int64_t offset)
{
    int64_t step = offset > 0 ? 1 : -1;
    int64_t count = (offset > 0 ? offset : -offset) - 1;

    if (base > 31) {
        return UINT32_MAX;
    }
    if (offset == 0) {
        return value >> base & 1 ? base : UINT32_MAX;
    }
    for (int64_t at = (int64_t)base; at >= 0 && at < 32; at += step) {
        if ((value >> at & 1) && count-- == 0) {
            return (uint64_t)at;
        }
    }
    return UINT32_MAX;
}

EXPECT(both, u &v)
EXPECT(either, u | v)
EXPECT(one_of, u ^ v)
EXPECT(inverse, ~u)
EXPECT(is_zero, u == 0)
EXPECT(left, v > 31 ? 0 : u << v)
EXPECT(right_u, v > 31 ? 0 : u >> v)
EXPECT(right_s, s >> (v > 31 ? 31 : v))
EXPECT(ones_u, ones(u))
EXPECT(leading_u, leading(u))
EXPECT(reversed_u, reversed(u))
EXPECT(highest_u, u ? 31 - leading(u) : UINT32_MAX)
EXPECT(highest_s, s != 0 && s != -1 ? 31 - leading((uint32_t)(s < 0 ? ~s : s)) : UINT32_MAX)
EXPECT(shift_u, u ? leading(u) : UINT32_MAX)
EXPECT(shift_s, s != 0 && s != -1 ? leading((uint32_t)(s < 0 ? ~s : s)) : UINT32_MAX)
EXPECT(field_u, field(u, v, w, false))
EXPECT(field_s, field(u, v, w, true))
EXPECT(inserted, with_field(u, v, w, 7))
EXPECT(inserted_at, with_field(u, v, 11, w))
EXPECT(mask_clamped, mask_of(u, v))
EXPECT(mask_wrapped, mask_of(u & 31, v & 31))
EXPECT(cut_u, extended(u, v, false))
EXPECT(cut_s, extended(u, v, true))
EXPECT(cut_u_wrapped, extended(u, v & 31, false))
EXPECT(cut_s_wrapped, extended(u, v & 31, true))
EXPECT(nth_set, nth(u, v, r))
EXPECT(nth_from_middle, nth(u, v & 31, r % 9))
EXPECT(funnel_left, w > 31 ? u : (v << 32 | u) >> (32 - w))
EXPECT(funnel_right, (v << 32 | u) >> (w > 32 ? 32 : w))
EXPECT(funnel_left_wrapped, (v << 32 | u) >> (32 - (w & 31)))
EXPECT(funnel_right_wrapped, (v << 32 | u) >> (w & 31))
EXPECT(parity, u ^ v ^ w)
EXPECT(majority, (u & v) | (u & w) | (v & w))
EXPECT(select_bits, (u & v) | (~u & w))
EXPECT(any_set, ((u | v | w) != 0) + 2 * ((u & v & w) != 0 && u < v))

static const struct exact_row bit_rows[] = {
    {"and.b32 %d, %a, %b;", 4, both},
    {"or.b32 %d, %a, %b;", 4, either},
    {"xor.b32 %d, %a, %b;", 4, one_of},
    {"not.b32 %d, %a;", 4, inverse},
    {"cnot.b32 %d, %a;", 4, is_zero},
    {"shl.b32 %d, %a, %b;", 4, left},
    {"shr.b32 %d, %a, %b;", 4, right_u},
    {"shr.u32 %d, %a, %b;", 4, right_u},
    {"shr.s32 %d, %a, %b;", 4, right_s},
    {"popc.b32 %d, %a;", 4, ones_u},
    {"clz.b32 %d, %a;", 4, leading_u},
    {"brev.b32 %d, %a;", 4, reversed_u},
    {"bfind.u32 %d, %a;", 4, highest_u},
    {"bfind.s32 %d, %a;", 4, highest_s},
    {"bfind.shiftamt.u32 %d, %a;", 4, shift_u},
    {"bfind.shiftamt.s32 %d, %a;", 4, shift_s},
    {"bfe.u32 %d, %a, %b, %c;", 4, field_u},
    {"bfe.s32 %d, %a, %b, %c;", 4, field_s},
    {"bfi.b32 %d, %a, %b, %c, 7;", 4, inserted},
    {"bfi.b32 %d, %a, %b, 11, %c;", 4, inserted_at},
    {"bmsk.clamp.b32 %d, %a, %b;", 4, mask_clamped},
    {"bmsk.wrap.b32 %d, %a, %b;", 4, mask_wrapped},
    {"szext.clamp.u32 %d, %a, %b;", 4, cut_u},
    {"szext.clamp.s32 %d, %a, %b;", 4, cut_s},
    {"szext.wrap.u32 %d, %a, %b;", 4, cut_u_wrapped},
    {"szext.wrap.s32 %d, %a, %b;", 4, cut_s_wrapped},
    {"fns.b32 %d, %a, %b, %c;", 4, nth_set},
    {"and.b32 %x, %b, 31; rem.s32 %y, %c, 9; fns.b32 %d, %a, %x, %y;", 4, nth_from_middle},
    {"shf.l.clamp.b32 %d, %a, %b, %c;", 4, funnel_left},
    {"shf.r.clamp.b32 %d, %a, %b, %c;", 4, funnel_right},
    {"shf.l.wrap.b32 %d, %a, %b, %c;", 4, funnel_left_wrapped},
    {"shf.r.wrap.b32 %d, %a, %b, %c;", 4, funnel_right_wrapped},
    {"lop3.b32 %d, %a, %b, %c, 0x96;", 4, parity},
    {"lop3.b32 %d, %a, %b, %c, 0xe8;", 4, majority},
    {"lop3.b32 %d, %a, %b, %c, 0xca;", 4, select_bits},
    {"setp.lt.u32 %p, %a, %b; lop3.or.b32 %x|%q, %a, %b, %c, 0xfe, 0; selp.b32 %y, 1, 0, %q;"
     " lop3.and.b32 _|%q, %a, %b, %c, 0x80, %p; selp.b32 %x, 2, 0, %q; add.u32 %d, %x, %y;",
     4, any_set},
};

/* ---- */

static void test_arithmetic_of_words_is_exact(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(arithmetic_rows));
}

static void test_carries_go_from_word_to_word(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(carry_rows));
}

static void test_bits_of_words_go_where_the_manual_says(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(bit_rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic_of_words_is_exact),
        cmocka_unit_test(test_carries_go_from_word_to_word),
        cmocka_unit_test(test_bits_of_words_go_where_the_manual_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
