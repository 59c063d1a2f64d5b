/* Every task in every case, variant, world and dtype that it allows. */
#include "tasks/audit.h"
#include "tasks/declare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};

/* Calls `visit` with each run of class "check". */
static void each_check(void (*visit)(const struct run *run))
{
    struct error err = {0};

    for (int t = 0; t < task_count; t++) {
        for (int c = 0; c < task_case_count(tasks[t]); c++) {
            for (int i = 0; i < task_variant_count(tasks[t], c) * 8 * 3; i++) {
                struct run *run = NULL;
                struct run_choice choice = {c, i / 24, i / 3 % 8 + 1, dtypes[i % 3]};
                if (strncmp(task_case_name(tasks[t], c), "check", 5) != 0 ||
                    !task_case_allows_world(tasks[t], c, choice.world) ||
                    !task_allows_dtype(tasks[t], choice.dtype)) {
                    continue;
                }
                assert_int_equal(run_open(&run, tasks[t], &choice, &err), OK);
                visit(run);
                run_close(run);
            }
        }
    }
}

static void say(const struct run *run, const char *what)
{
    print_message("%03d_%s %s %s world %d %s: %s\n", run->task->number, run->task->name,
                  run_case(run), run_variant(run), run->world, dtype_name(run->dtype), what);
}

/* Compares all inputs of two calls: 0 if each tensor is equal, 1 if each differs, -1 otherwise. */
static int differ(const struct run *run, const struct audit *a, const struct audit *b)
{
    int equal = 0;
    int different = 0;

    for (int rank = 0; rank < run->world; rank++) {
        for (int i = 0; i < run_plan(run, rank)->input_count; i++) {
            const struct tensor *tensor = &a->in[rank][i];
            if (tensor->data != NULL) {
                bool same =
                    memcmp(tensor->data, b->in[rank][i].data, tensor->spec->size_bytes) == 0;
                equal += same;
                different += !same;
            }
        }
    }
    return different == 0 ? 0 : equal == 0 ? 1 : -1;
}

static void check_seeds(const struct run *run)
{
    struct audit first;
    struct audit again;
    struct audit other;

    audit_open(&first, run, 7, 0);
    audit_open(&again, run, 7, 0);
    audit_open(&other, run, 7, 1);
    assert_int_equal(differ(run, &first, &again), 0);
    assert_int_not_equal(differ(run, &first, &other), 0);
    audit_close(&other);
    audit_open(&other, run, 8, 0);
    assert_int_not_equal(differ(run, &first, &other), 0);
    audit_close(&first);
    audit_close(&again);
    audit_close(&other);
}

static void test_the_same_seed_and_call_give_the_same_inputs_and_others_give_others(void **state)
{
    (void)state;
    each_check(check_seeds);
}

static bool applies(const struct run *run, enum audit_answer answer)
{
    switch (answer) {
    case AUDIT_OWN_INPUT:
    case AUDIT_LOCAL_ONLY:
        return run->world > 1;
    case AUDIT_BF16_CAST:
        return run->dtype == DTYPE_FP32;
    default:
        return answer != AUDIT_RIGHT;
    }
}

static void check_answers(const struct run *run)
{
    struct audit audit;
    struct verdict_detail detail;

    audit_open(&audit, run, 99, 3);
    audit_write(&audit, AUDIT_RIGHT);
    if (audit_judge(&audit, &detail) != JUDGED_RIGHT) {
        say(run, "the oracle's own answer is refused");
        fail();
    }
    for (int answer = 0; answer < AUDIT_ANSWERS; answer++) {
        if (!applies(run, (enum audit_answer)answer)) {
            continue;
        }
        audit_write(&audit, (enum audit_answer)answer);
        if (audit_judge(&audit, &detail) == JUDGED_RIGHT && !audit_is_right(&audit)) {
            say(run, audit_answer_name((enum audit_answer)answer));
            fail();
        }
    }
    audit_close(&audit);
}

static void test_easy_wrong_answers_are_refused_and_the_right_one_is_not(void **state)
{
    (void)state;
    each_check(check_answers);
}

static void test_a_task_is_found_by_number_by_name_and_by_both(void **state)
{
    (void)state;
    const struct task *task = task_find("allreduce");

    assert_non_null(task);
    assert_ptr_equal(task_find("1"), task);
    assert_ptr_equal(task_find("001"), task);
    assert_ptr_equal(task_find("001_allreduce"), task);
    assert_null(task_find("0"));
    assert_null(task_find(""));
    assert_null(task_find("002_allreduce"));
    assert_null(task_find("all"));
    assert_int_equal(task_number(task), 1);
    assert_string_equal(task_worlds_text(task), "1, 2, 4, 8");
    assert_string_equal(task_dtypes_text(task), "bf16, fp16, fp32");
}

static void expect_invalid(struct run_choice choice, const char *field)
{
    struct error err = {0};
    struct run *run = NULL;

    assert_int_equal(run_open(&run, task_find("allreduce"), &choice, &err), ERR_INVALID);
    assert_string_equal(err.field, field);
    assert_null(run);
}

static void test_a_run_that_a_task_does_not_have_is_refused_by_name(void **state)
{
    (void)state;
    expect_invalid((struct run_choice){0, 0, 3, DTYPE_BF16}, "world");
    expect_invalid((struct run_choice){0, 0, 0, DTYPE_BF16}, "world");
    expect_invalid((struct run_choice){0, 0, 16, DTYPE_BF16}, "world");
    expect_invalid((struct run_choice){0, 0, 4, DTYPE_FP64}, "dtype");
    expect_invalid((struct run_choice){-1, 0, 4, DTYPE_BF16}, "case");
    expect_invalid((struct run_choice){2, 0, 4, DTYPE_BF16}, "case");
    expect_invalid((struct run_choice){0, 2, 4, DTYPE_BF16}, "variant");
    expect_invalid((struct run_choice){1, 1, 4, DTYPE_BF16}, "variant");
    expect_invalid((struct run_choice){1, -1, 4, DTYPE_BF16}, "variant");
}

static void test_each_task_has_a_statement_that_begins_with_its_name(void **state)
{
    (void)state;
    for (int i = 0; i < task_count; i++) {
        char title[128];
        (void)snprintf(title, sizeof(title), "# %03d %s\n", tasks[i]->number, tasks[i]->name);
        assert_int_equal(strncmp(task_statement(tasks[i]), title, strlen(title)), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_that_a_task_does_not_have_is_refused_by_name),
        cmocka_unit_test(test_each_task_has_a_statement_that_begins_with_its_name),
        cmocka_unit_test(test_a_task_is_found_by_number_by_name_and_by_both),
        cmocka_unit_test(test_the_same_seed_and_call_give_the_same_inputs_and_others_give_others),
        cmocka_unit_test(test_easy_wrong_answers_are_refused_and_the_right_one_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
