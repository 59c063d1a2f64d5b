#include "common/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_an_error_keeps_status_and_message(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(error_set(&err, ERR_NOT_FOUND, "no job %d", 17), ERR_NOT_FOUND);
    assert_int_equal(err.status, ERR_NOT_FOUND);
    assert_string_equal(err.message, "no job 17");
    assert_string_equal(err.field, "");
}

static void test_an_error_names_the_field(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(error_field(&err, ERR_INVALID, "world", "must be %d", 4), ERR_INVALID);
    assert_string_equal(err.field, "world");
    assert_string_equal(err.message, "must be 4");
    error_set(&err, ERR_IO, "gone");
    assert_string_equal(err.field, "");
}

static void test_a_long_message_and_field_are_cut(void **state)
{
    struct error err = {0};
    char text[2 * ERROR_MESSAGE_MAX];

    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    error_field(&err, ERR_INVALID, text, "%s", text);
    assert_int_equal(strlen(err.message), ERROR_MESSAGE_MAX - 1);
    assert_int_equal(strlen(err.field), ERROR_FIELD_MAX - 1);
}

static void test_an_error_can_be_made_of_itself(void **state)
{
    struct error err = {0};

    (void)state;
    error_field(&err, ERR_INVALID, "a", "inner");
    error_field(&err, ERR_PROTOCOL, err.field, "outer: %s", err.message);
    assert_string_equal(err.message, "outer: inner");
    assert_string_equal(err.field, "a");
}

static void test_each_status_has_its_own_name(void **state)
{
    (void)state;
    for (enum status a = OK; a <= ERR_INTERNAL; a++) {
        assert_true(strlen(status_name(a)) > 0);
        for (enum status b = OK; b < a; b++) {
            assert_string_not_equal(status_name(a), status_name(b));
        }
    }
    assert_string_equal(status_name(ERR_NOT_FOUND), "not_found");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_keeps_status_and_message),
        cmocka_unit_test(test_an_error_names_the_field),
        cmocka_unit_test(test_a_long_message_and_field_are_cut),
        cmocka_unit_test(test_an_error_can_be_made_of_itself),
        cmocka_unit_test(test_each_status_has_its_own_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
