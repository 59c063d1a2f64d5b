#include "server/tokens_api.h"

#include "common/json_write.h"
#include "common/log.h"
#include "server/service.h"

#include <stdint.h>
#include <stdio.h>

static void write_token(const struct token *token, int64_t revoked_ms, struct buffer *json)
{
    buffer_printf(json, "{\"id\":\"%s\",\"role\":\"%s\",\"name\":", token->id,
                  role_name(token->role));
    json_write_text(json, token->name, SIZE_MAX);
    if (token->node[0] != 0) {
        buffer_printf(json, ",\"node\":");
        json_write_text(json, token->node, SIZE_MAX);
    }
    if (revoked_ms != 0) {
        buffer_printf(json, ",\"revoked_ms\":%lld", (long long)revoked_ms);
    }
    buffer_printf(json, "}");
}

enum status tokens_list(struct call *call, struct error *err)
{
    struct buffer *answer = &call->http->answer;
    struct token token = {0};
    int64_t revoked_ms = 0;
    const char *comma = "";
    enum status status = token_next(call->service->reader, "", &token, &revoked_ms, err);

    buffer_printf(answer, "{\"tokens\":[");
    while (status == OK) {
        char after[TOKEN_ID_MAX];
        buffer_printf(answer, "%s", comma);
        write_token(&token, revoked_ms, answer);
        comma = ",";
        (void)snprintf(after, sizeof after, "%s", token.id);
        status = token_next(call->service->reader, after, &token, &revoked_ms, err);
    }
    if (status != ERR_NOT_FOUND) {
        return status;
    }
    buffer_printf(answer, "]}");
    call_answer_json(call, 200);
    return OK;
}

enum status tokens_revoke(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct token token = {0};
    enum status status = token_revoke(service->writer, call->id, service->now.wall_ms, &token, err);

    if (status == OK && token.role == ROLE_WORKER) {
        status = queue_return_leases(service->queue, token.node, service->now, err);
    }
    if (status == OK) {
        status = call_event(call, "token.revoked", token.id, token.name, err);
    }
    if (status == OK) {
        log_event(LOG_WARN, "token.revoked", "token=%s name=%s by=%s", token.id, token.name,
                  call->token.name);
        write_token(&token, service->now.wall_ms, &call->http->answer);
        call_answer_json(call, 200);
    }
    return status;
}
