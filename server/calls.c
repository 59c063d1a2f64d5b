#include "server/calls.h"

#include "server/events.h"
#include "server/service.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void call_list_append(struct call_list *list, struct call *call)
{
    assert(call->list == NULL);
    call->list = list;
    call->prev = list->last;
    call->next = NULL;
    if (list->last == NULL) {
        list->first = call;
    } else {
        list->last->next = call;
    }
    list->last = call;
}

void call_list_remove(struct call *call)
{
    struct call_list *list = call->list;

    if (list == NULL) {
        return;
    }
    if (call->prev == NULL) {
        list->first = call->next;
    } else {
        call->prev->next = call->next;
    }
    if (call->next == NULL) {
        list->last = call->prev;
    } else {
        call->next->prev = call->prev;
    }
    call->list = NULL;
}

void call_answer_json(struct call *call, int http_status)
{
    call->http_status = http_status;
    call->content_type = "application/json";
}

void call_answer_text(struct call *call)
{
    call->http_status = 200;
    call->content_type = "text/plain; charset=utf-8";
}

void call_answer_empty(struct call *call, int http_status)
{
    call->http_status = http_status;
    call->content_type = NULL;
}

const char *call_owner(const struct call *call)
{
    return call->token.role == ROLE_ADMIN ? NULL : call->token.name;
}

enum status call_key(const struct call *call, const char **key, struct error *err)
{
    *key = http_header(call->http, "Idempotency-Key");
    if (*key == NULL) {
        *key = "";
        return OK;
    }
    bool is_plain = (*key)[0] != 0 && strlen(*key) <= KEY_MAX_BYTES;
    for (const char *byte = *key; *byte != 0; byte++) {
        is_plain = is_plain && *byte > ' ' && (unsigned char)*byte < 0x7f;
    }
    if (!is_plain) {
        return error_field(err, ERR_INVALID, "Idempotency-Key",
                           "an Idempotency-Key has 1 to %d printable ASCII characters",
                           KEY_MAX_BYTES);
    }
    return OK;
}

enum status call_event(const struct call *call, const char *kind, const char *subject,
                       const char *why, struct error *err)
{
    struct buffer detail = {0};

    buffer_printf(&detail, "by %s%s%s", call->token.name, why[0] == 0 ? "" : ": ", why);
    enum status status = event_add(call->service->writer, call->service->now.wall_ms, kind, subject,
                                   detail.data, err);
    buffer_release(&detail);
    return status;
}

enum status call_check_node(const struct call *call, const char *field, const char *name,
                            struct error *err)
{
    if (call->token.role == ROLE_WORKER && strcmp(call->token.node, name) != 0) {
        return error_field(err, ERR_DENIED, field, "this token is for the worker '%s' only",
                           call->token.node);
    }
    return OK;
}

const char *call_query(const struct call *call, const char *name)
{
    for (int i = 0; i < call->http->query_count; i++) {
        if (strcmp(call->http->query[i].name, name) == 0) {
            return call->http->query[i].value;
        }
    }
    return NULL;
}

enum status call_query_int(const struct call *call, const char *name, int min, int max, int *value,
                           struct error *err)
{
    const char *text = call_query(call, name);
    char *end = NULL;

    if (text == NULL) {
        return OK;
    }
    long number = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != 0 || number < min || number > max) {
        return error_field(err, ERR_INVALID, name, "'%s' is not a whole number from %d to %d", name,
                           min, max);
    }
    *value = (int)number;
    return OK;
}
