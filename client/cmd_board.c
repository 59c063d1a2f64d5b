#include "client/client.h"
#include "client/listing.h"
#include "common/api.h"
#include "common/job.h"

/* What the board is about; the defaults are those of a submission. */
static enum status make_path(const struct options *options, struct buffer *path, struct error *err)
{
    int world = 0;
    int dtype = 0;
    int device = 0;

    enum status status = options_world(options, &world, err);
    if (status == OK) {
        status = options_dtype(options, DTYPE_BF16, &dtype, err);
    }
    if (status == OK) {
        status = options_device(options, DEVICE_SIM, &device, err);
    }
    if (status == OK) {
        buffer_printf(path, "/v1/tasks/");
        api_path_append(path, options->operand);
        buffer_printf(path, "/board?world=%d&dtype=%s&device=%s", world == 0 ? 4 : world,
                      dtype_name((enum dtype)dtype), device_kind_name((enum device_kind)device));
    }
    return status;
}

enum status cmd_board(struct client *client, struct error *err)
{
    struct buffer path = {0};
    struct buffer body = {0};
    struct buffer text = {0};

    enum status status = make_path(client->options, &path, err);
    if (status == OK) {
        status = client_get(client, path.data, &body, err);
    }
    if (status == OK && client->options->value[OPTION_JSON] == NULL) {
        status = listing_board(body.data, body.size_bytes, &text, err);
    }
    if (status == OK) {
        status = client_print(client->options->value[OPTION_JSON] == NULL ? &text : &body, err);
    }
    buffer_release(&text);
    buffer_release(&body);
    buffer_release(&path);
    return status;
}
