#include "tests/small_server.h"

#include "common/api.h"
#include "common/buffer.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct small_server {
    struct MHD_Daemon *daemon;
    char url[64];
};

enum { HUNG_MAX = 16 };

static int connections; /* accepted so far; only read while nothing is under way */
static struct MHD_Connection *hung[HUNG_MAX];
static int hung_count;
static bool is_stopping;
static const char *const *script;

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    (void)context;
    (void)connection;
    (void)socket_context;
    connections += code == MHD_CONNECTION_NOTIFY_STARTED;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *type,
                              const char *body, size_t size_bytes)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size_bytes, (void *)body, MHD_RESPMEM_MUST_COPY);

    MHD_add_response_header(response, "Content-Type", type);
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* Method, path, type, token and body, as they came. */
static enum MHD_Result echo(struct MHD_Connection *connection, const char *method, const char *path,
                            const struct buffer *body)
{
    struct buffer text = {0};
    const char *token = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    const char *type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Type");

    if (MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Expect") != NULL) {
        return answer(connection, 417, "text/plain", "", 0);
    }
    buffer_printf(&text, "%s %s %s %s %zu %s", method, path, type == NULL ? "-" : type,
                  token == NULL ? "-" : token, body->size_bytes,
                  body->size_bytes > 0 && body->size_bytes < 100 ? body->data : "-");
    enum MHD_Result queued = answer(connection, 200, "text/plain", text.data, text.size_bytes);
    buffer_release(&text);
    return queued;
}

static enum MHD_Result play(struct MHD_Connection *connection)
{
    const char *body = *script;

    if (script[1] == NULL || script[1][0] != 0) {
        script++;
    }
    if (body == NULL) {
        return answer(connection, 503, "text/html", "", 0);
    }
    return answer(connection, 200, "application/json", body, strlen(body));
}

static enum MHD_Result answer_path(struct MHD_Connection *connection, const char *method,
                                   const char *path, const struct buffer *body)
{
    static const char problem[] = "{\"type\":\"about:blank\",\"title\":\"invalid\",\"status\":400,"
                                  "\"detail\":\"must be 4\",\"field\":\"world\"}";
    int status = 0;

    if (sscanf(path, "/status/%d", &status) == 1) {
        return answer(connection, (unsigned)status, "text/html", "<html>", status == 204 ? 0 : 6);
    }
    if (strcmp(path, "/problem") == 0) {
        return answer(connection, 400, "application/problem+json", problem, strlen(problem));
    }
    if (strcmp(path, "/problem/broken") == 0) {
        return answer(connection, 404, "application/problem+json", "{", 1);
    }
    if (strcmp(path, "/hang") == 0) {
        if (is_stopping || hung_count == HUNG_MAX) {
            return MHD_NO;
        }
        hung[hung_count++] = connection;
        MHD_suspend_connection(connection);
        return MHD_YES;
    }
    if (strcmp(path, "/cut") == 0) {
        return MHD_NO;
    }
    if (strncmp(path, "/v1/jobs/", 9) == 0) {
        return play(connection);
    }
    int beyond = 0;
    if (sscanf(path, "/large/%d", &beyond) == 1) {
        size_t size_bytes = (size_t)API_BODY_MAX_BYTES + (size_t)beyond;
        char *large = calloc(1, size_bytes);
        enum MHD_Result queued = answer(connection, 200, "text/plain", large, size_bytes);
        free(large);
        return queued;
    }
    return echo(connection, method, path, body);
}

/* NOLINTNEXTLINE(readability-function-size): the signature is libmicrohttpd's. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
                                  const char *path, const char *method, const char *version,
                                  const char *data, size_t *size_bytes, void **request)
{
    struct buffer *body = *request;

    (void)context;
    (void)version;
    if (body == NULL) {
        *request = calloc(1, sizeof *body);
        return *request == NULL ? MHD_NO : MHD_YES;
    }
    if (*size_bytes > 0) {
        buffer_append(body, data, *size_bytes);
        *size_bytes = 0;
        return MHD_YES;
    }
    return answer_path(connection, method, path, body);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request,
                         enum MHD_RequestTerminationCode code)
{
    struct buffer *body = *request;

    (void)context;
    (void)connection;
    (void)code;
    if (body != NULL) {
        buffer_release(body);
        free(body);
    }
}

int small_server_start(void **state)
{
    static struct small_server server;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    server.daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        on_request, NULL, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL, MHD_OPTION_END);
    if (server.daemon == NULL) {
        return 1;
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server.daemon, MHD_DAEMON_INFO_BIND_PORT);
    (void)snprintf(server.url, sizeof server.url, "http://127.0.0.1:%d", info->port);
    *state = &server;
    return 0;
}

int small_server_stop(void **state)
{
    struct small_server *server = *state;

    is_stopping = true;
    for (int i = 0; i < hung_count; i++) {
        MHD_resume_connection(hung[i]);
    }
    MHD_stop_daemon(server->daemon);
    return 0;
}

const char *small_server_url(void *const *state)
{
    const struct small_server *server = *state;

    return server->url;
}

int small_server_connections(void)
{
    return connections;
}

void small_server_script(const char *const *bodies)
{
    script = bodies;
}
