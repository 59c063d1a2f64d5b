/* Words of 32 bits as bytes, as tables of bits, and compared. */
#include "tests/exact_words.h"

/* ---- bytes, comparisons, choices ---- */

static uint64_t byte_of(uint64_t low, uint64_t high, uint64_t selector)
{
    uint64_t byte = (high << 32 | low) >> (selector & 7) * 8 & 255;

    return selector & 8 ? (byte & 128 ? 255 : 0) : byte;
}

static uint64_t permuted(uint64_t low, uint64_t high, uint64_t s3, uint64_t s2, uint64_t s1,
                         uint64_t s0)
{
    return byte_of(low, high, s3) << 24 | byte_of(low, high, s2) << 16 |
           byte_of(low, high, s1) << 8 | byte_of(low, high, s0);
}

/* The table of the manual, as what each mode extracts. */
EXPECT(by_index, permuted(u, v, w >> 12 & 15, w >> 8 & 15, w >> 4 & 15, w & 15))
EXPECT(forward_4, (v << 32 | u) >> (w & 3) * 8)
EXPECT(backward_4, permuted(u, v, ((w & 3) + 5) & 7, ((w & 3) + 6) & 7, ((w & 3) + 7) & 7, w & 3))
EXPECT(replicated_8, (u >> (w & 3) * 8 & 255) * 0x01010101)
EXPECT(edge_left, permuted(u, v, 3, (w & 3) > 2 ? w & 3 : 2, (w & 3) > 1 ? w & 3 : 1, w & 3))
EXPECT(edge_right, permuted(u, v, w & 3, (w & 3) < 2 ? w & 3 : 2, (w & 3) < 1 ? w & 3 : 1, 0))
EXPECT(replicated_16, (u >> (w & 1) * 16 & 0xffff) * 0x10001)

static int64_t part(uint64_t value, int index, int bits, bool is_signed)
{
    int64_t low = (int64_t)(value >> (index * bits) & (((uint64_t)1 << bits) - 1));

    return is_signed && low >> (bits - 1) ? low - ((int64_t)1 << bits) : low;
}

static uint64_t dot4(uint64_t a, bool is_a_signed, uint64_t b, bool is_b_signed)
{
    int64_t result = 0;

    for (int i = 0; i < 4; i++) {
        result += part(a, i, 8, is_a_signed) * part(b, i, 8, is_b_signed);
    }
    return (uint64_t)result;
}

static uint64_t dot2(uint64_t a, bool is_a_signed, uint64_t b, bool is_b_signed)
{
    int64_t result = 0;

    for (int i = 0; i < 2; i++) {
        result += part(a, i, 16, is_a_signed) * part(b, i, 8, is_b_signed);
    }
    return (uint64_t)result;
}

static uint64_t apart(uint64_t a, uint64_t b, int parts, bool is_signed)
{
    uint64_t result = 0;

    for (int i = 0; i < parts; i++) {
        int64_t distance = part(a, i, 32 / parts, is_signed) - part(b, i, 32 / parts, is_signed);
        distance = distance < 0 ? -distance : distance;
        result |= (uint64_t)distance << (i * (32 / parts));
    }
    return result;
}

static uint64_t apart_sum(uint64_t a, uint64_t b, int parts, bool is_signed)
{
    uint64_t result = 0;

    for (int i = 0; i < parts; i++) {
        int64_t distance = part(a, i, 32 / parts, is_signed) - part(b, i, 32 / parts, is_signed);
        result += (uint64_t)(distance < 0 ? -distance : distance);
    }
    return result;
}

static uint64_t packed(int64_t high, int64_t low, int bits, bool is_signed)
{
    int64_t most = ((int64_t)1 << (is_signed ? bits - 1 : bits)) - 1;
    int64_t least = is_signed ? -most - 1 : 0;
    uint64_t cut = ((uint64_t)1 << bits) - 1;

    high = high > most ? most : high < least ? least : high;
    low = low > most ? most : low < least ? least : low;
    return ((uint64_t)high & cut) << bits | ((uint64_t)low & cut);
}

EXPECT(dot4_uu, dot4(u, false, v, false) + w)
EXPECT(dot4_us, dot4(u, false, v, true) + w)
EXPECT(dot4_su, dot4(u, true, v, false) + w)
EXPECT(dot4_ss, dot4(u, true, v, true) + w)
EXPECT(dot2_uu, dot2(u, false, v, false) + w)
EXPECT(dot2_su, dot2(u, true, v, false) + w)
EXPECT(dot2_hi_us, dot2(u, false, v >> 16, true) + w)
EXPECT(dot2_hi_ss, dot2(u, true, v >> 16, true) + w)
EXPECT(apart_4u, apart(u, v, 4, false))
EXPECT(apart_4s, apart(u, v, 4, true))
EXPECT(apart_2u, apart(u, v, 2, false))
EXPECT(apart_2s, apart(u, v, 2, true))
EXPECT(apart_4s_sum, apart_sum(u, v, 4, true) + w)
EXPECT(apart_2s_sum, apart_sum(u, v, 2, true) + w)
EXPECT(packed_u16, packed(s, t, 16, false))
EXPECT(packed_s16, packed(s, t, 16, true))
EXPECT(packed_u8, packed(s, t, 8, false) | w << 16)
EXPECT(packed_s8, packed(s, t, 8, true) | w << 16)
EXPECT(packed_u4, packed(s, t, 4, false) | w << 8)
EXPECT(packed_s4, packed(s, t, 4, true) | w << 8)
EXPECT(packed_u2, packed(s, t, 2, false) | w << 4)
EXPECT(packed_s2, packed(s, t, 2, true) | w << 4)
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
EXPECT(one_equal, u == v ? 0x3f800000 : 0)
EXPECT(less_and, (s < t) && (u < w))
EXPECT(less_xor, (s < t) != (u < w))
EXPECT(not_less_or, !(s < t) || (u < w))
EXPECT(chosen, s < t ? u : w)
EXPECT(by_sign, r >= 0 ? u : v)

#define SETP(name) "setp." name " %p, %a, %b; selp.b32 %d, 1, 0, %p;"
#define TWO(name, chosen)                                                                          \
    "setp.lt.u32 %p, %a, %c; setp.lt." name ".s32 %p|%q, %a, %b, %p;"                              \
    " selp.b32 %d, 1, 0, " chosen ";"
static const struct exact_row other_rows[] = {
    {"prmt.b32 %d, %a, %b, %c;", 4, by_index},
    {"prmt.b32.f4e %d, %a, %b, %c;", 4, forward_4},
    {"prmt.b32.b4e %d, %a, %b, %c;", 4, backward_4},
    {"prmt.b32.rc8 %d, %a, %b, %c;", 4, replicated_8},
    {"prmt.b32.ecl %d, %a, %b, %c;", 4, edge_left},
    {"prmt.b32.ecr %d, %a, %b, %c;", 4, edge_right},
    {"prmt.b32.rc16 %d, %a, %b, %c;", 4, replicated_16},
    {"dp4a.u32.u32 %d, %a, %b, %c;", 4, dot4_uu},
    {"dp4a.u32.s32 %d, %a, %b, %c;", 4, dot4_us},
    {"dp4a.s32.u32 %d, %a, %b, %c;", 4, dot4_su},
    {"dp4a.s32.s32 %d, %a, %b, %c;", 4, dot4_ss},
    {"dp2a.lo.u32.u32 %d, %a, %b, %c;", 4, dot2_uu},
    {"dp2a.lo.s32.u32 %d, %a, %b, %c;", 4, dot2_su},
    {"dp2a.hi.u32.s32 %d, %a, %b, %c;", 4, dot2_hi_us},
    {"dp2a.hi.s32.s32 %d, %a, %b, %c;", 4, dot2_hi_ss},
    {"vabsdiff4.u32.u32.u32 %d, %a, %b, %c;", 4, apart_4u},
    {"vabsdiff4.s32.s32.s32 %d, %a, %b, %c;", 4, apart_4s},
    {"vabsdiff2.u32.u32.u32 %d, %a, %b, %c;", 4, apart_2u},
    {"vabsdiff2.s32.s32.s32 %d, %a, %b, %c;", 4, apart_2s},
    {"vabsdiff4.s32.s32.s32.add %d, %a, %b, %c;", 4, apart_4s_sum},
    {"vabsdiff2.s32.s32.s32.add %d, %a, %b, %c;", 4, apart_2s_sum},
    {"cvt.pack.sat.u16.s32 %d, %a, %b;", 4, packed_u16},
    {"cvt.pack.sat.s16.s32 %d, %a, %b;", 4, packed_s16},
    {"cvt.pack.sat.u8.s32.b32 %d, %a, %b, %c;", 4, packed_u8},
    {"cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c;", 4, packed_s8},
    {"cvt.pack.sat.u4.s32.b32 %d, %a, %b, %c;", 4, packed_u4},
    {"cvt.pack.sat.s4.s32.b32 %d, %a, %b, %c;", 4, packed_s4},
    {"cvt.pack.sat.u2.s32.b32 %d, %a, %b, %c;", 4, packed_u2},
    {"cvt.pack.sat.s2.s32.b32 %d, %a, %b, %c;", 4, packed_s2},
    {SETP("eq.b32"), 4, equal},
    {SETP("ne.u32"), 4, unequal},
    {SETP("lt.u32"), 4, less_u},
    {SETP("lo.u32"), 4, less_u},
    {SETP("lt.s32"), 4, less_s},
    {SETP("le.u32"), 4, at_most_u},
    {SETP("ls.u32"), 4, at_most_u},
    {SETP("le.s32"), 4, at_most_s},
    {SETP("gt.u32"), 4, more_u},
    {SETP("hi.u32"), 4, more_u},
    {SETP("gt.s32"), 4, more_s},
    {SETP("ge.u32"), 4, at_least_u},
    {SETP("hs.u32"), 4, at_least_u},
    {SETP("ge.s32"), 4, at_least_s},
    {"set.lt.s32.s32 %d, %a, %b;", 4, mask_less_s},
    {"set.eq.f32.u32 %d, %a, %b;", 4, one_equal},
    {TWO("and", "%p"), 4, less_and},
    {TWO("xor", "%p"), 4, less_xor},
    {TWO("or", "%q"), 4, not_less_or},
    {"setp.lt.s32 %p, %a, %b; selp.b32 %d, %a, %c, %p;", 4, chosen},
    {"slct.b32.s32 %d, %a, %b, %c;", 4, by_sign},
};

/* ---- */

static void test_bytes_comparisons_and_choices_are_exact(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(other_rows));
}

/* All 256 functions of three bits, on words that hold all eight cases. */
static void test_every_table_of_lop3_is_that_function(void **state)
{
    (void)state;
    for (int first = 0; first < 256; first += BATCH_OPERATIONS) {
        static char code[BATCH_OPERATIONS][48];
        struct batch_operation operations[BATCH_OPERATIONS];
        static const int bytes[BATCH_SOURCES] = {4, 4, 4};
        struct batch batch;
        for (int k = 0; k < BATCH_OPERATIONS; k++) {
            (void)snprintf(code[k], sizeof(code[k]), "lop3.b32 %%d, %%a, %%b, %%c, %d;", first + k);
            operations[k] = (struct batch_operation){code[k], 4};
        }
        batch_open(&batch, operations, BATCH_OPERATIONS, bytes);
        *(uint32_t *)batch.sources[0] = 0xf0f0f0f0;
        *(uint32_t *)batch.sources[1] = 0xcccccccc;
        *(uint32_t *)batch.sources[2] = 0xaaaaaaaa;
        batch_run(&batch, 1);
        for (int k = 0; k < BATCH_OPERATIONS; k++) {
            assert_int_equal(batch_result(&batch, k, 0, 4), (uint32_t)(first + k) * 0x01010101u);
        }
        batch_close(&batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_comparisons_and_choices_are_exact),
        cmocka_unit_test(test_every_table_of_lop3_is_that_function),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
