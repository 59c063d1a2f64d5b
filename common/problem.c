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

enum status problem_read(struct error *problem, const char *json, size_t size_bytes,
                         struct error *err)
{
    struct problem document = {0};

    if (size_bytes > PROBLEM_MAX_BYTES ||
        json_read(&problem_record, &document, json, size_bytes, err) != OK) {
        return error_set(err, ERR_PROTOCOL, "the server's error is no problem document");
    }
    enum status status = ERR_INVALID;
    while (status < ERR_INTERNAL && strcmp(status_name(status), document.title) != 0) {
        status++;
    }
    error_field(problem, status, document.field == NULL ? "" : document.field, "%s",
                document.detail);
    json_record_release(&problem_record, &document);
    return OK;
}
