/*
 * .approx of f32 and f64: within the bounds of the PTX manual on strides through all values, and at
 * the special values that it lists.
 */
#include "tests/exact.h"

#include <math.h>

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* One unit in the last place of an f32 result that is this large. */
static double unit_of(double value)
{
    int exponent = 0;

    (void)frexp(value, &exponent);
    return ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static double reciprocal(double x)
{
    return 1 / x;
}
static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

struct approximation {
    const char *code;
    double (*exact)(double x);
    double low, high;                 /* of |operand|: where the bounds hold */
    double relative, absolute, units; /* the bounds: one of them has to hold */
    bool is_flushed;
};

static const struct approximation approximations[] = {
    {"rcp.approx.f32 %d, %a;", reciprocal, 0, INFINITY, 0, 0, 1, false},
    {"rcp.approx.ftz.f32 %d, %a;", reciprocal, 0, INFINITY, 0, 0, 1, true},
    {"sqrt.approx.f32 %d, %a;", sqrt, 0, INFINITY, 0x1p-23, 0, 0, false},
    {"sqrt.approx.ftz.f32 %d, %a;", sqrt, 0, INFINITY, 0x1p-23, 0, 0, true},
    {"rsqrt.approx.f32 %d, %a;", reciprocal_root, 0, INFINITY, 0x1p-22 * 0.535, 0, 0, false},
    {"rsqrt.approx.ftz.f32 %d, %a;", reciprocal_root, 0, INFINITY, 0x1p-22 * 0.535, 0, 0, true},
    {"sin.approx.f32 %d, %a;", sin, 0, 6.2831853, 0, 0x1p-20 * 0.707, 0, false},
    {"sin.approx.ftz.f32 %d, %a;", sin, 6.2831853, 314.15926, 0, 0x1p-14 * 0.615, 0, true},
    {"cos.approx.f32 %d, %a;", cos, 0, 6.2831853, 0, 0x1p-20 * 0.707, 0, false},
    {"cos.approx.ftz.f32 %d, %a;", cos, 6.2831853, 314.15926, 0, 0x1p-14 * 0.615, 0, true},
    {"lg2.approx.f32 %d, %a;", log2, 0.5, 2, 0, 0x1p-22, 0, false},
    {"lg2.approx.f32 %d, %a;", log2, 2, INFINITY, 0x1p-22, 0, 0, false},
    {"lg2.approx.f32 %d, %a;", log2, 0, 0.5, 0x1p-22, 0, 0, false},
    {"lg2.approx.ftz.f32 %d, %a;", log2, 2, INFINITY, 0x1p-22, 0, 0, true},
    {"ex2.approx.f32 %d, %a;", exp2, 0, INFINITY, 0, 0, 2, false},
    {"ex2.approx.ftz.f32 %d, %a;", exp2, 0, INFINITY, 0, 0, 2, true},
    {"tanh.approx.f32 %d, %a;", tanh, 0, INFINITY, 0x1p-11, 0, 0, false},
};
enum { APPROXIMATIONS = sizeof(approximations) / sizeof(*approximations) };

static double flushed(double value)
{
    return fabs(value) < 0x1p-126 ? copysign(0, value) : value;
}

static void check_one(const struct approximation *row, float operand, float got)
{
    double x = row->is_flushed ? flushed(operand) : operand;
    double exact = row->exact(x);

    if (row->is_flushed && fabs(exact) < 0x1.000002p-126 && got == 0) {
        return; /* at the border the smallest number is right, too */
    }
    double nearest = (float)exact; /* infinite where f32 ends */
    bool is_fixed = isinf(nearest) || exact == 0;
    if (exact != exact ? got == got : is_fixed && (double)got != nearest) {
        fail_msg("%s %a gave %a, not %a", row->code, (double)operand, (double)got, nearest);
    }
    if (exact != exact || is_fixed || !(fabs(x) >= row->low && fabs(x) <= row->high)) {
        return;
    }
    /* No bound can ask for more than the format holds. */
    double error = fabs((double)got - exact);
    bool is_nearest = error <= unit_of(exact) * 0.5;
    if (!is_nearest && !(error <= fabs(exact) * row->relative) && !(error <= row->absolute) &&
        !(error <= unit_of(exact) * row->units)) {
        fail_msg("%s %a gave %a, not %a", row->code, (double)operand, (double)got, exact);
    }
}

static void test_approximations_keep_the_bounds_on_strides_through_all_values(void **state)
{
    static const int bytes[BATCH_SOURCES] = {4};
    struct batch_operation operations[APPROXIMATIONS];
    uint32_t patterns = batch_count(BATCH_ELEMENTS * 16, 1 << 24);
    uint32_t stride = (uint32_t)(((uint64_t)1 << 32) / patterns) - 3;
    uint32_t bits = 0;
    struct batch batch;

    (void)state;
    for (int k = 0; k < APPROXIMATIONS; k++) {
        operations[k] = (struct batch_operation){approximations[k].code, 4};
    }
    batch_open(&batch, operations, APPROXIMATIONS, bytes);
    uint32_t *from = batch.sources[0];
    for (uint32_t done = 0; done < patterns; done += BATCH_ELEMENTS) {
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            from[i] = bits;
            bits += stride;
        }
        batch_run(&batch, BATCH_ELEMENTS);
        for (int k = 0; k < APPROXIMATIONS; k++) {
            for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
                uint32_t result = (uint32_t)batch_result(&batch, k, i, 4);
                check_one(&approximations[k], float_of(from[i]), float_of(result));
            }
        }
    }
    batch_close(&batch);
}

/* ---- special values ---- */

static const struct {
    const char *code;
    uint32_t operand, result; /* a NaN: any */
} specials[] = {
    {"rcp.approx.f32", 0xff800000, 0x80000000},
    {"rcp.approx.f32", 0x80000000, 0xff800000},
    {"rcp.approx.f32", 0x00000000, 0x7f800000},
    {"rcp.approx.f32", 0x7f800000, 0x00000000},
    {"rcp.approx.f32", 0x7fc00000, 0x7fffffff},
    {"rcp.approx.ftz.f32", 0x80000001, 0xff800000},
    {"rcp.approx.ftz.f32", 0x00000001, 0x7f800000},
    {"sqrt.approx.f32", 0xff800000, 0x7fffffff},
    {"sqrt.approx.f32", 0xbf800000, 0x7fffffff},
    {"sqrt.approx.f32", 0x80000000, 0x80000000},
    {"sqrt.approx.f32", 0x00000000, 0x00000000},
    {"sqrt.approx.f32", 0x7f800000, 0x7f800000},
    {"sqrt.approx.ftz.f32", 0x80000001, 0x80000000},
    {"rsqrt.approx.f32", 0xff800000, 0x7fffffff},
    {"rsqrt.approx.f32", 0x80000000, 0xff800000},
    {"rsqrt.approx.f32", 0x00000000, 0x7f800000},
    {"rsqrt.approx.f32", 0x7f800000, 0x00000000},
    {"rsqrt.approx.ftz.f32", 0x80000001, 0xff800000},
    {"rsqrt.approx.f32", 0xc0000000, 0x7fffffff},
    {"sin.approx.f32", 0xff800000, 0x7fffffff},
    {"sin.approx.f32", 0x80000000, 0x80000000},
    {"sin.approx.f32", 0x00000000, 0x00000000},
    {"sin.approx.f32", 0x7f800000, 0x7fffffff},
    {"sin.approx.ftz.f32", 0x80000001, 0x80000000},
    {"cos.approx.f32", 0xff800000, 0x7fffffff},
    {"cos.approx.f32", 0x80000000, 0x3f800000},
    {"cos.approx.f32", 0x00000001, 0x3f800000},
    {"lg2.approx.f32", 0xff800000, 0x7fffffff},
    {"lg2.approx.f32", 0xbf800000, 0x7fffffff},
    {"lg2.approx.f32", 0x80000000, 0xff800000},
    {"lg2.approx.f32", 0x00000000, 0xff800000},
    {"lg2.approx.f32", 0x7f800000, 0x7f800000},
    {"lg2.approx.ftz.f32", 0x00000001, 0xff800000},
    {"lg2.approx.ftz.f32", 0x80000001, 0xff800000},
    {"ex2.approx.f32", 0xff800000, 0x00000000},
    {"ex2.approx.f32", 0x80000000, 0x3f800000},
    {"ex2.approx.f32", 0x00000000, 0x3f800000},
    {"ex2.approx.f32", 0x7f800000, 0x7f800000},
    {"ex2.approx.ftz.f32", 0x80000001, 0x3f800000},
    {"ex2.approx.ftz.f32", 0xc3000000, 0x00000000},
    {"ex2.approx.f32", 0x7fc00001, 0x7fffffff},
    {"tanh.approx.f32", 0xff800000, 0xbf800000},
    {"tanh.approx.f32", 0x80000000, 0x80000000},
    {"tanh.approx.f32", 0x00000000, 0x00000000},
    {"tanh.approx.f32", 0x7f800000, 0x3f800000},
    {"tanh.approx.f32", 0x7fc00000, 0x7fffffff},
};

static void test_special_values_have_the_results_that_the_manual_lists(void **state)
{
    static const int bytes[BATCH_SOURCES] = {4};
    enum { ROWS = sizeof(specials) / sizeof(*specials) };
    struct batch_operation operations[ROWS];
    char codes[ROWS][48];
    struct batch batch;

    (void)state;
    for (int k = 0; k < ROWS; k++) {
        (void)snprintf(codes[k], sizeof(codes[k]), "%s %%d, %%a;", specials[k].code);
        operations[k] = (struct batch_operation){codes[k], 4};
    }
    batch_open(&batch, operations, ROWS, bytes);
    for (uint32_t i = 0; i < ROWS; i++) {
        ((uint32_t *)batch.sources[0])[i] = specials[i].operand;
    }
    batch_run(&batch, ROWS);
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t got = (uint32_t)batch_result(&batch, (int)i, i, 4);
        if (got != specials[i].result) {
            fail_msg("%s %#x gave %#x, not %#x", specials[i].code, specials[i].operand, got,
                     specials[i].result);
        }
    }
    batch_close(&batch);
}

/* ---- division ---- */

static void test_approximate_division_is_within_two_units(void **state)
{
    static const struct batch_operation operations[] = {{"div.approx.f32 %d, %a, %b;", 4},
                                                        {"div.full.f32 %d, %a, %b;", 4},
                                                        {"div.approx.ftz.f32 %d, %a, %b;", 4},
                                                        {"div.full.ftz.f32 %d, %a, %b;", 4}};
    static const int bytes[BATCH_SOURCES] = {4, 4};
    uint64_t random = 88172645463325252u;
    struct batch batch;

    (void)state;
    batch_open(&batch, operations, 4, bytes);
    uint32_t *a = batch.sources[0];
    uint32_t *b = batch.sources[1];
    for (uint32_t done = 0; done < batch_count(2, 64); done++) {
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            uint64_t bits = batch_random(&random);
            a[i] = (uint32_t)bits;
            b[i] = (uint32_t)(bits >> 32);
        }
        batch_run(&batch, BATCH_ELEMENTS);
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            double x = float_of(a[i]);
            double y = float_of(b[i]);
            for (int k = 0; k < 4; k++) {
                double given[2] = {k < 2 ? x : flushed(x), k < 2 ? y : flushed(y)};
                double exact = given[0] / given[1];
                double got = float_of((uint32_t)batch_result(&batch, k, i, 4));
                if (fabs(y) < 0x1p-126 || fabs(y) > 0x1p126 || isinf((float)exact)) {
                    continue; /* the bound is for these divisors */
                }
                bool is_gone = k >= 2 && got == 0 && fabs(exact) <= 0x1p-126;
                if (exact != exact ? got == got
                                   : !(fabs(got - exact) <= 2 * unit_of(exact)) && !is_gone) {
                    fail_msg("%s %a, %a gave %a", operations[k].code, x, y, got);
                }
            }
        }
    }
    batch_close(&batch);
}

/* ---- f64: the high word of the operand and of the result ---- */

static void test_f64_approximations_are_near_and_have_no_low_word(void **state)
{
    static const struct batch_operation operations[] = {{"rcp.approx.ftz.f64 %d, %a;", 8},
                                                        {"rsqrt.approx.ftz.f64 %d, %a;", 8},
                                                        {"rsqrt.approx.f64 %d, %a;", 8}};
    static const int bytes[BATCH_SOURCES] = {8};
    uint64_t random = 88172645463325252u;
    struct batch batch;

    (void)state;
    batch_open(&batch, operations, 3, bytes);
    double *a = batch.sources[0];
    for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
        uint64_t bits = batch_random(&random);
        uint64_t exponent = 1 + (bits >> 52 & 2047) % 2045;
        bits = (bits & ~((uint64_t)0xfff << 52)) | exponent << 52;
        memcpy(&a[i], &bits, sizeof(bits));
    }
    batch_run(&batch, BATCH_ELEMENTS);
    for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
        double exact[3] = {1 / a[i], 1 / sqrt(a[i]), 1 / sqrt(a[i])};
        for (int k = 0; k < 3; k++) {
            uint64_t bits = batch_result(&batch, k, i, 8);
            double got;
            memcpy(&got, &bits, sizeof(got));
            bool is_small = fabs(exact[k]) < 0x1p-1021;
            assert_true(k == 2 || (bits & UINT32_MAX) == 0);
            assert_true(is_small || fabs(got - exact[k]) <= fabs(exact[k]) * 0x1p-19);
        }
    }
    batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_approximations_keep_the_bounds_on_strides_through_all_values),
        cmocka_unit_test(test_special_values_have_the_results_that_the_manual_lists),
        cmocka_unit_test(test_approximate_division_is_within_two_units),
        cmocka_unit_test(test_f64_approximations_are_near_and_have_no_low_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
