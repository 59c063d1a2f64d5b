/* f16 and bf16: every result is rounded once, against numbers of 113 bits. */
#include "tests/operation.h"
#include "tests/rounded.h"

enum { EDGES = 48, RANDOM = 60000, COUNT = EDGES * EDGES + RANDOM, ALL = 65536 };

struct halves {
    uint16_t a[COUNT], b[COUNT], c[COUNT];
};

static void fill(struct halves *halves, const struct narrow *format)
{
    uint64_t state = 88172645463325252u;
    uint32_t one = ((1u << (format->exponent_bits - 1)) - 1) << format->fraction_bits;
    uint16_t edges[EDGES];

    for (int i = 0; i < EDGES; i++) {
        static const int16_t near[] = {-1, 0, 1};
        uint32_t centres[] = {0,
                              1u << format->fraction_bits,
                              one,
                              one + (1u << format->fraction_bits),
                              ((1u << format->exponent_bits) - 1) << format->fraction_bits,
                              one + (4u << format->fraction_bits),
                              0x1555,
                              0x3000};
        edges[i] = (uint16_t)(centres[i / 6] + (uint32_t)near[i % 3]) ^ (i / 3 % 2 ? 0x8000 : 0);
    }
    for (int i = 0; i < COUNT; i++) {
        uint64_t random = operation_random(&state);
        bool is_edge = i < EDGES * EDGES;
        halves->a[i] = is_edge ? edges[i % EDGES] : (uint16_t)random;
        halves->b[i] = is_edge ? edges[i / EDGES] : (uint16_t)(random >> 16);
        halves->c[i] = is_edge ? edges[random % EDGES] : (uint16_t)(random >> 32);
        if (!is_edge && i % 4 == 0) { /* near one, where sums and products meet */
            halves->a[i] = (uint16_t)(one + (random & 0x81ff));
            halves->b[i] = (uint16_t)(one + (random >> 16 & 0x81ff));
            halves->c[i] = (uint16_t)(one + (random >> 32 & 0x83ff));
        }
    }
}

static __float128 sum(__float128 a, __float128 b, __float128 c)
{
    (void)c;
    return sum_to_odd(a, b);
}
static __float128 difference(__float128 a, __float128 b, __float128 c)
{
    (void)c;
    return sum_to_odd(a, -b);
}
static __float128 product(__float128 a, __float128 b, __float128 c)
{
    (void)c;
    return a * b;
}
static __float128 fused(__float128 a, __float128 b, __float128 c)
{
    return sum_to_odd(a * b, c);
}

static const struct {
    const char *name, *operands;
    int sources;
    __float128 (*expect)(__float128 a, __float128 b, __float128 c);
} rows[] = {
    {"add.rn", "%d, %a, %b", 2, sum},
    {"sub.rn", "%d, %a, %b", 2, difference},
    {"mul.rn", "%d, %a, %b", 2, product},
    {"fma.rn", "%d, %a, %b, %c", 3, fused},
};

static bool is_nan(const struct narrow *format, uint32_t code)
{
    uint32_t infinity = ((1u << format->exponent_bits) - 1) << format->fraction_bits;

    return (code & 0x7fff) > infinity;
}

static void check_row(size_t row, const struct narrow *format, const char *type, bool is_pair)
{
    static struct halves halves;
    static uint16_t result[COUNT];
    char code[96];

    fill(&halves, format);
    (void)snprintf(code, sizeof(code), "%s.%s%s %s;", rows[row].name, type, is_pair ? "x2" : "",
                   rows[row].operands);
    struct operation operation = {
        .code = code, .bytes = is_pair ? 4 : 2, .sources = {halves.a, halves.b, halves.c}};
    for (int k = 0; k < rows[row].sources; k++) {
        operation.source_bytes[k] = operation.bytes;
    }
    operation_run(&operation, COUNT / (uint32_t)(operation.bytes / 2), result);
    for (int i = 0; i < COUNT; i++) {
        __float128 exact =
            rows[row].expect(narrow_value(format, halves.a[i]), narrow_value(format, halves.b[i]),
                             narrow_value(format, halves.c[i]));
        uint32_t wanted = narrow_round(format, exact, TO_NEAREST, false);
        /* The sign of an exact zero sum is its own matter. */
        bool is_zero = exact == 0 && (result[i] & 0x7fff) == 0;
        if (result[i] != wanted && !(is_nan(format, result[i]) && exact != exact) && !is_zero) {
            fail_msg("%s %#x, %#x, %#x gave %#x, not %#x", code, halves.a[i], halves.b[i],
                     halves.c[i], result[i], wanted);
        }
    }
}

static void test_f16_arithmetic_is_rounded_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        check_row(i, &narrow_f16, "f16", false);
        check_row(i, &narrow_f16, "f16", true);
    }
}

static void test_bf16_arithmetic_is_rounded_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        check_row(i, &narrow_bf16, "bf16", false);
        check_row(i, &narrow_bf16, "bf16", true);
    }
}

static void test_negation_and_magnitude_change_only_the_sign_of_numbers(void **state)
{
    static uint16_t all[ALL];
    static uint16_t result[ALL];
    static const struct {
        const char *code;
        uint16_t cleared, flipped;
    } signs[] = {{"neg.f16 %d, %a;", 0, 0x8000},
                 {"abs.f16 %d, %a;", 0x8000, 0},
                 {"neg.bf16 %d, %a;", 0, 0x8000},
                 {"abs.bf16 %d, %a;", 0x8000, 0}};

    (void)state;
    for (int i = 0; i < ALL; i++) {
        all[i] = (uint16_t)i;
    }
    for (int k = 0; k < 4; k++) {
        struct operation operation = {
            .code = signs[k].code, .bytes = 2, .source_bytes = {2}, .sources = {all}};
        operation_run(&operation, ALL, result);
        for (int i = 0; i < ALL; i++) {
            uint16_t wanted = (uint16_t)((i & ~signs[k].cleared) ^ signs[k].flipped);
            bool is_number = !is_nan(k < 2 ? &narrow_f16 : &narrow_bf16, (uint32_t)i);
            assert_int_equal(result[i], is_number ? wanted : 0x7fff);
        }
    }
}

static void test_the_lesser_half_is_found_among_numbers_zeros_and_nan(void **state)
{
    static struct halves halves;
    static uint16_t result[COUNT];
    struct operation operation = {.code = "min.f16 %d, %a, %b;",
                                  .bytes = 2,
                                  .source_bytes = {2, 2},
                                  .sources = {halves.a, halves.b}};

    (void)state;
    fill(&halves, &narrow_f16);
    operation_run(&operation, COUNT, result);
    for (int i = 0; i < COUNT; i++) {
        bool is_a_nan = is_nan(&narrow_f16, halves.a[i]);
        bool is_b_nan = is_nan(&narrow_f16, halves.b[i]);
        double a = (double)narrow_value(&narrow_f16, halves.a[i]);
        double b = (double)narrow_value(&narrow_f16, halves.b[i]);
        uint16_t wanted = a < b || (a == b && halves.a[i] >> 15) ? halves.a[i] : halves.b[i];
        if (is_a_nan || is_b_nan) {
            wanted = is_a_nan && is_b_nan ? 0x7fff : is_a_nan ? halves.b[i] : halves.a[i];
        }
        assert_int_equal(result[i], wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_arithmetic_is_rounded_once),
        cmocka_unit_test(test_bf16_arithmetic_is_rounded_once),
        cmocka_unit_test(test_negation_and_magnitude_change_only_the_sign_of_numbers),
        cmocka_unit_test(test_the_lesser_half_is_found_among_numbers_zeros_and_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
