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
    struct devices devices = {0};

    (void)state;
    pretend("[ \"$1\" = --devices ] && [ \"$2\" = cuda ] && echo 3");
    assert_int_equal(devices_look(&node, DEVICE_CUDA, &devices, &err), OK);
    assert_int_equal(devices.ranks, 3);
    assert_int_equal(devices.gpu_count, 0);
    assert_string_equal(devices.driver, "");
}

static void test_shared_gpus_are_enough_for_any_world(void **state)
{
    struct error err = {0};
    struct devices devices = {0};

    (void)state;
    pretend("echo 1");
    assert_int_equal(devices_look(&node, DEVICE_CUDA_SHARED, &devices, &err), OK);
    assert_int_equal(devices.ranks, WORLD_MAX);
    assert_int_equal(devices_suffice(DEVICE_CUDA_SHARED, devices.ranks, 8, &err), OK);
}

static void test_the_simulator_asks_nobody(void **state)
{
    struct error err = {0};
    struct devices devices = {0};

    (void)state;
    pretend("exit 1");
    assert_int_equal(devices_look(&node, DEVICE_SIM, &devices, &err), OK);
    assert_int_equal(devices.ranks, WORLD_MAX);
}

static void refused(const char *script, const char *part)
{
    struct error err = {0};
    struct devices devices = {0};

    pretend(script);
    assert_int_equal(devices_look(&node, DEVICE_CUDA, &devices, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.field, "device");
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' lacks '%s'", err.message, part);
    }
    assert_int_equal(devices.ranks, 0);
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
    struct devices devices = {0};

    (void)state;
    (void)unlink(judge);
    assert_int_equal(devices_look(&node, DEVICE_CUDA, &devices, &err), ERR_UNAVAILABLE);
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

static void test_each_gpu_is_described(void **state)
{
    struct error err = {0};
    struct devices devices = {0};

    (void)state;
    pretend("echo 'driver 580.159.04 13010'; echo 'gpu 0000:1b:00.0 1048576 GPU-a b';"
            "echo 'gpu 0001:2c:1f -1 '; echo 2");
    assert_int_equal(devices_look(&node, DEVICE_CUDA, &devices, &err), OK);
    assert_int_equal(devices.ranks, 2);
    assert_int_equal(devices.gpu_count, 2);
    assert_int_equal(devices.gpu[0].pci.bus, 0x1b);
    assert_int_equal(devices.gpu[0].used_bytes, 1048576);
    assert_string_equal(devices.gpu[0].uuid, "GPU-a b");
    assert_int_equal(devices.gpu[1].used_bytes, -1);
    assert_string_equal(devices.gpu[1].uuid, "");
    assert_string_equal(devices.driver, "580.159.04");
    assert_int_equal(devices.cuda, 13010);
    pretend("echo 'driver - 0'; echo 'pkb-judge: GPU 0 is in use' >&2; exit 1");
    assert_int_equal(devices_look(&node, DEVICE_CUDA, &devices, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.message, "no GPU can be used: GPU 0 is in use");
    assert_string_equal(devices.driver, "");
}

static void differs(const struct devices *first, const struct devices *now, const char *part)
{
    struct error err = {0};

    assert_int_equal(devices_compare(first, now, &err), ERR_UNAVAILABLE);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' lacks '%s'", err.message, part);
    }
}

static void test_what_has_changed_about_the_gpus_is_named(void **state)
{
    struct devices first = {.ranks = 1, .gpu_count = 1, .gpu = {{.uuid = "GPU-a"}}};
    struct devices now = first;
    struct error err = {0};

    (void)state;
    first.gpu[0].used_bytes = INT64_C(500) << 20;
    now.gpu[0].used_bytes = INT64_C(756) << 20;
    assert_int_equal(devices_compare(&first, &now, &err), OK);
    now.gpu[0].used_bytes = (INT64_C(756) << 20) + 1;
    differs(&first, &now, "256 MiB more of GPU 0's memory");
    now.gpu[0].used_bytes = -1;
    assert_int_equal(devices_compare(&first, &now, &err), OK);
    (void)snprintf(now.gpu[0].uuid, sizeof now.gpu[0].uuid, "GPU-b");
    differs(&first, &now, "GPU 0 was GPU-a, and now it is GPU-b");
    now.gpu_count = 0;
    differs(&first, &now, "there were 1 GPUs, and now there are 0");
}

static void demand(const char *found, const char *needed, const char *message)
{
    struct error err = {0};

    assert_int_equal(driver_demand("driver", found, needed, &err),
                     message == NULL ? OK : ERR_UNAVAILABLE);
    assert_string_equal(err.message, message == NULL ? "" : message);
}

static void test_a_driver_that_is_too_old_is_named_with_what_is_needed(void **state)
{
    (void)state;
    demand("580.65.06", "580.65.06", NULL);
    demand("580.159.04", "580.65.06", NULL);
    demand("590.1", "580.65.06", NULL);
    demand("580.65.06", "580", NULL);
    demand("13.0", "13.0", NULL);
    demand("580.65.05", "580.65.06",
           "this node's driver is 580.65.05, and 580.65.06 is needed or newer");
    demand("470.256.02", "580", "this node's driver is 470.256.02, and 580 is needed or newer");
    demand("", "580", "which driver this node has is not known, and 580 is needed or newer");
    demand("unknown", "580", "which driver this node has is not known, and 580 is needed or newer");
    assert_false(driver_is_version("580."));
    assert_false(driver_is_version(".580"));
    assert_false(driver_is_version("5..8"));
    assert_false(driver_is_version("580-open"));
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
        cmocka_unit_test(test_each_gpu_is_described),
        cmocka_unit_test(test_what_has_changed_about_the_gpus_is_named),
        cmocka_unit_test(test_a_driver_that_is_too_old_is_named_with_what_is_needed),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
