/*
 * service.h — the running server: one thread, one loop, one transaction a turn.
 *
 * A turn takes what came over HTTP. Reads are answered at once from the second connection. Writes
 * of a turn share a transaction, each in a savepoint, and are answered after its COMMIT: what was
 * answered is on disk. When a COMMIT fails nobody knows what is on disk: all of its calls get 503,
 * and the database is opened again. Long polls are lists of kept calls, ended by our own timer.
 */
#pragma once

#include "server/calls.h"
#include "server/ids.h"
#include "server/queue.h"

enum { WATCH_BUCKETS = 1024, LONG_POLL_MAX_S = 25 };

struct service_options {
    const char *database;
    const char *listen;
    const char *port_file; /* gets the real port when the server listens; NULL: none */
    int64_t ttl_ms;
};

struct service {
    struct service_options options;
    struct db *writer; /* NULL: after a failed COMMIT it could not be opened again yet */
    struct db *reader;
    struct queue *queue; /* of the writer */
    struct http_server *http;
    struct id_maker ids;
    struct moment now;

    struct call_list writes;                 /* of this turn */
    struct call_list leases;                 /* workers that wait for a job, first come first */
    struct call_list watches[WATCH_BUCKETS]; /* those who wait for a job to change, by job */
    int64_t ends_ms;                         /* no long poll ends before (boot_ms) */
    int64_t positions_ms; /* when watchers of queued jobs look at their place again */
    int64_t reopen_ms;    /* when the writer may be tried again */
    bool is_stopping;
};

/* Serves until SIGTERM or SIGINT, then answers who is there and returns. */
enum status service_run(const struct service_options *options, struct error *err);
