/* f32 and f64 arithmetic in every rounding, against the C library in that rounding. */
#include "tests/operation.h"

#include <fenv.h>
#include <math.h>

enum { EDGES = 24, RANDOM = 20000, COUNT = EDGES * EDGES * 4 + RANDOM };

struct floats {
    float a[COUNT], b[COUNT], c[COUNT];
};

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void fill(struct floats *floats)
{
    static const uint32_t edges[EDGES] = {
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
        0x80800000, 0x00ffffff, 0x3f800000, 0xbf800000, 0x3f800001, 0x3f7fffff,
        0x40000000, 0x4b800000, 0x4b7fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000,
        0xff800000, 0x7fc00000, 0xffc00001, 0x33800000, 0x34000000, 0x7e800000};
    uint64_t state = 88172645463325252u;

    for (int i = 0; i < COUNT; i++) {
        uint64_t random = operation_random(&state);
        bool is_edge = i < EDGES * EDGES * 4;
        /* Random exponents close to each other, so that sums round. */
        uint32_t near = 0x3f800000 + ((uint32_t)(random >> 40) % 30 << 23);
        floats->a[i] = float_of(is_edge ? edges[i % EDGES] : (uint32_t)random & 0xffffffff);
        floats->b[i] = float_of(is_edge ? edges[i / EDGES % EDGES]
                                        : near | (uint32_t)(operation_random(&state) & 0x807fffff));
        floats->c[i] = float_of(is_edge ? edges[(i / EDGES / EDGES * 5 + i) % EDGES]
                                        : (uint32_t)operation_random(&state));
        if (!is_edge && i % 2) {
            floats->a[i] = float_of(near ^ (uint32_t)(random & 0x80ffffff));
            floats->c[i] = float_of(near ^ (uint32_t)(operation_random(&state) & 0x83ffffff));
        }
    }
}

static float flushed(float value)
{
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static float add(float a, float b, float c)
{
    volatile float sum = a + b;

    (void)c;
    return sum;
}
static float sub(float a, float b, float c)
{
    volatile float difference = a - b;

    (void)c;
    return difference;
}
static float mul(float a, float b, float c)
{
    volatile float product = a * b;

    (void)c;
    return product;
}
static float quotient(float a, float b, float c)
{
    volatile float value = a / b;

    (void)c;
    return value;
}
static float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static float root(float a, float b, float c)
{
    (void)b;
    (void)c;
    return sqrtf(a);
}
static float reciprocal(float a, float b, float c)
{
    volatile float value = 1 / a;

    (void)b;
    (void)c;
    return value;
}

struct row {
    const char *name;
    const char *operands;
    float (*expect)(float a, float b, float c);
    int sources;
    bool has_sat;
};
static const struct row rows[] = {
    {"add", "%d, %a, %b", add, 2, true},       {"sub", "%d, %a, %b", sub, 2, true},
    {"mul", "%d, %a, %b", mul, 2, true},       {"fma", "%d, %a, %b, %c", fused, 3, true},
    {"div", "%d, %a, %b", quotient, 2, false}, {"sqrt", "%d, %a", root, 1, false},
    {"rcp", "%d, %a", reciprocal, 1, false},
};

static const struct {
    const char *name;
    int fenv;
} roundings[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

static float expected_of(const struct row *row, int fenv, bool flushes, bool saturates,
                         const float source[3])
{
    float given[3];

    for (int i = 0; i < 3; i++) {
        given[i] = flushes ? flushed(source[i]) : source[i];
    }
    fesetround(fenv);
    float value = row->expect(given[0], given[1], given[2]);
    fesetround(FE_TONEAREST);
    value = flushes ? flushed(value) : value;
    if (saturates) {
        value = value > 0 ? (value < 1 ? value : 1) : 0;
    }
    return value;
}

static void check_row(const struct row *row, int rounding, int flags, const struct floats *floats)
{
    static float result[COUNT];
    const float *given[3] = {floats->a, floats->b, floats->c};
    bool flushes = flags & 1;
    bool saturates = flags & 2;
    char code[128];
    struct operation operation = {.code = code, .bytes = 4};

    memset(result, 0, sizeof(result));
    (void)snprintf(code, sizeof(code), "%s.%s%s%s.f32 %s;", row->name, roundings[rounding].name,
                   flushes ? ".ftz" : "", saturates ? ".sat" : "", row->operands);
    for (int k = 0; k < row->sources && k < 3; k++) {
        operation.sources[k] = given[k];
        operation.source_bytes[k] = 4;
    }
    operation_run(&operation, COUNT, result);
    for (int i = 0; i < COUNT; i++) {
        float source[3] = {floats->a[i], floats->b[i], floats->c[i]};
        float expected = expected_of(row, roundings[rounding].fenv, flushes, saturates, source);
        uint32_t wanted = expected == expected ? bits_of(expected) : 0x7fffffff;
        /* A result that rounds up to the smallest normal number: flushed or not, both are right. */
        bool is_at_border = flushes && (bits_of(result[i]) & 0x7fffffff) <= 0x00800000 &&
                            (wanted & 0x7fffffff) <= 0x00800000;
        if (bits_of(result[i]) != wanted && !is_at_border) {
            fail_msg("%s %a, %a, %a gave %a, not %a", code, source[0], source[1], source[2],
                     result[i], expected);
        }
    }
}

static void test_f32_arithmetic_is_rounded_once_in_every_mode(void **state)
{
    static struct floats floats;

    (void)state;
    fill(&floats);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        for (int rounding = 0; rounding < 4; rounding++) {
            for (int flags = 0; flags < (rows[i].has_sat ? 4 : 2); flags++) {
                check_row(&rows[i], rounding, flags, &floats);
            }
        }
    }
}

/* ---- extremes ---- */

static uint32_t extreme_of(uint32_t a, uint32_t b, bool is_max, bool is_nan)
{
    float x = float_of(a);
    float y = float_of(b);

    if (x != x || y != y) {
        return is_nan || (x != x && y != y) ? 0x7fffffff : x != x ? b : a;
    }
    /* Bits in the order of the numbers, -0 before +0. */
    int64_t i = a >> 31 ? -1 - (int64_t)(a & 0x7fffffff) : (int64_t)a;
    int64_t k = b >> 31 ? -1 - (int64_t)(b & 0x7fffffff) : (int64_t)b;
    return (i < k) == is_max ? b : a;
}

static void test_a_number_wins_over_nan_and_minus_zero_is_the_less(void **state)
{
    static struct floats floats;
    static float result[COUNT];
    static const char *const codes[] = {"min.f32 %d, %a, %b;", "max.f32 %d, %a, %b;",
                                        "min.NaN.f32 %d, %a, %b;", "max.NaN.f32 %d, %a, %b;"};

    (void)state;
    fill(&floats);
    for (int k = 0; k < 4; k++) {
        struct operation operation = {
            .code = codes[k], .bytes = 4, .source_bytes = {4, 4}, .sources = {floats.a, floats.b}};
        operation_run(&operation, COUNT, result);
        for (int i = 0; i < COUNT; i++) {
            uint32_t wanted = extreme_of(bits_of(floats.a[i]), bits_of(floats.b[i]), k % 2, k >= 2);
            assert_int_equal(bits_of(result[i]), wanted);
        }
    }
}

static void test_comparisons_of_floats_know_nan(void **state)
{
    static const struct {
        const char *code;
        int relation; /* bit 0: less, 1: equal, 2: greater, 3: unordered */
    } comparisons[] = {
        {"eq", 2},   {"ne", 5},  {"lt", 1},   {"le", 3},   {"gt", 4},   {"ge", 6},  {"equ", 10},
        {"neu", 13}, {"ltu", 9}, {"leu", 11}, {"gtu", 12}, {"geu", 14}, {"num", 7}, {"nan", 8},
    };
    static struct floats floats;
    static uint32_t result[COUNT];

    (void)state;
    fill(&floats);
    for (size_t k = 0; k < sizeof(comparisons) / sizeof(*comparisons); k++) {
        char code[96];
        (void)snprintf(code, sizeof(code), "setp.%s.f32 %%p, %%a, %%b; selp.b32 %%d, 1, 0, %%p;",
                       comparisons[k].code);
        struct operation operation = {
            .code = code, .bytes = 4, .source_bytes = {4, 4}, .sources = {floats.a, floats.b}};
        operation_run(&operation, COUNT, result);
        for (int i = 0; i < COUNT; i++) {
            float x = floats.a[i];
            float y = floats.b[i];
            int relation = x < y ? 1 : x == y ? 2 : x > y ? 4 : 8;
            assert_int_equal(result[i], (comparisons[k].relation & relation) != 0);
        }
    }
}

/* ---- f64 ---- */

static void test_f64_arithmetic_is_rounded_once_in_every_mode(void **state)
{
    static struct floats floats;
    static double a[COUNT];
    static double b[COUNT];
    static double c[COUNT];
    static double result[COUNT];

    (void)state;
    fill(&floats);
    for (int i = 0; i < COUNT; i++) {
        a[i] = (double)floats.a[i] * 1.0000000000000002;
        b[i] = (double)floats.b[i] / 3;
        c[i] = (double)floats.c[i] * 1e-17;
    }
    for (int k = 0; k < 4; k++) {
        char code[64];
        (void)snprintf(code, sizeof(code), "fma.%s.f64 %%d, %%a, %%b, %%c;", roundings[k].name);
        struct operation operation = {
            .code = code, .bytes = 8, .source_bytes = {8, 8, 8}, .sources = {a, b, c}};
        operation_run(&operation, COUNT, result);
        for (int i = 0; i < COUNT; i++) {
            fesetround(roundings[k].fenv);
            double expected = fma(a[i], b[i], c[i]);
            fesetround(FE_TONEAREST);
            assert_true(result[i] == expected || (result[i] != result[i] && expected != expected));
        }
    }
}

/* ---- approximations, within the manual's bounds ---- */

struct approximation {
    const char *code;
    double (*exact)(double x);
    double low, high;          /* the operand's range */
    double relative, absolute; /* the bound: either */
};

static double exact_rsqrt(double x)
{
    return 1 / sqrt(x);
}
static double exact_rcp(double x)
{
    return 1 / x;
}

static const struct approximation approximations[] = {
    {"ex2.approx.f32 %d, %a;", exp2, -126, 127, 0x1p-22, 0},
    {"ex2.approx.ftz.f32 %d, %a;", exp2, -125, 127, 0x1p-22, 0},
    {"lg2.approx.f32 %d, %a;", log2, 0.5, 2, 0, 0x1p-22},
    {"lg2.approx.ftz.f32 %d, %a;", log2, 2, 1e30, 0x1p-22, 0},
    {"sin.approx.f32 %d, %a;", sin, -3.2, 3.2, 0, 0x1p-20},
    {"cos.approx.f32 %d, %a;", cos, -3.2, 3.2, 0, 0x1p-20},
    {"tanh.approx.f32 %d, %a;", tanh, -10, 10, 0x1p-11, 0},
    {"rsqrt.approx.f32 %d, %a;", exact_rsqrt, 1e-30, 1e30, 0x1p-22, 0},
    {"rcp.approx.ftz.f32 %d, %a;", exact_rcp, 1e-30, 1e30, 0x1p-23, 0},
    {"sqrt.approx.f32 %d, %a;", sqrt, 0, 1e30, 0x1p-22, 0},
};

static void test_approximations_keep_the_bounds_of_the_manual(void **state)
{
    static float operand[COUNT];
    static float result[COUNT];

    (void)state;
    for (size_t k = 0; k < sizeof(approximations) / sizeof(*approximations); k++) {
        const struct approximation *row = &approximations[k];
        for (int i = 0; i < COUNT; i++) {
            operand[i] = (float)(row->low + (row->high - row->low) * i / COUNT);
        }
        struct operation operation = {
            .code = row->code, .bytes = 4, .source_bytes = {4}, .sources = {operand}};
        operation_run(&operation, COUNT, result);
        for (int i = 0; i < COUNT; i++) {
            double exact = row->exact(operand[i]);
            double error = fabs(result[i] - exact);
            if (!(error <= fabs(exact) * row->relative || error <= row->absolute)) {
                fail_msg("%s %a gave %a", row->code, operand[i], result[i]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_arithmetic_is_rounded_once_in_every_mode),
        cmocka_unit_test(test_a_number_wins_over_nan_and_minus_zero_is_the_less),
        cmocka_unit_test(test_comparisons_of_floats_know_nan),
        cmocka_unit_test(test_f64_arithmetic_is_rounded_once_in_every_mode),
        cmocka_unit_test(test_approximations_keep_the_bounds_of_the_manual),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
