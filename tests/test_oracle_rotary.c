/* Rotary embedding of one head of four elements, by hand. */
#include "tasks/oracle_rotary.h"

#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static const struct tensor_spec spec = {
    .name = "x", .dtype = DTYPE_FP32, .dims = 1, .shape = {8}, .elements = 8, .size_bytes = 32};

static void test_halves_change_places_and_the_second_its_sign(void **state)
{
    float x[] = {0, 0, 1, 2, 3, 4, 0, 0};
    float cosines[] = {0, 1, 1, 10, 10, 0, 0, 0};
    float sines[] = {0, 100, 1000, 100, 1000, 0, 0, 0};
    struct tensor tensors[] = {{&spec, x}, {&spec, cosines}, {&spec, sines}};
    struct rotary rotary = {&tensors[0], &tensors[1], &tensors[2], 2, 1, 4};

    (void)state;
    assert_true(rotary_element(&rotary, 0).value == 1 - 300);
    assert_true(rotary_element(&rotary, 0).magnitude == 1 + 300);
    assert_true(rotary_element(&rotary, 1).value == 2 - 4000);
    assert_true(rotary_element(&rotary, 2).value == 30 + 100);
    assert_true(rotary_element(&rotary, 3).value == 40 + 2000);
    assert_true(rotary_element_rounded(&rotary, 3) == 2040);
}

static void test_each_product_and_the_sum_are_rounded(void **state)
{
    uint16_t x[8];
    struct tensor_spec half = spec;
    struct tensor tensor = {&half, x};
    struct rotary rotary = {&tensor, &tensor, &tensor, 0, 0, 2};

    (void)state;
    half.dtype = DTYPE_BF16;
    half.size_bytes = 16;
    tensor_set(&tensor, 0, 1 + 0x1p-7);
    tensor_set(&tensor, 1, -1);
    /* (1 + 2^-7)^2 + (1 + 2^-7) = 2 + 3 2^-7 + 2^-14; the square rounds to 1 + 2^-6, and the sum, a
     * tie between 2 + 2^-6 and 2 + 2^-5, to even. */
    assert_true(rotary_element(&rotary, 0).value == 2 + 3 * 0x1p-7 + 0x1p-14);
    assert_true(rotary_element_rounded(&rotary, 0) == 2 + 0x1p-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_change_places_and_the_second_its_sign),
        cmocka_unit_test(test_each_product_and_the_sum_are_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
