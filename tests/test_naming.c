#include "worker/naming.h"

#include "common/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* What becomes of an address in a run of the all-reduce, whose tensors start at byte 4096. */
static void becomes(const char *address, const char *named)
{
    struct result result = {
        .rank = -1, .case_name = xstrdup("check"), .variant = xstrdup("rounding")};

    result_add_wait(&result, (struct wait){.address = xstrdup(address)});
    result_add_fault(&result, (struct fault){.address = xstrdup(address)});
    naming_apply(&result, task_find("allreduce"), 2, DTYPE_BF16);
    assert_string_equal(result.waits[0].address, named);
    assert_string_equal(result.faults[0].address, named);
    result_release(&result);
}

static void test_offsets_in_a_window_become_tensors(void **state)
{
    (void)state;
    becomes("rank 1 inputs+4096", "rank 1 input x+0 (slot 0)");
    becomes("rank 0 outputs+4100", "rank 0 output y+4 (slot 0)");
    /* 37 * 129 * 2 bytes end at 9546. */
    becomes("rank 0 outputs+13642", "rank 0 output y+9546, past its end (slot 0)");
    /* A slot has 4096 + 9728 + 4096 bytes. */
    becomes("rank 1 inputs+22018", "rank 1 input x+2 (slot 1)");
}

static void test_other_addresses_stay(void **state)
{
    static const char *const others[] = {
        "rank 1 inputs+100",
        "rank 1 signal+64",
        "rank 2 inputs+4096",
        "rank 1 inputs+9999999",
        "rank 1 inputs+4096!",
        "private 0x300000000000+16",
        "null+8",
        "barrier 0",
        "",
    };

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        becomes(others[i], others[i]);
    }
}

static void test_a_result_without_a_run_is_left_alone(void **state)
{
    struct result result = {.rank = -1, .case_name = xstrdup("nothing")};

    (void)state;
    result_add_wait(&result, (struct wait){.address = xstrdup("rank 1 inputs+4096")});
    result_add_wait(&result, (struct wait){.where = xstrdup("pkb_host_barrier")});
    naming_apply(&result, task_find("allreduce"), 2, DTYPE_BF16);
    assert_string_equal(result.waits[0].address, "rank 1 inputs+4096");
    result_release(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offsets_in_a_window_become_tensors),
        cmocka_unit_test(test_other_addresses_stay),
        cmocka_unit_test(test_a_result_without_a_run_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
