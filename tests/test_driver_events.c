/* The driver's events of errors, through a pkb-judge that finds a library of the test's. */
#include "worker/driver_events.h"

#include "worker/loop.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char bin[PATH_MAX], driver[PATH_MAX];
static struct sandbox_node node;
static struct xid found[4];
static int found_count, lost_count;

static int set_up(void **state)
{
    const char *build = getenv("BUILD") == NULL ? "build" : getenv("BUILD");

    (void)state;
    (void)snprintf(bin, sizeof bin, "%s/bin", build);
    (void)snprintf(driver, sizeof driver, "%s/tests/driver", build);
    node = (struct sandbox_node){.bin_dir = bin, .cuda_home = getenv("CUDA_HOME")};
    if (node.cuda_home == NULL) {
        node.cuda_home = "/usr/local/cuda";
    }
    char *path = realpath(driver, NULL);
    int status = path == NULL ? -1 : setenv("LD_LIBRARY_PATH", path, 1);
    free(path);
    return status;
}

static void on_found(void *context, const struct xid *xid)
{
    (void)context;
    assert_in_range(found_count, 0, 3);
    found[found_count++] = *xid;
}

static void on_lost(void *context)
{
    (void)context;
    lost_count++;
    loop_stop();
}

static void test_an_error_is_told_with_its_gpu_until_the_driver_ends(void **state)
{
    struct driver_events_options options = {.node = &node, .found = on_found, .lost = on_lost};
    struct driver_events *events = NULL;
    struct error err = {0};

    (void)state;
    if (driver_events_open(&events, &options, &err) != OK) {
        fail_msg("%s", err.message);
    }
    loop_run();
    assert_int_equal(lost_count, 1);
    assert_int_equal(found_count, 1);
    assert_int_equal(found[0].number, 79);
    assert_int_equal(found[0].gpu.bus, 0x1b);
    driver_events_close(events);
    driver_events_close(NULL);
}

static void test_what_the_driver_lacks_is_named(void **state)
{
    struct driver_events_options options = {.node = &node, .found = on_found, .lost = on_lost};
    struct driver_events *events = NULL;
    struct error err = {0};
    char sim[PATH_MAX + 16];

    (void)state;
    /* A libcuda.so.1 alone. */
    (void)snprintf(sim, sizeof sim, "%s/../../lib/sim", getenv("LD_LIBRARY_PATH"));
    assert_int_equal(setenv("LD_LIBRARY_PATH", sim, 1), 0);
    assert_int_equal(driver_events_open(&events, &options, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.message, "NVIDIA's driver has no libnvidia-ml.so.1 here");
    node.bin_dir = "/nonexistent";
    assert_int_equal(driver_events_open(&events, &options, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "/nonexistent/pkb-judge"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_is_told_with_its_gpu_until_the_driver_ends),
        cmocka_unit_test(test_what_the_driver_lacks_is_named),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
