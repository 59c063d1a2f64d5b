/* What times are worth: rooflines with known answers, baselines on disk, and both together. */
#include "worker/standing.h"

#include "common/mem.h"
#include "worker/baseline.h"

#include <glob.h>
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

static char folder[] = "/tmp/test_standing.XXXXXX";
static char kept[96];
static char rates_file[96];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(kept, sizeof kept, "%s/kept", folder);
    (void)snprintf(rates_file, sizeof rates_file, "%s/rates", folder);
    return 0;
}

/* Calls `act` for each file that baselines have left. */
static void for_each_kept(int (*act)(const char *path))
{
    glob_t found = {0};
    char *pattern = xasprintf("%s/*", kept);

    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            assert_int_equal(act(found.gl_pathv[i]), 0);
        }
    }
    globfree(&found);
    free(pattern);
}

static int spoil(const char *path)
{
    return truncate(path, 10);
}

static int remove_folder(void **state)
{
    (void)state;
    for_each_kept(unlink);
    (void)rmdir(kept);
    (void)unlink(rates_file);
    return rmdir(folder);
}

/* ---- roofline ---- */

static struct roofline *rooflines(const char *json)
{
    struct roofline *roofline = NULL;
    struct error err = {0};

    if (json != NULL) {
        FILE *file = fopen(rates_file, "w");
        assert_non_null(file);
        assert_true(fputs(json, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(roofline_open(&roofline, json == NULL ? NULL : rates_file, &err), OK);
    return roofline;
}

static void test_a_gpu_is_found_by_how_its_name_begins(void **state)
{
    struct roofline *roofline = rooflines(NULL);

    (void)state;
    assert_true(roofline_find(roofline, "NVIDIA H200")->memory == 4800e9);
    assert_true(roofline_find(roofline, "NVIDIA H200 NVL")->memory == 4800e9);
    assert_true(roofline_find(roofline, "NVIDIA A100-SXM4-80GB")->link == 300e9);
    assert_null(roofline_find(roofline, "NVIDIA H20"));
    assert_null(roofline_find(roofline, "Voodoo"));
    roofline_close(roofline);
}

static void test_a_node_may_have_other_rates(void **state)
{
    struct roofline *roofline = rooflines("{\"rates\":[{\"name\":\"NVIDIA H200\",\"link\":2.5e11,"
                                          "\"memory\":1,\"mma16\":2,\"mma32\":3,\"other\":4,"
                                          "\"cache\":5}]}");

    (void)state;
    assert_true(roofline_find(roofline, "NVIDIA H200")->link == 2.5e11);
    assert_true(roofline_find(roofline, "NVIDIA B200")->link == 900e9);
    roofline_close(roofline);
}

static void test_a_file_of_rates_that_is_wrong_is_refused(void **state)
{
    struct roofline *roofline = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(roofline_open(&roofline, "/nonexistent", &err), ERR_NOT_FOUND);
    roofline_close(rooflines("{\"rates\":[]}"));
    FILE *file = fopen(rates_file, "w");
    assert_non_null(file);
    assert_true(fputs("{\"rates\":[{\"name\":\"x\",\"link\":0}]}", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(roofline_open(&roofline, rates_file, &err), ERR_INVALID);
    assert_string_equal(err.field, "rates[0].link");
    assert_int_equal(truncate(rates_file, 65536), 0);
    assert_int_equal(roofline_open(&roofline, rates_file, &err), ERR_TOO_LARGE);
    assert_null(roofline);
}

/* Rates with which one byte or operation takes a microsecond times the power of ten. */
static const struct rates simple = {.name = "simple",
                                    .link = 1e6,
                                    .memory = 1e7,
                                    .mma16 = 1e8,
                                    .mma32 = 1e7,
                                    .other = 1e6,
                                    .cache = 100};

static void assert_times(const struct work *work, enum dtype dtype, double floor_us,
                         double target_us)
{
    struct least_times times = roofline_times(&simple, work, dtype);

    assert_float_equal(times.floor_us, floor_us, 1e-6);
    assert_float_equal(times.target_us, target_us, 1e-6);
}

static void test_the_target_is_the_slowest_of_links_memory_and_arithmetic(void **state)
{
    (void)state;
    assert_times(&(struct work){.nvlink_out = 5, .nvlink_in = 7}, DTYPE_BF16, 0, 7);
    assert_times(&(struct work){.nvlink_out = 5, .hbm_read = 40, .hbm_write = 60}, DTYPE_BF16, 0,
                 10);
    assert_times(&(struct work){.flops_mma = 1000}, DTYPE_BF16, 0, 10);
    assert_times(&(struct work){.flops_mma = 1000}, DTYPE_FP32, 0, 100);
    assert_times(&(struct work){.flops_other = 3}, DTYPE_BF16, 0, 3);
}

static void test_the_switch_counts_where_it_moves_less(void **state)
{
    (void)state;
    assert_times(&(struct work){.nvlink_out = 8, .nvls_out = 3, .nvls_in = 4}, DTYPE_BF16, 0, 4);
    assert_times(&(struct work){.nvlink_out = 2, .nvls_out = 3}, DTYPE_BF16, 0, 2);
}

static void test_the_floor_is_what_must_enter_and_memory_beyond_the_cache(void **state)
{
    (void)state;
    assert_times(&(struct work){.nvlink_in = 9, .floor_in = 4}, DTYPE_BF16, 4, 9);
    assert_times(&(struct work){.hbm_read = 300}, DTYPE_BF16, 20, 30);
}

/* ---- baselines ---- */

static struct result timed(double median_us, const char *driver)
{
    struct result result = {.rank = -1};

    result_add_timing(&result, (struct timing){.case_name = xstrdup("bench"),
                                               .variant = xstrdup("rounding"),
                                               .latency = {.median_us = median_us,
                                                           .low_us = median_us - 1,
                                                           .high_us = median_us + 1,
                                                           .iterations = 100}});
    result.gpu = xmalloc(sizeof *result.gpu);
    *result.gpu = (struct gpu){.name = xstrdup("NVIDIA H200"),
                               .uuid = xstrdup("GPU-1"),
                               .driver = xstrdup(driver),
                               .count = 4,
                               .sm_mhz = 1900};
    return result;
}

static struct baseline_key key_for(int world)
{
    return (struct baseline_key){.directory = kept,
                                 .task = task_find("allreduce"),
                                 .world = world,
                                 .dtype = DTYPE_BF16,
                                 .device = DEVICE_CUDA};
}

static enum status load(const struct baseline_key *key, const struct gpu *gpu, time_t now)
{
    struct result loaded = {.rank = -1};
    struct error err = {0};
    enum status status = baseline_load(key, gpu, now, &loaded, &err);

    result_release(&loaded);
    return status;
}

static void test_what_was_stored_is_found_for_a_day(void **state)
{
    struct baseline_key key = key_for(4);
    struct baseline_key other = key_for(2);
    struct result result = timed(20, "580");
    struct result loaded = {.rank = -1};
    struct error err = {0};
    time_t now = time(NULL) + 1;

    (void)state;
    assert_int_equal(load(&key, result.gpu, now), ERR_NOT_FOUND);
    assert_int_equal(baseline_store(&key, &result, &err), OK);
    assert_int_equal(baseline_load(&key, result.gpu, now, &loaded, &err), OK);
    assert_true(loaded.timings[0].latency.median_us == 20);
    result_release(&loaded);
    assert_int_equal(load(&other, result.gpu, now), ERR_NOT_FOUND);
    assert_int_equal(load(&key, result.gpu, now + BASELINE_AGE_MAX_S - 2), OK);
    assert_int_equal(load(&key, result.gpu, now + BASELINE_AGE_MAX_S + 2), ERR_NOT_FOUND);
    assert_int_equal(load(&key, result.gpu, now - 3600), ERR_NOT_FOUND);
    result_release(&result);
}

static void test_another_driver_gpu_or_clock_has_other_times(void **state)
{
    struct baseline_key key = key_for(4);
    struct result result = timed(20, "580");
    struct error err = {0};
    time_t now = time(NULL) + 1;

    (void)state;
    assert_int_equal(baseline_store(&key, &result, &err), OK);
    struct gpu gpu = *result.gpu;
    gpu.driver = (char *)"581";
    assert_int_equal(load(&key, &gpu, now), ERR_NOT_FOUND);
    gpu = *result.gpu;
    gpu.uuid = (char *)"GPU-2";
    assert_int_equal(load(&key, &gpu, now), ERR_NOT_FOUND);
    gpu = *result.gpu;
    gpu.nccl = (char *)"2.28.3";
    assert_int_equal(load(&key, &gpu, now), ERR_NOT_FOUND);
    gpu = *result.gpu;
    gpu.sm_mhz = 1700;
    assert_int_equal(load(&key, &gpu, now), ERR_NOT_FOUND);
    gpu.sm_mhz = 1850;
    assert_int_equal(load(&key, &gpu, now), OK);
    result_release(&result);
}

static void test_a_file_that_is_no_result_is_not_there(void **state)
{
    struct baseline_key key = key_for(1);
    struct result result = timed(20, "580");
    struct error err = {0};

    (void)state;
    assert_int_equal(baseline_store(&key, &result, &err), OK);
    for_each_kept(spoil);
    assert_int_equal(load(&key, result.gpu, time(NULL) + 1), ERR_NOT_FOUND);
    result_release(&result);
}

static void test_a_directory_that_others_write_to_is_refused(void **state)
{
    struct baseline_key key = key_for(4);
    struct result result = timed(20, "580");
    struct error err = {0};

    (void)state;
    assert_int_equal(chmod(kept, 0777), 0);
    assert_int_equal(baseline_store(&key, &result, &err), ERR_DENIED);
    assert_int_equal(chmod(kept, 0700), 0);
    key.directory = "/nonexistent/kept";
    assert_int_equal(baseline_store(&key, &result, &err), ERR_IO);
    result_release(&result);
}

/* ---- both ---- */

static void apply(struct result *result, const struct result *baseline)
{
    struct roofline *roofline = rooflines(NULL);
    struct standing standing = {.task = task_find("allreduce"),
                                .world = 4,
                                .dtype = DTYPE_BF16,
                                .roofline = roofline,
                                .baseline = baseline};

    standing_apply(&standing, result);
    roofline_close(roofline);
}

static void test_faster_needs_intervals_that_do_not_meet(void **state)
{
    struct result baseline = timed(20, "580");
    struct result fast = timed(10, "580");
    struct result near = timed(18.5, "580");

    (void)state;
    apply(&fast, &baseline);
    assert_true(fast.timings[0].speedup == 2);
    assert_true(fast.timings[0].is_faster);
    assert_true(fast.timings[0].baseline_low_us == 19);
    apply(&near, &baseline);
    assert_false(near.timings[0].is_faster);
    assert_int_equal(near.verdict, VERDICT_ACCEPTED);
    result_release(&baseline);
    result_release(&fast);
    result_release(&near);
}

/* 1024 x 1024 bf16 on 4 H200: 2 MiB have to go out and come in through the switch, at 450 GB/s. */
static void test_the_share_of_the_roofline_is_target_over_time(void **state)
{
    struct result result = timed(20, "580");

    (void)state;
    apply(&result, NULL);
    assert_float_equal(result.timings[0].target_us, 2097152 / 450e9 * 1e6, 1e-3);
    assert_float_equal(result.timings[0].target_percent, 23.302, 1e-2);
    assert_true(result.timings[0].floor_us > 0);
    assert_true(result.timings[0].floor_us < result.timings[0].target_us);
    assert_true(result.timings[0].speedup == 0);
    result_release(&result);
}

static void test_who_is_faster_than_the_floor_is_suspect(void **state)
{
    struct result result = timed(0.01, "580");

    (void)state;
    apply(&result, NULL);
    assert_int_equal(result.verdict, VERDICT_SUSPECT);
    assert_string_equal(result.reason, "floor");
    result_release(&result);
}

static void test_who_is_slow_at_nothing_is_suspect(void **state)
{
    struct result baseline = timed(20, "580");
    struct result result = timed(20, "580");

    (void)state;
    baseline.timings[0].calibration_us = 100;
    result.timings[0].calibration_us = 114;
    apply(&result, &baseline);
    assert_int_equal(result.verdict, VERDICT_ACCEPTED);
    result.timings[0].calibration_us = 116;
    apply(&result, &baseline);
    assert_int_equal(result.verdict, VERDICT_SUSPECT);
    assert_string_equal(result.reason, "calibration");
    result_release(&baseline);
    result_release(&result);
}

static void test_an_unknown_gpu_has_no_roofline(void **state)
{
    struct result result = timed(0.01, "580");

    (void)state;
    free(result.gpu->name);
    result.gpu->name = xstrdup("Voodoo");
    apply(&result, NULL);
    assert_int_equal(result.verdict, VERDICT_ACCEPTED);
    assert_true(result.timings[0].target_us == 0);
    result_release(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gpu_is_found_by_how_its_name_begins),
        cmocka_unit_test(test_a_node_may_have_other_rates),
        cmocka_unit_test(test_a_file_of_rates_that_is_wrong_is_refused),
        cmocka_unit_test(test_the_target_is_the_slowest_of_links_memory_and_arithmetic),
        cmocka_unit_test(test_the_switch_counts_where_it_moves_less),
        cmocka_unit_test(test_the_floor_is_what_must_enter_and_memory_beyond_the_cache),
        cmocka_unit_test(test_what_was_stored_is_found_for_a_day),
        cmocka_unit_test(test_another_driver_gpu_or_clock_has_other_times),
        cmocka_unit_test(test_a_file_that_is_no_result_is_not_there),
        cmocka_unit_test(test_a_directory_that_others_write_to_is_refused),
        cmocka_unit_test(test_faster_needs_intervals_that_do_not_meet),
        cmocka_unit_test(test_the_share_of_the_roofline_is_target_over_time),
        cmocka_unit_test(test_who_is_faster_than_the_floor_is_suspect),
        cmocka_unit_test(test_who_is_slow_at_nothing_is_suspect),
        cmocka_unit_test(test_an_unknown_gpu_has_no_roofline),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
