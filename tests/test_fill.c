/* The random numbers: known bits, equal parts, right moments; the same bytes from nvcc. */
#include "tasks/fill.h"
#include "tasks/oracle_generate.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1 << 16 };

static void test_philox_gives_the_words_of_its_published_vectors(void **state)
{
    (void)state;
    struct fill_words zeros = fill_philox(0, 0);
    const uint32_t published[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};

    for (int i = 0; i < 4; i++) {
        assert_int_equal(zeros.word[i], published[i]);
    }
}

/* The bits on which stored results rest: they never change. */
static void test_a_stream_has_the_bits_it_always_had(void **state)
{
    (void)state;
    const float values[] = {fill_normal(0, 0), fill_normal(1, 0), fill_normal(1ULL << 40, 99)};
    const uint32_t frozen[] = {0x400fbcd4, 0x3eca37ec, 0xbf0940fb};

    for (int i = 0; i < 3; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        assert_int_equal(bits, frozen[i]);
    }
    assert_int_equal(fill_bits(5, 7), 0x5613c9b156af56bc);
}

static void test_normals_have_mean_0_and_variance_1(void **state)
{
    (void)state;
    double sum = 0;
    double squares = 0;
    double largest = 0;

    for (uint64_t i = 0; i < COUNT; i++) {
        double value = fill_normal(i, 42);
        sum += value;
        squares += value * value;
        largest = fmax(largest, fabs(value));
    }
    assert_true(fabs(sum / COUNT) < 0.02);
    assert_true(fabs(squares / COUNT - 1) < 0.02);
    assert_true(largest > 3 && largest < 4.9);
}

static void test_integers_are_uniform_between_both_ends(void **state)
{
    (void)state;
    int counts[31] = {0};

    for (uint64_t i = 0; i < COUNT; i++) {
        int64_t value = fill_integer(i, 3, -15, 15);
        assert_true(value >= -15 && value <= 15);
        counts[value + 15]++;
    }
    for (int i = 0; i < 31; i++) {
        assert_true(abs(counts[i] - COUNT / 31) < 250);
    }
    assert_int_equal(fill_integer(9, 9, 7, 7), 7);
    assert_true(fill_integer(9, 9, 0, (int64_t)1 << 40) > 1 << 20);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(fill_uniform(i, 4) >= 0 && fill_uniform(i, 4) < 1);
    }
}

static void test_streams_differ_by_seed_call_rank_and_tensor(void **state)
{
    (void)state;
    const struct trial trial = {.seed = 1, .call = 0};
    const struct trial next = {.seed = 1, .call = 1};
    const struct trial other = {.seed = 2, .call = 0};
    uint64_t key = trial_stream(&trial, 0, 0);

    assert_int_equal(key, trial_stream(&trial, 0, 0));
    assert_int_not_equal(key, trial_stream(&next, 0, 0));
    assert_int_not_equal(key, trial_stream(&other, 0, 0));
    assert_int_not_equal(key, trial_stream(&trial, 1, 0));
    assert_int_not_equal(key, trial_stream(&trial, 0, 1));
    assert_int_not_equal(key, trial_stream(&trial, -1, 0));
    assert_int_not_equal(stream_inside(key, 0), stream_inside(key, 1));
}

static void test_small_floats_are_rounded_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(fill_to_bf16(1.0F), 0x3f80);
    assert_int_equal(fill_to_bf16(0x1.01p0F), 0x3f80); /* a tie, down to even */
    assert_int_equal(fill_to_bf16(0x1.03p0F), 0x3f82); /* a tie, up to even */
    assert_int_equal(fill_to_bf16(0x1.010002p0F), 0x3f81);
    assert_int_equal(fill_to_bf16(0x1.fffffep127F), 0x7f80);
    assert_int_equal(fill_to_bf16(-INFINITY), 0xff80);
    assert_int_equal(fill_to_bf16(NAN), 0x7fff);
    assert_int_equal(fill_to_fp16(1.0F), 0x3c00);
    assert_int_equal(fill_to_fp16(0x1.002p0F), 0x3c00);
    assert_int_equal(fill_to_fp16(0x1.006p0F), 0x3c02);
    assert_int_equal(fill_to_fp16(65504.0F), 0x7bff);
    assert_int_equal(fill_to_fp16(65519.0F), 0x7bff);
    assert_int_equal(fill_to_fp16(65520.0F), 0x7c00);
    assert_int_equal(fill_to_fp16(1e6F), 0x7c00);
    assert_int_equal(fill_to_fp16(0x1p-24F), 0x0001);
    assert_int_equal(fill_to_fp16(0x1p-25F), 0x0000); /* a tie, down to even */
    assert_int_equal(fill_to_fp16(0x1.8p-24F), 0x0002);
    assert_int_equal(fill_to_fp16(0x1.ffcp-15F), 0x0400);
    assert_int_equal(fill_to_fp16(-0.0F), 0x8000);
    assert_int_equal(fill_to_fp16(NAN), 0x7fff);
}

static void test_a_tensor_is_filled_in_every_dtype(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32, DTYPE_FP64,
                                        DTYPE_COMPLEX64};
    double data[64] = {0};

    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        struct tensor_spec spec = {.dtype = dtypes[d], .elements = 32};
        struct tensor tensor = {&spec, data};
        fill_tensor_normal(&tensor, 11, 3);
        for (int64_t i = 0; i < tensor_scalars(&spec); i++) {
            double exact = dtypes[d] == DTYPE_FP64 ? (double)fill_normal((uint64_t)i, 11) * 3
                                                   : fill_normal((uint64_t)i, 11) * 3.0F;
            assert_true(tensor_get(&tensor, i) == dtype_round(dtypes[d], exact));
        }
        fill_tensor_integers(&tensor, 12, -3, 3);
        for (int64_t i = 0; i < tensor_scalars(&spec); i++) {
            assert_true(tensor_get(&tensor, i) == (double)fill_integer((uint64_t)i, 12, -3, 3));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_gives_the_words_of_its_published_vectors),
        cmocka_unit_test(test_a_stream_has_the_bits_it_always_had),
        cmocka_unit_test(test_normals_have_mean_0_and_variance_1),
        cmocka_unit_test(test_integers_are_uniform_between_both_ends),
        cmocka_unit_test(test_streams_differ_by_seed_call_rank_and_tensor),
        cmocka_unit_test(test_small_floats_are_rounded_to_nearest_even),
        cmocka_unit_test(test_a_tensor_is_filled_in_every_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
