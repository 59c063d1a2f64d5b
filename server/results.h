/*
 * results.h — the table of results: how each job ended, and the boards made from it.
 */
#pragma once

#include "common/job.h"
#include "server/db.h"
#include "server/facts.h"

enum { BOARD_ROWS_MAX = 1000 };

/* A result and the lease that it was made under. */
struct result_row {
    const struct job *job; /* task_number, world, dtype, device */
    const char *worker;
    int64_t epoch;
    int64_t finished_ms;
    const struct facts *facts;
    const char *json;
};

enum status result_add(struct db *db, const struct result_row *row, struct error *err);

/* The stored text, owned by the caller; NULL where the job has no result. */
enum status result_get(struct db *db, const char *job_id, char **json, struct error *err);

struct board_key {
    int task_number;
    int world;
    enum dtype dtype;
    enum device_kind device;
};

struct board_row {
    char submission_id[ID_MAX];
    char job_id[ID_MAX];
    char model[NAME_MAX_BYTES];
    int64_t accepted_ms;
    int64_t peer_bytes;
};

/* What was accepted, in the order of time. */
enum status result_board(struct db *db, const struct board_key *key, struct board_row *rows,
                         int count_max, int *count, struct error *err);
