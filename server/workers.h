/*
 * workers.h — the table of workers: who has said hello, with which devices, and who gets leases.
 *
 * A worker is ready, draining or quarantined. It may say itself that it is less fit than it was,
 * and that what it drained for has passed; all else only an admin takes back. A hello ends a
 * draining of the worker's own, and nothing else.
 */
#pragma once

#include "common/lease.h"
#include "server/db.h"

enum { WORKERS_LIST_MAX = 1000 };

/* Stores a worker, or what is new about it. */
enum status worker_put(struct db *db, const struct worker_hello *hello, int64_t now_ms,
                       struct error *err);

/* ERR_NOT_FOUND: `name` has not said hello. worker_release frees what it holds. */
enum status worker_get(struct db *db, const char *name, struct worker *worker, struct error *err);
/* By name; each is to be released. */
enum status worker_list(struct db *db, struct worker *workers, int count_max, int *count,
                        struct error *err);

/* ERR_CONFLICT: it gets no leases; the message says why. ERR_NOT_FOUND: it has not said hello. */
enum status worker_check(struct db *db, const char *name, struct error *err);

struct worker_change {
    const struct worker_order *order;
    const char *by; /* the name of who orders */
    bool is_own;    /* the worker itself */
    int64_t now_ms;
};

/* Changes a worker's state, if that is its to change. ERR_DENIED: only an admin makes it ready. */
enum status worker_obey(struct db *db, const char *name, const struct worker_change *change,
                        struct error *err);
