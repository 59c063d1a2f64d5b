/* Grouping by owner: stable, complete, and with groups that are empty. */
#include "tasks/oracle_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static void test_groups_follow_each_other_and_keep_their_order(void **state)
{
    static const int64_t owner[] = {2, 0, 3, 2, 0, 0, 3};
    static const int64_t grouped[] = {1, 4, 5, 0, 3, 2, 6}; /* owner 1 has none */
    int64_t order[7] = {0};

    (void)state;
    group_by_owner(owner, 7, 4, order);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(order[i], grouped[i]);
    }
}

static void test_one_owner_keeps_everything_as_it_is_and_nothing_stays_nothing(void **state)
{
    static const int64_t owner[] = {1, 1, 1};
    int64_t order[3] = {-1, -1, -1};

    (void)state;
    group_by_owner(owner, 0, 2, order);
    assert_int_equal(order[0], -1);
    group_by_owner(owner, 3, 2, order);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(order[i], i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_follow_each_other_and_keep_their_order),
        cmocka_unit_test(test_one_owner_keeps_everything_as_it_is_and_nothing_stays_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
