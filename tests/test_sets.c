/* Inputs of many calls made by many processes, and what becomes of their outputs. */
#include "worker/sets.h"

#include "tasks/expected.h"
#include "worker/crowd.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WORLD = 2, SETS = 5, MANY = 40, BATCH = 16, ITEMS = 100 };

struct fixture {
    struct run *run;
    struct layouts layouts;
    int alive;
};

static void count_life(void *context)
{
    ((struct fixture *)context)->alive++;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct run_choice choice = {.world = WORLD, .dtype = DTYPE_FP32};
    struct error err = {0};

    assert_int_equal(run_open(&fixture->run, task_find("allreduce"), &choice, &err), OK);
    layouts_make(&fixture->layouts, fixture->run);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    run_close(fixture->run);
    free(fixture);
    return 0;
}

static int64_t judge_ms = 60000;

static struct sets *open_sets(struct fixture *fixture, uint64_t seed, uint64_t memory_bytes)
{
    struct sets *sets = NULL;
    struct error err = {0};
    struct sets_options options = {.run = fixture->run,
                                   .layouts = &fixture->layouts,
                                   .seed = seed,
                                   .count = SETS,
                                   .kept_max = MANY,
                                   .memory_bytes = memory_bytes,
                                   .judge_ms = judge_ms,
                                   .alive = count_life,
                                   .context = fixture};

    assert_int_equal(sets_open(&sets, &options, &err), OK);
    return sets;
}

static bool are_equal(const struct fixture *fixture, const struct sets *one, int first,
                      const struct sets *other, int second)
{
    return memcmp(sets_inputs(one, first, 0), sets_inputs(other, second, 0),
                  fixture->layouts.inputs.slot_bytes) == 0;
}

static void test_each_set_is_another_and_the_same_seed_gives_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct sets *one = open_sets(fixture, 1, UINT64_MAX);
    struct sets *same = open_sets(fixture, 1, UINT64_MAX);
    struct sets *other = open_sets(fixture, 2, UINT64_MAX);

    assert_int_equal(sets_count(one), SETS);
    assert_true(are_equal(fixture, one, 3, same, 3));
    assert_false(are_equal(fixture, one, 3, one, 4));
    assert_false(are_equal(fixture, one, 3, other, 3));
    assert_true(fixture->alive > 0);
    sets_close(one);
    sets_close(same);
    sets_close(other);
}

static void test_there_are_fewer_sets_where_memory_is_short_but_one_at_least(void **state)
{
    struct fixture *fixture = *state;
    uint64_t set_bytes = fixture->layouts.inputs.slot_bytes * WORLD;
    struct sets *three = open_sets(fixture, 1, 3 * set_bytes);
    struct sets *one = open_sets(fixture, 1, 1);

    assert_int_equal(sets_count(three), 3);
    assert_int_equal(sets_count(one), 1);
    sets_close(three);
    sets_close(one);
}

/* Of `MANY` calls, the number of the first that is kept where there is room for `room`. */
static int first_kept(struct fixture *fixture, uint64_t seed, int room, int *kept)
{
    struct sets *sets =
        open_sets(fixture, seed, (uint64_t)room * fixture->layouts.outputs.slot_bytes * WORLD);
    int first = -1;

    for (int call = 0; call < MANY; call++) {
        if (sets_keep(sets, 0, 1) != NULL && first < 0) {
            first = call;
        }
    }
    *kept = sets_kept(sets);
    sets_close(sets);
    return first;
}

static void test_which_calls_are_kept_where_room_is_short_only_the_seed_tells(void **state)
{
    struct fixture *fixture = *state;
    int is_late = 0;
    int kept = 0;

    (void)first_kept(fixture, 1, MANY, &kept);
    assert_int_equal(kept, MANY);
    for (uint64_t seed = 0; seed < 8; seed++) {
        int first = first_kept(fixture, seed, 2, &kept);
        assert_int_equal(first, first_kept(fixture, seed, 2, &kept));
        assert_true(kept <= 2);
        is_late += first > 2;
    }
    assert_true(is_late > 0);
}

static void test_what_was_dropped_is_not_judged(void **state)
{
    struct fixture *fixture = *state;
    struct sets *sets = open_sets(fixture, 1, UINT64_MAX);
    struct verdict_detail detail = {0};
    struct error err = {0};
    int wrong = -1;

    assert_non_null(sets_keep(sets, 0, 0x55)); /* all poison: wrong */
    sets_drop(sets, 0);
    assert_int_equal(sets_kept(sets), 0);
    assert_int_equal(sets_judge(sets, &wrong, &detail, &err), OK);
    assert_int_equal(wrong, -1);
    sets_close(sets);
}

/* The oracle's own answer goes into the outputs of a call. */
static void answer(struct fixture *fixture, const struct sets *sets, int set, uint8_t *images)
{
    struct tensor in[WORLD][PLAN_TENSORS_MAX];
    struct tensor out[WORLD][PLAN_TENSORS_MAX];
    struct tensor *in_of[WORLD_MAX] = {0};
    struct tensor *out_of[WORLD_MAX] = {0};

    for (int rank = 0; rank < WORLD; rank++) {
        const struct plan *plan = run_plan(fixture->run, rank);
        layout_tensors(&fixture->layouts.inputs, plan->inputs,
                       (uint8_t *)sets_inputs(sets, set, rank), in[rank]);
        layout_tensors(&fixture->layouts.outputs, plan->outputs,
                       images + (uint64_t)rank * fixture->layouts.outputs.slot_bytes, out[rank]);
        in_of[rank] = in[rank];
        out_of[rank] = out[rank];
    }
    struct expectation *expectation = run_expect(fixture->run, in_of);
    expectation_answer(expectation, out_of);
    expectation_close(expectation);
}

static void test_right_outputs_are_right_and_the_first_wrong_call_is_named(void **state)
{
    struct fixture *fixture = *state;
    struct sets *sets = open_sets(fixture, 7, UINT64_MAX);
    struct verdict_detail detail = {0};
    struct error err = {0};
    uint8_t *images[SETS];
    int wrong = 0;

    for (int set = 0; set < SETS; set++) {
        images[set] = sets_keep(sets, set, 0x55);
        answer(fixture, sets, set, images[set]);
    }
    assert_int_equal(sets_kept(sets), SETS);
    assert_int_equal(sets_judge(sets, &wrong, &detail, &err), OK);
    assert_int_equal(wrong, -1);
    /* The answer to another call's inputs, on rank 1. */
    uint64_t slot_bytes = fixture->layouts.outputs.slot_bytes;
    memcpy(images[2] + slot_bytes, images[3] + slot_bytes, slot_bytes);
    assert_int_equal(sets_judge(sets, &wrong, &detail, &err), OK);
    assert_int_equal(wrong, 2);
    assert_int_equal(detail.rank, 1);
    /* Nothing was written. */
    memset(images[1], 0x55, 2 * slot_bytes);
    assert_int_equal(sets_judge(sets, &wrong, &detail, &err), OK);
    assert_int_equal(wrong, 1);
    assert_int_equal(detail.judgement, JUDGED_UNWRITTEN);
    sets_close(sets);
}

/* Of 40 calls with outputs that nobody wrote, and no time: 16 are judged, and not the first ones.
 */
static void test_without_time_some_calls_are_judged_that_the_seed_chooses(void **state)
{
    struct fixture *fixture = *state;
    int first[2] = {0};

    judge_ms = -1;
    for (uint64_t seed = 0; seed < 2; seed++) {
        struct sets *sets = open_sets(fixture, 3 + seed, UINT64_MAX);
        struct verdict_detail detail = {0};
        struct error err = {0};
        for (int i = 0; i < MANY; i++) {
            uint8_t *images = sets_keep(sets, i % SETS, 0x55);
            assert_non_null(images);
            memset(images, 0x55, 2 * fixture->layouts.outputs.slot_bytes);
        }
        assert_int_equal(sets_judge(sets, &first[seed], &detail, &err), OK);
        assert_true(first[seed] >= 0);
        assert_true(first[seed] <= MANY - BATCH);
        sets_close(sets);
    }
    judge_ms = 60000;
    assert_true(first[0] > 0 || first[1] > 0);
}

/* ---- crowd ---- */

static void square(void *context, size_t item)
{
    ((uint64_t *)context)[item] += item * item;
}

static void test_every_item_is_worked_on_once(void **state)
{
    void *memory = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(crowd_memory(&memory, ITEMS * sizeof(uint64_t), &err), OK);
    uint64_t *squares = memory;
    struct crowd_work work = {.items = ITEMS, .one = square, .context = squares};
    assert_int_equal(crowd_run(&work, &err), OK);
    for (uint64_t i = 0; i < ITEMS; i++) {
        assert_true(squares[i] == i * i);
    }
    work.items = 0;
    assert_int_equal(crowd_run(&work, &err), OK);
    crowd_forget(memory, ITEMS * sizeof(uint64_t));
}

static void die(void *context, size_t item)
{
    (void)context;
    if (item == ITEMS - 1) {
        (void)raise(SIGKILL);
    }
}

static void test_a_child_that_dies_is_an_error(void **state)
{
    struct crowd_work work = {.items = ITEMS, .one = die};
    struct error err = {0};

    (void)state;
    assert_int_equal(crowd_run(&work, &err), ERR_INTERNAL);
}

static void test_memory_that_there_is_not_is_refused(void **state)
{
    void *memory = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(crowd_memory(&memory, SIZE_MAX / 2, &err), ERR_LIMIT);
    assert_null(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_set_is_another_and_the_same_seed_gives_the_same,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_there_are_fewer_sets_where_memory_is_short_but_one_at_least, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_which_calls_are_kept_where_room_is_short_only_the_seed_tells, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_dropped_is_not_judged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_right_outputs_are_right_and_the_first_wrong_call_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_without_time_some_calls_are_judged_that_the_seed_chooses, set_up, tear_down),
        cmocka_unit_test(test_every_item_is_worked_on_once),
        cmocka_unit_test(test_a_child_that_dies_is_an_error),
        cmocka_unit_test(test_memory_that_there_is_not_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
