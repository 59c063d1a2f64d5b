#include "server/server_api.h"

#include "server/schema.h"

enum status health_get(struct call *call, struct error *err)
{
    (void)err;
    buffer_printf(&call->http->answer, "{\"status\":\"ok\"}");
    call_answer_json(call, 200);
    return OK;
}

enum status openapi_get(struct call *call, struct error *err)
{
    (void)err;
    buffer_printf(&call->http->answer, "%s", schema_openapi);
    call_answer_empty(call, 200);
    call->content_type = "application/yaml";
    return OK;
}
