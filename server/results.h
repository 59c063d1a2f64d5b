/*
 * results.h — the table of results: how each job ended.
 */
#pragma once

#include "common/job.h"
#include "server/db.h"
#include "server/facts.h"

/* A result and the lease that it was made under. */
struct result_row {
    const struct job *job; /* id, submission_id, task_number, world, dtype, device */
    const char *worker;
    int64_t epoch;
    int64_t finished_ms;
    const struct facts *facts;
    const char *json;
};

enum status result_add(struct db *db, const struct result_row *row, struct error *err);

/* The stored text, owned by the caller; NULL where the job has no result. */
enum status result_get(struct db *db, const char *job_id, char **json, struct error *err);
