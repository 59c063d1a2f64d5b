/*
 * events.h — the audit table: what happened to which job, submission, token or worker.
 *
 * A row is part of the transaction that made the change, and is never changed.
 */
#pragma once

#include "server/db.h"

/* `kind` is subject.verb as in the log; `subject` an id or a worker's name. */
enum status event_add(struct db *db, int64_t now_ms, const char *kind, const char *subject,
                      const char *detail, struct error *err);
