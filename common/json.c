#include "common/json.h"

#include "common/json_scan.h"
#include "common/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static enum status read_object(const struct json_record *record, void *to, json_t *object,
                               struct error *err);

/* Puts the way to it in front of the field that is wrong: "waits[3].rank". */
static enum status inside(struct error *err, const char *key, int64_t index)
{
    char path[3 * ERROR_FIELD_MAX];
    char at[32] = "";

    if (index >= 0) {
        (void)snprintf(at, sizeof at, "[%" PRId64 "]", index);
    }
    (void)snprintf(path, sizeof path, "%.64s%s%s%s", key, at, err->field[0] == 0 ? "" : ".",
                   err->field);
    return error_field(err, err->status, path, "%s", err->message);
}

/* ---- values ---- */

static bool is_decimal(const char *text)
{
    const char *digits = text + (text[0] == '-');
    size_t length = strspn(digits, "0123456789");

    return length > 0 && digits[length] == 0 && (digits[0] != '0' || length == 1);
}

/* Each integer has one form: a number up to 2^53, and a string, a canonical decimal, beyond. */
static bool integer_of(const json_t *value, int64_t *integer)
{
    if (json_is_integer(value)) {
        *integer = json_integer_value(value);
        return *integer <= JSON_INTEGER_MAX && *integer >= -JSON_INTEGER_MAX;
    }
    if (!json_is_string(value) || !is_decimal(json_string_value(value))) {
        return false;
    }
    errno = 0;
    *integer = strtoll(json_string_value(value), NULL, 10);
    return errno == 0 && (*integer > JSON_INTEGER_MAX || *integer < -JSON_INTEGER_MAX);
}

static bool unsigned_of(const json_t *value, uint64_t *integer)
{
    int64_t small = 0;

    if (integer_of(value, &small)) {
        *integer = (uint64_t)small;
        return small >= 0;
    }
    if (!json_is_string(value) || !is_decimal(json_string_value(value)) ||
        json_string_value(value)[0] == '-') {
        return false;
    }
    errno = 0;
    *integer = strtoull(json_string_value(value), NULL, 10);
    return errno == 0 && *integer > JSON_INTEGER_MAX;
}

static void store_integer(const struct json_field *field, char *at, int64_t value)
{
    switch (field->kind) {
    case JSON_INT:
    case JSON_ENUM:
        *(int *)at = (int)value;
        break;
    case JSON_UINT32:
        *(uint32_t *)at = (uint32_t)value;
        break;
    default:
        *(int64_t *)at = value;
        break;
    }
}

static enum status read_integer(const struct json_field *field, char *at, const json_t *value,
                                struct error *err)
{
    int64_t integer = 0;

    if (integer_of(value, &integer) && integer >= field->min && integer <= field->max) {
        store_integer(field, at, integer);
        return OK;
    }
    if (field->max == INT64_MAX) {
        return error_field(err, ERR_INVALID, field->key,
                           "'%s' must be an integer, at least %" PRId64
                           "; beyond 2^53 it is written as a string",
                           field->key, field->min);
    }
    return error_field(err, ERR_INVALID, field->key,
                       "'%s' must be an integer from %" PRId64 " to %" PRId64, field->key,
                       field->min, field->max);
}

static enum status read_unsigned(const struct json_field *field, char *at, const json_t *value,
                                 struct error *err)
{
    if (!unsigned_of(value, (uint64_t *)at)) {
        return error_field(err, ERR_INVALID, field->key,
                           "'%s' must be an integer from 0 to 2^64-1; beyond 2^53 it is written as "
                           "a string",
                           field->key);
    }
    return OK;
}

static bool has_control_byte(const char *text)
{
    for (; *text != 0; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

static enum status read_text(const struct json_field *field, char *at, const json_t *value,
                             struct error *err)
{
    int64_t max = field->kind == JSON_NAME ? (int64_t)field->size - 1 : field->max;
    int64_t size_bytes = json_is_string(value) ? (int64_t)json_string_length(value) : -1;

    if (size_bytes > max) {
        return error_field(err, ERR_TOO_LARGE, field->key,
                           "'%s' has %" PRId64 " bytes, at most %" PRId64 " are allowed",
                           field->key, size_bytes, max);
    }
    if (size_bytes < field->min ||
        (field->kind == JSON_NAME && has_control_byte(json_string_value(value)))) {
        return error_field(err, ERR_INVALID, field->key,
                           "'%s' must be a text of %" PRId64 " to %" PRId64 " bytes%s", field->key,
                           field->min, max,
                           field->kind == JSON_NAME ? " without control characters" : "");
    }
    if (field->kind == JSON_NAME) {
        memcpy(at, json_string_value(value), (size_t)size_bytes + 1);
    } else {
        *(char **)at = xstrdup(json_string_value(value));
    }
    return OK;
}

static enum status read_real(const struct json_field *field, char *at, const json_t *value,
                             struct error *err)
{
    double number = json_number_value(value);

    if (!json_is_number(value) || !(number >= (double)field->min && number <= (double)field->max)) {
        return error_field(err, ERR_INVALID, field->key,
                           "'%s' must be a number from %" PRId64 " to %" PRId64, field->key,
                           field->min, field->max);
    }
    *(double *)at = number;
    return OK;
}

static enum status read_bool(const struct json_field *field, char *at, const json_t *value,
                             struct error *err)
{
    if (!json_is_boolean(value)) {
        return error_field(err, ERR_INVALID, field->key, "'%s' must be true or false", field->key);
    }
    *(bool *)at = json_is_true(value);
    return OK;
}

static enum status refuse_name(const struct json_field *field, const char *form, struct error *err)
{
    char names[ERROR_MESSAGE_MAX / 2] = "";
    size_t used = 0;

    for (unsigned i = 0; i < field->size && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s\"%s\"", i == 0 ? "" : ", ",
                                 field->name(i));
    }
    return error_field(err, ERR_INVALID, field->key, "'%s' must be %s %s", field->key, form, names);
}

static int name_find(const struct json_field *field, const json_t *value)
{
    for (unsigned i = 0; json_is_string(value) && i < field->size; i++) {
        if (strcmp(field->name(i), json_string_value(value)) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static enum status read_enum(const struct json_field *field, char *at, const json_t *value,
                             struct error *err)
{
    int found = name_find(field, value);

    if (found < 0) {
        return refuse_name(field, "one of", err);
    }
    store_integer(field, at, found);
    return OK;
}

static enum status read_set(const struct json_field *field, char *at, const json_t *value,
                            struct error *err)
{
    unsigned set = 0;

    for (size_t i = 0; i < json_array_size(value); i++) {
        int found = name_find(field, json_array_get(value, i));
        if (found < 0 || (set >> found & 1) != 0) {
            return refuse_name(field, "an array without repetition of", err);
        }
        set |= 1U << found;
    }
    if (!json_is_array(value) || __builtin_popcount(set) < field->min) {
        return refuse_name(field, "an array of at least one of", err);
    }
    *(unsigned *)at = set;
    return OK;
}

static enum status read_raw(const struct json_field *field, char *at, const json_t *value,
                            struct error *err)
{
    if (!json_is_object(value) && !json_is_array(value)) {
        return error_field(err, ERR_INVALID, field->key, "'%s' must be an object or array",
                           field->key);
    }
    char *text = json_dumps(value, JSON_COMPACT);
    if (text == NULL) {
        return error_field(err, ERR_INTERNAL, field->key, "cannot write '%s' again", field->key);
    }
    *(char **)at = text;
    return OK;
}

/* ---- arrays and objects ---- */

static enum status read_texts(const struct json_field *field, char *at, size_t *count,
                              const json_t *value, struct error *err)
{
    size_t size = json_array_size(value);
    char **texts = xcalloc(size, sizeof *texts);

    *(char ***)at = texts;
    for (size_t i = 0; i < size; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_string(item) || json_string_length(item) > field->size) {
            error_set(err, ERR_INVALID, "'%s' must be an array of texts of at most %zu bytes",
                      field->key, field->size);
            return inside(err, field->key, (int64_t)i);
        }
        texts[i] = xstrdup(json_string_value(item));
        *count = i + 1;
    }
    return OK;
}

static enum status read_list(const struct json_field *field, char *at, size_t *count,
                             const json_t *value, struct error *err)
{
    size_t size = json_array_size(value);
    char *rows = xcalloc(size, field->record->size_bytes);

    *(char **)at = rows;
    *count = size;
    for (size_t i = 0; i < size; i++) {
        if (read_object(field->record, rows + i * field->record->size_bytes,
                        json_array_get(value, i), err) != OK) {
            return inside(err, field->key, (int64_t)i);
        }
    }
    return OK;
}

static enum status read_array(const struct json_field *field, char *at, size_t *count,
                              const json_t *value, struct error *err)
{
    if (!json_is_array(value) || (int64_t)json_array_size(value) > field->max ||
        (int64_t)json_array_size(value) < field->min) {
        return error_field(err, ERR_INVALID, field->key,
                           "'%s' must be an array of %" PRId64 " to %" PRId64 " entries",
                           field->key, field->min, field->max);
    }
    return field->kind == JSON_LIST ? read_list(field, at, count, value, err)
                                    : read_texts(field, at, count, value, err);
}

static enum status read_nested(const struct json_field *field, char *at, json_t *value,
                               struct error *err)
{
    if (field->kind == JSON_OWNED) {
        *(void **)at = xcalloc(1, field->record->size_bytes);
        at = *(char **)at;
    }
    return read_object(field->record, at, value, err) == OK ? OK : inside(err, field->key, -1);
}

static enum status read_value(const struct json_field *field, char *to, json_t *value,
                              struct error *err)
{
    char *at = to + field->offset;

    switch (field->kind) {
    case JSON_NAME:
    case JSON_TEXT:
        return read_text(field, at, value, err);
    case JSON_INT:
    case JSON_INT64:
    case JSON_UINT32:
        return read_integer(field, at, value, err);
    case JSON_UINT64:
        return read_unsigned(field, at, value, err);
    case JSON_NUMBER:
        return read_real(field, at, value, err);
    case JSON_BOOL:
        return read_bool(field, at, value, err);
    case JSON_ENUM:
        return read_enum(field, at, value, err);
    case JSON_SET:
        return read_set(field, at, value, err);
    case JSON_STRUCT:
    case JSON_OWNED:
        return read_nested(field, at, value, err);
    case JSON_LIST:
    case JSON_TEXTS:
        return read_array(field, at, (size_t *)(to + field->count_offset), value, err);
    case JSON_RAW:
        return read_raw(field, at, value, err);
    }
    assert(!"a kind without a reader");
    return ERR_INTERNAL;
}

static bool is_integer_kind(enum json_kind kind)
{
    return kind == JSON_INT || kind == JSON_INT64 || kind == JSON_UINT32 || kind == JSON_UINT64 ||
           kind == JSON_ENUM;
}

static enum status refuse_key(const struct json_record *record, const char *key, struct error *err)
{
    char keys[ERROR_MESSAGE_MAX / 2] = "";
    size_t used = 0;

    for (const struct json_field *field = record->fields; field->key != NULL; field++) {
        if (used < sizeof keys) {
            used += (size_t)snprintf(keys + used, sizeof keys - used, "%s%s", used == 0 ? "" : ", ",
                                     field->key);
        }
    }
    return error_field(err, ERR_INVALID, key, "unknown key '%.64s'; the keys are %s", key, keys);
}

static enum status read_object(const struct json_record *record, void *to, json_t *object,
                               struct error *err)
{
    const char *key = NULL;
    json_t *value = NULL;

    if (!json_is_object(object)) {
        return error_set(err, ERR_INVALID, "must be an object");
    }
    json_object_foreach(object, key, value)
    {
        const struct json_field *field = record->fields;
        while (field->key != NULL && strcmp(field->key, key) != 0) {
            field++;
        }
        if (field->key == NULL && record->open) {
            continue;
        }
        if (field->key == NULL) {
            return refuse_key(record, key, err);
        }
        enum status status = read_value(field, to, value, err);
        if (status != OK) {
            return status;
        }
    }
    for (const struct json_field *field = record->fields; field->key != NULL; field++) {
        if (json_object_get(object, field->key) != NULL) {
            continue;
        }
        if (!field->optional) {
            return error_field(err, ERR_INVALID, field->key, "the key '%s' is missing", field->key);
        }
        if (is_integer_kind(field->kind)) {
            store_integer(field, (char *)to + field->offset, field->absent);
        }
    }
    return OK;
}

/* ---- texts ---- */

static enum status refuse_syntax(const char *text, const json_error_t *syntax, struct error *err)
{
    char key[ERROR_FIELD_MAX] = "";
    size_t position = (size_t)syntax->position;

    if (json_error_code(syntax) == json_error_duplicate_key) {
        size_t start = position - 1;
        while (start > 0 && text[start - 1] != '"') {
            start--;
        }
        (void)snprintf(key, sizeof key, "%.*s", (int)(position - 1 - start), text + start);
        return error_field(err, ERR_INVALID, key, "the key '%s' appears twice", key);
    }
    json_key_at(text, position, key);
    return error_field(err, ERR_INVALID, key, "not valid JSON: %s", syntax->text);
}

enum status json_read(const struct json_record *record, void *to, const char *text,
                      size_t size_bytes, struct error *err)
{
    json_error_t syntax = {0};
    json_t *document = NULL;
    void *made = xcalloc(1, record->size_bytes);

    enum status status = json_check(text, size_bytes, err);
    if (status != OK) {
        goto out;
    }
    document = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &syntax);
    if (document == NULL) {
        status = refuse_syntax(text, &syntax, err);
        goto out;
    }
    status = read_object(record, made, document, err);
    if (status == OK) {
        memcpy(to, made, record->size_bytes);
        memset(made, 0, record->size_bytes);
    }

out:
    json_decref(document);
    json_record_release(record, made);
    free(made);
    return status;
}

/* ---- release ---- */

static void release_list(const struct json_record *record, char *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_record_release(record, rows + i * record->size_bytes);
    }
    free(rows);
}

static void release_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

void json_record_release(const struct json_record *record, void *owned)
{
    for (const struct json_field *field = record->fields; field->key != NULL; field++) {
        char *at = (char *)owned + field->offset;
        const size_t *count = (const size_t *)((char *)owned + field->count_offset);
        switch (field->kind) {
        case JSON_TEXT:
        case JSON_RAW:
            free(*(char **)at);
            break;
        case JSON_STRUCT:
            json_record_release(field->record, at);
            break;
        case JSON_OWNED:
            release_list(field->record, *(char **)at, *(char **)at != NULL);
            break;
        case JSON_LIST:
            release_list(field->record, *(char **)at, *count);
            break;
        case JSON_TEXTS:
            release_texts(*(char ***)at, *count);
            break;
        default:
            break;
        }
    }
    memset(owned, 0, record->size_bytes);
}
