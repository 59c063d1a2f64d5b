#include "common/problem.h"

#include "common/json.h"

#include <stdlib.h>
#include <string.h>

/* The document; `title` says which status of ours it was. */
struct problem {
    char *type, *title, *detail, *field;
    int status;
};

enum { TEXT_MAX = 2 * ERROR_MESSAGE_MAX };

#define AT(member) .offset = offsetof(struct problem, member)
static const struct json_record problem_record = {
    .size_bytes = sizeof(struct problem),
    .fields =
        {
            {"type", JSON_TEXT, AT(type), .max = TEXT_MAX},
            {"title", JSON_TEXT, AT(title), .max = TEXT_MAX},
            {"status", JSON_INT, AT(status), .min = 100, .max = 599},
            {"detail", JSON_TEXT, AT(detail), .max = TEXT_MAX},
            {"field", JSON_TEXT, AT(field), .optional = true, .max = TEXT_MAX},
        },
};
#undef AT

void problem_write(const struct error *err, int http_status, struct buffer *json)
{
    struct problem problem = {.type = (char *)"about:blank",
                              .title = (char *)status_name(err->status),
                              .status = http_status,
                              .detail = (char *)err->message,
                              .field = err->field[0] == 0 ? NULL : (char *)err->field};

    json_write(&problem_record, &problem, json);
}

enum status problem_status(int http_status)
{
    static const struct {
        int http_status;
        enum status status;
    } table[] = {
        {400, ERR_INVALID},   {401, ERR_UNAUTHENTICATED}, {403, ERR_DENIED},
        {404, ERR_NOT_FOUND}, {408, ERR_TIMEOUT},         {409, ERR_CONFLICT},
        {410, ERR_NOT_FOUND}, {413, ERR_TOO_LARGE},       {422, ERR_INVALID},
        {429, ERR_LIMIT},     {503, ERR_UNAVAILABLE},     {504, ERR_TIMEOUT},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].http_status == http_status) {
            return table[i].status;
        }
    }
    if (http_status >= 500) {
        return ERR_INTERNAL;
    }
    return http_status >= 400 ? ERR_INVALID : ERR_PROTOCOL;
}

/* By its title, which is a status_name where we wrote it. */
static enum status status_of(const struct problem *problem)
{
    for (enum status status = ERR_INVALID; status <= ERR_INTERNAL; status++) {
        if (strcmp(status_name(status), problem->title) == 0) {
            return status;
        }
    }
    return problem_status(problem->status);
}

enum status problem_read(struct error *problem, const char *json, size_t size_bytes,
                         struct error *err)
{
    struct problem document = {0};

    if (size_bytes > PROBLEM_MAX_BYTES ||
        json_read(&problem_record, &document, json, size_bytes, err) != OK) {
        return error_set(err, ERR_PROTOCOL, "the server's error is no problem document");
    }
    error_field(problem, status_of(&document), document.field == NULL ? "" : document.field, "%s",
                document.detail);
    json_record_release(&problem_record, &document);
    return OK;
}
