#include "common/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_a_new_buffer_holds_nothing(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    assert_null(buffer.data);
    buffer_release(&buffer);
}

static void test_what_is_appended_follows_and_ends_with_zero(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    buffer_append(&buffer, "one", 3);
    buffer_append(&buffer, " two", 4);
    assert_int_equal(buffer.size_bytes, 7);
    assert_string_equal(buffer.data, "one two");
    buffer_append(&buffer, NULL, 0);
    assert_string_equal(buffer.data, "one two");
    buffer_release(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.size_bytes, 0);
}

static void test_a_buffer_holds_zero_bytes(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    buffer_append(&buffer, "a\0b", 3);
    assert_int_equal(buffer.size_bytes, 3);
    assert_memory_equal(buffer.data, "a\0b", 4);
    buffer_release(&buffer);
}

static void test_printing_grows_the_buffer(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        buffer_printf(&buffer, "%03d ", i);
    }
    assert_int_equal(buffer.size_bytes, 4000);
    assert_memory_equal(buffer.data + 3996, "999 ", 5);
    buffer_release(&buffer);
}

static void test_reserved_room_is_filled_by_the_caller(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    char *room = buffer_reserve(&buffer, 100);
    assert_int_equal(buffer.size_bytes, 0);
    assert_string_equal(buffer.data, "");
    memset(room, 'x', 100);
    buffer.size_bytes += 100;
    buffer_append(&buffer, "y", 1);
    assert_int_equal(buffer.data[99], 'x');
    assert_string_equal(buffer.data + 100, "y");
    buffer_release(&buffer);
}

static void test_what_is_consumed_goes_from_the_front(void **state)
{
    struct buffer buffer = {0};

    (void)state;
    buffer_consume(&buffer, 0);
    buffer_append(&buffer, "abcdef", 6);
    buffer_consume(&buffer, 2);
    assert_string_equal(buffer.data, "cdef");
    buffer_consume(&buffer, 4);
    assert_string_equal(buffer.data, "");
    assert_int_equal(buffer.size_bytes, 0);
    buffer_release(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_buffer_holds_nothing),
        cmocka_unit_test(test_what_is_appended_follows_and_ends_with_zero),
        cmocka_unit_test(test_a_buffer_holds_zero_bytes),
        cmocka_unit_test(test_printing_grows_the_buffer),
        cmocka_unit_test(test_reserved_room_is_filled_by_the_caller),
        cmocka_unit_test(test_what_is_consumed_goes_from_the_front),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
