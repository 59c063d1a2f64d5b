/* Where runs of elements land, and what is moved. */
#include "tasks/oracle_move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

enum { ROOM = 12 };

static const struct tensor_spec spec = {.name = "x",
                                        .dtype = DTYPE_INT32,
                                        .dims = 1,
                                        .shape = {ROOM},
                                        .elements = ROOM,
                                        .size_bytes = UINT64_C(4) * ROOM};

static void check_move(const struct move *move, const int32_t *want)
{
    int32_t from[ROOM];
    int32_t to[ROOM] = {0};
    struct tensor tensor = {&spec, from};
    struct expected out = {.spec = &spec, .scalars = ROOM, .valid = ROOM, .exact = true};

    out.bytes = to;
    for (int i = 0; i < ROOM; i++) {
        from[i] = i + 1;
    }
    expect_move(&out, &tensor, move);
    assert_memory_equal(to, want, sizeof(to));
}

static void test_runs_are_read_and_written_at_strides(void **state)
{
    static const int32_t columns[ROOM] = {0, 2, 3, 0, 0, 5, 6, 0, 0, 8, 9, 0};
    static const int32_t nothing[ROOM] = {0};

    (void)state;
    check_move(
        &(struct move){.rows = 3, .count = 2, .from = 1, .from_stride = 3, .to = 1, .to_stride = 4},
        columns);
    check_move(&(struct move){.rows = 0, .count = 2}, nothing);
}

static void test_a_block_lands_at_its_number(void **state)
{
    int32_t from[ROOM] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    int32_t to[ROOM] = {0};
    static const int32_t want[ROOM] = {0, 0, 0, 0, 9, 10, 11, 12};
    struct tensor tensor = {&spec, from};
    struct expected out = {.spec = &spec, .scalars = ROOM, .valid = ROOM, .exact = true};

    (void)state;
    out.bytes = to;
    expect_block(&out, 1, &tensor, 2, 4);
    assert_memory_equal(to, want, sizeof(to));
}

static void check_root(const char *task, const char *name, int64_t root)
{
    struct run_choice choice = {.world = 4, .dtype = DTYPE_BF16};
    struct error err = {0};
    struct run *run = NULL;

    while (strcmp(task_case_name(task_find(task), choice.case_index), name) != 0) {
        choice.case_index++;
    }
    assert_int_equal(run_open(&run, task_find(task), &choice, &err), OK);
    assert_int_equal(run->dim[MOVED_ROOT], root);
    run_close(run);
}

static void test_the_root_is_the_last_rank_at_check_only(void **state)
{
    static const char *const names[] = {"broadcast", "scatter", "gather", "reduce"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        check_root(names[i], "check", 3);
        check_root(names[i], "check/root0", 0);
        check_root(names[i], "bench", 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_are_read_and_written_at_strides),
        cmocka_unit_test(test_a_block_lands_at_its_number),
        cmocka_unit_test(test_the_root_is_the_last_rank_at_check_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
