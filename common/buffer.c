#include "common/buffer.h"

#include "common/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *buffer_reserve(struct buffer *buffer, size_t size_bytes)
{
    size_t needed = buffer->size_bytes + size_bytes + 1;

    assert(needed > size_bytes);
    if (needed > buffer->capacity_bytes) {
        size_t capacity = buffer->capacity_bytes * 2;
        buffer->capacity_bytes = capacity > needed ? capacity : needed;
        buffer->data = xrealloc(buffer->data, buffer->capacity_bytes);
        buffer->data[buffer->size_bytes] = 0;
    }
    return buffer->data + buffer->size_bytes;
}

void buffer_append(struct buffer *buffer, const void *data, size_t size_bytes)
{
    void *end = buffer_reserve(buffer, size_bytes);

    if (size_bytes > 0) {
        memcpy(end, data, size_bytes);
    }
    buffer->size_bytes += size_bytes;
    buffer->data[buffer->size_bytes] = 0;
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(length >= 0);

    char *end = buffer_reserve(buffer, (size_t)length);
    va_start(args, format);
    (void)vsnprintf(end, (size_t)length + 1, format, args);
    va_end(args);
    buffer->size_bytes += (size_t)length;
}

void buffer_consume(struct buffer *buffer, size_t size_bytes)
{
    assert(size_bytes <= buffer->size_bytes);
    if (size_bytes == 0) {
        return;
    }
    buffer->size_bytes -= size_bytes;
    memmove(buffer->data, buffer->data + size_bytes, buffer->size_bytes + 1);
}

void buffer_release(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}
