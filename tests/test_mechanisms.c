/* What is said of how a submission moves data. */
#include "worker/mechanisms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool has(const struct result *result, const char *mechanism)
{
    for (size_t i = 0; i < result->mechanism_count; i++) {
        if (strcmp(result->mechanisms[i], mechanism) == 0) {
            return true;
        }
    }
    return false;
}

static void test_instructions_and_functions_are_found_by_their_names(void **state)
{
    static const char library[] = "\x7f"
                                  "ELF\0cudaMemcpyAsync\0ncclAllReduce\0"
                                  "cp.async.bulk.tensor.2d.shared::cluster [%r1]\n"
                                  "multimem.ld_reduce.relaxed.sys.global.add.f32";
    struct result result = {.rank = -1};

    (void)state;
    mechanisms_scan(library, sizeof library, &result);
    assert_true(has(&result, "code:tensor"));
    assert_true(has(&result, "code:bulk"));
    assert_true(has(&result, "code:multimem"));
    assert_true(has(&result, "code:system_scope"));
    assert_true(has(&result, "calls:copy_engine"));
    assert_true(has(&result, "calls:nccl"));
    assert_false(has(&result, "calls:cublas"));
    assert_int_equal(result.mechanism_count, 6);
    result_release(&result);
}

static void test_a_name_inside_of_another_is_no_function(void **state)
{
    static const char library[] = "\0my_cudaMemcpy\0ncclGetErrorString\0cp.async.cg";
    struct result result = {.rank = -1};

    (void)state;
    mechanisms_scan(library, sizeof library, &result);
    assert_int_equal(result.mechanism_count, 0);
    result_release(&result);
}

static void test_only_what_went_between_ranks_was_moved(void **state)
{
    struct result result = {.rank = -1};

    (void)state;
    result_add_traffic(&result, &(struct traffic){0, 0, (char *)"sm_store", 100});
    result_add_traffic(&result, &(struct traffic){0, 1, (char *)"sm_load", 100});
    result_add_traffic(&result, &(struct traffic){1, 0, (char *)"sm_load", 100});
    mechanisms_note_traffic(&result);
    assert_int_equal(result.mechanism_count, 1);
    assert_true(has(&result, "moved:sm_load"));
    result_release(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instructions_and_functions_are_found_by_their_names),
        cmocka_unit_test(test_a_name_inside_of_another_is_no_function),
        cmocka_unit_test(test_only_what_went_between_ranks_was_moved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
