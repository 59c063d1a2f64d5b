#include "common/json_write.h"

#include "common/json.h"
#include "common/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_byte(struct buffer *json, unsigned char byte)
{
    switch (byte) {
    case '"':
        buffer_append(json, "\\\"", 2);
        break;
    case '\\':
        buffer_append(json, "\\\\", 2);
        break;
    case '\n':
        buffer_append(json, "\\n", 2);
        break;
    case '\t':
        buffer_append(json, "\\t", 2);
        break;
    default:
        buffer_printf(json, "\\u%04x", byte);
        break;
    }
}

void json_write_text(struct buffer *json, const char *text, size_t max_bytes)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t size_bytes = strlen(text);
    size_t used_bytes = 0;

    buffer_append(json, "\"", 1);
    for (size_t i = 0; i < size_bytes;) {
        size_t length = utf8_length(text + i, size_bytes - i);
        size_t written = length == 0 ? sizeof replacement - 1 : length;
        if (used_bytes + written > max_bytes) {
            break;
        }
        used_bytes += written;
        if (length == 0) {
            buffer_append(json, replacement, written);
            length = 1;
        } else if (length == 1 && (text[i] == '"' || text[i] == '\\' || text[i] < ' ')) {
            write_byte(json, (unsigned char)text[i]);
        } else {
            buffer_append(json, text + i, length);
        }
        i += length;
    }
    buffer_append(json, "\"", 1);
}

void json_write_integer(struct buffer *json, int64_t value)
{
    bool quoted = value > JSON_INTEGER_MAX || value < -JSON_INTEGER_MAX;

    buffer_printf(json, quoted ? "\"%" PRId64 "\"" : "%" PRId64, value);
}

static void write_unsigned(struct buffer *json, uint64_t value)
{
    buffer_printf(json, value > JSON_INTEGER_MAX ? "\"%" PRIu64 "\"" : "%" PRIu64, value);
}

/* The shortest decimal that is the same double. */
static void shortest(double value, char decimal[static JSON_NUMBER_TEXT_MAX / 2])
{
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(decimal, JSON_NUMBER_TEXT_MAX / 2, "%.*g", digits, value);
        if (strtod(decimal, NULL) == value) {
            break;
        }
    }
}

void json_number_text(double value, char text[static JSON_NUMBER_TEXT_MAX])
{
    if (!isfinite(value)) {
        const char *name = value > 0 ? "inf" : "-inf";
        (void)snprintf(text, JSON_NUMBER_TEXT_MAX, "%s", isnan(value) ? "nan" : name);
        return;
    }
    char decimal[JSON_NUMBER_TEXT_MAX / 2];
    shortest(value, decimal);
    (void)snprintf(text, JSON_NUMBER_TEXT_MAX, "%a (%s)", value, decimal);
}

/* ---- records ---- */

static int64_t integer_at(const struct json_field *field, const char *at)
{
    switch (field->kind) {
    case JSON_INT:
    case JSON_ENUM:
        return *(const int *)at;
    case JSON_UINT32:
        return *(const uint32_t *)at;
    default:
        return *(const int64_t *)at;
    }
}

static bool is_absent(const struct json_field *field, const char *from)
{
    const char *at = from + field->offset;

    switch (field->kind) {
    case JSON_NAME:
        return *at == 0;
    case JSON_TEXT:
    case JSON_OWNED:
    case JSON_RAW:
        return *(char *const *)at == NULL;
    case JSON_LIST:
    case JSON_TEXTS:
        return *(const size_t *)(from + field->count_offset) == 0;
    case JSON_STRUCT:
    case JSON_SET:
        return false;
    case JSON_BOOL:
        return !*(const bool *)at;
    case JSON_NUMBER:
        return *(const double *)at == (double)field->absent;
    default:
        return integer_at(field, at) == field->absent;
    }
}

static void write_set(const struct json_field *field, unsigned set, struct buffer *json)
{
    const char *comma = "";

    buffer_append(json, "[", 1);
    for (unsigned i = 0; i < field->size; i++) {
        if ((set >> i & 1) != 0) {
            buffer_printf(json, "%s\"%s\"", comma, field->name(i));
            comma = ",";
        }
    }
    buffer_append(json, "]", 1);
}

static void write_array(const struct json_field *field, const char *from, struct buffer *json)
{
    const char *at = from + field->offset;
    size_t count = *(const size_t *)(from + field->count_offset);

    if (count > (size_t)field->max) {
        count = (size_t)field->max;
    }
    buffer_append(json, "[", 1);
    for (size_t i = 0; i < count; i++) {
        buffer_append(json, ",", i > 0);
        if (field->kind == JSON_TEXTS) {
            json_write_text(json, (*(char *const *const *)at)[i], field->size);
        } else {
            json_write(field->record, *(char *const *)at + i * field->record->size_bytes, json);
        }
    }
    buffer_append(json, "]", 1);
}

static void write_real(double value, struct buffer *json)
{
    char decimal[JSON_NUMBER_TEXT_MAX / 2];

    assert(isfinite(value));
    shortest(value, decimal);
    buffer_printf(json, "%s", decimal);
}

static void write_value(const struct json_field *field, const char *from, struct buffer *json)
{
    const char *at = from + field->offset;

    switch (field->kind) {
    case JSON_NAME:
        json_write_text(json, at, field->size - 1);
        break;
    case JSON_TEXT:
        json_write_text(json, *(char *const *)at, (size_t)field->max);
        break;
    case JSON_INT:
    case JSON_INT64:
    case JSON_UINT32:
        json_write_integer(json, integer_at(field, at));
        break;
    case JSON_UINT64:
        write_unsigned(json, *(const uint64_t *)at);
        break;
    case JSON_BOOL:
        buffer_printf(json, *(const bool *)at ? "true" : "false");
        break;
    case JSON_NUMBER:
        write_real(*(const double *)at, json);
        break;
    case JSON_ENUM:
        json_write_text(json, field->name(*(const unsigned *)at), SIZE_MAX);
        break;
    case JSON_SET:
        write_set(field, *(const unsigned *)at, json);
        break;
    case JSON_STRUCT:
        json_write(field->record, at, json);
        break;
    case JSON_OWNED:
        json_write(field->record, *(char *const *)at, json);
        break;
    case JSON_LIST:
    case JSON_TEXTS:
        write_array(field, from, json);
        break;
    case JSON_RAW:
        buffer_append(json, *(char *const *)at, strlen(*(char *const *)at));
        break;
    }
}

void json_write(const struct json_record *record, const void *from, struct buffer *json)
{
    const char *before = "{";

    for (const struct json_field *field = record->fields; field->key != NULL; field++) {
        if (field->optional && is_absent(field, from)) {
            continue;
        }
        assert(field->kind != JSON_TEXT || !is_absent(field, from));
        buffer_printf(json, "%s\"%s\":", before, field->key);
        write_value(field, from, json);
        before = ",";
    }
    buffer_printf(json, "%s}", before[0] == '{' ? "{" : "");
}
