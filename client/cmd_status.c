#include "client/client.h"
#include "client/follow.h"
#include "common/api.h"

enum status cmd_status(struct client *client, struct error *err)
{
    const char *id = client->options->operand;
    struct buffer path = {0};
    struct buffer body = {0};
    enum status status = OK;

    if (client->options->value[OPTION_WAIT] != NULL) {
        status = follow_job(client, id, &body, err);
    } else {
        buffer_printf(&path, "/v1/jobs/");
        api_path_append(&path, id);
        status = client_get(client, path.data, &body, err);
    }
    if (status == OK) {
        status = client_show_job(client, &body, err);
    }
    buffer_release(&body);
    buffer_release(&path);
    return status;
}
