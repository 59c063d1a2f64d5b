/*
 * mem.h — allocation that cannot fail: the process aborts when memory is out.
 *
 * A size that comes from outside is held against its own _MAX before it gets here.
 */
#pragma once

#include <stddef.h>

void *xmalloc(size_t size_bytes);
void *xcalloc(size_t count, size_t size_bytes);
void *xrealloc(void *memory, size_t size_bytes);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t length_max);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
