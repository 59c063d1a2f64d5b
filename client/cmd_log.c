#include "client/client.h"
#include "client/show.h"
#include "common/api.h"
#include "common/json_write.h"

#include <stdint.h>

enum status cmd_log(struct client *client, struct error *err)
{
    struct buffer path = {0};
    struct buffer body = {0};
    struct buffer text = {0};

    buffer_printf(&path, "/v1/jobs/");
    api_path_append(&path, client->options->operand);
    buffer_printf(&path, "/log");
    buffer_reserve(&body, 0);
    enum status status = client_get(client, path.data, &body, err);
    if (status == OK && client->options->value[OPTION_JSON] != NULL) {
        buffer_printf(&text, "{\"log\":");
        json_write_text(&text, body.data, SIZE_MAX);
        buffer_printf(&text, "}");
    } else if (status == OK) {
        show_text(body.data, &text);
    }
    if (status == OK) {
        status = client_print(&text, err);
    }
    buffer_release(&text);
    buffer_release(&body);
    buffer_release(&path);
    return status;
}
