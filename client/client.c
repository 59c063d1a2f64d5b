#include "client/client.h"

#include "client/show.h"
#include "common/api.h"
#include "common/job.h"
#include "common/result.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_TIMEOUT_MS = 30000 };

/* The first line of the file. */
static enum status read_token(const char *path, char token[static API_TOKEN_MAX], struct error *err)
{
    enum status status = OK;
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        return error_field(err, ERR_INVALID, "--token-file", "cannot open '%s': %m", path);
    }
    if (fgets(token, API_TOKEN_MAX, file) == NULL) {
        status = error_field(err, ERR_INVALID, "--token-file", "no token in '%s'", path);
    } else {
        token[strcspn(token, "\r\n")] = 0;
    }
    (void)fclose(file);
    return status;
}

enum status client_open(struct client *client, const struct options *options, struct error *err)
{
    char token[API_TOKEN_MAX];
    const char *server = options->value[OPTION_SERVER];
    struct api_options api = {.token = options->value[OPTION_TOKEN]};

    if (api.token == NULL && options->value[OPTION_TOKEN_FILE] != NULL) {
        enum status status = read_token(options->value[OPTION_TOKEN_FILE], token, err);
        if (status != OK) {
            return status;
        }
        api.token = token;
    } else if (api.token == NULL) {
        api.token = getenv("PKB_TOKEN");
    }
    if (server == NULL) {
        server = getenv("PKB_SERVER");
    }
    api.server = server == NULL || server[0] == 0 ? "http://127.0.0.1:8750" : server;
    *client = (struct client){.options = options, .verdict = -1};
    return api_open(&client->api, &api, err);
}

void client_close(struct client *client)
{
    api_close(client->api);
    client->api = NULL;
}

/* What a call waits for. */
struct answer {
    bool here;
    enum status status;
    struct error *err;
    struct buffer *body;
};

static void on_done(void *context, const struct api_reply *reply)
{
    struct answer *answer = context;

    answer->here = true;
    answer->status = reply->status;
    if (reply->status == OK) {
        buffer_append(answer->body, reply->body, reply->body_bytes);
    } else {
        *answer->err = reply->error;
    }
}

enum status client_call(struct client *client, const struct client_call *call, struct buffer *body,
                        struct error *err)
{
    struct answer answer = {.err = err, .body = body};
    const struct api_call api_call = {
        .method = call->body == NULL ? "GET" : "POST",
        .path = call->path,
        .body = call->body,
        .body_bytes = call->body_bytes,
        .timeout_ms = call->timeout_ms,
        .done = on_done,
        .context = &answer,
    };

    struct api_request *request = api_start(client->api, &api_call);
    enum status status = api_wait(client->api, call->stop, err);
    if (!answer.here) {
        api_cancel(request);
        return status;
    }
    return answer.status;
}

enum status client_get(struct client *client, const char *path, struct buffer *body,
                       struct error *err)
{
    return client_call(client, &(struct client_call){.path = path, .timeout_ms = CALL_TIMEOUT_MS},
                       body, err);
}

enum status client_print(const struct buffer *text, struct error *err)
{
    bool ends = text->size_bytes == 0 || text->data[text->size_bytes - 1] == '\n';

    if (fwrite(text->data, 1, text->size_bytes, stdout) != text->size_bytes ||
        (!ends && fputc('\n', stdout) == EOF) || fflush(stdout) != 0) {
        return error_set(err, ERR_IO, "cannot write to standard output: %m");
    }
    return OK;
}

/* What is printed of a job: text, the server's JSON, or the replay of its result. */
static enum status choose_text(const struct client *client, const struct result *result,
                               const struct buffer *body, struct buffer *text, struct error *err)
{
    if (client->options->value[OPTION_REPLAY] != NULL) {
        text->size_bytes = 0;
        if (result->replay == NULL) {
            return error_set(err, ERR_NOT_FOUND,
                             "the job has no replay: it is not done, or did not run on the "
                             "simulator");
        }
        replay_write(result->replay, text);
    } else if (client->options->value[OPTION_JSON] != NULL) {
        text->size_bytes = 0;
        buffer_append(text, body->data, body->size_bytes);
    }
    return OK;
}

enum status client_show_job(struct client *client, const struct buffer *body, struct error *err)
{
    struct job job = {0};
    struct result result = {.rank = -1};
    struct buffer text = {0};
    char *json = NULL;

    enum status status = job_read(&job, &json, body->data, body->size_bytes, err);
    if (status == OK && json != NULL) {
        status = result_read(&result, json, strlen(json), err);
    }
    if (status != OK) {
        status = error_set(err, ERR_PROTOCOL, "the server's job cannot be read: %s", err->message);
        goto out;
    }
    show_job(&job, json == NULL ? NULL : &result, &text);
    status = choose_text(client, &result, body, &text, err);
    if (status == OK) {
        status = client_print(&text, err);
    }
    if (status != OK) {
        goto out;
    }
    if (job.state == JOB_DONE) {
        client->verdict = verdict_find(job.verdict);
    } else if (job.state == JOB_CANCELLED || job.state == JOB_QUARANTINED) {
        status = error_set(err, ERR_CONFLICT, "the job is %s", job_state_name(job.state));
    }

out:
    buffer_release(&text);
    result_release(&result);
    free(json);
    return status;
}
