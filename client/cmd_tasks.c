#include "client/client.h"
#include "client/listing.h"
#include "client/show.h"
#include "common/api.h"
#include "common/json_write.h"

#include <stdint.h>

enum status cmd_tasks(struct client *client, struct error *err)
{
    struct buffer body = {0};
    struct buffer text = {0};

    enum status status = client_get(client, "/v1/tasks", &body, err);
    if (status == OK && client->options->value[OPTION_JSON] == NULL) {
        status = listing_tasks(body.data, body.size_bytes, &text, err);
    }
    if (status == OK) {
        status = client_print(client->options->value[OPTION_JSON] == NULL ? &text : &body, err);
    }
    buffer_release(&text);
    buffer_release(&body);
    return status;
}

/* The header's text, or {"header": text}. */
static void show_header(const struct client *client, const struct buffer *body, struct buffer *text)
{
    if (client->options->value[OPTION_JSON] == NULL) {
        show_text(body->data, text);
        return;
    }
    buffer_printf(text, "{\"header\":");
    json_write_text(text, body->data, SIZE_MAX);
    buffer_printf(text, "}");
}

enum status cmd_task(struct client *client, struct error *err)
{
    const struct options *options = client->options;
    struct buffer path = {0};
    struct buffer body = {0};
    struct buffer text = {0};
    int dtype = 0;

    enum status status = options_dtype(options, -1, &dtype, err);
    if (status != OK) {
        return status;
    }
    buffer_printf(&path, "/v1/tasks/");
    api_path_append(&path, options->operand);
    if (options->value[OPTION_HEADER] != NULL) {
        buffer_printf(&path, "/header");
        if (dtype >= 0) {
            buffer_printf(&path, "?dtype=%s", dtype_name((enum dtype)dtype));
        }
    }
    buffer_reserve(&body, 0);
    status = client_get(client, path.data, &body, err);
    if (status == OK && options->value[OPTION_HEADER] != NULL) {
        show_header(client, &body, &text);
    } else if (status == OK && options->value[OPTION_JSON] != NULL) {
        buffer_append(&text, body.data, body.size_bytes);
    } else if (status == OK) {
        status = listing_task(body.data, body.size_bytes, &text, err);
    }
    if (status == OK) {
        status = client_print(&text, err);
    }
    buffer_release(&text);
    buffer_release(&body);
    buffer_release(&path);
    return status;
}
