/*
 * Holds the targets of all tasks against least.jsonl: the formulas of every page, evaluated for
 * each point and world with T = bf16. Runs from the top of the tree.
 */
#include "tasks/declare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} terms[] = {
    {"nvlink_out", offsetof(struct work, nvlink_out)},
    {"nvlink_in", offsetof(struct work, nvlink_in)},
    {"nvls_out", offsetof(struct work, nvls_out)},
    {"nvls_in", offsetof(struct work, nvls_in)},
    {"hbm_read", offsetof(struct work, hbm_read)},
    {"hbm_write", offsetof(struct work, hbm_write)},
    {"flops_mma", offsetof(struct work, flops_mma)},
    {"flops_other", offsetof(struct work, flops_other)},
};

static struct run *open_point(const struct task *task, const char *name, int world,
                              enum dtype dtype)
{
    struct run_choice choice = {.world = world, .dtype = dtype};
    struct error err = {0};
    struct run *run = NULL;

    while (strcmp(task_case_name(task, choice.case_index), name) != 0) {
        choice.case_index++;
        assert_true(choice.case_index < task_case_count(task));
    }
    assert_int_equal(run_open(&run, task, &choice, &err), OK);
    return run;
}

static void check_row(const struct task *task, const json_t *row)
{
    const char *point = json_string_value(json_object_get(row, "point"));
    int world = (int)json_integer_value(json_object_get(row, "world"));
    struct run *run = open_point(task, point, world, DTYPE_BF16);
    struct work work = run_work(run);

    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++) {
        double want = json_number_value(json_object_get(row, terms[i].name));
        double got = 0;
        memcpy(&got, (const char *)&work + terms[i].offset, sizeof(got));
        if (!(fabs(got - want) <= 1e-9 * want)) {
            fail_msg("%s %s world %d: %s is %.1f, not %.1f", task->name, point, world,
                     terms[i].name, got, want);
        }
    }
    run_close(run);
}

static int check_task(const struct task *task)
{
    FILE *file = fopen("tests/least.jsonl", "r");
    char *line = NULL;
    size_t capacity = 0;
    int rows = 0;

    assert_non_null(file);
    while (getline(&line, &capacity, file) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        if (json_integer_value(json_object_get(row, "task")) == task->number) {
            check_row(task, row);
            rows++;
        }
        json_decref(row);
    }
    free(line);
    (void)fclose(file);
    return rows;
}

static void test_every_target_is_that_of_its_page(void **state)
{
    (void)state;
    for (int i = 0; i < task_count; i++) {
        int points = 0;
        for (int k = 0; k < task_case_count(tasks[i]) * RANKS_MAX; k++) {
            points += task_case_allows_world(tasks[i], k / RANKS_MAX, k % RANKS_MAX + 1);
        }
        assert_int_equal(check_task(tasks[i]), points);
    }
}

/* In every case and dtype. */
static void check_floor(const struct task *task, int case_index, int world)
{
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};

    for (int i = 0; i < 3 && task_case_allows_world(task, case_index, world); i++) {
        struct run *run = open_point(task, task_case_name(task, case_index), world, dtypes[i]);
        struct work work = run_work(run);
        if (world == 1) {
            assert_true(work.floor_in == 0);
        } else {
            assert_true(work.floor_in > 0);
            assert_true(work.floor_in <= work.nvlink_in);
            assert_true(work.floor_in <= work.nvls_in);
        }
        run_close(run);
    }
}

static void
test_a_floor_is_below_the_target_and_nothing_enters_where_there_are_no_peers(void **state)
{
    (void)state;
    for (int i = 0; i < task_count; i++) {
        for (int k = 0; k < task_case_count(tasks[i]) * RANKS_MAX; k++) {
            check_floor(tasks[i], k / RANKS_MAX, k % RANKS_MAX + 1);
        }
    }
}

/* A number of bits that is known: see run_floor_bytes. */
static void test_a_floor_counts_the_bits_that_the_tolerance_leaves(void **state)
{
    struct run *run = open_point(task_find("allreduce"), "bench", 2, DTYPE_BF16);

    (void)state;
    assert_float_equal(run_floor_bytes(run, 0) * 8, 2.0471 - log2(2 * 0.062), 1e-4);
    assert_float_equal(run_work(run).floor_in, 1048576 * run_floor_bytes(run, 0), 1);
    run_close(run);
    run = open_point(task_find("allgather"), "bench", 2, DTYPE_BF16);
    assert_true(run_floor_bytes(run, 0) == 2);
    run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_target_is_that_of_its_page),
        cmocka_unit_test(
            test_a_floor_is_below_the_target_and_nothing_enters_where_there_are_no_peers),
        cmocka_unit_test(test_a_floor_counts_the_bits_that_the_tolerance_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
