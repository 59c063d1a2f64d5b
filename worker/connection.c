#include "worker/connection.h"

#include "common/mem.h"
#include "worker/loop.h"

#include <assert.h>
#include <stdlib.h>

enum { SOCKETS_MAX = 64 };

/* A socket of the client that is watched. */
struct socket {
    struct connection *connection;
    int fd;
    struct loop_watch *watch; /* NULL: free */
};

struct connection {
    struct api *api;
    struct loop_timer *timer;
    struct socket sockets[SOCKETS_MAX];
};

static void on_ready(void *context, unsigned events)
{
    struct socket *socket = context;
    unsigned got =
        ((events & LOOP_READ) != 0 ? API_READ : 0) | ((events & LOOP_WRITE) != 0 ? API_WRITE : 0);

    api_ready(socket->connection->api, socket->fd, got);
}

/* The entry of `fd`, or one that is free. */
static struct socket *find_socket(struct connection *connection, int fd)
{
    struct socket *found = NULL;

    for (int i = 0; i < SOCKETS_MAX; i++) {
        struct socket *socket = &connection->sockets[i];
        if (socket->watch != NULL && socket->fd == fd) {
            return socket;
        }
        if (socket->watch == NULL) {
            found = socket;
        }
    }
    assert(found != NULL);
    return found;
}

static void watch_socket(void *context, int fd, unsigned events)
{
    struct connection *connection = context;
    struct socket *socket = find_socket(connection, fd);
    unsigned wanted =
        ((events & API_READ) != 0 ? LOOP_READ : 0) | ((events & API_WRITE) != 0 ? LOOP_WRITE : 0);

    if (wanted == 0) {
        loop_watch_close(socket->watch);
        socket->watch = NULL;
    } else if (socket->watch == NULL) {
        socket->connection = connection;
        socket->fd = fd;
        socket->watch = loop_watch_open(fd, wanted, on_ready, socket);
    } else {
        loop_watch_set(socket->watch, wanted);
    }
}

static void on_timer(void *context)
{
    struct connection *connection = context;

    loop_timer_close(connection->timer);
    connection->timer = NULL;
    api_timeout(connection->api);
}

static void set_timer(void *context, int64_t timeout_ms)
{
    struct connection *connection = context;

    loop_timer_close(connection->timer);
    connection->timer =
        timeout_ms < 0 ? NULL : loop_timer_open(timeout_ms, 0, on_timer, connection);
}

enum status connection_open(struct connection **connection, const char *server, const char *token,
                            struct error *err)
{
    struct connection *made = xcalloc(1, sizeof *made);
    struct api_options options = {
        .server = server, .token = token, .watches = {made, watch_socket, set_timer}};

    enum status status = api_open(&made->api, &options, err);
    if (status != OK) {
        free(made);
        return status;
    }
    *connection = made;
    return OK;
}

struct api_request *connection_post(struct connection *connection, const char *path,
                                    const struct buffer *body, int64_t timeout_ms,
                                    void (*done)(void *context, const struct api_reply *reply),
                                    void *context)
{
    struct api_call call = {.method = "POST",
                            .path = path,
                            .body = body->data,
                            .body_bytes = body->size_bytes,
                            .timeout_ms = timeout_ms,
                            .done = done,
                            .context = context};

    return api_start(connection->api, &call);
}

void connection_close(struct connection *connection)
{
    if (connection == NULL) {
        return;
    }
    api_close(connection->api);
    loop_timer_close(connection->timer);
    for (int i = 0; i < SOCKETS_MAX; i++) {
        loop_watch_close(connection->sockets[i].watch);
    }
    free(connection);
}
