/* What pkb-worker makes of pkb-judge's answer about the GPUs; a script stands in for pkb-judge. */
#include "worker/devices.h"

#include "worker/driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/test_devices.XXXXXX";
static char judge[96];
static struct sandbox_node node;

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(judge, sizeof judge, "%s/pkb-judge", folder);
    node = (struct sandbox_node){.bin_dir = folder, .cuda_home = "/usr/local/cuda"};
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(judge);
    return rmdir(folder);
}

static void pretend(const char *script)
{
    FILE *file = fopen(judge, "w");

    assert_non_null(file);
    assert_true(fprintf(file, "#!/bin/sh\n%s\n", script) > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(judge, 0700), 0);
}

static void test_the_count_is_what_pkb_judge_says(void **state)
{
    struct error err = {0};
    int count = 0;

    (void)state;
    pretend("[ \"$1\" = --devices ] && [ \"$2\" = cuda ] && echo 3");
    assert_int_equal(devices_count(&node, DEVICE_CUDA, &count, &err), OK);
    assert_int_equal(count, 3);
}

static void test_shared_gpus_are_enough_for_any_world(void **state)
{
    struct error err = {0};
    int count = 0;

    (void)state;
    pretend("echo 1");
    assert_int_equal(devices_count(&node, DEVICE_CUDA_SHARED, &count, &err), OK);
    assert_int_equal(count, WORLD_MAX);
    assert_int_equal(devices_suffice(DEVICE_CUDA_SHARED, count, 8, &err), OK);
}

static void test_the_simulator_asks_nobody(void **state)
{
    struct error err = {0};
    int count = 0;

    (void)state;
    pretend("exit 1");
    assert_int_equal(devices_count(&node, DEVICE_SIM, &count, &err), OK);
    assert_int_equal(count, WORLD_MAX);
}

static void refused(const char *script, const char *part)
{
    struct error err = {0};
    int count = 77;

    pretend(script);
    assert_int_equal(devices_count(&node, DEVICE_CUDA, &count, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.field, "device");
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' lacks '%s'", err.message, part);
    }
    assert_int_equal(count, 77);
}

static void test_what_is_missing_is_named(void **state)
{
    (void)state;
    refused("echo 'pkb-judge: GPU 0 is in use' >&2; exit 1", "no GPU can be used: GPU 0 is in use");
    refused("echo 'error while loading shared libraries: libcuda.so.1' >&2; exit 127",
            "libcuda.so.1");
    refused("kill -9 $$", "without a word");
    refused("echo 0", "no GPU can be used");
    refused("echo many", "many");
    refused("yes | head -c 100000", "no GPU can be used");
}

static void test_a_judge_that_is_not_there_is_named(void **state)
{
    struct error err = {0};
    int count = 0;

    (void)state;
    (void)unlink(judge);
    assert_int_equal(devices_count(&node, DEVICE_CUDA, &count, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "pkb-judge"));
}

static void test_each_rank_of_cuda_needs_a_gpu(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(devices_suffice(DEVICE_CUDA, 4, 4, &err), OK);
    assert_int_equal(devices_suffice(DEVICE_CUDA, 1, 2, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "2 ranks need a GPU each, and this node has 1"));
}

static void test_the_driver_is_where_the_loader_would_find_it(void **state)
{
    char library[96];
    char paths[160];

    (void)state;
    (void)snprintf(library, sizeof library, "%s/libcuda.so.1", folder);
    (void)snprintf(paths, sizeof paths, "relative::/nonexistent:%s", folder);
    assert_int_equal(symlink("/dev/null", library), 0);
    assert_int_equal(setenv("LD_LIBRARY_PATH", paths, 1), 0);
    assert_string_equal(driver_directory(), folder);
    assert_int_equal(unlink(library), 0);
    const char *other = driver_directory();
    assert_true(other == NULL || strcmp(other, folder) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_count_is_what_pkb_judge_says),
        cmocka_unit_test(test_shared_gpus_are_enough_for_any_world),
        cmocka_unit_test(test_the_simulator_asks_nobody),
        cmocka_unit_test(test_what_is_missing_is_named),
        cmocka_unit_test(test_a_judge_that_is_not_there_is_named),
        cmocka_unit_test(test_the_driver_is_where_the_loader_would_find_it),
        cmocka_unit_test(test_each_rank_of_cuda_needs_a_gpu),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
