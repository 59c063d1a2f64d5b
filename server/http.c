#include "server/http.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/problem.h"
#include "server/http_framing.h"
#include "server/listen.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTION_POOL_BYTES = 16 * 1024 };

/* A connection, for the sweep. */
struct peer {
    int fd;
    bool is_kept; /* its request waits for us, not for the client */
    int64_t until_ms;
    struct uri_note uri; /* of its request */
    struct peer *prev, *next;
};

struct http_server {
    struct MHD_Daemon *daemon;
    struct http_hooks hooks;
    int port;
    int request_count;
    bool resumed;
    struct peer peers; /* head of a ring */
};

struct exchange {
    struct http_request request; /* first: the hooks know this part */
    struct http_server *server;
    struct MHD_Connection *connection;
    struct peer *peer;
    size_t body_bytes; /* so far */
    size_t dropped_bytes;
    int body_max_bytes;
    int http_status; /* 0: not answered */
    const char *content_type;
    bool is_suspended;
    bool must_close; /* where its body ends is unclear */
};

static struct exchange *exchange_of(const struct http_request *request)
{
    return (struct exchange *)request;
}

const char *http_header(const struct http_request *request, const char *name)
{
    return MHD_lookup_connection_value(exchange_of(request)->connection, MHD_HEADER_KIND, name);
}

static int http_status_of(enum status status)
{
    static const int codes[] = {
        [OK] = 200,
        [ERR_INVALID] = 400,
        [ERR_UNAUTHENTICATED] = 401,
        [ERR_DENIED] = 403,
        [ERR_NOT_FOUND] = 404,
        [ERR_CONFLICT] = 409,
        [ERR_TOO_LARGE] = 413,
        [ERR_LIMIT] = 429,
        [ERR_TIMEOUT] = 504,
        [ERR_PROTOCOL] = 400,
        [ERR_IO] = 500,
        [ERR_UNAVAILABLE] = 503,
        [ERR_INTERNAL] = 500,
    };

    return codes[status];
}

void http_answer(struct http_request *request, int http_status, const char *content_type)
{
    struct exchange *exchange = exchange_of(request);

    assert(exchange->http_status == 0);
    exchange->http_status = http_status;
    exchange->content_type = content_type;
    if (exchange->is_suspended) {
        exchange->is_suspended = false;
        exchange->server->resumed = true;
        MHD_resume_connection(exchange->connection);
    }
}

static void refuse(struct http_request *request, const struct error *err, int http_status)
{
    buffer_release(&request->answer);
    problem_write(err, http_status, &request->answer);
    http_answer(request, http_status, "application/problem+json");
}

void http_refuse(struct http_request *request, const struct error *err)
{
    refuse(request, err, http_status_of(err->status));
}

void http_refuse_method(struct http_request *request, const char *allow)
{
    struct error err = {0};

    request->allow = allow;
    error_set(&err, ERR_INVALID, "%s is not a method of this path: %s", request->method, allow);
    refuse(request, &err, MHD_HTTP_METHOD_NOT_ALLOWED);
}

void http_continue(struct http_request *request)
{
    struct exchange *exchange = exchange_of(request);

    assert(exchange->is_suspended && !request->is_complete);
    exchange->is_suspended = false;
    exchange->server->resumed = true;
    exchange->peer->is_kept = false;
    exchange->peer->until_ms = clock_monotonic_ms() + HTTP_REQUEST_MS;
    MHD_resume_connection(exchange->connection);
}

bool http_client_is_there(const struct http_request *request)
{
    char byte;
    ssize_t got = recv(exchange_of(request)->peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- from libmicrohttpd ---- */

static struct peer *peer_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* What it returns is the request's first state. */
static void *note_uri(void *context, const char *uri, struct MHD_Connection *connection)
{
    (void)context;
    uri_note_make(&peer_of(connection)->uri, uri);
    return NULL;
}

static enum MHD_Result take_parameter(void *context, enum MHD_ValueKind kind, const char *name,
                                      const char *value)
{
    struct http_request *request = context;

    (void)kind;
    if (request->query_count < HTTP_QUERY_MAX) {
        request->query[request->query_count].name = name;
        request->query[request->query_count].value = value == NULL ? "" : value;
    }
    request->query_count++;
    return MHD_YES;
}

static enum status too_large(const struct exchange *exchange, struct error *err)
{
    return error_set(err, ERR_TOO_LARGE, "the body is larger than %d bytes",
                     exchange->body_max_bytes);
}

static enum status check_head(struct exchange *exchange, const char *version, struct error *err)
{
    const struct uri_note *uri = &exchange->peer->uri;
    struct request_line line = {exchange->request.method, exchange->request.path, version, uri};
    enum status status = framing_check(exchange->connection, &line, exchange->body_max_bytes, err);

    exchange->must_close = status != OK;
    if (status != OK) {
        return status;
    }
    if (uri->has_zero) {
        return error_field(err, ERR_INVALID, uri->place, "a zero byte, %%00, in '%s'", uri->place);
    }
    if (exchange->request.query_count > HTTP_QUERY_MAX) {
        return error_set(err, ERR_INVALID, "more than %d query parameters", HTTP_QUERY_MAX);
    }
    return OK;
}

static enum MHD_Result send_answer(struct exchange *exchange)
{
    struct http_request *request = &exchange->request;
    enum MHD_Result result = MHD_NO;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        request->answer.size_bytes, request->answer.data, MHD_RESPMEM_MUST_FREE);

    if (response == NULL) {
        return MHD_NO;
    }
    request->answer = (struct buffer){0}; /* the response frees it */
    if (exchange->content_type != NULL) {
        MHD_add_response_header(response, "Content-Type", exchange->content_type);
    }
    if (request->location != NULL) {
        MHD_add_response_header(response, "Location", request->location);
    }
    if (request->is_attachment) {
        MHD_add_response_header(response, "Content-Disposition", "attachment");
    }
    if (request->allow != NULL) {
        MHD_add_response_header(response, "Allow", request->allow);
    }
    if (exchange->http_status == MHD_HTTP_UNAUTHORIZED) {
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    }
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (exchange->must_close) {
        MHD_add_response_header(response, "Connection", "close");
    }
    exchange->peer->is_kept = false;
    exchange->peer->until_ms = clock_monotonic_ms() + HTTP_ANSWER_MS;
    result = MHD_queue_response(exchange->connection, (unsigned)exchange->http_status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result begin(struct exchange *exchange, const char *version)
{
    struct http_server *server = exchange->server;
    struct http_request *request = &exchange->request;
    struct error err = {0};

    MHD_get_connection_values(exchange->connection, MHD_GET_ARGUMENT_KIND, take_parameter, request);
    exchange->peer->until_ms = clock_monotonic_ms() + HTTP_REQUEST_MS;
    exchange->body_max_bytes = server->hooks.body_max(request->method, request->path);
    request->is_streamed = exchange->body_max_bytes > HTTP_BODY_MAX_BYTES;
    if (check_head(exchange, version, &err) != OK) {
        http_refuse(request, &err);
    } else {
        server->hooks.begin(server->hooks.context, request);
    }
    /* An answer before the body ends the connection; so what can be read to its end is. */
    return exchange->must_close ? send_answer(exchange) : MHD_YES;
}

/* Keeps a request until it is answered or continued. */
static void suspend(struct exchange *exchange)
{
    MHD_suspend_connection(exchange->connection);
    exchange->is_suspended = true;
}

static enum MHD_Result take_body(struct exchange *exchange, const char *data, size_t *size_bytes)
{
    struct http_request *request = &exchange->request;
    struct http_server *server = exchange->server;
    struct error err = {0};

    exchange->body_bytes += *size_bytes;
    if (exchange->http_status == 0 && exchange->body_bytes > (size_t)exchange->body_max_bytes) {
        too_large(exchange, &err);
        buffer_release(&request->body);
        http_refuse(request, &err);
    }
    if (exchange->http_status == 0) {
        buffer_append(&request->body, data, *size_bytes);
    } else {
        exchange->dropped_bytes += *size_bytes;
    }
    *size_bytes = 0;
    if (exchange->http_status == 0 && request->is_streamed &&
        request->body.size_bytes >= HTTP_PART_BYTES) {
        exchange->peer->is_kept = true;
        server->hooks.part(server->hooks.context, request);
        if (exchange->http_status == 0) {
            suspend(exchange);
        }
    }
    return exchange->dropped_bytes > HTTP_DROPPED_MAX_BYTES ? MHD_NO : MHD_YES;
}

/* NOLINTNEXTLINE(readability-function-size): the signature is libmicrohttpd's. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_bytes, void **state)
{
    struct http_server *server = context;
    struct exchange *exchange = *state;

    if (exchange == NULL) {
        exchange = xcalloc(1, sizeof *exchange);
        exchange->request.method = method;
        exchange->request.path = url;
        exchange->server = server;
        exchange->connection = connection;
        exchange->peer = peer_of(connection);
        server->request_count++;
        *state = exchange;
        return begin(exchange, version);
    }
    if (*data_bytes > 0) {
        return take_body(exchange, data, data_bytes);
    }
    if (exchange->http_status == 0) {
        exchange->peer->is_kept = true;
        exchange->request.is_complete = true;
        server->hooks.complete(server->hooks.context, &exchange->request);
    }
    if (exchange->http_status == 0) {
        suspend(exchange);
        return MHD_YES;
    }
    return send_answer(exchange);
}

static void request_ended(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_RequestTerminationCode code)
{
    struct http_server *server = context;
    struct exchange *exchange = *state;

    (void)connection;
    (void)code;
    if (exchange == NULL) {
        return;
    }
    server->hooks.end(server->hooks.context, &exchange->request);
    exchange->peer->is_kept = false;
    exchange->peer->until_ms = clock_monotonic_ms() + HTTP_REQUEST_MS;
    buffer_release(&exchange->request.body);
    buffer_release(&exchange->request.answer);
    free(exchange);
    *state = NULL;
    server->request_count--;
}

static void connection_changed(void *context, struct MHD_Connection *connection,
                               void **socket_context, enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = context;
    struct peer *peer = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        peer = xcalloc(1, sizeof *peer);
        peer->fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        peer->until_ms = clock_monotonic_ms() + HTTP_REQUEST_MS;
        peer->next = &server->peers;
        peer->prev = server->peers.prev;
        peer->prev->next = peer;
        peer->next->prev = peer;
        *socket_context = peer;
        return;
    }
    peer->prev->next = peer->next;
    peer->next->prev = peer->prev;
    free(peer);
    *socket_context = NULL;
}

void http_sweep(struct http_server *server, int64_t now_ms)
{
    for (struct peer *peer = server->peers.next; peer != &server->peers; peer = peer->next) {
        if (!peer->is_kept && peer->until_ms <= now_ms) {
            shutdown(peer->fd, SHUT_RDWR);
        }
    }
}

/* ---- life ---- */

enum status http_open(struct http_server **server, const char *address,
                      const struct http_hooks *hooks, struct error *err)
{
    int listener = -1;
    int port = 0;
    enum status status = listen_open(address, &listener, &port, err);

    if (status != OK) {
        return status;
    }
    struct http_server *opened = xcalloc(1, sizeof *opened);
    opened->hooks = *hooks;
    opened->port = port;
    opened->peers.prev = &opened->peers;
    opened->peers.next = &opened->peers;
    opened->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle, opened,
        MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, listen_connections_max(),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S, MHD_OPTION_NOTIFY_COMPLETED,
        request_ended, opened, MHD_OPTION_NOTIFY_CONNECTION, connection_changed, opened,
        MHD_OPTION_URI_LOG_CALLBACK, note_uri, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
    if (opened->daemon == NULL) {
        close(listener);
        free(opened);
        return error_set(err, ERR_IO, "cannot start the HTTP daemon on '%s': %m", address);
    }
    *server = opened;
    return OK;
}

void http_stop(struct http_server *server)
{
    int listener = MHD_quiesce_daemon(server->daemon);

    if (listener >= 0) {
        close(listener);
    }
}

void http_close(struct http_server *server)
{
    if (server == NULL) {
        return;
    }
    MHD_stop_daemon(server->daemon);
    free(server);
}

int http_port(const struct http_server *server)
{
    return server->port;
}

int http_fd(const struct http_server *server)
{
    return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int64_t http_timeout_ms(struct http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms = 0;

    return MHD_get_timeout(server->daemon, &timeout_ms) == MHD_YES ? (int64_t)timeout_ms : -1;
}

void http_run(struct http_server *server)
{
    server->resumed = false;
    if (MHD_run(server->daemon) != MHD_YES) {
        log_event(LOG_ERROR, "http.run_failed", "port=%d", server->port);
    }
}

bool http_has_resumed(const struct http_server *server)
{
    return server->resumed;
}

int http_request_count(const struct http_server *server)
{
    return server->request_count;
}
