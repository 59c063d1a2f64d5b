#include "common/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Standard error leads into a pipe while the test runs. */
struct stream {
    int saved;
    int pipe[2];
    char text[2 * LOG_LINE_MAX];
};

static struct stream stream;

static int redirect(void **state)
{
    (void)state;
    stream.saved = dup(STDERR_FILENO);
    return stream.saved < 0 || pipe(stream.pipe) != 0 || dup2(stream.pipe[1], STDERR_FILENO) < 0;
}

static int restore(void **state)
{
    (void)state;
    log_set_level(LOG_INFO);
    dup2(stream.saved, STDERR_FILENO);
    close(stream.saved);
    close(stream.pipe[0]);
    close(stream.pipe[1]);
    return 0;
}

/* What was written; a mark of our own ends it, so that nothing is waited for in vain. */
static const char *written(void)
{
    assert_int_equal(write(STDERR_FILENO, "\f", 1), 1);
    ssize_t size_bytes = read(stream.pipe[0], stream.text, sizeof stream.text - 1);
    assert_true(size_bytes > 0);
    stream.text[size_bytes - 1] = 0;
    return stream.text;
}

static void test_an_event_is_one_line_with_time_level_and_pairs(void **state)
{
    int year = 0;
    char rest[LOG_LINE_MAX] = "";

    (void)state;
    log_event(LOG_INFO, "job.leased", "job=%d worker=%s", 17, "ada");
    assert_int_equal(
        sscanf(written(), "%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ %2047[^\f]", &year, rest), 2);
    assert_true(year >= 2024);
    assert_string_equal(rest, "info job.leased job=17 worker=ada\n");
}

static void test_an_event_without_pairs_ends_without_a_space(void **state)
{
    (void)state;
    log_event(LOG_WARN, "server.stopped", "%s", "");
    const char *line = written();
    assert_non_null(strstr(line, "Z warn server.stopped\n"));
}

static void test_what_a_client_sends_cannot_forge_a_line(void **state)
{
    (void)state;
    log_event(LOG_INFO, "task.refused", "task=%s", "a\n2026 error \x1b[31m\xff");
    const char *line = written();
    assert_non_null(strstr(line, "task=a\\x0a2026 error \\x1b[31m\\xff\n"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void test_a_long_line_is_cut(void **state)
{
    char text[2 * LOG_LINE_MAX];

    (void)state;
    memset(text, '\n', sizeof text - 1);
    text[sizeof text - 1] = 0;
    log_event(LOG_ERROR, "x.y", "%s", text);
    const char *line = written();
    assert_true(strlen(line) <= LOG_LINE_MAX);
    assert_true(strlen(line) > LOG_LINE_MAX / 2);
    assert_int_equal(line[strlen(line) - 1], '\n');
}

static void test_a_level_that_is_off_writes_nothing(void **state)
{
    (void)state;
    log_event(LOG_DEBUG, "a.b", "%s", "");
    assert_string_equal(written(), "");
    log_set_level(LOG_DEBUG);
    log_event(LOG_DEBUG, "a.b", "%s", "");
    assert_non_null(strstr(written(), " debug a.b\n"));
    log_set_level(LOG_ERROR);
    log_event(LOG_WARN, "a.b", "%s", "");
    assert_string_equal(written(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_event_is_one_line_with_time_level_and_pairs,
                                        redirect, restore),
        cmocka_unit_test_setup_teardown(test_an_event_without_pairs_ends_without_a_space, redirect,
                                        restore),
        cmocka_unit_test_setup_teardown(test_what_a_client_sends_cannot_forge_a_line, redirect,
                                        restore),
        cmocka_unit_test_setup_teardown(test_a_long_line_is_cut, redirect, restore),
        cmocka_unit_test_setup_teardown(test_a_level_that_is_off_writes_nothing, redirect, restore),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
