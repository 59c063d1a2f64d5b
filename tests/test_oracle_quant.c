/* Block scales and codes: zero blocks, signed zeros, ties, saturation. */
#include "tasks/oracle_quant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static const struct tensor_spec spec = {
    .name = "x", .dtype = DTYPE_FP32, .dims = 1, .shape = {4}, .elements = 4, .size_bytes = 16};

static void test_a_scale_is_the_largest_magnitude_over_448(void **state)
{
    float x[] = {1, -896, 3, 5000};
    struct tensor tensor = {&spec, x};

    (void)state;
    assert_true(quant_scale(&tensor, 0, 3) == 2);
    assert_true(quant_scale(&tensor, 3, 1) == 5000.0F / 448.0F);
    x[0] = -0.0F;
    assert_true(quant_scale(&tensor, 0, 1) == 0);
}

static void test_zeros_keep_their_sign_and_a_zero_scale_divides_nothing(void **state)
{
    (void)state;
    assert_int_equal(quant_code(0, 0), 0x00);
    assert_int_equal(quant_code(-0.0F, 0), 0x80);
    assert_int_equal(quant_code(-0.0F, 2), 0x80);
}

static void test_codes_go_to_even_and_saturate(void **state)
{
    (void)state;
    assert_int_equal(quant_code(896, 2), 0x7e);
    assert_int_equal(quant_code(nextafterf(896, 1e9F), 2), 0x7e);
    assert_int_equal(quant_code(-1e9F, 2), 0xfe);
    assert_int_equal(quant_code(336, 1), 0x7a); /* between 320 and 352 */
    assert_int_equal(quant_code(nextafterf(336, 448), 1), 0x7b);
    assert_int_equal(quant_code(0x1p-10F, 1), 0x00); /* half of the smallest */
    assert_int_equal(quant_code(nextafterf(0x1p-10F, 1), 1), 0x01);
}

/* 0.75 a over a / 448 is 336 in real numbers, a tie whose even code is 0x7a: the roundings of fp32
 * decide. */
static void test_the_divisions_are_those_of_fp32(void **state)
{
    int above = 0;

    (void)state;
    for (int i = 1; i < 1 << 20; i++) {
        float a = 1 + (float)i * 0x1p-20F;
        uint8_t code = quant_code(0.75F * a, a / 448.0F);
        assert_true(code == 0x7a || code == 0x7b);
        above += code == 0x7b;
    }
    assert_true(above > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_scale_is_the_largest_magnitude_over_448),
        cmocka_unit_test(test_zeros_keep_their_sign_and_a_zero_scale_divides_nothing),
        cmocka_unit_test(test_codes_go_to_even_and_saturate),
        cmocka_unit_test(test_the_divisions_are_those_of_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
