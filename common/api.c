#include "common/api.h"

#include "common/clock.h"
#include "common/mem.h"
#include "common/problem.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SOCKETS_MAX = 64 };

/* The watches of a caller without a loop: what api_wait polls. */
struct waiting {
    struct pollfd sockets[SOCKETS_MAX];
    size_t socket_count;
    int64_t due_ms; /* on the monotonic clock; -1: never */
};

struct api {
    CURLM *multi;
    char server[API_SERVER_MAX];
    char token[API_TOKEN_MAX];
    struct api_watches watches;
    struct waiting waiting;
    struct api_request *first;
};

struct api_request {
    struct api *api;
    struct api_request *next;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    struct buffer reply;
    bool too_large;
    char message[CURL_ERROR_SIZE];
    void (*done)(void *context, const struct api_reply *reply);
    void *context;
};

/* ---- watches ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *unused)
{
    static const unsigned events[] = {[CURL_POLL_NONE] = 0,
                                      [CURL_POLL_IN] = API_READ,
                                      [CURL_POLL_OUT] = API_WRITE,
                                      [CURL_POLL_INOUT] = API_READ | API_WRITE,
                                      [CURL_POLL_REMOVE] = 0};
    struct api *api = context;

    (void)easy;
    (void)unused;
    api->watches.socket(api->watches.context, fd, events[what]);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *context)
{
    struct api *api = context;

    (void)multi;
    api->watches.timer(api->watches.context, timeout_ms);
    return 0;
}

static void wait_socket(void *context, int fd, unsigned events)
{
    struct waiting *waiting = context;
    size_t i = 0;

    while (i < waiting->socket_count && waiting->sockets[i].fd != fd) {
        i++;
    }
    if (events == 0) {
        if (i < waiting->socket_count) {
            waiting->sockets[i] = waiting->sockets[--waiting->socket_count];
        }
        return;
    }
    assert(i < SOCKETS_MAX);
    short polled = (short)(((events & API_READ) != 0 ? POLLIN : 0) |
                           ((events & API_WRITE) != 0 ? POLLOUT : 0));
    waiting->sockets[i] = (struct pollfd){.fd = fd, .events = polled};
    if (i == waiting->socket_count) {
        waiting->socket_count++;
    }
}

static void wait_timer(void *context, int64_t timeout_ms)
{
    struct waiting *waiting = context;

    waiting->due_ms = timeout_ms < 0 ? -1 : clock_monotonic_ms() + timeout_ms;
}

/* ---- opening and closing ---- */

static bool has_control_byte(const char *text)
{
    for (; *text != 0; text++) {
        if ((unsigned char)*text <= ' ' || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

/* Only scheme, host and port: what follows would end up in front of our paths. */
static enum status check_server(const char *server, struct error *err)
{
    enum status status = OK;
    char *scheme = NULL;
    char *path = NULL;
    CURLU *url = curl_url();

    if (strlen(server) >= API_SERVER_MAX) {
        status = error_field(err, ERR_TOO_LARGE, "server", "the server's URL is too long");
    } else if (url == NULL || has_control_byte(server) ||
               curl_url_set(url, CURLUPART_URL, server, 0) != CURLUE_OK ||
               curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
               curl_url_get(url, CURLUPART_PATH, &path, 0) != CURLUE_OK ||
               (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) ||
               strcmp(path, "/") != 0 || strpbrk(server, "?#@") != NULL) {
        status = error_field(err, ERR_INVALID, "server",
                             "'%s' must be http://HOST[:PORT] or https://HOST[:PORT]", server);
    }
    curl_free(path);
    curl_free(scheme);
    curl_url_cleanup(url);
    return status;
}

enum status api_open(struct api **api, const struct api_options *options, struct error *err)
{
    const char *token = options->token == NULL ? "" : options->token;

    enum status status = check_server(options->server, err);
    if (status != OK) {
        return status;
    }
    if (strlen(token) >= API_TOKEN_MAX || has_control_byte(token)) {
        return error_field(err, ERR_INVALID, "token", "the token is none that a server gives out");
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return error_set(err, ERR_UNAVAILABLE, "cannot start libcurl");
    }

    struct api *made = xcalloc(1, sizeof *made);
    (void)snprintf(made->server, sizeof made->server, "%s", options->server);
    if (made->server[strlen(made->server) - 1] == '/') {
        made->server[strlen(made->server) - 1] = 0;
    }
    (void)snprintf(made->token, sizeof made->token, "%s", token);
    made->waiting.due_ms = -1;
    made->watches = options->watches;
    if (made->watches.socket == NULL) {
        made->watches = (struct api_watches){
            .context = &made->waiting, .socket = wait_socket, .timer = wait_timer};
    }
    made->multi = curl_multi_init();
    assert(made->multi != NULL);
    curl_multi_setopt(made->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(made->multi, CURLMOPT_SOCKETDATA, made);
    curl_multi_setopt(made->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(made->multi, CURLMOPT_TIMERDATA, made);
    *api = made;
    return OK;
}

static void release(struct api_request *request)
{
    curl_easy_cleanup(request->easy);
    curl_slist_free_all(request->headers);
    buffer_release(&request->reply);
    free(request->body);
    free(request);
}

void api_close(struct api *api)
{
    if (api == NULL) {
        return;
    }
    struct api_request *request = api->first;
    while (request != NULL) {
        struct api_request *next = request->next;
        curl_multi_remove_handle(api->multi, request->easy);
        release(request);
        request = next;
    }
    curl_multi_cleanup(api->multi);
    api->watches.timer(api->watches.context, -1);
    curl_global_cleanup();
    free(api);
}

/* ---- requests ---- */

static size_t on_data(char *data, size_t one, size_t size_bytes, void *context)
{
    struct api_request *request = context;

    (void)one;
    if (request->reply.size_bytes + size_bytes > API_BODY_MAX_BYTES) {
        request->too_large = true;
        return 0;
    }
    buffer_append(&request->reply, data, size_bytes);
    return size_bytes;
}

static void add_header(struct api_request *request, const char *header)
{
    struct curl_slist *longer = curl_slist_append(request->headers, header);

    assert(longer != NULL);
    request->headers = longer;
}

static void set_headers(struct api_request *request, const struct api_call *call)
{
    if (request->api->token[0] != 0) {
        char header[API_TOKEN_MAX + 32];
        (void)snprintf(header, sizeof header, "Authorization: Bearer %s", request->api->token);
        add_header(request, header);
    }
    /* Without a body there is none, though libcurl would name one for a POST. */
    add_header(request, call->body == NULL ? "Content-Type:" : "Content-Type: application/json");
    add_header(request, "Expect:"); /* a large body would wait a second for "100 continue" */
    curl_easy_setopt(request->easy, CURLOPT_HTTPHEADER, request->headers);
}

static void set_body(struct api_request *request, const struct api_call *call)
{
    if (call->body != NULL) {
        request->body = xmalloc(call->body_bytes);
        memcpy(request->body, call->body, call->body_bytes);
    }
    if (call->body != NULL || strcmp(call->method, "POST") == 0) {
        const char *body = call->body == NULL ? "" : request->body;
        curl_easy_setopt(request->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_bytes);
        curl_easy_setopt(request->easy, CURLOPT_POSTFIELDS, body);
    }
    curl_easy_setopt(request->easy, CURLOPT_CUSTOMREQUEST, call->method);
}

struct api_request *api_start(struct api *api, const struct api_call *call)
{
    struct api_request *request = xcalloc(1, sizeof *request);
    int64_t connect_ms =
        call->timeout_ms < API_CONNECT_MAX_MS ? call->timeout_ms : API_CONNECT_MAX_MS;

    assert(call->path[0] == '/');
    assert(call->timeout_ms > 0);
    *request = (struct api_request){.api = api, .done = call->done, .context = call->context};
    request->easy = curl_easy_init();
    assert(request->easy != NULL);
    char *url = xasprintf("%s%s", api->server, call->path);
    curl_easy_setopt(request->easy, CURLOPT_URL, url);
    free(url);
    curl_easy_setopt(request->easy, CURLOPT_PRIVATE, request);
    curl_easy_setopt(request->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(request->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(request->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(request->easy, CURLOPT_USERAGENT, "pkb");
    curl_easy_setopt(request->easy, CURLOPT_ERRORBUFFER, request->message);
    curl_easy_setopt(request->easy, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    curl_easy_setopt(request->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    curl_easy_setopt(request->easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(request->easy, CURLOPT_WRITEDATA, request);
    set_body(request, call);
    set_headers(request, call);

    request->next = api->first;
    api->first = request;
    CURLMcode added = curl_multi_add_handle(api->multi, request->easy);
    assert(added == CURLM_OK);
    return request;
}

static void take_out(struct api_request *request)
{
    struct api_request **link = &request->api->first;

    while (*link != request) {
        link = &(*link)->next;
    }
    *link = request->next;
    curl_multi_remove_handle(request->api->multi, request->easy);
}

void api_cancel(struct api_request *request)
{
    take_out(request);
    release(request);
}

/* ---- answers ---- */

/* Why there is no whole answer. */
static enum status transport_error(const struct api_request *request, CURLcode code,
                                   struct error *err)
{
    const char *server = request->api->server;
    const char *reason = request->message[0] == 0 ? curl_easy_strerror(code) : request->message;

    if (request->too_large) {
        return error_set(err, ERR_TOO_LARGE, "the answer of %s has more than %d bytes", server,
                         API_BODY_MAX_BYTES);
    }
    switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return error_set(err, ERR_UNAVAILABLE, "cannot reach %s: %s", server, reason);
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        return error_set(err, ERR_UNAVAILABLE, "%s hung up: %s", server, reason);
    case CURLE_OPERATION_TIMEDOUT:
        return error_set(err, ERR_TIMEOUT, "no answer from %s: %s", server, reason);
    default:
        return error_set(err, ERR_PROTOCOL, "no valid answer from %s: %s", server, reason);
    }
}

static enum status http_error(const struct api_request *request, int http_status, struct error *err)
{
    const char *type = NULL;
    struct error ignored = {0};

    curl_easy_getinfo(request->easy, CURLINFO_CONTENT_TYPE, &type);
    if (type != NULL && strncmp(type, "application/problem+json", 24) == 0 &&
        problem_read(err, request->reply.data, request->reply.size_bytes, &ignored) == OK) {
        return err->status;
    }
    return error_set(err, problem_status(http_status), "%s answered with HTTP status %d",
                     request->api->server, http_status);
}

static void finish(struct api_request *request, CURLcode code)
{
    struct api_reply reply = {.body = request->reply.data == NULL ? "" : request->reply.data,
                              .body_bytes = request->reply.size_bytes};
    long http_status = 0;

    take_out(request);
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &http_status);
    if (code != CURLE_OK) {
        reply.status = transport_error(request, code, &reply.error);
    } else {
        reply.http_status = (int)http_status;
        if (http_status < 200 || http_status > 299) {
            reply.status = http_error(request, (int)http_status, &reply.error);
        }
    }
    request->done(request->context, &reply);
    release(request);
}

static void act(struct api *api, curl_socket_t fd, int events)
{
    int left = 0;
    CURLMcode acted = curl_multi_socket_action(api->multi, fd, events, &left);
    assert(acted == CURLM_OK);

    CURLMsg *message = NULL;
    while ((message = curl_multi_info_read(api->multi, &left)) != NULL) {
        char *request = NULL;
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
        finish((struct api_request *)(void *)request, code);
    }
}

void api_ready(struct api *api, int fd, unsigned events)
{
    int action = events == 0 ? CURL_CSELECT_ERR : 0;

    action |= (events & API_READ) != 0 ? CURL_CSELECT_IN : 0;
    action |= (events & API_WRITE) != 0 ? CURL_CSELECT_OUT : 0;
    act(api, fd, action);
}

void api_timeout(struct api *api)
{
    act(api, CURL_SOCKET_TIMEOUT, 0);
}

/* ---- without a loop ---- */

/* One turn: waits for a socket, the timer or a signal, and tells curl. */
static enum status wait_once(struct api *api, struct error *err)
{
    struct waiting *waiting = &api->waiting;
    struct pollfd ready[SOCKETS_MAX];
    size_t count = waiting->socket_count;
    int64_t left_ms = waiting->due_ms < 0 ? 1000 : waiting->due_ms - clock_monotonic_ms();
    sigset_t none;

    left_ms = left_ms < 0 ? 0 : left_ms;
    struct timespec timeout = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
    sigemptyset(&none);
    memcpy(ready, waiting->sockets, count * sizeof ready[0]);
    if (ppoll(ready, count, &timeout, &none) < 0) {
        return errno == EINTR ? OK : error_set(err, ERR_IO, "cannot wait for the server: %m");
    }
    for (size_t i = 0; i < count; i++) {
        if (ready[i].revents != 0) {
            unsigned events = ((ready[i].revents & POLLIN) != 0 ? API_READ : 0U) |
                              ((ready[i].revents & POLLOUT) != 0 ? API_WRITE : 0U);
            api_ready(api, ready[i].fd, events);
        }
    }
    if (waiting->due_ms >= 0 && waiting->due_ms <= clock_monotonic_ms()) {
        waiting->due_ms = -1;
        api_timeout(api);
    }
    return OK;
}

enum status api_wait(struct api *api, const volatile sig_atomic_t *stop, struct error *err)
{
    assert(api->watches.context == &api->waiting);

    while (api->first != NULL) {
        if (stop != NULL && *stop != 0) {
            return error_set(err, ERR_UNAVAILABLE, "interrupted");
        }
        enum status status = wait_once(api, err);
        if (status != OK) {
            return status;
        }
    }
    return OK;
}

void api_path_append(struct buffer *path, const char *text)
{
    for (; *text != 0; text++) {
        unsigned char byte = (unsigned char)*text;
        if ((byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
            (byte >= 'A' && byte <= 'Z') || strchr("-._~", byte) != NULL) {
            buffer_append(path, text, 1);
        } else {
            buffer_printf(path, "%%%02X", byte);
        }
    }
}
