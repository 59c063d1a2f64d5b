/* What is said of many times, and what hides inputs until they are revealed. */
#include "worker/statistics.h"

#include "worker/keystream.h"
#include "worker/nvml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_the_median_of_known_values_is_known(void **state)
{
    double odd[] = {5, 1, 3};
    double even[] = {4, 1, 3, 2};
    double one[] = {7};

    (void)state;
    assert_true(statistics_median(odd, 3) == 3);
    assert_true(statistics_median(even, 4) == 2.5);
    assert_true(statistics_median(one, 1) == 7);
}

static void test_percentiles_lie_between_their_neighbours(void **state)
{
    double values[101];

    (void)state;
    for (int i = 0; i <= 100; i++) {
        values[i] = (i * 37) % 101;
    }
    struct spread spread = statistics_spread(values, 101);
    assert_true(spread.median == 50);
    assert_true(spread.p10 == 10);
    assert_true(spread.p90 == 90);
}

/* Of 100 values, the 40th and the 61st: so it stands in tables of the sign test. */
static void test_the_interval_of_the_median_is_that_of_the_sign_test(void **state)
{
    double values[100];

    (void)state;
    for (int i = 0; i < 100; i++) {
        values[i] = i + 1;
    }
    struct spread spread = statistics_spread(values, 100);
    assert_true(spread.low == 40);
    assert_true(spread.high == 61);
}

static void test_few_values_give_all_there_is_as_the_interval(void **state)
{
    double values[] = {3, 1, 2};
    struct spread spread = statistics_spread(values, 3);

    (void)state;
    assert_true(spread.low == 1);
    assert_true(spread.high == 3);
}

static void test_a_wide_interval_is_noisy_unless_it_is_below_half_a_microsecond(void **state)
{
    (void)state;
    assert_true(statistics_is_noisy(&(struct spread){.median = 100, .low = 98, .high = 101}));
    assert_false(statistics_is_noisy(&(struct spread){.median = 100, .low = 99.2, .high = 101}));
    assert_false(statistics_is_noisy(&(struct spread){.median = 5, .low = 4.8, .high = 5.2}));
    assert_true(statistics_is_noisy(&(struct spread){.median = 5, .low = 4.7, .high = 5.3}));
}

static void test_the_ranked_time_is_the_events_unless_the_clock_shows_clearly_more(void **state)
{
    (void)state;
    assert_true(statistics_ranked(10, 8) == 10);
    assert_true(statistics_ranked(10, 10.5) == 10);
    assert_true(statistics_ranked(10, 12) == 11.5);
    assert_true(statistics_ranked(0.01, 4) == 3.5);
}

static void test_what_is_larger_by_five_percent_and_three_microseconds_is_suspect(void **state)
{
    (void)state;
    assert_false(statistics_is_suspect(10, 13.8));
    assert_false(statistics_is_suspect(13.6, 10));
    assert_true(statistics_is_suspect(13.8, 10));
    assert_false(statistics_is_suspect(1053, 1000));
    assert_false(statistics_is_suspect(1000, 1057));
    assert_true(statistics_is_suspect(1057, 1000));
}

/* ---- keystream ---- */

static void assert_block(const uint32_t *key, uint64_t stream, uint64_t counter,
                         const uint8_t *expected)
{
    uint32_t block[KEYSTREAM_BLOCK_WORDS];

    keystream_block(key, stream, counter, block);
    assert_memory_equal(block, expected, KEYSTREAM_BLOCK_BYTES);
}

/* From the test vectors of ChaCha with 8 rounds, a 256-bit key and a 64-bit IV, all zero. */
static void test_the_keystream_is_chacha8(void **state)
{
    static const uint8_t expected[] = {
        0x3e, 0x00, 0xef, 0x2f, 0x89, 0x5f, 0x40, 0xd6, 0x7f, 0x5b, 0xb8, 0xe8, 0x1f,
        0x09, 0xa5, 0xa1, 0x2c, 0x84, 0x0e, 0xc3, 0xce, 0x9a, 0x7f, 0x3b, 0x18, 0x1b,
        0xe1, 0x88, 0xef, 0x71, 0x1a, 0x1e, 0x98, 0x4c, 0xe1, 0x72, 0xb9, 0x21, 0x6f,
        0x41, 0x9f, 0x44, 0x53, 0x67, 0x45, 0x6d, 0x56, 0x19, 0x31, 0x4a, 0x42, 0xa3,
        0xda, 0x86, 0xb0, 0x01, 0x38, 0x7b, 0xfd, 0xb8, 0x0e, 0x0c, 0xfe, 0x42};
    const uint32_t key[KEYSTREAM_KEY_WORDS] = {0};

    (void)state;
    assert_block(key, 0, 0, expected);
}

static void test_every_part_of_key_stream_and_counter_changes_the_keystream(void **state)
{
    uint32_t key[KEYSTREAM_KEY_WORDS] = {0};
    uint32_t plain[KEYSTREAM_BLOCK_WORDS];
    uint32_t other[KEYSTREAM_BLOCK_WORDS];

    (void)state;
    keystream_block(key, 1, 2, plain);
    for (int i = 0; i < KEYSTREAM_KEY_WORDS; i++) {
        key[i] = 1;
        keystream_block(key, 1, 2, other);
        assert_memory_not_equal(plain, other, sizeof plain);
        key[i] = 0;
    }
    keystream_block(key, UINT64_C(1) << 32 | 1, 2, other);
    assert_memory_not_equal(plain, other, sizeof plain);
    keystream_block(key, 1, UINT64_C(1) << 32 | 2, other);
    assert_memory_not_equal(plain, other, sizeof plain);
}

static void test_a_proof_depends_on_every_word_its_place_and_the_nonce(void **state)
{
    uint32_t nonce[KEYSTREAM_KEY_WORDS] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t term = possession_term(nonce, 5, 9);

    (void)state;
    assert_true(term != possession_term(nonce, 5, 8));
    assert_true(term != possession_term(nonce, 6, 9));
    for (int i = 0; i < 6; i++) {
        nonce[i] ^= UINT32_C(1) << 31;
        assert_true(term != possession_term(nonce, 5, 9));
        nonce[i] ^= UINT32_C(1) << 31;
    }
    /* Two words that change places change the sum. */
    assert_true(possession_term(nonce, 0, 1) + possession_term(nonce, 1, 2) !=
                possession_term(nonce, 0, 2) + possession_term(nonce, 1, 1));
}

static void test_what_slows_a_gpu_down_has_a_name(void **state)
{
    (void)state;
    assert_null(nvml_throttle_name(0));
    assert_null(nvml_throttle_name(1)); /* it is idle */
    assert_string_equal(nvml_throttle_name(0x4), "power");
    assert_string_equal(nvml_throttle_name(0x61), "temperature");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_median_of_known_values_is_known),
        cmocka_unit_test(test_percentiles_lie_between_their_neighbours),
        cmocka_unit_test(test_the_interval_of_the_median_is_that_of_the_sign_test),
        cmocka_unit_test(test_few_values_give_all_there_is_as_the_interval),
        cmocka_unit_test(test_a_wide_interval_is_noisy_unless_it_is_below_half_a_microsecond),
        cmocka_unit_test(test_the_ranked_time_is_the_events_unless_the_clock_shows_clearly_more),
        cmocka_unit_test(test_what_is_larger_by_five_percent_and_three_microseconds_is_suspect),
        cmocka_unit_test(test_the_keystream_is_chacha8),
        cmocka_unit_test(test_every_part_of_key_stream_and_counter_changes_the_keystream),
        cmocka_unit_test(test_a_proof_depends_on_every_word_its_place_and_the_nonce),
        cmocka_unit_test(test_what_slows_a_gpu_down_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
