#include "client/client.h"
#include "client/follow.h"
#include "common/job.h"
#include "common/mem.h"
#include "common/utf8.h"

#include <stdio.h>
#include <string.h>

enum { SUBMIT_TIMEOUT_MS = 60000 };

/* Reads the file, up to one byte more than is allowed. */
static enum status read_source(const char *path, struct submission_request *request,
                               struct error *err)
{
    enum status status = OK;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");

    if (file == NULL) {
        return error_field(err, ERR_INVALID, path, "cannot open '%s': %m", path);
    }
    char *source = xmalloc(SOURCE_MAX_BYTES + 2);
    size_t size_bytes = fread(source, 1, SOURCE_MAX_BYTES + 1, file);
    size_t valid_bytes = utf8_valid_bytes(source, size_bytes);
    source[size_bytes] = 0;
    request->source = source;
    request->source_bytes = size_bytes;

    if (ferror(file) != 0) {
        status = error_field(err, ERR_INVALID, path, "cannot read '%s': %m", path);
    } else if (size_bytes == 0) {
        status = error_field(err, ERR_INVALID, path, "'%s' is empty", path);
    } else if (size_bytes > SOURCE_MAX_BYTES) {
        status = error_field(err, ERR_TOO_LARGE, path, "'%s' has more than %d bytes", path,
                             SOURCE_MAX_BYTES);
    } else if (valid_bytes < size_bytes) {
        status = error_field(err, ERR_INVALID, path, "'%s' is no UTF-8 text: byte 0x%02x at %zu",
                             path, (unsigned char)source[valid_bytes], valid_bytes);
    }
    if (file != stdin) {
        (void)fclose(file);
    }
    return status;
}

static enum status copy_name(const char *text, const char *option, char name[static NAME_MAX_BYTES],
                             struct error *err)
{
    if (text != NULL && strlen(text) >= NAME_MAX_BYTES) {
        return error_field(err, ERR_TOO_LARGE, option, "'%s' has more than %d bytes", option,
                           NAME_MAX_BYTES - 1);
    }
    (void)snprintf(name, NAME_MAX_BYTES, "%s", text == NULL ? "" : text);
    return OK;
}

static enum status read_request(const struct options *options, struct submission_request *request,
                                struct error *err)
{
    int device = DEVICE_SIM;

    enum status status = copy_name(options->value[OPTION_TASK], "--task", request->task, err);
    if (status == OK) {
        status = copy_name(options->value[OPTION_MODEL], "--model", request->model, err);
    }
    if (status == OK) {
        status = options_world(options, &request->world, err);
    }
    if (status == OK) {
        status = options_dtype(options, -1, &request->dtype, err);
    }
    if (status == OK) {
        status = options_device(options, DEVICE_SIM, &device, err);
    }
    if (status == OK) {
        request->device = (enum device_kind)device;
        status = read_source(options->operand, request, err);
    }
    return status;
}

static enum status print_created(struct client *client, const struct buffer *body,
                                 const struct job *job, struct error *err)
{
    struct buffer text = {0};

    buffer_printf(&text, "%s of %s is queued\n'pkb status %s --wait' follows it\n", job->id,
                  job->submission_id, job->id);
    enum status status =
        client_print(client->options->value[OPTION_JSON] == NULL ? &text : body, err);
    buffer_release(&text);
    return status;
}

enum status cmd_submit(struct client *client, struct error *err)
{
    struct submission_request request = {0};
    struct submission submission = {0};
    struct job job = {0};
    struct buffer json = {0};
    struct buffer body = {0};

    enum status status = read_request(client->options, &request, err);
    if (status != OK) {
        goto out;
    }
    submission_request_write(&request, &json);
    const struct client_call call = {.path = "/v1/submissions",
                                     .body = json.data,
                                     .body_bytes = json.size_bytes,
                                     .timeout_ms = SUBMIT_TIMEOUT_MS};
    status = client_call(client, &call, &body, err);
    if (status != OK) {
        goto out;
    }
    if (submission_created_read(&submission, &job, body.data, body.size_bytes, err) != OK) {
        status =
            error_set(err, ERR_PROTOCOL, "the server's answer cannot be read: %s", err->message);
        goto out;
    }
    if (client->options->value[OPTION_WAIT] == NULL) {
        status = print_created(client, &body, &job, err);
        goto out;
    }
    body.size_bytes = 0;
    status = follow_job(client, job.id, &body, err);
    if (status == OK) {
        status = client_show_job(client, &body, err);
    }

out:
    buffer_release(&body);
    buffer_release(&json);
    submission_request_release(&request);
    return status;
}
