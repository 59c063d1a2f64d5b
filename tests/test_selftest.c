/* Each layer of the sandbox is proved, and named when it is not there. */
#include "worker/selftest.h"

#include "tests/node.h"
#include "worker/loop.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = P_tmpdir "/pkb-test-selftest-XXXXXX";
static char script[128];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL || chmod(directory, 0755) != 0) {
        return -1;
    }
    (void)snprintf(script, sizeof script, "%s/bwrap", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(script);
    return rmdir(directory); /* fails where something was left */
}

/* bubblewrap, but without the options that match, and the `values` after each. */
static void write_bwrap(const char *pattern, int values)
{
    FILE *file = fopen(script, "we");

    assert_non_null(file);
    (void)fprintf(file,
                  "#!/bin/sh\ncount=$#\nwhile [ $count -gt 0 ]; do\n"
                  "word=$1; shift; count=$((count - 1))\ncase $word in\n"
                  "%s) shift %d; count=$((count - %d));;\n"
                  "--) set -- \"$@\" --\nwhile [ $count -gt 0 ]; do\n"
                  "word=$1; shift; set -- \"$@\" \"$word\"; count=$((count - 1))\ndone;;\n"
                  "*) set -- \"$@\" \"$word\";;\nesac\ndone\nexec /usr/bin/bwrap \"$@\"\n",
                  pattern, values, values);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(script, 0755), 0);
}

static struct sandbox_node node_with_script(void)
{
    struct sandbox_node node = *test_node();

    node.bwrap = script;
    node.work_dir = directory;
    return node;
}

static void test_every_layer_of_the_list_is_here(void **state)
{
    struct sandbox_node node = *test_node();
    struct error err = {0};
    char word[64];
    unsigned listed = 0;
    FILE *list = fopen("tests/attacks/layers.txt", "re");

    (void)state;
    assert_non_null(list);
    while (fscanf(list, "%63s", word) == 1) {
        int layer = layer_find(word, strlen(word));
        assert_true(layer >= 0);
        listed |= 1U << layer;
    }
    (void)fclose(list);
    node.work_dir = directory;
    /* A machine may lack what its list does not have, and nothing else. */
    assert_int_equal(node.waived & listed, 0);
    enum status status = selftest_run(&node, &err);
    if (status != OK) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, OK);
}

static const struct {
    const char *pattern;
    int values;
    const char *message;
} cases[] = {
    {"--unshare-net", 0, "net: in the sandbox of"},
    {"--unshare-ipc", 0, "ipc: in the sandbox of"},
    {"--unshare-pid|--as-pid-1", 0, "pid: in the sandbox of"},
    {"--disable-userns", 0, "userns: in the sandbox of"},
    {"--remount-ro", 1, "mount: in the sandbox of"},
    {"--seccomp", 1, "seccomp: the sandbox of build does not start: pkb-init: no filter"},
    {"--tmpfs", 1, "namespaces: the sandbox of build does not start: bwrap: "},
};

static void test_a_layer_that_is_missing_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sandbox_node node = node_with_script();
        struct error err = {0};
        write_bwrap(cases[i].pattern, cases[i].values);
        assert_int_equal(selftest_run(&node, &err), ERR_UNAVAILABLE);
        if (strstr(err.message, cases[i].message) == NULL) {
            print_error("%s: %s\n", cases[i].pattern, err.message);
        }
        assert_non_null(strstr(err.message, cases[i].message));
    }
}

static void test_a_layer_that_is_waived_may_be_missing(void **state)
{
    struct sandbox_node node = node_with_script();
    struct error err = {0};

    (void)state;
    write_bwrap("--unshare-net", 0);
    node.waived |= 1U << LAYER_NET;
    assert_int_equal(selftest_run(&node, &err), OK);
}

static void test_a_node_without_bubblewrap_says_so(void **state)
{
    struct sandbox_node node = *test_node();
    struct error err = {0};

    (void)state;
    node.work_dir = directory;
    node.bwrap = "/nonexistent/bwrap";
    assert_int_equal(selftest_run(&node, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "namespaces: "));
    assert_non_null(strstr(err.message, "cannot start '/nonexistent/bwrap'"));
}

/* In a child, before anything of this process has looked. */
static void test_a_machine_without_cgroups_is_refused(void **state)
{
    int wait_status = 0;

    (void)state;
    if (geteuid() != 0) {
        skip(); /* layer cgroup: only root can have it */
    }
    pid_t child = fork();
    if (child == 0) {
        struct error err = {0};
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            umount2("/sys/fs/cgroup", MNT_DETACH) != 0) {
            _exit(2);
        }
        _exit(cgroup_prepare(&err) == ERR_UNAVAILABLE && strstr(err.message, "cgroup") != NULL ? 0
                                                                                               : 1);
    }
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    assert_int_equal(wait_status, 0);
}

static void test_the_names_of_layers_are_read(void **state)
{
    struct error err = {0};
    unsigned layers = 0;

    (void)state;
    assert_int_equal(layers_read(&layers, "uid,net", &err), OK);
    assert_int_equal(layers, 1U << LAYER_UID | 1U << LAYER_NET);
    assert_int_equal(layers_read(&layers, "uid,", &err), ERR_INVALID);
    assert_int_equal(layers_read(&layers, "all", &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "'all' is no layer"));
    assert_non_null(strstr(err.message, layer_name(LAYER_COLLECTOR)));
    layers = 0;
    assert_int_equal(layers_read(&layers, "namespaces", &err), OK);
    assert_true((layers >> LAYER_PID & 1) == 1);
}

static void on_terminated(void *context)
{
    *(bool *)context = true;
    loop_stop();
}

static void test_a_layer_that_is_lost_later_ends_the_worker_in_order(void **state)
{
    struct sandbox_node node = node_with_script();
    struct error err = {0};
    bool is_terminated = false;

    (void)state;
    write_bwrap("--unshare-net", 0);
    struct loop_signal *signal = loop_signal_open(SIGTERM, on_terminated, &is_terminated);
    struct selftest_watch *watch = selftest_watch_open(&node, 1);
    loop_run();
    assert_true(is_terminated);
    assert_int_equal(selftest_watch_close(watch, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "net: "));
    loop_signal_close(signal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_machine_without_cgroups_is_refused),
        cmocka_unit_test(test_every_layer_of_the_list_is_here),
        cmocka_unit_test(test_a_layer_that_is_missing_is_named),
        cmocka_unit_test(test_a_layer_that_is_waived_may_be_missing),
        cmocka_unit_test(test_a_node_without_bubblewrap_says_so),
        cmocka_unit_test(test_the_names_of_layers_are_read),
        cmocka_unit_test(test_a_layer_that_is_lost_later_ends_the_worker_in_order),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
