/* LayerNorm's gradients and power sums against numbers worked out by hand. */
#include "tasks/oracle_norm.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static const struct tensor_spec spec = {
    .name = "x", .dtype = DTYPE_FP32, .dims = 2, .shape = {2, 3}, .elements = 6, .size_bytes = 24};

static void test_a_column_sums_its_rows_over_all_ranks(void **state)
{
    float xhat[] = {1, 2, 3, 4, 5, 6};
    float dy[] = {1, -1, 0, 2, 1, -7};
    struct layernorm_column columns[3] = {{0}};
    struct tensor x = {&spec, xhat};
    struct tensor y = {&spec, dy};
    struct run run = {.world = 2, .dtype = DTYPE_BF16};

    (void)state;
    layernorm_add(columns, &x, &y);
    layernorm_add(columns, &x, &y);
    assert_true(columns[0].beta == 6 && columns[0].gamma == 18);
    assert_true(columns[1].beta == 0 && columns[1].beta_magnitude == 4);
    assert_true(columns[1].gamma == 6 && columns[1].gamma_magnitude == 14);
    assert_true(columns[1].gamma_squares == 58);
    assert_true(columns[2].beta == -14 && columns[2].beta_partials == 14);
    assert_true(layernorm_beta_bound(&columns[1], &run) == 4 * 0x1p-20);
    assert_true(layernorm_beta_bound(&columns[2], &run) == 1.05 * 2 * 0x1p-8 * 14 + 14 * 0x1p-20);
    assert_true(layernorm_gamma_bound(&columns[1], &run) ==
                1.05 * 2 * 0x1p-8 * 6 + 4 * 0x1p-8 * sqrt(58) + 14 * 0x1p-20);
}

static void test_a_power_sum_is_of_magnitudes_and_of_its_part_only(void **state)
{
    float values[] = {100, -1, 2, -3, 100, 100};
    struct tensor x = {&spec, values};

    (void)state;
    assert_true(power_sum(&x, 1, 3, 1) == 6);
    assert_true(power_sum(&x, 1, 3, 2) == 14);
    assert_float_equal(power_sum(&x, 1, 3, 3), 36, 1e-12);
    assert_true(power_sum(&x, 1, 0, 2) == 0);
}

static void test_only_what_is_above_the_maximum_is_scaled(void **state)
{
    (void)state;
    assert_true(clip_at(4, 1).scale == 0.25 && clip_at(4, 1).norm == 4);
    assert_true(clip_at(4, 4).scale == 1);
    assert_true(clip_at(NAN, 1).scale == 1);
    assert_true(clip_at(INFINITY, 1).scale == 0);
}

static void test_a_gradient_is_divided_and_rounded_before_it_is_scaled(void **state)
{
    uint16_t bits[2];
    double ref[2];
    double bound[2];
    struct tensor_spec half = {
        .name = "h", .dtype = DTYPE_FP16, .dims = 1, .shape = {2}, .elements = 2, .size_bytes = 4};
    struct tensor gradient = {&half, bits};
    struct expected out = {.spec = &half, .scalars = 2, .valid = 2, .ref = ref, .bound = bound};
    struct clipping clipping = {8, 0.5};

    (void)state;
    tensor_set(&gradient, 0, 0x1p-24);
    tensor_set(&gradient, 1, 6);
    expect_clipped(&out, &clipping, &gradient, 4);
    assert_true(ref[0] == 0 && ref[1] == 0.75);
    assert_true(bound[0] == 0x1p-24 && bound[1] == 1.02 * 0x1p-11 * 0.75 + 0x1p-24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_is_above_the_maximum_is_scaled),
        cmocka_unit_test(test_a_gradient_is_divided_and_rounded_before_it_is_scaled),
        cmocka_unit_test(test_a_column_sums_its_rows_over_all_ranks),
        cmocka_unit_test(test_a_power_sum_is_of_magnitudes_and_of_its_part_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
