#include "worker/workplace.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char parent[] = P_tmpdir "/pkb-test-workplace-XXXXXX";

static int make_parent(void **state)
{
    (void)state;
    return mkdtemp(parent) == NULL;
}

static int remove_parent(void **state)
{
    char path[WORKPLACE_PATH_MAX];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/pkb-ada", parent);
    (void)rmdir(path);
    return rmdir(parent);
}

static void test_a_named_place_is_held_by_one_worker(void **state)
{
    struct workplace ada = {.lock = -1};
    struct workplace other = {.lock = -1};
    struct error err = {0};
    struct stat info = {0};

    (void)state;
    assert_int_equal(workplace_init(&ada, parent, "ada", &err), OK);
    assert_int_equal(stat(ada.path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0711);
    assert_int_equal(workplace_init(&other, parent, "ada", &err), ERR_CONFLICT);
    workplace_release(&ada);
    assert_int_equal(workplace_init(&other, parent, "ada", &err), OK);
    workplace_release(&other);
}

static void test_what_an_earlier_worker_left_is_removed(void **state)
{
    struct workplace ada = {.lock = -1};
    struct error err = {0};
    struct stat info = {0};
    char path[WORKPLACE_PATH_MAX + 16];

    (void)state;
    assert_int_equal(workplace_init(&ada, parent, "ada", &err), OK);
    (void)snprintf(path, sizeof path, "%s/job-1", ada.path);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/job-1/x", ada.path);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    workplace_release(&ada);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(workplace_init(&ada, parent, "ada", &err), OK);
    assert_int_equal(stat(path, &info), -1);
    workplace_release(&ada);
}

static void test_a_place_without_a_name_is_removed_with_all_in_it(void **state)
{
    struct workplace place = {.lock = -1};
    struct workplace second = {.lock = -1};
    struct error err = {0};
    struct stat info = {0};
    char path[WORKPLACE_PATH_MAX];
    char file[WORKPLACE_PATH_MAX + 16];

    (void)state;
    assert_int_equal(workplace_init(&place, parent, NULL, &err), OK);
    assert_int_equal(workplace_init(&second, parent, NULL, &err), OK);
    assert_string_not_equal(place.path, second.path);
    (void)snprintf(path, sizeof path, "%s", place.path);
    (void)snprintf(file, sizeof file, "%s/x", path);
    close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    workplace_release(&place);
    workplace_release(&second);
    assert_int_equal(stat(path, &info), -1);
}

static void test_a_place_that_cannot_be_made_is_an_error(void **state)
{
    struct workplace place = {.lock = -1};
    struct error err = {0};
    char name[WORKPLACE_PATH_MAX + 1];

    (void)state;
    assert_int_equal(workplace_init(&place, "/nonexistent", "ada", &err), ERR_IO);
    assert_int_equal(workplace_init(&place, "/nonexistent", NULL, &err), ERR_IO);
    memset(name, 'a', WORKPLACE_PATH_MAX);
    name[WORKPLACE_PATH_MAX] = 0;
    assert_int_equal(workplace_init(&place, parent, name, &err), ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_named_place_is_held_by_one_worker),
        cmocka_unit_test(test_what_an_earlier_worker_left_is_removed),
        cmocka_unit_test(test_a_place_without_a_name_is_removed_with_all_in_it),
        cmocka_unit_test(test_a_place_that_cannot_be_made_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_parent, remove_parent);
}
