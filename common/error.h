/*
 * error.h — how a function says that it failed, and why.
 *
 * What can fail returns an enum status and takes a struct error last, declared as {0}. The status
 * is for branching, the message for people. `field` names the part of the input that is wrong, as
 * the client wrote it (a JSON key, an option), or is empty.
 */
#pragma once

#include <stdarg.h>

enum status {
    OK = 0,
    ERR_INVALID,         /* the input is wrong; the message says what would be right */
    ERR_UNAUTHENTICATED, /* no token, or one that we do not know */
    ERR_DENIED,          /* a known token whose role does not allow this */
    ERR_NOT_FOUND,
    ERR_CONFLICT,  /* a stale epoch, a key used twice for different things */
    ERR_TOO_LARGE, /* beyond a named _MAX */
    ERR_LIMIT,     /* a rate or quota; the same request may pass later */
    ERR_TIMEOUT,
    ERR_PROTOCOL,    /* the other side said what the protocol does not allow */
    ERR_IO,          /* the system refused: file, socket, process */
    ERR_UNAVAILABLE, /* not now, or not on this machine */
    ERR_INTERNAL,    /* our own fault */
};

enum { ERROR_FIELD_MAX = 64, ERROR_MESSAGE_MAX = 512 };

struct error {
    enum status status;
    char field[ERROR_FIELD_MAX];
    char message[ERROR_MESSAGE_MAX];
};

/* Both record the failure in `err` and return `status`; a message that is too long is cut. */
enum status error_set(struct error *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum status error_field(struct error *err, enum status status, const char *field,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The status as a word for logs and JSON: "invalid", "not_found", ... */
const char *status_name(enum status status);
