#include "worker/collect.h"

#include <errno.h>
#include <fcntl.h>
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

enum { BYTES_MAX = 4096 };

static char root[] = P_tmpdir "/pkb-test-collect-XXXXXX";
static int directory = -1;

static void write_file(const char *name, size_t size_bytes)
{
    static const char bytes[BYTES_MAX + 1] = "plain";
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size_bytes), size_bytes);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    directory = mkdtemp(root) == NULL ? -1 : open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return directory < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"plain", "large", "link", "pipe", "first", "second"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)unlinkat(directory, names[i], 0);
    }
    (void)unlinkat(directory, "folder", AT_REMOVEDIR);
    close(directory);
    return rmdir(root);
}

static enum status collect(const char *name)
{
    struct error err = {0};
    int fd = -1;
    enum status status = collect_file(directory, name, BYTES_MAX, &fd, &err);

    assert_int_equal(fd, -1);
    return status;
}

static void test_a_plain_file_is_copied_and_cannot_be_changed(void **state)
{
    struct error err = {0};
    char text[8] = "";
    char path[64];
    int fd = -1;

    (void)state;
    write_file("plain", 5);
    assert_int_equal(collect_file(directory, "plain", 5, &fd, &err), OK);
    assert_int_equal(read(fd, text, sizeof text), 5);
    assert_string_equal(text, "plain");
    assert_int_equal(write(fd, "x", 1), -1);
    /* Not by a new way to it, either. */
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, O_RDWR | O_CLOEXEC);
    assert_true(other < 0 || write(other, "x", 1) == -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    if (other >= 0) {
        close(other);
    }
    close(fd);
}

static void test_what_is_no_plain_file_of_the_directory_is_refused(void **state)
{
    (void)state;
    assert_int_equal(symlinkat("/etc/passwd", directory, "link"), 0);
    assert_int_equal(collect("link"), ERR_INVALID);
    assert_int_equal(mkfifoat(directory, "pipe", 0600), 0);
    assert_int_equal(collect("pipe"), ERR_INVALID); /* and nobody waits for a writer */
    assert_int_equal(mkdirat(directory, "folder", 0700), 0);
    assert_int_equal(collect("folder"), ERR_INVALID);
    write_file("first", 5);
    assert_int_equal(linkat(directory, "first", directory, "second", 0), 0);
    assert_int_equal(collect("second"), ERR_INVALID);
    assert_int_equal(collect("../../etc/passwd"), ERR_INVALID);
    assert_int_equal(collect("/etc/passwd"), ERR_INVALID);
}

static void test_a_file_that_is_missing_or_too_large_is_named_so(void **state)
{
    (void)state;
    assert_int_equal(collect("none"), ERR_NOT_FOUND);
    write_file("large", BYTES_MAX + 1);
    assert_int_equal(collect("large"), ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_file_is_copied_and_cannot_be_changed),
        cmocka_unit_test(test_what_is_no_plain_file_of_the_directory_is_refused),
        cmocka_unit_test(test_a_file_that_is_missing_or_too_large_is_named_so),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
