#include "server/http_framing.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void uri_note_make(struct uri_note *note, const char *uri)
{
    const char *zero = strstr(uri, "%00");
    const char *query = strchr(uri, '?');
    const char *from = zero == NULL ? uri + strlen(uri) : zero;

    note->size_bytes = strlen(uri);
    note->has_zero = zero != NULL;
    if (query == NULL || from < query) {
        (void)snprintf(note->place, sizeof note->place, "path");
        return;
    }
    while (from[-1] != '&' && from - 1 != query) {
        from--;
    }
    (void)snprintf(note->place, sizeof note->place, "%.*s", (int)strcspn(from, "=&"), from);
}

/* A request line with a zero byte in it is longer than its three parts. */
static bool line_is_whole(const struct request_line *line)
{
    return line->path == line->method + strlen(line->method) + 1 &&
           line->version == line->path + line->uri->size_bytes + 1;
}

/* Headers of which a second one would be read by some and passed over by others. */
static const char *const single_headers[] = {"Content-Length", "Transfer-Encoding",
                                             "Content-Type",   "Authorization",
                                             "Host",           "Idempotency-Key"};
enum { CONTENT_LENGTH, TRANSFER_ENCODING, SINGLE_HEADERS = 6 };

struct framing {
    const char *single[SINGLE_HEADERS]; /* their values, or NULL */
    const char *repeated;               /* the first that is given twice */
    const char *name, *end;             /* of the header before, or of the request line */
    char odd[ERROR_FIELD_MAX];          /* the first header that is not as it should be */
};

static bool is_token(const char *name)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return name[0] != 0 && name[strspn(name, token)] == 0;
}

static bool is_plain(const char *value)
{
    for (; *value != 0; value++) {
        if (((unsigned char)*value < ' ' && *value != '\t') || *value == 0x7f) {
            return false;
        }
    }
    return true;
}

/* One line of the head, right behind the line before: no fold and no zero byte. */
static bool is_in_place(const struct framing *framing, const char *name, const char *value)
{
    size_t line_end = (size_t)(name - framing->end); /* a zero byte for each of CR LF, or LF */
    const char *colon = name + strlen(name);         /* a zero byte, too */

    return (line_end == 1 || line_end == 2) && value > colon &&
           (size_t)(value - colon) == 1 + strspn(colon + 1, " \t");
}

static enum MHD_Result take_header(void *context, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    struct framing *framing = context;

    (void)kind;
    if (framing->odd[0] == 0 &&
        (!is_token(name) || !is_plain(value) || !is_in_place(framing, name, value))) {
        (void)snprintf(framing->odd, sizeof framing->odd, "%s", name[0] == 0 ? ":" : name);
    }
    framing->name = name;
    framing->end = value + strlen(value);
    for (int i = 0; i < SINGLE_HEADERS; i++) {
        if (strcasecmp(name, single_headers[i]) != 0) {
            continue;
        }
        if (framing->single[i] != NULL && framing->repeated == NULL) {
            framing->repeated = single_headers[i];
        }
        framing->single[i] = value;
    }
    return MHD_YES;
}

/* Behind the last header there is its line's end and an empty line. */
static bool is_at_end(const struct framing *framing, const char *head, size_t head_bytes)
{
    size_t rest_bytes = (size_t)(head + head_bytes - framing->end);

    return rest_bytes >= 2 && rest_bytes <= 4;
}

static enum status check_length(const char *length, int body_max_bytes, struct error *err)
{
    if (strspn(length, "0123456789") != strlen(length) || *length == 0) {
        return error_field(err, ERR_PROTOCOL, "Content-Length",
                           "Content-Length is not a whole number");
    }
    if (strlen(length) > 18 || strtoll(length, NULL, 10) > body_max_bytes) {
        return error_set(err, ERR_TOO_LARGE, "the body is larger than %d bytes", body_max_bytes);
    }
    return OK;
}

enum status framing_check(struct MHD_Connection *connection, const struct request_line *line,
                          int body_max_bytes, struct error *err)
{
    struct framing framing = {.name = "HTTP", .end = line->version + strlen(line->version)};
    size_t head_bytes =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;

    if (!line_is_whole(line)) {
        return error_field(err, ERR_PROTOCOL, line->uri->place,
                           "the request line has a zero byte after '%s'", line->uri->place);
    }
    MHD_get_connection_values(connection, MHD_HEADER_KIND, take_header, &framing);
    if (framing.odd[0] == 0 && !is_at_end(&framing, line->method, head_bytes)) {
        (void)snprintf(framing.odd, sizeof framing.odd, "%s", framing.name);
    }
    if (framing.odd[0] != 0) {
        return error_field(err, ERR_PROTOCOL, framing.odd,
                           "the header '%s' is not NAME: VALUE on one line, with no blank before"
                           " the colon and no control character",
                           framing.odd);
    }
    if (framing.repeated != NULL) {
        return error_field(err, ERR_PROTOCOL, framing.repeated, "%s is given twice",
                           framing.repeated);
    }
    const char *length = framing.single[CONTENT_LENGTH];
    const char *encoding = framing.single[TRANSFER_ENCODING];
    if (length != NULL && encoding != NULL) {
        return error_field(err, ERR_PROTOCOL, "Transfer-Encoding",
                           "Content-Length and Transfer-Encoding are both given: send one");
    }
    if (encoding != NULL && strcasecmp(encoding, "chunked") != 0) {
        return error_field(err, ERR_PROTOCOL, "Transfer-Encoding",
                           "only Transfer-Encoding: chunked is understood");
    }
    return length == NULL ? OK : check_length(length, body_max_bytes, err);
}
