/*
 * json_write.h — writes JSON: whole records by their table (json.h), or single values.
 *
 * Writing cuts texts at their limit and replaces invalid UTF-8 by U+FFFD, so that what was written
 * can be read again.
 */
#pragma once

#include "common/buffer.h"

#include <stddef.h>
#include <stdint.h>

/* Integers beyond this are strings in JSON. */
#define JSON_INTEGER_MAX (INT64_C(1) << 53)

enum { JSON_NUMBER_TEXT_MAX = 64 };

struct json_record;

/* Appends the object. */
void json_write(const struct json_record *record, const void *from, struct buffer *json);

/* Appends `text` as a JSON string with its quotes: at most `max_bytes` of it, whole characters. */
void json_write_text(struct buffer *json, const char *text, size_t max_bytes);
void json_write_integer(struct buffer *json, int64_t value);

/* "0x1.8p+1 (3)", "nan", "-inf": how an expected or got value is written. */
void json_number_text(double value, char text[static JSON_NUMBER_TEXT_MAX]);
