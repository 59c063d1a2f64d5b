/*
 * json.h — JSON, read strictly and written, by tables that say how a C record looks.
 *
 * A `struct json_record` lists the keys of one record; json_read fills the record from a text,
 * json_write writes it, json_record_release frees what it owns. Reading refuses duplicate and
 * unknown keys, wrong types, values out of range, invalid UTF-8, zero bytes and nesting deeper than
 * JSON_DEPTH_MAX: ERR_INVALID, with the path of the key in err->field ("waits[3].rank") and what
 * would be right in the message; the record is then untouched. Writing cuts texts at their limit
 * and replaces invalid UTF-8, so that what is written can be read again.
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_FIELDS_MAX = 24, JSON_DEPTH_MAX = 32, JSON_NUMBER_TEXT_MAX = 64 };

/* Integers beyond this are strings in JSON. */
#define JSON_INTEGER_MAX (INT64_C(1) << 53)

enum json_kind {
    JSON_NAME,   /* char[size]; min..size-1 bytes */
    JSON_TEXT,   /* char *, owned; min..max bytes; absent: NULL */
    JSON_INT,    /* int, min..max; absent: `absent`; so the next four */
    JSON_INT64,  /* int64_t */
    JSON_UINT32, /* uint32_t */
    JSON_UINT64, /* uint64_t, 0..UINT64_MAX: no min, no max */
    JSON_ENUM,   /* int or enum: the text name(i), i < size */
    JSON_SET,    /* unsigned: bit i for each name(i) in an array; at least `min` of them */
    JSON_OBJECT, /* the struct itself, by `record` */
    JSON_OWNED,  /* pointer to an owned struct, by `record`; absent: NULL */
    JSON_LIST,  /* pointer to owned structs, by `record`, at most `max`; size_t at `count_offset` */
    JSON_TEXTS, /* char ** of texts of at most `size` bytes, at most `max` of them; count as above
                 */
    JSON_RAW,   /* char *: the owned JSON text of an object, whatever it holds; absent: NULL */
};

struct json_record;

struct json_field {
    const char *key; /* NULL ends the table */
    enum json_kind kind;
    size_t offset;
    bool optional; /* the key may be missing, and is not written where the value is `absent` */
    int64_t min, max;
    int64_t absent;
    size_t size;
    const char *(*name)(unsigned value);
    const struct json_record *record;
    size_t count_offset;
};

struct json_record {
    size_t size_bytes; /* sizeof the C struct */
    struct json_field fields[JSON_FIELDS_MAX];
};

/* Reads one object of `size_bytes` into `to`, whatever was there before is not freed. */
enum status json_read(const struct json_record *record, void *to, const char *text,
                      size_t size_bytes, struct error *err);

/* Appends the object. */
void json_write(const struct json_record *record, const void *from, struct buffer *json);

/* Frees what the record owns and sets it to zero. */
void json_record_release(const struct json_record *record, void *owned);

/* Appends `text` as a JSON string with its quotes; invalid UTF-8 becomes U+FFFD. At most
 * `size_max` bytes of it are taken, whole characters only. */
void json_write_text(struct buffer *json, const char *text, size_t size_max);
/* Appends a number, or beyond 2^53 a string. */
void json_write_integer(struct buffer *json, int64_t value);

/* "0x1.8p+1 (3)", "nan", "-inf": how an expected or got value is written. */
void json_number_text(double value, char text[static JSON_NUMBER_TEXT_MAX]);

/* The offset of the first byte that is not UTF-8, or `size_bytes`. A zero byte is not UTF-8 here.
 */
size_t json_utf8_bytes(const char *text, size_t size_bytes);
