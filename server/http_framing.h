/*
 * http_framing.h — refuses what of a request's head could be read in two ways: here, and by a proxy
 * in front of us.
 *
 * libmicrohttpd hands out texts that end at their first zero byte. They lie in the head as it came,
 * so their places tell what was left out: bytes behind a zero, or a header folded over two lines.
 * uri_note_make runs before the URI is decoded, framing_check when the headers are there.
 */
#pragma once

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>

struct MHD_Connection;

/* What decoding takes away from a URI. */
struct uri_note {
    size_t size_bytes;
    bool has_zero;               /* a %00 */
    char place[ERROR_FIELD_MAX]; /* of that, or of its end: a query parameter, or "path" */
};

void uri_note_make(struct uri_note *note, const char *uri);

struct request_line {
    const char *method, *path, *version; /* as libmicrohttpd hands them out */
    const struct uri_note *uri;
};

/* After an error the connection is of no more use: where the request ends is unclear.
 * ERR_TOO_LARGE: a body beyond `body_max_bytes`. */
enum status framing_check(struct MHD_Connection *connection, const struct request_line *line,
                          int body_max_bytes, struct error *err);
