/*
 * batches.h — the tables of batches, of their lines, and of the attempts that these are.
 *
 * `owner` NULL means any owner; what another owner has is ERR_NOT_FOUND.
 */
#pragma once

#include "common/batch.h"
#include "server/db.h"
#include "server/report.h"

enum { LINE_HASH_BYTES = 32, LINES_PAGE_MAX = 1000 };

/* Stores a new batch: id, owner and created_ms are filled in. `key` "": none. */
enum status batch_add(struct db *db, const struct batch *batch, const char *token_id,
                      const char *key, struct error *err);

/* The batch that was sent under a token's key; *found says whether there is one. */
enum status batch_find(struct db *db, const char *token_id, const char *key, char id[static ID_MAX],
                       bool *found, struct error *err);

/* The row alone: the numbers of jobs are 0. */
enum status batch_get(struct db *db, const char *id, const char *owner, struct batch *batch,
                      struct error *err);
/* Counts its jobs, and from those that ended lately says when the last will. */
enum status batch_count(struct db *db, struct batch *batch, int64_t now_ms, struct error *err);

/* The newest first, older than the batch `before` ("": all), as rows alone. */
enum status batch_list(struct db *db, const char *owner, const char *before, struct batch *batches,
                       int *count, struct error *err);

/* Stores state, line_count and refused_count. */
enum status batch_update(struct db *db, const struct batch *batch, struct error *err);

struct batch_line {
    int line;      /* from 1 */
    bool is_blank; /* for batch_line_check: nothing is stored of it */
    unsigned char sha256[LINE_HASH_BYTES];
    char job_id[ID_MAX]; /* "": refused, because of: */
    char field[ERROR_FIELD_MAX];
    char detail[ERROR_MESSAGE_MAX];
};

enum status batch_line_add(struct db *db, const char *batch_id, const struct batch_line *line,
                           struct error *err);
/* ERR_CONFLICT: that line of the batch was another one. */
enum status batch_line_check(struct db *db, const char *batch_id, const struct batch_line *line,
                             struct error *err);
/* Lines behind `after`, in their order. */
enum status batch_line_list(struct db *db, const char *batch_id, int after,
                            struct batch_line *lines, int *count, struct error *err);

/* What a batch has each only once. */
struct batch_attempt {
    const char *batch_id;
    const char *model;
    int task_number;
    int attempt;
    int world;
    enum dtype dtype;
    enum device_kind device;
};

/* ERR_CONFLICT: the batch has that attempt already; ERR_TOO_LARGE: MODELS_MAX other models. */
enum status batch_attempt_check(struct db *db, const struct batch_attempt *attempt,
                                struct error *err);
enum status batch_attempt_add(struct db *db, const struct batch_attempt *attempt,
                              const char *job_id, struct error *err);

/* Which attempts a report is about: those of one world, dtype and device. */
struct batch_setting {
    int world;
    enum dtype dtype;
    enum device_kind device;
};

/* The setting that most of the batch's attempts have; ERR_NOT_FOUND: it has none. */
enum status batch_usual_setting(struct db *db, const char *batch_id, struct batch_setting *setting,
                                struct error *err);
/* Adds the batch's tasks and attempts to a report. */
enum status batch_report(struct db *db, const char *batch_id, const struct batch_setting *setting,
                         struct report *report, struct error *err);
