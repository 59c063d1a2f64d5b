/* workers.h — the table of workers: who has said hello, and with which devices. */
#pragma once

#include "common/lease.h"
#include "server/db.h"

/* Stores a worker, or what is new about it. */
enum status worker_put(struct db *db, const struct worker_hello *hello, int64_t now_ms,
                       struct error *err);

/* ERR_NOT_FOUND: `name` has not said hello. */
enum status worker_check(struct db *db, const char *name, struct error *err);
