/* Reading and writing elements: every code of the small formats, ties, subnormals, saturation. */
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

struct small {
    enum dtype dtype;
    int codes;
    uint32_t largest; /* the code of the largest finite magnitude */
};

static const struct small smalls[] = {
    {DTYPE_BF16, 1 << 16, 0x7f7f},
    {DTYPE_FP16, 1 << 16, 0x7bff},
    {DTYPE_E4M3, 1 << 8, 0x7e},
    {DTYPE_E5M2, 1 << 8, 0x7b},
};
enum { SMALLS = sizeof(smalls) / sizeof(smalls[0]) };

static double get_code(const struct small *small, uint32_t code)
{
    uint16_t wide = (uint16_t)code;
    uint8_t narrow = (uint8_t)code;
    return scalar_get(small->dtype, small->codes > 256 ? (void *)&wide : (void *)&narrow, 0);
}

static uint32_t set_code(const struct small *small, double value)
{
    uint16_t wide = 0;
    uint8_t narrow = 0;
    scalar_set(small->dtype, small->codes > 256 ? (void *)&wide : (void *)&narrow, 0, value);
    return small->codes > 256 ? wide : narrow;
}

static void test_every_code_is_read_and_written_back_unchanged(void **state)
{
    (void)state;
    for (int s = 0; s < SMALLS; s++) {
        for (uint32_t code = 0; code < (uint32_t)smalls[s].codes; code++) {
            double value = get_code(&smalls[s], code);
            if (isnan(value)) {
                assert_true((code & ((uint32_t)smalls[s].codes / 2 - 1)) > smalls[s].largest);
            } else {
                assert_int_equal(set_code(&smalls[s], value), code);
            }
        }
    }
}

static void test_between_two_codes_the_nearest_wins_and_a_tie_goes_to_even(void **state)
{
    (void)state;
    for (int s = 0; s < SMALLS; s++) {
        for (uint32_t code = 0; code < smalls[s].largest; code++) {
            double low = get_code(&smalls[s], code);
            double high = get_code(&smalls[s], code + 1);
            double middle = (low + high) / 2; /* exact in double */
            uint32_t even = code + (code & 1);
            assert_true(low < high);
            assert_int_equal(set_code(&smalls[s], middle), even);
            assert_int_equal(set_code(&smalls[s], nextafter(middle, INFINITY)), code + 1);
            assert_int_equal(set_code(&smalls[s], nextafter(middle, 0)), code);
            assert_true(dtype_round(smalls[s].dtype, -nextafter(middle, INFINITY)) == -high);
        }
    }
}

static void test_values_beyond_the_largest_become_infinite_or_saturate(void **state)
{
    (void)state;
    assert_true(isinf(dtype_round(DTYPE_BF16, 1e39)));
    assert_true(dtype_round(DTYPE_FP16, 65519.999) == 65504);
    assert_true(dtype_round(DTYPE_FP16, -65520) == -INFINITY);
    assert_true(dtype_round(DTYPE_E5M2, 61440) == INFINITY);
    assert_true(dtype_round(DTYPE_E5M2, 61439) == 57344);
    assert_true(dtype_round(DTYPE_E4M3, 464) == 448);
    assert_true(dtype_round(DTYPE_E4M3, 1e300) == 448);
    assert_true(dtype_round(DTYPE_E4M3, -INFINITY) == -448);
    assert_true(isnan(dtype_round(DTYPE_E4M3, NAN)));
    assert_true(isnan(dtype_round(DTYPE_E5M2, NAN)));
    assert_true(dtype_round(DTYPE_FP32, 1e39) == INFINITY);
    assert_true(dtype_round(DTYPE_FP64, 1e300) == 1e300);
}

static void test_a_double_is_rounded_once(void **state)
{
    (void)state;
    /* Just above a tie of bf16; through fp32 it would be the tie and go down. */
    assert_true(dtype_round(DTYPE_BF16, 0x1.0100000000001p0) == 0x1.02p0);
    assert_true(dtype_round(DTYPE_FP16, 0x1.0020000000001p0) == 0x1.004p0);
    assert_true(dtype_round(DTYPE_FP16, 0x1.0000000000001p-25) == 0x1p-24);
    assert_true(signbit(dtype_round(DTYPE_E4M3, -1e-9)));
}

static void test_integers_keep_all_their_bits(void **state)
{
    (void)state;
    int64_t wide[2] = {0};
    int8_t narrow[2] = {0};

    scalar_set_integer(DTYPE_INT64, wide, 1, ((int64_t)1 << 53) + 1);
    assert_int_equal(scalar_get_integer(DTYPE_INT64, wide, 1), ((int64_t)1 << 53) + 1);
    scalar_set(DTYPE_INT8, narrow, 1, -128);
    assert_int_equal(narrow[1], -128);
    assert_true(scalar_get(DTYPE_INT8, narrow, 1) == -128);
    assert_int_equal(narrow[0], 0);
    scalar_set(DTYPE_BOOL8, narrow, 0, 1);
    assert_int_equal(scalar_get_integer(DTYPE_BOOL8, narrow, 0), 1);
}

static void test_the_unit_roundoff_is_that_of_the_pages(void **state)
{
    (void)state;
    assert_true(dtype_unit(DTYPE_BF16) == 0x1p-8);
    assert_true(dtype_unit(DTYPE_FP16) == 0x1p-11);
    assert_true(dtype_unit(DTYPE_FP32) == 0x1p-24);
    assert_true(dtype_unit(DTYPE_FP64) == 0x1p-53);
}

static void test_the_smallest_numbers_are_those_of_the_formats(void **state)
{
    (void)state;
    assert_true(dtype_smallest(DTYPE_BF16) == 0x1p-133);
    assert_true(dtype_smallest(DTYPE_FP16) == 0x1p-24);
    assert_true(dtype_smallest(DTYPE_E4M3) == 0x1p-9);
    assert_true(dtype_smallest(DTYPE_FP32) == 0x1p-149);
    assert_true(dtype_smallest(DTYPE_FP64) == 0x1p-1074);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_smallest_numbers_are_those_of_the_formats),
        cmocka_unit_test(test_every_code_is_read_and_written_back_unchanged),
        cmocka_unit_test(test_between_two_codes_the_nearest_wins_and_a_tie_goes_to_even),
        cmocka_unit_test(test_values_beyond_the_largest_become_infinite_or_saturate),
        cmocka_unit_test(test_a_double_is_rounded_once),
        cmocka_unit_test(test_integers_keep_all_their_bits),
        cmocka_unit_test(test_the_unit_roundoff_is_that_of_the_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
