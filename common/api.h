/*
 * api.h — calls the server's HTTP API, for the client and the worker.
 *
 * Requests are asynchronous: api_start starts one, and `done` is called once for it, never from
 * inside api_start, but from api_ready, api_timeout or api_wait. The caller watches sockets
 * and one timer as it is told to through struct api_watches (poll, libuv) and says when something
 * happens. Connections are kept and used again. Nothing here blocks but api_wait, which is a loop
 * of its own on poll(). Proxies of the environment are not used.
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct api_request;

enum {
    API_BODY_MAX_BYTES = 4 << 20,
    API_SERVER_MAX = 512, /* with its final zero; so the token */
    API_TOKEN_MAX = 256,
    API_CONNECT_MAX_MS = 5000, /* a connection that takes longer is given up */
};

/* Bits. */
enum api_events { API_READ = 1, API_WRITE = 2 };

struct api_watches {
    void *context;
    /* Watch `fd` for `events` from now on, instead of what was asked before; 0: no more. */
    void (*socket)(void *context, int fd, unsigned events);
    /* Call api_timeout once after `timeout_ms` (0: soon), instead of what was asked before; -1:
     * not at all. */
    void (*timer)(void *context, int64_t timeout_ms);
};

struct api_options {
    const char *server;         /* "http://host:port", no path */
    const char *token;          /* "" or NULL: none */
    struct api_watches watches; /* {0}: only api_wait is used */
};

/* The options are copied. ERR_INVALID: `server` is no http or https URL, or the token has a control
 * byte; ERR_TOO_LARGE. */
enum status api_open(struct api **api, const struct api_options *options, struct error *err);
/* Requests that are not done are dropped, without a call of `done`. */
void api_close(struct api *api);

/* What came back. The texts live during the callback only. */
struct api_reply {
    enum status status; /* OK: HTTP 2xx; else `error` says why */
    int http_status;    /* 0: no answer */
    const char *body;   /* ends with a zero byte */
    size_t body_bytes;
    struct error error; /* of a problem+json body, or our own: ERR_UNAVAILABLE (cannot connect),
                           ERR_TIMEOUT, ERR_TOO_LARGE, ERR_PROTOCOL */
};

struct api_call {
    const char *method; /* "GET", "POST" */
    const char *path;   /* from '/', encoded (api_path_append) */
    const char *body;   /* JSON; NULL: none; copied */
    size_t body_bytes;
    int64_t timeout_ms; /* for all of it; > 0 */
    void (*done)(void *context, const struct api_reply *reply);
    void *context;
};

/* Starts a request; the handle is valid until `done` is called. */
struct api_request *api_start(struct api *api, const struct api_call *call);
/* Drops a request; its `done` is not called. */
void api_cancel(struct api_request *request);

/* `fd` is ready for `events`; `events` 0: it has an error. */
void api_ready(struct api *api, int fd, unsigned events);
void api_timeout(struct api *api);

/* Runs every started request to its end, for a caller without a loop (no watches given). Signals
 * that the caller has blocked come in only while it waits, so none is missed; ERR_UNAVAILABLE when
 * one of them has set `*stop` (may be NULL): what is not done then is still to be cancelled. */
enum status api_wait(struct api *api, const volatile sig_atomic_t *stop, struct error *err);

/* Appends a path segment or query value, percent-encoded. */
void api_path_append(struct buffer *path, const char *text);
