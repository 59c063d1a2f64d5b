#include "common/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *memory)
{
    if (memory == NULL) {
        (void)fputs("out of memory\n", stderr);
        abort();
    }
    return memory;
}

void *xmalloc(size_t size_bytes)
{
    return checked(malloc(size_bytes > 0 ? size_bytes : 1));
}

void *xcalloc(size_t count, size_t size_bytes)
{
    return checked(calloc(count > 0 ? count : 1, size_bytes > 0 ? size_bytes : 1));
}

void *xrealloc(void *memory, size_t size_bytes)
{
    return checked(realloc(memory, size_bytes > 0 ? size_bytes : 1));
}

char *xstrdup(const char *text)
{
    return checked(strdup(text));
}

char *xstrndup(const char *text, size_t length_max)
{
    return checked(strndup(text, length_max));
}

char *xasprintf(const char *format, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return checked(length < 0 ? NULL : text);
}
