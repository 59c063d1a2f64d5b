/* run_judge: what is right, what is wrong, and what is said about it. */
#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { BOUNDED, EXACT_BITS, ZERO_FREE, COUNTED, COUNT, SPECTRUM, GROUPED };

/* Two ranks in each group of four, all outputs of six elements. */
static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)run;
    (void)rank;
    plan_input(plan, "x", DTYPE_FP32, "[6]", SHAPE(6));
    plan_output(plan, "bounded", DTYPE_FP32, "[2, 3]", SHAPE(2, 3));
    plan_output(plan, "exact_bits", DTYPE_FP32, "[6]", SHAPE(6));
    plan_output(plan, "zero_free", DTYPE_FP32, "[6]", SHAPE(6));
    plan_output(plan, "counted", DTYPE_INT64, "[3, 2]", SHAPE(3, 2));
    plan_output(plan, "count", DTYPE_INT64, "[1]", SHAPE(1));
    plan_output(plan, "spectrum", DTYPE_COMPLEX64, "[6]", SHAPE(6));
    plan_output(plan, "grouped", DTYPE_FP32, "[6]", SHAPE(6));
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        for (int64_t i = 0; i < 6; i++) {
            tensor_set(&in[rank][0], i, (double)(i + 1 + trial->call));
        }
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    static const double special[] = {1, 2, INFINITY, -INFINITY, NAN, 3};
    static const double zeros[] = {0.0, -0.0, 1, 2, NAN, INFINITY};

    for (int rank = 0; rank < run->world; rank++) {
        struct expected *rows = out[rank];
        for (int64_t i = 0; i < 6; i++) {
            /* Element 0 has a bound of its own that is narrower than the table's. */
            expect(&rows[BOUNDED], i, special[i], i == 0 ? 0.001 : INFINITY);
            expect_close(&rows[ZERO_FREE], i, zeros[i]);
            expect_integer(&rows[COUNTED], i, ((int64_t)1 << 60) + i);
            expect_close(&rows[SPECTRUM], 2 * i, 1);
            expect_close(&rows[SPECTRUM], 2 * i + 1, -1);
            expect_close(&rows[GROUPED], i, 1000);
        }
        expect_copy(&rows[EXACT_BITS], 0, &in[rank][0], 0, 6);
        expect_valid(&rows[COUNTED], 2);
        expect_integer(&rows[COUNT], 0, 2);
    }
}

static int group(const struct run *run, int rank)
{
    (void)run;
    return rank / 2;
}

static bool rule_fails;

static enum judgement own_rule(const struct run *run, struct expected *const *expected,
                               struct tensor *const *out, struct verdict_detail *detail)
{
    (void)run;
    (void)expected;
    (void)out;
    detail->output = BOUNDED;
    detail->rank = 1;
    return rule_fails ? JUDGED_WRONG_VALUE : JUDGED_RIGHT;
}

static const struct tolerance table = SAME_TOLERANCE(.a = 0, .r = 0.01, .absolute = 0.5);
static const struct tolerance part = SAME_TOLERANCE(.r = 0.1, .rms = 0.05);
static const struct tolerance loose = SAME_TOLERANCE(.a = 0.001, .r = 0);

static const struct task task_judged = {
    .number = 901,
    .name = "judged",
    .summary = "One output of each rule",
    .family = "test",
    .cases = {{.name = "check"}},
    .outputs = {[BOUNDED] = {.name = "bounded", .tolerance = &table},
                [EXACT_BITS] = {.name = "exact_bits"},
                [ZERO_FREE] = {.name = "zero_free", .zero_sign_free = true},
                [COUNTED] = {.name = "counted", .tail = TAIL_UNTOUCHED},
                [COUNT] = {.name = "count", .ranks = RANKS_SAME, .is_count = true},
                [SPECTRUM] = {.name = "spectrum", .tolerance = &part},
                [GROUPED] = {.name = "grouped", .ranks = RANKS_SAME_GROUP, .tolerance = &loose}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .group = group,
    .judge = own_rule,
};

static struct audit audit;
static struct run *run;
static struct verdict_detail detail;

static int open_right(void **state)
{
    struct run_choice choice = {.world = 4, .dtype = DTYPE_FP32};
    struct error err = {0};

    (void)state;
    rule_fails = false;
    if (run_open(&run, &task_judged, &choice, &err) != OK) {
        return -1;
    }
    audit_open(&audit, run, 1, 0);
    audit_write(&audit, AUDIT_RIGHT);
    return 0;
}

static int close_right(void **state)
{
    (void)state;
    audit_close(&audit);
    run_close(run);
    return 0;
}

/* Judges with one scalar of rank 2 changed. */
static enum judgement judge_with(int output, int64_t scalar, double value)
{
    tensor_set(&audit.out[2][output], scalar, value);
    return audit_judge(&audit, &detail);
}

static void test_the_oracles_own_answer_is_right(void **state)
{
    (void)state;
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_RIGHT);
    assert_int_equal(detail.judgement, JUDGED_RIGHT);
    assert_true(audit_margin(&audit) == 0);
}

static void test_a_value_within_its_bound_is_right_and_one_beyond_is_wrong(void **state)
{
    (void)state;
    assert_int_equal(judge_with(BOUNDED, 5, 3.52), JUDGED_RIGHT);
    assert_true(fabs(audit_margin(&audit) - 0.52 / 0.53) < 1e-6);
    assert_int_equal(judge_with(BOUNDED, 5, 3.54), JUDGED_WRONG_VALUE);
    assert_int_equal(detail.rank, 2);
    assert_int_equal(detail.output, BOUNDED);
    assert_int_equal(detail.index, 5);
    assert_string_equal(detail.index_text, "[1, 2]");
    assert_string_equal(detail.expected_text, "0x1.8p+1 (3)");
    assert_true(detail.expected == 3 && detail.got == (double)3.54F);
    assert_true(fabs(detail.bound - 0.53) < 1e-12);
    assert_int_equal(detail.bad, 1);
    assert_int_equal(detail.total, 24);
}

static void test_of_two_bounds_the_narrower_holds(void **state)
{
    (void)state;
    assert_int_equal(judge_with(BOUNDED, 0, 1.0009), JUDGED_RIGHT);
    assert_int_equal(judge_with(BOUNDED, 0, 1.0011), JUDGED_WRONG_VALUE);
}

static void test_infinities_must_be_equal_and_nan_passes_only_where_it_is_expected(void **state)
{
    (void)state;
    assert_int_equal(judge_with(BOUNDED, 2, 3e38), JUDGED_WRONG_VALUE);
    assert_int_equal(judge_with(BOUNDED, 2, -INFINITY), JUDGED_WRONG_VALUE);
    assert_int_equal(judge_with(BOUNDED, 2, NAN), JUDGED_WRONG_VALUE);
    assert_int_equal(judge_with(BOUNDED, 2, INFINITY), JUDGED_RIGHT);
    assert_int_equal(judge_with(BOUNDED, 4, 0), JUDGED_WRONG_VALUE);
    assert_int_equal(judge_with(BOUNDED, 4, -NAN), JUDGED_RIGHT);
    assert_int_equal(judge_with(BOUNDED, 1, NAN), JUDGED_WRONG_VALUE);
    assert_string_equal(detail.got_text, "nan (0x7fc00000)");
    assert_int_equal(judge_with(BOUNDED, 1, INFINITY), JUDGED_WRONG_VALUE);
}

static void test_exact_means_every_bit(void **state)
{
    (void)state;
    assert_int_equal(judge_with(EXACT_BITS, 3, nextafterf(4, 5)), JUDGED_WRONG_VALUE);
    assert_int_equal(detail.index, 3);
    assert_int_equal(judge_with(EXACT_BITS, 3, 4), JUDGED_RIGHT);
    assert_int_equal(judge_with(ZERO_FREE, 0, -0.0), JUDGED_RIGHT);
    assert_int_equal(judge_with(ZERO_FREE, 1, 0.0), JUDGED_RIGHT);
    assert_int_equal(judge_with(ZERO_FREE, 4, -NAN), JUDGED_WRONG_VALUE);
}

static void test_integers_beyond_2_53_are_compared_exactly(void **state)
{
    (void)state;
    tensor_set_integer(&audit.out[0][COUNTED], 3, ((int64_t)1 << 60) + 4);
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_WRONG_VALUE);
    assert_string_equal(detail.index_text, "[1, 1]");
    assert_string_equal(detail.expected_text, "1152921504606846979");
    assert_string_equal(detail.got_text, "1152921504606846980");
}

static void test_a_wrong_count_is_reported_before_wrong_values(void **state)
{
    (void)state;
    tensor_set(&audit.out[0][BOUNDED], 0, 77);
    tensor_set_integer(&audit.out[3][COUNT], 0, 3);
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_WRONG_COUNT);
    assert_int_equal(detail.rank, 3);
    assert_int_equal(detail.output, COUNT);
    assert_string_equal(detail.expected_text, "2");
}

static void test_the_tail_must_keep_its_poison(void **state)
{
    (void)state;
    tensor_set_integer(&audit.out[1][COUNTED], 4, 0);
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_TAIL);
    assert_int_equal(detail.rank, 1);
    assert_string_equal(detail.index_text, "[2, 0]");
    assert_string_equal(detail.expected_text, "untouched");
    assert_int_equal(detail.bad, 1);
    assert_int_equal(detail.total, 8);
}

static void test_what_still_holds_the_poison_is_unwritten(void **state)
{
    (void)state;
    memset((float *)audit.out[2][EXACT_BITS].data + 4, AUDIT_POISON, 2 * sizeof(float));
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_UNWRITTEN);
    assert_int_equal(detail.index, 4);
    assert_int_equal(detail.bad, 2);
    audit_write(&audit, AUDIT_RIGHT);
    memset(audit.out[0][COUNT].data, AUDIT_POISON, sizeof(int64_t));
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_UNWRITTEN);
}

static void test_poison_that_is_a_nan_is_no_answer_where_nan_is_right(void **state)
{
    (void)state;
    memset((float *)audit.out[2][BOUNDED].data + 4, 0xff, sizeof(float));
    assert_int_equal(run_judge(run, audit.expectation, audit.out, 0xff, &detail), JUDGED_UNWRITTEN);
    assert_int_equal(run_judge(run, audit.expectation, audit.out, 0xfe, &detail), JUDGED_TAIL);
}

static void test_replicas_must_have_equal_bits_within_their_group(void **state)
{
    (void)state;
    tensor_set(&audit.out[2][GROUPED], 5, 1000.5);
    tensor_set(&audit.out[3][GROUPED], 5, 1000.5);
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_RIGHT);
    tensor_set(&audit.out[3][GROUPED], 5, 1000);
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_REPLICAS_DIFFER);
    assert_int_equal(detail.rank, 3);
    assert_int_equal(detail.output, GROUPED);
    assert_true(detail.expected == 1000.5 && detail.got == 1000);
    assert_int_equal(detail.bad, 1);
}

static void test_both_parts_of_a_complex_number_are_compared(void **state)
{
    (void)state;
    assert_int_equal(judge_with(SPECTRUM, 7, 1), JUDGED_WRONG_VALUE);
    assert_int_equal(detail.index, 3);
    assert_string_equal(detail.index_text, "[3].im");
    assert_int_equal(judge_with(SPECTRUM, 7, -1), JUDGED_RIGHT);
    assert_int_equal(judge_with(SPECTRUM, 6, 1.2), JUDGED_WRONG_VALUE);
    assert_string_equal(detail.index_text, "[3].re");
}

static void test_many_small_errors_are_wrong_by_their_norm(void **state)
{
    (void)state;
    assert_int_equal(judge_with(SPECTRUM, 0, 1.09), JUDGED_RIGHT);
    for (int64_t i = 0; i < 12; i++) {
        tensor_set(&audit.out[2][SPECTRUM], i, i % 2 == 0 ? 1.06 : -1);
    }
    assert_int_equal(judge_with(SPECTRUM, 4, 1.08), JUDGED_RIGHT);
    for (int64_t i = 0; i < 12; i++) {
        tensor_set(&audit.out[2][SPECTRUM], i, i % 2 == 0 ? 1.06 : -1.06);
    }
    assert_int_equal(judge_with(SPECTRUM, 4, 1.08), JUDGED_WRONG_NORM);
    assert_int_equal(detail.rank, 2);
    assert_int_equal(detail.index, 2);
    assert_int_equal(detail.bad, 0);
    assert_true(detail.rms_error > 0.06 && detail.rms_error < 0.07);
    assert_true(fabs(detail.rms_reference - 1) < 1e-9);
}

static void test_the_tasks_own_rule_is_asked_last(void **state)
{
    (void)state;
    rule_fails = true;
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_WRONG_VALUE);
    assert_int_equal(detail.rank, 1);
    assert_int_equal(judge_with(EXACT_BITS, 0, 9), JUDGED_WRONG_VALUE);
    assert_int_equal(detail.rank, 2);
}

#define RIGHT(test) cmocka_unit_test_setup_teardown(test, open_right, close_right)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIGHT(test_the_oracles_own_answer_is_right),
        RIGHT(test_a_value_within_its_bound_is_right_and_one_beyond_is_wrong),
        RIGHT(test_of_two_bounds_the_narrower_holds),
        RIGHT(test_infinities_must_be_equal_and_nan_passes_only_where_it_is_expected),
        RIGHT(test_exact_means_every_bit),
        RIGHT(test_integers_beyond_2_53_are_compared_exactly),
        RIGHT(test_a_wrong_count_is_reported_before_wrong_values),
        RIGHT(test_the_tail_must_keep_its_poison),
        RIGHT(test_what_still_holds_the_poison_is_unwritten),
        RIGHT(test_poison_that_is_a_nan_is_no_answer_where_nan_is_right),
        RIGHT(test_replicas_must_have_equal_bits_within_their_group),
        RIGHT(test_both_parts_of_a_complex_number_are_compared),
        RIGHT(test_many_small_errors_are_wrong_by_their_norm),
        RIGHT(test_the_tasks_own_rule_is_asked_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
