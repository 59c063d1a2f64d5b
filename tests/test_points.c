/*
 * Holds declarations against points.jsonl: every point of every task page, evaluated for each
 * world, with the parameters and each rank's shapes. Runs from the top of the tree.
 */
#include "tasks/declare.h"
#include "tests/declared_choices.h"
#include "tests/declared_moves.h"
#include "tests/declared_sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t whole_at(const json_t *array, size_t index)
{
    const json_t *value = json_array_get(array, index);
    return value != NULL ? json_integer_value(value) : 0;
}

static void check_param(const struct run *run, int param, const json_t *value)
{
    switch (run->task->params[param].type) {
    case PARAM_INT64:
        assert_int_equal(run->dim[param], json_integer_value(value));
        break;
    case PARAM_FP32:
        assert_true(run->real[param] == (float)json_number_value(value));
        break;
    case PARAM_FP64:
        assert_true(run->real[param] == json_number_value(value));
        break;
    case PARAM_LIST:
        for (size_t i = 0; i < RANKS_MAX; i++) {
            assert_int_equal(run->list[param][i], whole_at(value, i));
        }
        break;
    case PARAM_GRID:
        for (size_t i = 0; i < RANKS_MAX; i++) {
            const json_t *row = json_array_get(value, i);
            for (size_t k = 0; k < RANKS_MAX; k++) {
                assert_int_equal(run->grid[param][i][k], whole_at(row, k));
            }
        }
        break;
    }
}

static void check_params(const struct run *run, json_t *params)
{
    const char *name;
    json_t *value;
    int param = 0;

    json_object_foreach(params, name, value)
    {
        assert_string_equal(run->task->params[param].name, name);
        check_param(run, param, value);
        param++;
    }
    assert_null(run->task->params[param].name);
}

static void check_tensor(const struct tensor_spec *spec, const char *name, const json_t *shape)
{
    const char *dtype = json_string_value(json_array_get(shape, 0));

    assert_string_equal(spec->name, name);
    assert_string_equal(spec->is_working ? "T" : dtype_name(spec->dtype), dtype);
    assert_int_equal(spec->dims + 1, json_array_size(shape));
    for (int dim = 0; dim < spec->dims; dim++) {
        assert_int_equal(spec->shape[dim], whole_at(shape, (size_t)dim + 1));
    }
}

/* Inputs, then outputs, in declared order. */
static void check_rank(const struct run *run, int rank, json_t *tensors)
{
    const struct plan *plan = run_plan(run, rank);
    const char *name;
    json_t *shape;
    int seen = 0;

    json_object_foreach(tensors, name, shape)
    {
        bool is_input = seen < plan->input_count;
        assert_true(is_input || seen < plan->input_count + plan->output_count);
        check_tensor(is_input ? &plan->inputs[seen] : &plan->outputs[seen - plan->input_count],
                     name, shape);
        seen++;
    }
    assert_int_equal(seen, plan->input_count + plan->output_count);
}

static int find_case(const struct task *task, const char *name)
{
    for (int i = 0; i < task_case_count(task); i++) {
        if (strcmp(task_case_name(task, i), name) == 0) {
            return i;
        }
    }
    fail_msg("task %s has no case %s", task->name, name);
    return -1;
}

static void check_point(const struct task *task, const json_t *row)
{
    const json_t *ranks = json_object_get(row, "ranks");
    struct run_choice choice = {
        .case_index = find_case(task, json_string_value(json_object_get(row, "point"))),
        .world = (int)json_integer_value(json_object_get(row, "world")),
        .dtype = DTYPE_BF16,
    };
    struct error err = {0};
    struct run *run = NULL;

    assert_int_equal(run_open(&run, task, &choice, &err), OK);
    check_params(run, json_object_get(row, "params"));
    for (int rank = 0; rank < choice.world; rank++) {
        size_t index = json_array_size(ranks) == 1 ? 0 : (size_t)rank;
        check_rank(run, rank, json_array_get(ranks, index));
    }
    run_close(run);
}

/* Every point of the page in each of its worlds, and no other. */
static void check_points(const struct task *task)
{
    FILE *file = fopen("tests/points.jsonl", "r");
    char *line = NULL;
    size_t capacity = 0;
    int points = 0;
    int declared = 0;

    assert_non_null(file);
    while (getline(&line, &capacity, file) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        if (json_integer_value(json_object_get(row, "task")) == task->number) {
            check_point(task, row);
            points++;
        }
        json_decref(row);
    }
    free(line);
    (void)fclose(file);
    for (int i = 0; i < task_case_count(task) * RANKS_MAX; i++) {
        declared += task_case_allows_world(task, i / RANKS_MAX, i % RANKS_MAX + 1);
    }
    assert_true(points > 0);
    assert_int_equal(points, declared);
}

static void test_every_task_has_the_points_of_its_page(void **state)
{
    (void)state;
    for (int i = 0; i < task_count; i++) {
        check_points(tasks[i]);
    }
}

static void test_the_declared_pages_have_the_points_of_their_pages(void **state)
{
    static const struct task *const declared[] = {
        &task_gemm_reducescatter, &task_clip_grad_norm_no_ep, &declared_rows,
        &declared_variable,       &declared_kalman,           &declared_knn,
        &declared_logprob,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(declared) / sizeof(declared[0]); i++) {
        check_points(declared[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_has_the_points_of_its_page),
        cmocka_unit_test(test_the_declared_pages_have_the_points_of_their_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
