#include "common/problem.h"

#include "common/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void test_an_error_survives_as_a_problem(void **state)
{
    struct buffer json = {0};
    struct error sent = {0};
    struct error received = {0};
    struct error err = {0};

    (void)state;
    for (enum status status = ERR_INVALID; status <= ERR_INTERNAL; status++) {
        json.size_bytes = 0;
        error_field(&sent, status, status == ERR_IO ? "" : "world", "must be %d", 4);
        problem_write(&sent, 418, &json);
        assert_int_equal(problem_read(&received, json.data, json.size_bytes, &err), OK);
        assert_int_equal(received.status, status);
        assert_string_equal(received.field, sent.field);
        assert_string_equal(received.message, "must be 4");
    }
    buffer_release(&json);
}

static void test_a_problem_of_another_server_has_the_status_of_its_number(void **state)
{
    static const struct {
        int http_status;
        enum status status;
    } cases[] = {{400, ERR_INVALID},   {401, ERR_UNAUTHENTICATED}, {403, ERR_DENIED},
                 {404, ERR_NOT_FOUND}, {408, ERR_TIMEOUT},         {409, ERR_CONFLICT},
                 {413, ERR_TOO_LARGE}, {418, ERR_INVALID},         {422, ERR_INVALID},
                 {429, ERR_LIMIT},     {500, ERR_INTERNAL},        {503, ERR_UNAVAILABLE},
                 {504, ERR_TIMEOUT},   {302, ERR_PROTOCOL}};
    struct error received = {0};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *json =
            xasprintf("{\"type\":\"about:blank\",\"title\":\"Odd\",\"status\":%d,\"detail\":\"d\"}",
                      cases[i].http_status);
        assert_int_equal(problem_read(&received, json, strlen(json), &err), OK);
        assert_int_equal(received.status, cases[i].status);
        free(json);
    }
}

static void test_what_is_no_problem_is_a_breach_of_protocol(void **state)
{
    struct error received = {0};
    struct error err = {0};
    char long_text[PROBLEM_MAX_BYTES + 1];

    (void)state;
    memset(long_text, ' ', sizeof long_text);
    assert_int_equal(problem_read(&received, "<html>", 6, &err), ERR_PROTOCOL);
    assert_int_equal(problem_read(&received, "", 0, &err), ERR_PROTOCOL);
    assert_int_equal(problem_read(&received, "{}", 2, &err), ERR_PROTOCOL);
    assert_int_equal(problem_read(&received, long_text, sizeof long_text, &err), ERR_PROTOCOL);
    assert_int_equal(received.status, OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_survives_as_a_problem),
        cmocka_unit_test(test_a_problem_of_another_server_has_the_status_of_its_number),
        cmocka_unit_test(test_what_is_no_problem_is_a_breach_of_protocol),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
