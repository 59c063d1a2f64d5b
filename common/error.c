#include "common/error.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static __attribute__((format(printf, 4, 0))) void
set(struct error *err, enum status status, const char *field, const char *format, va_list args)
{
    assert(status != OK);

    /* The arguments may point into the very error that they replace. */
    struct error made = {.status = status};
    (void)snprintf(made.field, sizeof made.field, "%s", field);
    (void)vsnprintf(made.message, sizeof made.message, format, args);
    *err = made;
}

enum status error_set(struct error *err, enum status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set(err, status, "", format, args);
    va_end(args);
    return status;
}

enum status error_field(struct error *err, enum status status, const char *field,
                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set(err, status, field, format, args);
    va_end(args);
    return status;
}

const char *status_name(enum status status)
{
    static const char *const names[] = {
        [OK] = "ok",
        [ERR_INVALID] = "invalid",
        [ERR_UNAUTHENTICATED] = "unauthenticated",
        [ERR_DENIED] = "denied",
        [ERR_NOT_FOUND] = "not_found",
        [ERR_CONFLICT] = "conflict",
        [ERR_TOO_LARGE] = "too_large",
        [ERR_LIMIT] = "limit",
        [ERR_TIMEOUT] = "timeout",
        [ERR_PROTOCOL] = "protocol",
        [ERR_IO] = "io",
        [ERR_UNAVAILABLE] = "unavailable",
        [ERR_INTERNAL] = "internal",
    };

    assert(status >= OK);
    assert(status <= ERR_INTERNAL);
    return names[status];
}
