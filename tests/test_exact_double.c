/*
 * f64: arithmetic in every rounding against numbers of 113 bits; extremes, signs, classes and
 * comparisons.
 */
#include "tests/exact.h"
#include "tests/rounded.h"

#include <fenv.h>
#include <math.h>

enum { EDGES = 64, ROUNDS = 4 };
#define SIGN ((uint64_t)1 << 63)

static double value_of(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- arithmetic: exact, or to odd; what is then rounded to 53 bits is rounded once ---- */

static __float128 sum(double x, double y, double z)
{
    (void)z;
    return sum_to_odd(x, y);
}
static __float128 difference(double x, double y, double z)
{
    (void)z;
    return sum_to_odd(x, -y);
}
static __float128 product(double x, double y, double z)
{
    (void)z;
    return (__float128)x * y;
}
static __float128 fused(double x, double y, double z)
{
    return sum_to_odd((__float128)x * y, z);
}
/* A quotient of two numbers of 53 bits is no nearer to one of 54 bits than 113 bits can tell. */
static __float128 quotient(double x, double y, double z)
{
    (void)z;
    return (__float128)x / y;
}
static __float128 reciprocal(double x, double y, double z)
{
    (void)y;
    (void)z;
    return (__float128)1 / x;
}

static const struct arithmetic {
    const char *name, *operands;
    __float128 (*exact)(double x, double y, double z);
} arithmetics[] = {
    {"add", "%d, %a, %b", sum},       {"sub", "%d, %a, %b", difference},
    {"mul", "%d, %a, %b", product},   {"fma", "%d, %a, %b, %c", fused},
    {"mad", "%d, %a, %b, %c", fused}, {"div", "%d, %a, %b", quotient},
    {"rcp", "%d, %a", reciprocal},    {"sqrt", "%d, %a", NULL},
};
enum { ARITHMETICS = sizeof(arithmetics) / sizeof(*arithmetics) };
static const struct {
    const char *name;
    int fenv;
} roundings[] = {
    {".rn", FE_TONEAREST}, {".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};

static double expected_of(const struct arithmetic *row, int rounding, const double given[3])
{
    volatile __float128 exact = row->exact ? row->exact(given[0], given[1], given[2]) : 0;
    volatile double operand = given[0];

    fesetround(roundings[rounding].fenv);
    volatile double value = row->exact ? (double)exact : sqrt(operand);
    fesetround(FE_TONEAREST);
    return value;
}

static uint64_t edge(uint32_t index)
{
    static const uint64_t centres[EDGES / 8] = {
        0x0000000000000001, 0x0010000000000000, 0x3fe0000000000000, 0x3ff0000000000000,
        0x433fffffffffffff, 0x7fe0000000000000, 0x7fefffffffffffff, 0x7ff8000000000000};

    return (centres[index / 8] + index % 4 - 1) | (index & 4 ? SIGN : 0);
}

static void fill_edges(struct batch *batch)
{
    for (uint32_t i = 0; i < EDGES * EDGES * ROUNDS; i++) {
        uint32_t pair = i % (EDGES * EDGES);
        ((uint64_t *)batch->sources[0])[i] = edge(pair / EDGES);
        ((uint64_t *)batch->sources[1])[i] = edge(pair % EDGES);
        ((uint64_t *)batch->sources[2])[i] =
            edge((pair * 7 + pair / EDGES * 5 + i / (EDGES * EDGES) * 23) % EDGES);
    }
}

/* Any bits, or exponents so near to each other that sums round. */
static void fill_random(struct batch *batch, uint64_t *random)
{
    for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
        for (int k = 0; k < BATCH_SOURCES; k++) {
            uint64_t bits = batch_random(random);
            uint64_t exponent = 1000 + (bits >> 52 & 63);
            uint64_t near = (bits & 0x800fffffffffffff) | exponent << 52;
            ((uint64_t *)batch->sources[k])[i] = i % 4 == 0 ? bits : near;
        }
    }
}

static void check_elements(struct batch *batch, uint32_t elements)
{
    batch_run(batch, elements);
    for (int k = 0; k < ARITHMETICS * 4; k++) {
        const struct arithmetic *row = &arithmetics[k / 4];
        for (uint32_t i = 0; i < elements; i++) {
            double given[3] = {value_of(exact_source(batch, 0, i, 8)),
                               value_of(exact_source(batch, 1, i, 8)),
                               value_of(exact_source(batch, 2, i, 8))};
            double wanted = expected_of(row, k % 4, given);
            double got = value_of(batch_result(batch, k, i, 8));
            bool is_same_zero = wanted != 0 || signbit(wanted) == signbit(got) || k % 4 == 2;
            if (wanted != wanted ? got == got : got != wanted || !is_same_zero) {
                fail_msg("%s%s %a, %a, %a gave %a, not %a", row->name, roundings[k % 4].name,
                         given[0], given[1], given[2], got, wanted);
            }
        }
    }
}

static void test_f64_arithmetic_is_rounded_once_in_every_mode(void **state)
{
    static const int bytes[BATCH_SOURCES] = {8, 8, 8};
    struct batch_operation operations[ARITHMETICS * 4];
    char codes[ARITHMETICS * 4][48];
    uint64_t random = 88172645463325252u;
    struct batch batch;

    (void)state;
    for (int k = 0; k < ARITHMETICS * 4; k++) {
        (void)snprintf(codes[k], sizeof(codes[k]), "%s%s.f64 %s;", arithmetics[k / 4].name,
                       roundings[k % 4].name, arithmetics[k / 4].operands);
        operations[k] = (struct batch_operation){codes[k], 8};
    }
    batch_open(&batch, operations, ARITHMETICS * 4, bytes);
    fill_edges(&batch);
    check_elements(&batch, EDGES * EDGES * ROUNDS);
    for (uint32_t done = 0; done < batch_count(1, 16); done++) {
        fill_random(&batch, &random);
        check_elements(&batch, batch_count(BATCH_ELEMENTS / 4, BATCH_ELEMENTS));
    }
    batch_close(&batch);
}

/* ---- what looks at the bits ---- */

#define EXPECT(name, expression)                                                                   \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        double x = value_of(a);                                                                    \
        double y = value_of(b);                                                                    \
        (void)x;                                                                                   \
        (void)y;                                                                                   \
        (void)c;                                                                                   \
        return (uint64_t)(expression);                                                             \
    }

static bool is_less(uint64_t a, uint64_t b)
{
    double x = value_of(a);
    double y = value_of(b);

    return x < y || (x == y && (a & SIGN) && !(b & SIGN));
}

/* Of two NaN, one of them. */
EXPECT(least, x != x ? b : y != y ? a : is_less(a, b) ? a : b)
EXPECT(most, x != x ? b : y != y ? a : is_less(a, b) ? b : a)
EXPECT(negative, a ^ SIGN)
EXPECT(magnitude, a & ~SIGN)
EXPECT(with_sign, (a & SIGN) | (b & ~SIGN))
EXPECT(is_finite, isfinite(x) != 0)
EXPECT(is_infinite, isinf(x) != 0)
EXPECT(number, x == x)
EXPECT(not_a_number, x != x)
EXPECT(normal, isfinite(x) && fabs(x) >= 0x1p-1022)
EXPECT(subnormal, x != 0 && fabs(x) < 0x1p-1022)

enum { LESS = 1, EQUAL = 2, MORE = 4, UNORDERED = 8 };
#define RELATION(name, set)                                                                        \
    EXPECT(name, ((set) & (x < y ? LESS : x == y ? EQUAL : x > y ? MORE : UNORDERED)) != 0)
RELATION(is_eq, EQUAL)
RELATION(is_ne, LESS | MORE)
RELATION(is_lt, LESS)
RELATION(is_le, LESS | EQUAL)
RELATION(is_gt, MORE)
RELATION(is_ge, MORE | EQUAL)
RELATION(is_equ, EQUAL | UNORDERED)
RELATION(is_neu, LESS | MORE | UNORDERED)
RELATION(is_ltu, LESS | UNORDERED)
RELATION(is_leu, LESS | EQUAL | UNORDERED)
RELATION(is_gtu, MORE | UNORDERED)
RELATION(is_geu, MORE | EQUAL | UNORDERED)
RELATION(is_num, LESS | EQUAL | MORE)
RELATION(is_nan, UNORDERED)
EXPECT(mask_ge, x >= y ? UINT32_MAX : 0)
EXPECT(chosen, x < y ? a : c)

#define SETP(name) "setp." name ".f64 %p, %a, %b; selp.b64 %d, 1, 0, %p;"
#define TESTP(name) "testp." name ".f64 %p, %a; selp.b64 %d, 1, 0, %p;"
static const struct exact_row bit_rows[] = {
    {"min.f64 %d, %a, %b;", 8, least},
    {"max.f64 %d, %a, %b;", 8, most},
    {"neg.f64 %d, %a;", 8, negative},
    {"abs.f64 %d, %a;", 8, magnitude},
    {"copysign.f64 %d, %a, %b;", 8, with_sign},
    {TESTP("finite"), 8, is_finite},
    {TESTP("infinite"), 8, is_infinite},
    {TESTP("number"), 8, number},
    {TESTP("notanumber"), 8, not_a_number},
    {TESTP("normal"), 8, normal},
    {TESTP("subnormal"), 8, subnormal},
    {SETP("eq"), 8, is_eq},
    {SETP("ne"), 8, is_ne},
    {SETP("lt"), 8, is_lt},
    {SETP("le"), 8, is_le},
    {SETP("gt"), 8, is_gt},
    {SETP("ge"), 8, is_ge},
    {SETP("equ"), 8, is_equ},
    {SETP("neu"), 8, is_neu},
    {SETP("ltu"), 8, is_ltu},
    {SETP("leu"), 8, is_leu},
    {SETP("gtu"), 8, is_gtu},
    {SETP("geu"), 8, is_geu},
    {SETP("num"), 8, is_num},
    {SETP("nan"), 8, is_nan},
    {"set.ge.u32.f64 %d, %a, %b;", 4, mask_ge},
    {"setp.lt.f64 %p, %a, %b; selp.f64 %d, %a, %c, %p;", 8, chosen},
};

static void test_extremes_signs_classes_and_comparisons_of_f64_are_exact(void **state)
{
    static const int bytes[BATCH_SOURCES] = {8, 8, 8};
    uint64_t random = 88172645463325252u;
    struct batch batch;

    (void)state;
    exact_open(&batch, EXACT_ROWS(bit_rows), bytes);
    fill_edges(&batch);
    exact_check(&batch, EXACT_ROWS(bit_rows), bytes, EDGES * EDGES * ROUNDS);
    for (uint32_t done = 0; done < batch_count(2, 64); done++) {
        fill_random(&batch, &random);
        exact_check(&batch, EXACT_ROWS(bit_rows), bytes, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f64_arithmetic_is_rounded_once_in_every_mode),
        cmocka_unit_test(test_extremes_signs_classes_and_comparisons_of_f64_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
