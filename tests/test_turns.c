#include "worker/turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int begun[3], order, told[2];

static void on_begin(void *context)
{
    *(int *)context = ++order;
}

static void on_rest(void *context, bool is_resting)
{
    *(int *)context += is_resting ? 1 : 10;
}

static int forget(void **state)
{
    (void)state;
    begun[0] = begun[1] = begun[2] = order = told[0] = told[1] = 0;
    return 0;
}

static void test_one_has_the_turn_and_the_next_begins_when_it_is_left(void **state)
{
    struct turn turns[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        turns[i] = (struct turn){.begin = on_begin, .context = &begun[i]};
        turns_ask(&turns[i]);
    }
    assert_int_equal(begun[0], 1);
    assert_int_equal(begun[1], 0);
    turns_leave(&turns[0]);
    assert_int_equal(begun[1], 2);
    assert_int_equal(begun[2], 0);
    turns_leave(&turns[1]);
    assert_int_equal(begun[2], 3);
    turns_leave(&turns[2]);
    turns_leave(&turns[2]); /* of one not asked for: nothing */
}

static void test_who_leaves_before_its_turn_is_passed_over(void **state)
{
    struct turn turns[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        turns[i] = (struct turn){.begin = on_begin, .context = &begun[i]};
        turns_ask(&turns[i]);
    }
    turns_leave(&turns[1]);
    assert_int_equal(order, 1);
    turns_leave(&turns[0]);
    assert_int_equal(begun[1], 0);
    assert_int_equal(begun[2], 2);
    turns_leave(&turns[2]);
}

static void test_what_is_beside_rests_while_the_node_is_alone(void **state)
{
    struct turn turn = {.begin = on_begin, .context = &begun[0]};
    struct beside one = {.rest = on_rest, .context = &told[0]};
    struct beside other = {.rest = on_rest, .context = &told[1]};

    (void)state;
    turns_stand_beside(&one);
    assert_int_equal(told[0], 0);
    turns_ask(&turn);
    turns_set_alone(true);
    turns_set_alone(true); /* told once */
    assert_int_equal(told[0], 1);
    turns_stand_beside(&other); /* comes into it */
    assert_int_equal(told[1], 1);
    turns_set_alone(false);
    assert_int_equal(told[0], 11);
    assert_int_equal(told[1], 11);
    turns_go(&other);
    turns_set_alone(true);
    assert_int_equal(told[1], 11);
    turns_leave(&turn); /* ends it, too */
    assert_int_equal(told[0], 22);
    turns_go(&one);
    turns_go(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_has_the_turn_and_the_next_begins_when_it_is_left, forget),
        cmocka_unit_test_setup(test_who_leaves_before_its_turn_is_passed_over, forget),
        cmocka_unit_test_setup(test_what_is_beside_rests_while_the_node_is_alone, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
