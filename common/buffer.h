/*
 * buffer.h — bytes that grow.
 *
 * Starts as {0}; `data` is NULL until something is appended and then always ends with a zero byte
 * that `size_bytes` does not count. Whoever appends what comes from outside checks its size first.
 */
#pragma once

#include <stddef.h>

struct buffer {
    char *data;
    size_t size_bytes;
    size_t capacity_bytes;
};

void buffer_append(struct buffer *buffer, const void *data, size_t size_bytes);
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes room for `size_bytes` more and returns where they go; the caller adds to size_bytes. */
void *buffer_reserve(struct buffer *buffer, size_t size_bytes);

/* Removes the first `size_bytes`, which must be there. */
void buffer_consume(struct buffer *buffer, size_t size_bytes);
void buffer_release(struct buffer *buffer);
