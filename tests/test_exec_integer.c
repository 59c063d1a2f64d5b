/* Integer and bit operations against arithmetic of 128 bits. */
#include "tests/operation.h"

enum { EDGES = 18, RANDOM = 2000, COUNT = EDGES * EDGES + RANDOM };

struct integers {
    uint64_t a[COUNT], b[COUNT], c[COUNT];
};

/* All pairs of edge values, then random ones of random lengths; c is from both. */
static void fill(struct integers *integers)
{
    static const uint64_t edges[EDGES] = {0,
                                          1,
                                          2,
                                          3,
                                          31,
                                          32,
                                          33,
                                          0x7f,
                                          0x80,
                                          0xff,
                                          0x7fff,
                                          0x8000,
                                          0xffff,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x7fffffffffffffff,
                                          0x8000000000000000};
    uint64_t state = 88172645463325252u;

    for (int i = 0; i < COUNT; i++) {
        uint64_t random = operation_random(&state);
        if (i < EDGES * EDGES) {
            bool is_inverse = random & 1;
            integers->a[i] = is_inverse ? ~edges[i / EDGES] : edges[i / EDGES];
            integers->b[i] = edges[i % EDGES];
        } else {
            integers->a[i] = operation_random(&state) >> (random & 63);
            integers->b[i] = operation_random(&state) >> (random >> 6 & 63);
        }
        integers->c[i] = operation_random(&state) >> (random >> 12 & 63);
    }
}

static __int128 value_of(uint64_t bits, int width, bool is_signed)
{
    unsigned __int128 low = bits & (width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1);

    return is_signed && low >> (width - 1) & 1 ? (__int128)low - ((__int128)1 << width)
                                               : (__int128)low;
}

struct row {
    const char *code; /* %s is the type: "u32" */
    __int128 (*expect)(__int128 a, __int128 b, __int128 c, int width);
    int sources;
    const char *signs;  /* "us": both */
    const char *widths; /* of "16", "32", "64": 1, 3, 6 */
};

static __int128 add(__int128 a, __int128 b, __int128 c, int width)
{
    (void)c;
    (void)width;
    return a + b;
}
static __int128 sub(__int128 a, __int128 b, __int128 c, int width)
{
    (void)c;
    (void)width;
    return a - b;
}
static __int128 mul_lo(__int128 a, __int128 b, __int128 c, int width)
{
    (void)c;
    (void)width;
    return (__int128)((unsigned __int128)a * (unsigned __int128)b);
}
static __int128 mul_hi(__int128 a, __int128 b, __int128 c, int width)
{
    (void)c;
    if (width == 64 && a >= 0 && b >= 0) { /* an unsigned product needs all 128 bits */
        return (__int128)(((unsigned __int128)a * (unsigned __int128)b) >> 64);
    }
    return a * b >> width;
}
static __int128 mad_lo(__int128 a, __int128 b, __int128 c, int width)
{
    return (__int128)((unsigned __int128)mul_lo(a, b, 0, width) + (unsigned __int128)c);
}
static __int128 mad_hi(__int128 a, __int128 b, __int128 c, int width)
{
    return mul_hi(a, b, 0, width) + c;
}
static __int128 quotient(__int128 a, __int128 b, __int128 c, int width)
{
    (void)c;
    (void)width;
    return b ? a / b : -1;
}
static __int128 remainder_of(__int128 a, __int128 b, __int128 c, int width)
{
    (void)c;
    (void)width;
    return b ? a % b : a;
}
static __int128 least(__int128 a, __int128 b, __int128 c, int width)
{
    (void)c;
    (void)width;
    return a < b ? a : b;
}
static __int128 most(__int128 a, __int128 b, __int128 c, int width)
{
    (void)c;
    (void)width;
    return a < b ? b : a;
}
static __int128 distance(__int128 a, __int128 b, __int128 c, int width)
{
    (void)width;
    return c + (a < b ? b - a : a - b);
}
static __int128 negative(__int128 a, __int128 b, __int128 c, int width)
{
    (void)b;
    (void)c;
    (void)width;
    return -a;
}
static __int128 absolute(__int128 a, __int128 b, __int128 c, int width)
{
    (void)b;
    (void)c;
    (void)width;
    return a < 0 ? -a : a;
}

static const struct row rows[] = {
    {"add.%s %%d, %%a, %%b;", add, 2, "us", "136"},
    {"sub.%s %%d, %%a, %%b;", sub, 2, "us", "136"},
    {"mul.lo.%s %%d, %%a, %%b;", mul_lo, 2, "us", "136"},
    {"mul.hi.%s %%d, %%a, %%b;", mul_hi, 2, "us", "136"},
    {"mad.lo.%s %%d, %%a, %%b, %%c;", mad_lo, 3, "us", "136"},
    {"mad.hi.%s %%d, %%a, %%b, %%c;", mad_hi, 3, "us", "136"},
    {"div.%s %%d, %%a, %%b;", quotient, 2, "us", "136"},
    {"rem.%s %%d, %%a, %%b;", remainder_of, 2, "us", "136"},
    {"min.%s %%d, %%a, %%b;", least, 2, "us", "136"},
    {"max.%s %%d, %%a, %%b;", most, 2, "us", "136"},
    {"sad.%s %%d, %%a, %%b, %%c;", distance, 3, "us", "136"},
    {"neg.%s %%d, %%a;", negative, 1, "s", "136"},
    {"abs.%s %%d, %%a;", absolute, 1, "s", "136"},
};

/* The operands cut to the width, as the operation's elements. */
static void cut(uint8_t *to, const uint64_t *from, int bytes)
{
    for (int i = 0; i < COUNT; i++) {
        memcpy(to + (size_t)i * (size_t)bytes, &from[i], (size_t)bytes);
    }
}

static void run_cut(const char *code, int bytes, int sources, const struct integers *integers,
                    uint64_t result[COUNT])
{
    static uint8_t operands[3][COUNT * 8];
    static uint8_t out[COUNT * 8];
    const uint64_t *given[3] = {integers->a, integers->b, integers->c};
    struct operation operation = {.code = code, .bytes = bytes};

    for (int k = 0; k < sources; k++) {
        cut(operands[k], given[k], bytes);
        operation.sources[k] = operands[k];
        operation.source_bytes[k] = bytes;
    }
    operation_run(&operation, COUNT, out);
    for (int i = 0; i < COUNT; i++) {
        result[i] = 0;
        memcpy(&result[i], out + (size_t)i * (size_t)bytes, (size_t)bytes);
    }
}

static void check_row(const struct row *row, char sign, int width, const struct integers *integers)
{
    static uint64_t result[COUNT];
    char type[8];
    char code[64];

    (void)snprintf(type, sizeof(type), "%c%d", sign, width);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(code, sizeof(code), row->code, type);
#pragma GCC diagnostic pop
    run_cut(code, width / 8, row->sources, integers, result);
    for (int i = 0; i < COUNT; i++) {
        __int128 expected = row->expect(value_of(integers->a[i], width, sign == 's'),
                                        value_of(integers->b[i], width, sign == 's'),
                                        value_of(integers->c[i], width, sign == 's'), width);
        if ((uint64_t)value_of((uint64_t)expected, width, false) != result[i]) {
            fail_msg("%s: %#lx, %#lx, %#lx gave %#lx", code, integers->a[i], integers->b[i],
                     integers->c[i], result[i]);
        }
    }
}

static void test_arithmetic_of_every_width_is_exact_modulo_the_width(void **state)
{
    static struct integers integers;

    (void)state;
    fill(&integers);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (const char *sign = rows[i].signs; *sign; sign++) {
            for (const char *width = rows[i].widths; *width; width++) {
                check_row(&rows[i], *sign, *width == '1' ? 16 : *width == '3' ? 32 : 64, &integers);
            }
        }
    }
}

/* ---- bits, 32 and 64 wide ---- */

struct bit_row {
    const char *code;
    int bytes, sources;
    uint64_t (*expect)(uint64_t a, uint64_t b, uint64_t c);
};

static uint64_t bits_shl(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return (uint32_t)b > 31 ? 0 : (uint32_t)(a << (uint32_t)b);
}
static uint64_t bits_shr_s(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    return (uint32_t)((int64_t)(int32_t)a >> ((uint32_t)b > 31 ? 31 : (uint32_t)b));
}
static uint64_t bits_lop3(uint64_t a, uint64_t b, uint64_t c)
{
    return (uint32_t)((a & b) | (~a & c));
}
static uint64_t bits_popc(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t count = 0;

    (void)b;
    (void)c;
    for (; a; a &= a - 1) {
        count++;
    }
    return count;
}
static uint64_t bits_clz(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t count = 0;

    (void)b;
    (void)c;
    while (count < 64 && !(a >> (63 - count) & 1)) {
        count++;
    }
    return count;
}
static uint64_t bits_brev(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t result = 0;

    (void)b;
    (void)c;
    for (int i = 0; i < 64; i++) {
        result |= (a >> i & 1) << (63 - i);
    }
    return result;
}
static uint64_t bits_bfe_u(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t result = 0;

    for (uint64_t i = 0; i < (c & 255) && i < 64; i++) {
        uint64_t from = (b & 255) + i;
        result |= (from < 64 ? a >> from & 1 : 0) << i;
    }
    return result;
}
/* As the manual's pseudocode: the sign is that of the field, or bit 63 where it ends beyond. */
static uint64_t bits_bfe_s(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t position = b & 255;
    uint64_t length = c & 255;
    uint64_t top = position + length - 1 < 63 ? position + length - 1 : 63;
    uint64_t sign = length == 0 ? 0 : a >> top & 1;
    uint64_t result = 0;

    for (uint64_t i = 0; i < 64; i++) {
        bool is_inside = i < length && position + i < 64;
        result |= (is_inside ? a >> (position + i) & 1 : sign) << i;
    }
    return result;
}
static uint64_t bits_bfi(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t result = b;

    for (uint64_t i = 0; i < 13 && (c & 255) + i < 64; i++) {
        uint64_t at = (c & 255) + i;
        result = (result & ~((uint64_t)1 << at)) | (a >> i & 1) << at;
    }
    return result;
}
static uint64_t bits_shf(uint64_t a, uint64_t b, uint64_t c)
{
    unsigned __int128 both = (unsigned __int128)(uint32_t)b << 32 | (uint32_t)a;

    return (uint32_t)(both >> (c & 31));
}
static uint64_t bits_shf_clamp(uint64_t a, uint64_t b, uint64_t c)
{
    unsigned __int128 both = (unsigned __int128)(uint32_t)b << 32 | (uint32_t)a;

    return (uint32_t)((both << ((uint32_t)c > 32 ? 32 : (uint32_t)c)) >> 32);
}
static uint64_t bits_prmt(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t both = (b & 0xffffffff) << 32 | (a & 0xffffffff);
    uint64_t result = 0;

    for (int i = 0; i < 4; i++) {
        uint64_t selector = c >> (4 * i) & 15;
        int8_t byte = (int8_t)(both >> ((selector & 7) * 8));
        result |= (uint64_t)(uint8_t)(selector & 8 ? (byte < 0 ? 0xff : 0) : byte) << (8 * i);
    }
    return result;
}
static uint64_t bits_dp4a(uint64_t a, uint64_t b, uint64_t c)
{
    uint32_t sum = (uint32_t)c;

    for (int i = 0; i < 4; i++) {
        sum += (uint32_t)((int8_t)(a >> (8 * i)) * (int)(uint8_t)(b >> (8 * i)));
    }
    return sum;
}
static uint64_t bits_bfind(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t clz = bits_clz(a, b, c);

    return clz == 64 ? 0xffffffff : 63 - clz;
}

static const struct bit_row bit_rows[] = {
    {"shl.b32 %d, %a, %b;", 4, 2, bits_shl},
    {"shr.s32 %d, %a, %b;", 4, 2, bits_shr_s},
    {"lop3.b32 %d, %a, %b, %c, 0xca;", 4, 3, bits_lop3},
    {"popc.b64 %t, %a; cvt.u64.u32 %d, %t;", 8, 1, bits_popc},
    {"clz.b64 %t, %a; cvt.u64.u32 %d, %t;", 8, 1, bits_clz},
    {"brev.b64 %d, %a;", 8, 1, bits_brev},
    {"cvt.u32.u64 %t, %b; cvt.u32.u64 %i, %c; bfe.u64 %d, %a, %t, %i;"
     " mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, 256, %t;",
     8, 3, bits_bfe_u},
    {"cvt.u32.u64 %t, %b; cvt.u32.u64 %i, %c; bfe.s64 %d, %a, %t, %i;"
     " mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, 256, %t;",
     8, 3, bits_bfe_s},
    {"cvt.u32.u64 %t, %c; bfi.b64 %d, %a, %b, %t, 13;", 8, 3, bits_bfi},
    {"shf.r.wrap.b32 %d, %a, %b, %c;", 4, 3, bits_shf},
    {"shf.l.clamp.b32 %d, %a, %b, %c;", 4, 3, bits_shf_clamp},
    {"prmt.b32 %d, %a, %b, %c;", 4, 3, bits_prmt},
    {"dp4a.s32.u32 %d, %a, %b, %c;", 4, 3, bits_dp4a},
    {"bfind.u64 %t, %a; cvt.u64.u32 %d, %t;", 8, 1, bits_bfind},
};

static void test_bit_operations_do_what_the_manual_says(void **state)
{
    static struct integers integers;
    static uint64_t result[COUNT];

    (void)state;
    fill(&integers);
    for (size_t k = 0; k < sizeof(bit_rows) / sizeof(*bit_rows); k++) {
        const struct bit_row *row = &bit_rows[k];
        run_cut(row->code, row->bytes, row->sources, &integers, result);
        for (int i = 0; i < COUNT; i++) {
            uint64_t cut_bits = row->bytes == 8 ? ~(uint64_t)0 : UINT32_MAX;
            uint64_t expected = row->expect(integers.a[i], integers.b[i], integers.c[i]);
            if ((expected & cut_bits) != result[i]) {
                fail_msg("%s: %#lx, %#lx, %#lx gave %#lx, not %#lx", row->code, integers.a[i],
                         integers.b[i], integers.c[i], result[i], expected);
            }
        }
    }
}

/* ---- carries, saturation, comparison ---- */

static void test_carries_join_words_to_long_sums(void **state)
{
    static struct integers integers;
    static uint64_t result[COUNT];

    (void)state;
    fill(&integers);
    run_cut("{ .reg .b32 l, h, m, n, x, y; mov.b64 {l, h}, %a; mov.b64 {m, n}, %b;\n"
            "add.cc.u32 x, l, m; addc.u32 y, h, n; mov.b64 %d, {x, y}; }",
            8, 2, &integers, result);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(result[i], integers.a[i] + integers.b[i]);
    }
    run_cut("{ .reg .b32 l, h, m, n, x, y; mov.b64 {l, h}, %a; mov.b64 {m, n}, %b;\n"
            "sub.cc.u32 x, l, m; subc.u32 y, h, n; mov.b64 %d, {x, y}; }",
            8, 2, &integers, result);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(result[i], integers.a[i] - integers.b[i]);
    }
    run_cut("{ .reg .b32 l, h, m, n, x, y; mov.b64 {l, h}, %a; mov.b64 {m, n}, %b;\n"
            "mul.lo.u32 x, l, m; mul.hi.u32 y, l, m; mad.lo.u32 y, l, n, y;\n"
            "mad.lo.u32 y, h, m, y; mov.b64 %d, {x, y}; }",
            8, 2, &integers, result);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(result[i], integers.a[i] * integers.b[i]);
    }
}

static void test_saturation_stops_at_the_ends_of_the_range(void **state)
{
    static struct integers integers;
    static uint64_t result[COUNT];

    (void)state;
    fill(&integers);
    run_cut("add.sat.s32 %d, %a, %b;", 4, 2, &integers, result);
    for (int i = 0; i < COUNT; i++) {
        int64_t sum = (int64_t)(int32_t)integers.a[i] + (int32_t)integers.b[i];
        int64_t cut_sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        assert_int_equal((int32_t)result[i], cut_sum);
    }
}

static void test_comparisons_tell_signs_apart(void **state)
{
    static const struct {
        const char *code;
        int bytes;
        bool is_signed;
        int relation; /* bit 0: less, 1: equal, 2: greater */
    } comparisons[] = {
        {"setp.lt.u32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", 4, false, 1},
        {"setp.le.s32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", 4, true, 3},
        {"setp.gt.s64 %p, %a, %b; selp.b64 %d, 1, 0, %p;", 8, true, 4},
        {"setp.hs.u64 %p, %a, %b; selp.b64 %d, 1, 0, %p;", 8, false, 6},
        {"setp.ne.b32 %p, %a, %b; selp.b32 %d, 1, 0, %p;", 4, false, 5},
        {"setp.eq.u16 %p, %a, %b; selp.b16 %d, 1, 0, %p;", 2, false, 2},
        {"setp.ge.s16 %p, %a, %b; selp.b16 %d, 1, 0, %p;", 2, true, 6},
        {"setp.lt.s32 %p|%q, %a, %b; selp.b32 %d, 1, 0, %q;", 4, true, 6},
    };
    static struct integers integers;
    static uint64_t result[COUNT];

    (void)state;
    fill(&integers);
    for (size_t k = 0; k < sizeof(comparisons) / sizeof(*comparisons); k++) {
        int width = comparisons[k].bytes * 8;
        run_cut(comparisons[k].code, comparisons[k].bytes, 2, &integers, result);
        for (int i = 0; i < COUNT; i++) {
            __int128 a = value_of(integers.a[i], width, comparisons[k].is_signed);
            __int128 b = value_of(integers.b[i], width, comparisons[k].is_signed);
            int relation = a < b ? 1 : a == b ? 2 : 4;
            assert_int_equal(result[i], (comparisons[k].relation & relation) != 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic_of_every_width_is_exact_modulo_the_width),
        cmocka_unit_test(test_bit_operations_do_what_the_manual_says),
        cmocka_unit_test(test_carries_join_words_to_long_sums),
        cmocka_unit_test(test_saturation_stops_at_the_ends_of_the_range),
        cmocka_unit_test(test_comparisons_tell_signs_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
