#include "common/json.h"

#include "common/job.h"
#include "common/json_scan.h"
#include "common/mem.h"
#include "common/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A record with one key of each kind. */
struct point {
    int x;
};

struct sample {
    char name[5];
    char *text;
    int integer;
    int64_t big;
    uint32_t mask;
    uint64_t huge;
    double real;
    bool flag;
    enum device_kind kind;
    unsigned kinds;
    struct point point;
    struct point *owned;
    struct point *list;
    size_t list_count;
    char **texts;
    size_t text_count;
    char *raw;
};

static const struct json_record point_record = {
    .size_bytes = sizeof(struct point),
    .fields = {{"x", JSON_INT, .offset = offsetof(struct point, x), .min = -5, .max = 5}},
};

#define AT(member) .offset = offsetof(struct sample, member)
static const struct json_record sample_record = {
    .size_bytes = sizeof(struct sample),
    .fields =
        {
            {"name", JSON_NAME, AT(name), .min = 1, .size = 5},
            {"text", JSON_TEXT, AT(text), .optional = true, .min = 1, .max = 8},
            {"integer", JSON_INT, AT(integer), .optional = true, .max = 9, .absent = -1},
            {"big", JSON_INT64, AT(big), .optional = true, .min = INT64_MIN, .max = INT64_MAX},
            {"mask", JSON_UINT32, AT(mask), .optional = true, .max = UINT32_MAX},
            {"huge", JSON_UINT64, AT(huge), .optional = true},
            {"real", JSON_NUMBER, AT(real), .optional = true, .min = -2, .max = 9},
            {"flag", JSON_BOOL, AT(flag), .optional = true},
            {"kind", JSON_ENUM, AT(kind), .optional = true, .absent = DEVICE_SIM,
             .size = DEVICE_KINDS, .name = device_kind_name},
            {"kinds", JSON_SET, AT(kinds), .optional = true, .min = 1, .size = DEVICE_KINDS,
             .name = device_kind_name},
            {"point", JSON_STRUCT, AT(point), .optional = true, .record = &point_record},
            {"owned", JSON_OWNED, AT(owned), .optional = true, .record = &point_record},
            {"list", JSON_LIST, AT(list), .optional = true, .max = 3, .record = &point_record,
             .count_offset = offsetof(struct sample, list_count)},
            {"texts", JSON_TEXTS, AT(texts), .optional = true, .max = 3, .size = 4,
             .count_offset = offsetof(struct sample, text_count)},
            {"raw", JSON_RAW, AT(raw), .optional = true},
        },
};
#undef AT

static enum status read_text(struct sample *sample, const char *json, struct error *err)
{
    return json_read(&sample_record, sample, json, strlen(json), err);
}

/* Reading `json` must fail at `field`, with `part` in the message. */
static void refused(const char *json, enum status status, const char *field, const char *part)
{
    struct sample sample = {.integer = 77};
    struct error err = {0};

    assert_int_equal(read_text(&sample, json, &err), status);
    assert_string_equal(err.field, field);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' lacks '%s'", err.message, part);
    }
    assert_int_equal(sample.integer, 77);
    assert_null(sample.text);
}

static void test_every_kind_is_read_and_written_back(void **state)
{
    static const char json[] =
        "{\"name\":\"abcd\",\"text\":\"a\\\"\\\\\\n\\t\\u0001\xc3\xa9\",\"integer\":7,"
        "\"big\":\"-9223372036854775808\",\"mask\":4294967295,\"huge\":\"18446744073709551615\","
        "\"real\":0.10000000000000002,\"flag\":true,"
        "\"kind\":\"cuda\",\"kinds\":[\"cuda\",\"sim\"],\"point\":{\"x\":-5},\"owned\":{\"x\":5},"
        "\"list\":[{\"x\":1},{\"x\":2},{\"x\":3}],\"texts\":[\"\",\"abcd\"],"
        "\"raw\":{\"a\":[1,2.5,null,true,\"z\"]}}";
    struct sample sample = {0};
    struct error err = {0};
    struct buffer written = {0};

    (void)state;
    assert_int_equal(read_text(&sample, json, &err), OK);
    assert_string_equal(sample.text, "a\"\\\n\t\x01\xc3\xa9");
    assert_true(sample.big == INT64_MIN);
    assert_true(sample.huge == UINT64_MAX);
    assert_true(sample.real == 0.10000000000000002);
    assert_true(sample.flag);
    assert_int_equal(sample.kind, DEVICE_CUDA);
    assert_int_equal(sample.kinds, 1U << DEVICE_CUDA | 1U << DEVICE_SIM);
    assert_int_equal(sample.owned->x, 5);
    assert_int_equal(sample.list_count, 3);
    assert_int_equal(sample.list[2].x, 3);
    assert_string_equal(sample.texts[1], "abcd");
    json_write(&sample_record, &sample, &written);
    assert_string_equal(written.data, json);
    buffer_release(&written);
    json_record_release(&sample_record, &sample);
    assert_null(sample.text);
    assert_int_equal(sample.list_count, 0);
}

static void test_what_is_absent_has_its_default_and_is_not_written(void **state)
{
    struct sample sample = {0};
    struct error err = {0};
    struct buffer written = {0};

    (void)state;
    assert_int_equal(read_text(&sample, " { \"name\" : \"a\", \"kinds\":[\"sim\"] } ", &err), OK);
    assert_int_equal(sample.integer, -1);
    assert_int_equal(sample.kind, DEVICE_SIM);
    assert_null(sample.text);
    assert_null(sample.owned);
    json_write(&sample_record, &sample, &written);
    assert_string_equal(written.data, "{\"name\":\"a\",\"kinds\":[\"sim\"],\"point\":{\"x\":0}}");
    buffer_release(&written);
    json_record_release(&sample_record, &sample);
}

static void test_a_missing_unknown_or_repeated_key_is_named(void **state)
{
    (void)state;
    refused("{}", ERR_INVALID, "name", "missing");
    refused("{\"name\":\"a\",\"nme\":1}", ERR_INVALID, "nme", "the keys are name, text");
    refused("{\"name\":\"a\",\"integer\":1,\"integer\":1}", ERR_INVALID, "integer", "twice");
    refused("{\"name\":\"a\",\"point\":{\"x\":1,\"x\":1}}", ERR_INVALID, "x", "twice");
    refused("{\"name\":\"a\",\"list\":[{\"x\":1},{\"y\":1}]}", ERR_INVALID, "list[1].y", "unknown");
    refused("{\"name\":\"a\",\"owned\":{}}", ERR_INVALID, "owned.x", "missing");
}

static void test_a_wrong_type_is_named(void **state)
{
    static const char *const keys[] = {"name",  "text",  "integer", "big",  "mask",  "huge", "kind",
                                       "kinds", "point", "owned",   "list", "texts", "raw"};
    static const char *const values[] = {"null", "true", "1.5"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        for (size_t j = 0; j < sizeof values / sizeof values[0]; j++) {
            char json[64];
            (void)snprintf(json, sizeof json, "{\"%s\":%s}", keys[i], values[j]);
            refused(json, ERR_INVALID, keys[i], "must be");
        }
    }
    refused("{\"name\":\"a\",\"list\":[1]}", ERR_INVALID, "list[0]", "must be an object");
    refused("{\"name\":\"a\",\"texts\":[\"a\",1]}", ERR_INVALID, "texts[1]", "texts");
    refused("{\"name\":\"a\",\"real\":\"1\"}", ERR_INVALID, "real", "must be a number");
    refused("{\"name\":\"a\",\"real\":9.5}", ERR_INVALID, "real", "from -2 to 9");
    refused("{\"name\":\"a\",\"flag\":1}", ERR_INVALID, "flag", "true or false");
    refused("[]", ERR_INVALID, "", "must be an object");
}

static void test_one_beyond_each_limit_is_refused(void **state)
{
    (void)state;
    refused("{\"name\":\"\"}", ERR_INVALID, "name", "1 to 4 bytes");
    refused("{\"name\":\"abcde\"}", ERR_TOO_LARGE, "name", "at most 4");
    refused("{\"name\":\"a\\nb\"}", ERR_INVALID, "name", "control");
    refused("{\"name\":\"a\\u007f\"}", ERR_INVALID, "name", "control");
    refused("{\"text\":\"\"}", ERR_INVALID, "text", "1 to 8 bytes");
    refused("{\"text\":\"123456789\"}", ERR_TOO_LARGE, "text", "at most 8");
    refused("{\"integer\":10}", ERR_INVALID, "integer", "0 to 9");
    refused("{\"integer\":-1}", ERR_INVALID, "integer", "0 to 9");
    refused("{\"big\":\"9223372036854775808\"}", ERR_INVALID, "big", "must be an integer");
    refused("{\"mask\":4294967296}", ERR_INVALID, "mask", "4294967295");
    refused("{\"huge\":\"18446744073709551616\"}", ERR_INVALID, "huge", "2^64");
    refused("{\"huge\":-1}", ERR_INVALID, "huge", "2^64");
    refused("{\"list\":[{\"x\":1},{\"x\":1},{\"x\":1},{\"x\":1}]}", ERR_INVALID, "list", "0 to 3");
    refused("{\"list\":[{\"x\":6}]}", ERR_INVALID, "list[0].x", "-5 to 5");
    refused("{\"texts\":[\"\",\"\",\"\",\"\"]}", ERR_INVALID, "texts", "0 to 3");
    refused("{\"texts\":[\"abcde\"]}", ERR_INVALID, "texts[0]", "at most 4");
}

static void test_a_name_that_is_none_is_refused_with_those_there_are(void **state)
{
    (void)state;
    refused("{\"kind\":\"gpu\"}", ERR_INVALID, "kind", "\"cuda\", \"cuda-shared\", \"sim\"");
    refused("{\"kinds\":[\"gpu\"]}", ERR_INVALID, "kinds", "\"cuda-shared\"");
    refused("{\"kinds\":[\"sim\",\"sim\"]}", ERR_INVALID, "kinds", "without repetition");
    refused("{\"kinds\":[]}", ERR_INVALID, "kinds", "at least one");
}

static void test_integers_beyond_2_53_are_strings(void **state)
{
    struct sample sample = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    refused("{\"big\":9007199254740993}", ERR_INVALID, "big", "string");
    refused("{\"big\":\"01\"}", ERR_INVALID, "big", "integer");
    refused("{\"big\":\"0x10\"}", ERR_INVALID, "big", "integer");
    refused("{\"big\":\"\"}", ERR_INVALID, "big", "integer");
    refused("{\"huge\":9007199254740993}", ERR_INVALID, "huge", "string");
    assert_int_equal(read_text(&sample, "{\"name\":\"a\",\"big\":9007199254740992}", &err), OK);
    assert_true(sample.big == JSON_INTEGER_MAX);
    json_record_release(&sample_record, &sample);
    json_write_integer(&json, JSON_INTEGER_MAX);
    json_write_integer(&json, -JSON_INTEGER_MAX - 1);
    assert_string_equal(json.data, "9007199254740992\"-9007199254740993\"");
    buffer_release(&json);
}

static void test_a_small_integer_is_never_a_string(void **state)
{
    static const char *const keys[] = {"integer", "big", "mask", "huge"};

    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char json[64];
        (void)snprintf(json, sizeof json, "{\"%s\":\"4\"}", keys[i]);
        refused(json, ERR_INVALID, keys[i], "must be an integer");
        (void)snprintf(json, sizeof json, "{\"%s\":\"9007199254740992\"}", keys[i]);
        refused(json, ERR_INVALID, keys[i], "must be an integer");
    }
    refused("{\"big\":\"-9007199254740992\"}", ERR_INVALID, "big", "must be an integer");
    refused("{\"list\":[{\"x\":\"1\"}]}", ERR_INVALID, "list[0].x", "must be an integer");
    refused("{\"integer\":\"9007199254740993\"}", ERR_INVALID, "integer", "0 to 9");
}

static void test_text_that_is_no_json_is_refused(void **state)
{
    (void)state;
    refused("", ERR_INVALID, "", "empty");
    refused("{", ERR_INVALID, "", "not valid JSON");
    refused("{\"name\":\"a\"} x", ERR_INVALID, "", "not valid JSON");
    refused("{\"name\":\"a\",}", ERR_INVALID, "", "not valid JSON");
    refused("{\"name\":\"a\",\"big\":1e999}", ERR_INVALID, "big", "not valid JSON");
    refused("{\"name\":\"a\",\"text\":\"\\u0000\"}", ERR_INVALID, "text", "not valid JSON");
    refused("{\"name\":\"a\",\"text\":\"\\ud800\"}", ERR_INVALID, "text", "not valid JSON");
}

static void test_bytes_that_are_no_utf8_are_refused_with_their_key(void **state)
{
    struct sample sample = {0};
    struct error err = {0};

    (void)state;
    refused("{\"name\":\"a\",\"text\":\"x\xff\"}", ERR_INVALID, "text", "0xff at offset 21");
    refused("{\"name\":\"a\",\"list\":[{\"x\":\"\xc0\x80\"}]}", ERR_INVALID, "x", "UTF-8");
    refused("{\"na\xed\xa0\x80\":1}", ERR_INVALID, "", "UTF-8");
    assert_int_equal(json_read(&sample_record, &sample, "{\"name\":\"\0\"}", 12, &err),
                     ERR_INVALID);
    assert_string_equal(err.field, "name");
}

/* `depth` arrays, one in the other, as the value of "raw". */
static enum status read_nested(size_t depth, struct error *err)
{
    struct buffer json = {0};
    struct sample sample = {0};

    buffer_printf(&json, "{\"name\":\"a\",\"raw\":");
    for (size_t i = 0; i < depth; i++) {
        buffer_printf(&json, "[");
    }
    for (size_t i = 0; i < depth; i++) {
        buffer_printf(&json, "]");
    }
    buffer_printf(&json, "}");
    enum status status = json_read(&sample_record, &sample, json.data, json.size_bytes, err);
    json_record_release(&sample_record, &sample);
    buffer_release(&json);
    return status;
}

static void test_nesting_ends_at_32_levels(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(read_nested(JSON_DEPTH_MAX - 1, &err), OK);
    assert_int_equal(read_nested(JSON_DEPTH_MAX, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "deeper than 32"));
    assert_int_equal(read_nested(100000, &err), ERR_INVALID);
}

static void test_the_path_of_a_deep_key_is_cut(void **state)
{
    struct sample sample = {0};
    struct error err = {0};
    char json[256];

    (void)state;
    (void)snprintf(json, sizeof json, "{\"name\":\"a\",\"list\":[{\"%0120d\":1}]}", 1);
    assert_int_equal(read_text(&sample, json, &err), ERR_INVALID);
    assert_int_equal(strlen(err.field), ERROR_FIELD_MAX - 1);
    assert_memory_equal(err.field, "list[0].0000", 12);
}

static void test_an_open_record_passes_over_unknown_keys(void **state)
{
    struct json_record open = point_record;
    struct point point = {0};
    struct error err = {0};
    static const char json[] = "{\"y\":[1],\"x\":3}";

    (void)state;
    open.open = true;
    assert_int_equal(json_read(&open, &point, json, strlen(json), &err), OK);
    assert_int_equal(point.x, 3);
}

static void test_written_text_is_cut_and_always_utf8(void **state)
{
    struct buffer json = {0};

    (void)state;
    json_write_text(&json, "ab\xc3\xa9", 3); /* the e with accent does not fit whole */
    json_write_text(&json, "\xff\xc3", 100);
    json_write_text(&json, "\xff\xc3", 5);
    assert_string_equal(json.data, "\"ab\"\"\xef\xbf\xbd\xef\xbf\xbd\"\"\xef\xbf\xbd\"");
    buffer_release(&json);
}

static void test_arrays_are_cut_at_their_limit_when_written(void **state)
{
    struct point points[4] = {{1}, {2}, {3}, {4}};
    struct sample sample = {.name = "a",
                            .integer = -1,
                            .kind = DEVICE_SIM,
                            .kinds = 1,
                            .list = points,
                            .list_count = 4};
    struct buffer json = {0};
    struct sample read = {0};
    struct error err = {0};

    (void)state;
    json_write(&sample_record, &sample, &json);
    assert_int_equal(json_read(&sample_record, &read, json.data, json.size_bytes, &err), OK);
    assert_int_equal(read.list_count, 3);
    json_record_release(&sample_record, &read);
    buffer_release(&json);
}

static void test_a_number_is_written_as_hex_float_and_decimal(void **state)
{
    char text[JSON_NUMBER_TEXT_MAX];

    (void)state;
    json_number_text(3, text);
    assert_string_equal(text, "0x1.8p+1 (3)");
    json_number_text(0.1, text);
    assert_string_equal(text, "0x1.999999999999ap-4 (0.1)");
    json_number_text(-0.0, text);
    assert_string_equal(text, "-0x0p+0 (-0)");
    json_number_text(NAN, text);
    assert_string_equal(text, "nan");
    json_number_text(-INFINITY, text);
    assert_string_equal(text, "-inf");
    json_number_text(INFINITY, text);
    assert_string_equal(text, "inf");
    json_number_text(-1.7976931348623157e308, text);
    assert_string_equal(text, "-0x1.fffffffffffffp+1023 (-1.7976931348623157e+308)");
}

static void test_only_rfc_3629_is_utf8(void **state)
{
    static const struct {
        const char *text;
        size_t valid_bytes;
    } cases[] = {
        {"", 0},
        {"abc", 3},
        {"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 19},
        {"a\x80", 1},             /* a continuation alone */
        {"a\xc3", 1},             /* cut short */
        {"a\xe2\x82", 1},         /* cut short */
        {"a\xc1\xbf", 1},         /* too long for its code */
        {"a\xe0\x9f\xbf", 1},     /* too long for its code */
        {"a\xf0\x8f\xbf\xbf", 1}, /* too long for its code */
        {"a\xed\xa0\x80", 1},     /* a surrogate */
        {"a\xf4\x90\x80\x80", 1}, /* beyond the last code */
        {"a\xf8\x88\x80\x80\x80", 1},
        {"a\xff", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(utf8_valid_bytes(cases[i].text, strlen(cases[i].text)),
                         cases[i].valid_bytes);
    }
    assert_int_equal(utf8_valid_bytes("a\0b", 3), 1);
    assert_int_equal(utf8_length("\xe2\x82\xac", 2), 0);
    assert_int_equal(utf8_length("\xe2\x82\xac", 3), 3);
}

static void test_the_key_of_a_position_is_the_innermost(void **state)
{
    static const char json[] = "{\"a\":1,\"b\":{\"c\":[\"x:\\\"y\",2]},\"d\":3}";
    char key[ERROR_FIELD_MAX];

    (void)state;
    json_key_at(json, 5, key);
    assert_string_equal(key, "a");
    json_key_at(json, (size_t)(strchr(json, 'x') - json), key);
    assert_string_equal(key, "c");
    json_key_at(json, (size_t)(strchr(json, '3') - json), key);
    assert_string_equal(key, "d");
    json_key_at(json, 0, key);
    assert_string_equal(key, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_is_read_and_written_back),
        cmocka_unit_test(test_what_is_absent_has_its_default_and_is_not_written),
        cmocka_unit_test(test_a_missing_unknown_or_repeated_key_is_named),
        cmocka_unit_test(test_a_wrong_type_is_named),
        cmocka_unit_test(test_one_beyond_each_limit_is_refused),
        cmocka_unit_test(test_a_name_that_is_none_is_refused_with_those_there_are),
        cmocka_unit_test(test_integers_beyond_2_53_are_strings),
        cmocka_unit_test(test_a_small_integer_is_never_a_string),
        cmocka_unit_test(test_text_that_is_no_json_is_refused),
        cmocka_unit_test(test_bytes_that_are_no_utf8_are_refused_with_their_key),
        cmocka_unit_test(test_nesting_ends_at_32_levels),
        cmocka_unit_test(test_the_path_of_a_deep_key_is_cut),
        cmocka_unit_test(test_an_open_record_passes_over_unknown_keys),
        cmocka_unit_test(test_written_text_is_cut_and_always_utf8),
        cmocka_unit_test(test_arrays_are_cut_at_their_limit_when_written),
        cmocka_unit_test(test_a_number_is_written_as_hex_float_and_decimal),
        cmocka_unit_test(test_only_rfc_3629_is_utf8),
        cmocka_unit_test(test_the_key_of_a_position_is_the_innermost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
