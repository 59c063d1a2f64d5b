#include "common/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void test_a_server_that_is_no_url_is_refused(void **state)
{
    static const char *const servers[] = {"",
                                          "127.0.0.1:8750",
                                          "ftp://host",
                                          "file:///etc",
                                          "http://",
                                          "http://host/path",
                                          "http://host?x=1",
                                          "http://host#x",
                                          "http://example@host",
                                          "http://host:99999",
                                          "http://host\nx"};
    struct api *api = NULL;
    struct error err = {0};
    char longer[API_SERVER_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof servers / sizeof servers[0]; i++) {
        struct api_options options = {.server = servers[i]};
        assert_int_equal(api_open(&api, &options, &err), ERR_INVALID);
        assert_string_equal(err.field, "server");
        assert_null(api);
    }
    memset(longer, 'a', sizeof longer - 1);
    memcpy(longer, "http://", 7);
    longer[API_SERVER_MAX] = 0;
    assert_int_equal(api_open(&api, &(struct api_options){.server = longer}, &err), ERR_TOO_LARGE);
}

static void test_a_token_that_would_make_headers_is_refused(void **state)
{
    struct api *api = NULL;
    struct error err = {0};
    char longer[API_TOKEN_MAX + 1];
    struct api_options options = {.server = "http://127.0.0.1/", .token = "a\r\nX: y"};

    (void)state;
    assert_int_equal(api_open(&api, &options, &err), ERR_INVALID);
    assert_string_equal(err.field, "token");
    memset(longer, 'a', sizeof longer - 1);
    longer[API_TOKEN_MAX] = 0;
    options.token = longer;
    assert_int_equal(api_open(&api, &options, &err), ERR_INVALID);
    longer[API_TOKEN_MAX - 1] = 0;
    assert_int_equal(api_open(&api, &options, &err), OK);
    api_close(api);
    api_close(NULL);
}

static void test_path_segments_are_encoded(void **state)
{
    struct buffer path = {0};

    (void)state;
    buffer_printf(&path, "/");
    api_path_append(&path, "a-Z_0.9~/?&= %\xc3\xa9");
    assert_string_equal(path.data, "/a-Z_0.9~%2F%3F%26%3D%20%25%C3%A9");
    buffer_release(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_that_is_no_url_is_refused),
        cmocka_unit_test(test_a_token_that_would_make_headers_is_refused),
        cmocka_unit_test(test_path_segments_are_encoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
