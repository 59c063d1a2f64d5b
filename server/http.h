/*
 * http.h — libmicrohttpd in and out: requests with their bodies, answers, and nothing of what they
 * mean.
 *
 * The owner's loop polls http_fd and calls http_run when it is readable, when http_timeout_ms is
 * over, and again as long as http_has_resumed. A request goes through the hooks: `begin` when its
 * headers are there, `complete` when its body is, `end` when it is gone. Either of the first two
 * may answer it (http_answer, http_refuse); one that `complete` leaves open is kept, with nobody
 * watching its socket, until it is answered. A body that is too large, a head that can be
 * read in two ways, and a zero byte in the URI are refused here and reach no hook but `end`.
 *
 * Where `body_max` allows more than HTTP_BODY_MAX_BYTES the body is streamed: `part` is called as
 * soon as HTTP_PART_BYTES of it are there. It takes from the front of request->body what it can use
 * and the request is kept until it is answered, or http_continue has more of the body read.
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HTTP_QUERY_MAX = 8,
    HTTP_BODY_MAX_BYTES = 1 << 20,
    HTTP_STREAM_MAX_BYTES = 1 << 30,
    HTTP_PART_BYTES = 256 << 10,
    HTTP_DROPPED_MAX_BYTES = 16 << 20, /* of a refused body: read that much, then hang up */
    HTTP_IDLE_S = 60,                  /* without a byte */
    HTTP_REQUEST_MS = 75000,           /* from the end of one request to the body of the next */
    HTTP_ANSWER_MS = 60000,            /* for the client to take an answer */
};

struct http_server;

struct http_parameter {
    const char *name;
    const char *value; /* "" where there is none */
};

/* What came is borrowed and lives until `end`. */
struct http_request {
    const char *method;
    const char *path;
    struct http_parameter query[HTTP_QUERY_MAX];
    int query_count;
    struct buffer body;
    bool is_streamed;
    bool is_complete; /* the end of the body is there */

    struct buffer answer; /* filled in before http_answer */
    const char *location; /* headers of the answer, or NULL; static or owned by the owner's */
    const char *allow;    /* record, until `end` */
    bool is_attachment;   /* for who saves it, not for who looks at it */
    void *owner;          /* for the hooks */
};

struct http_hooks {
    void *context;
    int (*body_max)(const char *method, const char *path);
    void (*begin)(void *context, struct http_request *request);
    void (*part)(void *context, struct http_request *request);
    void (*complete)(void *context, struct http_request *request);
    void (*end)(void *context, struct http_request *request);
};

/* Listens at `address`, "127.0.0.1:8750" or "[::1]:0". ERR_INVALID: not an address, or not of this
 * machine only: without TLS, nobody else may talk to us. */
enum status http_open(struct http_server **server, const char *address,
                      const struct http_hooks *hooks, struct error *err);
/* Every request must have been answered. */
void http_close(struct http_server *server);
/* No new connections from now on. */
void http_stop(struct http_server *server);

int http_port(const struct http_server *server);
int http_fd(const struct http_server *server);
int64_t http_timeout_ms(struct http_server *server); /* -1: none */
/* Does what can be done without waiting. */
void http_run(struct http_server *server);
/* True: a kept request was answered since, so call http_run again before polling: nothing else
 * wakes it. */
bool http_has_resumed(const struct http_server *server);
/* Requests between `begin` and `end`. */
int http_request_count(const struct http_server *server);
/* Hangs up on who takes too long; for a call every second or so. */
void http_sweep(struct http_server *server, int64_t now_ms);

/* The value of a header, or NULL. */
const char *http_header(const struct http_request *request, const char *name);

/* Answers with what is in request->answer; `content_type` is static, NULL where there is no body.
 */
void http_answer(struct http_request *request, int http_status, const char *content_type);
/* Answers with problem details; the status follows from err->status. */
void http_refuse(struct http_request *request, const struct error *err);
/* The same for the one status that is no struct error's: 405. */
void http_refuse_method(struct http_request *request, const char *allow);

/* Has more of a streamed body read, after `part`. */
void http_continue(struct http_request *request);

/* False when the client of a kept request has hung up. */
bool http_client_is_there(const struct http_request *request);
