/*
 * json.h — JSON, read strictly and written, by tables that say how a C record looks.
 *
 * A `struct json_record` lists the keys of one record; json_read fills the record from a text,
 * json_write writes it, json_record_release frees what it owns. Reading refuses duplicate and
 * unknown keys, wrong types, values out of range, invalid UTF-8, zero bytes and nesting deeper than
 * JSON_DEPTH_MAX: ERR_INVALID (ERR_TOO_LARGE for a text), with the path of the key in err->field
 * ("waits[3].rank") and what would be right in the message; the record is then untouched. An
 * integer is a number up to 2^53 and a string beyond, never the other.
 */
#pragma once

#include "common/error.h"
#include "common/json_write.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_FIELDS_MAX = 24, JSON_DEPTH_MAX = 32 };

enum json_kind {
    JSON_NAME,   /* char[size]; min..size-1 bytes */
    JSON_TEXT,   /* char *, owned; min..max bytes; absent: NULL */
    JSON_INT,    /* int, min..max; absent: `absent`; so the next four */
    JSON_INT64,  /* int64_t */
    JSON_UINT32, /* uint32_t */
    JSON_UINT64, /* uint64_t, 0..UINT64_MAX: no min, no max */
    JSON_NUMBER, /* double, finite, min..max; absent: `absent`; written as the shortest decimal */
    JSON_BOOL,   /* bool; absent: false */
    JSON_ENUM,   /* int or enum: the text name(i), i < size */
    JSON_SET,    /* unsigned: bit i for each name(i) in an array; at least `min` of them */
    JSON_STRUCT, /* the struct itself, by `record` */
    JSON_OWNED,  /* pointer to an owned struct, by `record`; absent: NULL */
    JSON_LIST,  /* pointer to owned structs, by `record`, at most `max`; size_t at `count_offset` */
    JSON_TEXTS, /* char ** of texts of at most `size` bytes, at most `max` of them; count as above
                 */
    JSON_RAW,   /* char *: the owned JSON text of an object or array of any content; absent: NULL */
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
    bool open; /* unknown keys are passed over: for what only a person looks at */
};

/* Reads one object of `size_bytes` into `to`, whatever was there before is not freed. */
enum status json_read(const struct json_record *record, void *to, const char *text,
                      size_t size_bytes, struct error *err);

/* Frees what the record owns and sets it to zero. */
void json_record_release(const struct json_record *record, void *owned);
