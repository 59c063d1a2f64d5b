#include "server/batches.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { RATE_WINDOW_MS = 600000 };

enum status batch_add(struct db *db, const struct batch *batch, const char *token_id,
                      const char *key, struct error *err)
{
    static const char sql[] = "INSERT INTO batch (id, owner, token, key, state, created_ms)"
                              " VALUES (?1, ?2, ?3, nullif(?4, ''), ?5, ?6)";
    struct sqlite3_stmt *insert = NULL;
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(insert, 1, batch->id);
    db_bind_text(insert, 2, batch->owner);
    db_bind_text(insert, 3, token_id);
    db_bind_text(insert, 4, key);
    db_bind_text(insert, 5, batch_state_name(batch->state));
    sqlite3_bind_int64(insert, 6, batch->created_ms);
    return db_run(db, insert, NULL, err);
}

enum status batch_find(struct db *db, const char *token_id, const char *key, char id[static ID_MAX],
                       bool *found, struct error *err)
{
    static const char sql[] = "SELECT id FROM batch WHERE token = ?1 AND key = ?2";
    struct sqlite3_stmt *select = NULL;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, token_id);
    db_bind_text(select, 2, key);
    status = db_step(db, select, found, err);
    if (status == OK && *found) {
        db_column_text(select, 0, id, ID_MAX);
        db_reset(select);
    }
    return status;
}

/* Columns: id, owner, state, created_ms, line_count, refused_count. */
static void read_batch(struct sqlite3_stmt *select, struct batch *batch)
{
    char state[NAME_MAX_BYTES];

    *batch = (struct batch){.eta_ms = -1};
    db_column_text(select, 0, batch->id, sizeof batch->id);
    db_column_text(select, 1, batch->owner, sizeof batch->owner);
    db_column_text(select, 2, state, sizeof state);
    assert(batch_state_find(state) >= 0);
    batch->state = (enum batch_state)batch_state_find(state);
    batch->created_ms = sqlite3_column_int64(select, 3);
    batch->line_count = sqlite3_column_int(select, 4);
    batch->refused_count = sqlite3_column_int(select, 5);
}

enum status batch_get(struct db *db, const char *id, const char *owner, struct batch *batch,
                      struct error *err)
{
    static const char sql[] = "SELECT id, owner, state, created_ms, line_count, refused_count"
                              " FROM batch WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, id);
    db_bind_text(select, 2, owner);
    status = db_step(db, select, &row, err);
    if (status == OK && !row) {
        status = error_set(err, ERR_NOT_FOUND, "no batch '%.*s'", ID_MAX, id);
    }
    if (status == OK) {
        read_batch(select, batch);
        db_reset(select);
    }
    return status;
}

enum status batch_list(struct db *db, const char *owner, const char *before, struct batch *batches,
                       int *count, struct error *err)
{
    static const char of_one[] = "SELECT id, owner, state, created_ms, line_count, refused_count"
                                 " FROM batch WHERE owner = ?1 AND id < ?2"
                                 " ORDER BY id DESC LIMIT ?3";
    static const char of_all[] = "SELECT id, owner, state, created_ms, line_count, refused_count"
                                 " FROM batch WHERE ?1 IS NULL AND id < ?2"
                                 " ORDER BY id DESC LIMIT ?3";
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    int found = 0;
    enum status status = db_prepare(db, owner == NULL ? of_all : of_one, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, owner);
    db_bind_text(select, 2, before[0] != 0 ? before : "~"); /* beyond every id */
    sqlite3_bind_int(select, 3, *count);
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            read_batch(select, &batches[found++]);
        }
    }
    if (status == OK) {
        *count = found;
    }
    return status;
}

enum status batch_update(struct db *db, const struct batch *batch, struct error *err)
{
    static const char sql[] =
        "UPDATE batch SET state = ?2, line_count = ?3, refused_count = ?4 WHERE id = ?1";
    struct sqlite3_stmt *update = NULL;
    enum status status = db_prepare(db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, batch->id);
    db_bind_text(update, 2, batch_state_name(batch->state));
    sqlite3_bind_int(update, 3, batch->line_count);
    sqlite3_bind_int(update, 4, batch->refused_count);
    return db_run(db, update, NULL, err);
}

/* Jobs that ended since `since_ms`. */
static enum status count_ended(struct db *db, const char *batch_id, int64_t since_ms, int *ended,
                               struct error *err)
{
    static const char sql[] =
        "SELECT count(*) FROM job WHERE batch = ?1 AND state = 'done' AND finished_ms > ?2";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, batch_id);
    sqlite3_bind_int64(select, 2, since_ms);
    status = db_step(db, select, &row, err);
    if (status == OK) {
        *ended = sqlite3_column_int(select, 0);
        db_reset(select);
    }
    return status;
}

enum status batch_count(struct db *db, struct batch *batch, int64_t now_ms, struct error *err)
{
    static const char sql[] = "SELECT state, count(*) FROM job WHERE batch = ?1 AND batch <> ''"
                              " GROUP BY state";
    struct sqlite3_stmt *select = NULL;
    int64_t since_ms = now_ms - RATE_WINDOW_MS;
    bool row = true;
    char state[NAME_MAX_BYTES];
    int ended = 0;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, batch->id);
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            db_column_text(select, 0, state, sizeof state);
            assert(job_state_find(state) >= 0);
            batch->jobs[job_state_find(state)] = sqlite3_column_int(select, 1);
        }
    }
    since_ms = since_ms > batch->created_ms ? since_ms : batch->created_ms;
    if (status == OK) {
        status = count_ended(db, batch->id, since_ms, &ended, err);
    }
    if (status != OK) {
        return status;
    }
    int left = batch->jobs[JOB_QUEUED] + batch->jobs[JOB_LEASED];
    int64_t window_ms = now_ms > since_ms ? now_ms - since_ms : 1;
    batch->per_minute = ended * 60000.0 / (double)window_ms;
    if (left == 0) {
        batch->eta_ms = 0;
    } else if (ended > 0) {
        batch->eta_ms = window_ms * left / ended;
    }
    return OK;
}

/* ---- lines ---- */

enum status batch_line_add(struct db *db, const char *batch_id, const struct batch_line *line,
                           struct error *err)
{
    static const char sql[] = "INSERT INTO batch_line (batch, line, sha256, job, field, detail)"
                              " VALUES (?1, ?2, ?3, nullif(?4, ''), ?5, ?6)";
    struct sqlite3_stmt *insert = NULL;
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(insert, 1, batch_id);
    sqlite3_bind_int(insert, 2, line->line);
    sqlite3_bind_blob(insert, 3, line->sha256, LINE_HASH_BYTES, SQLITE_STATIC);
    db_bind_text(insert, 4, line->job_id);
    db_bind_text(insert, 5, line->field);
    db_bind_text(insert, 6, line->detail);
    return db_run(db, insert, NULL, err);
}

/* Columns: line, sha256, job, field, detail. */
static void read_line(struct sqlite3_stmt *select, struct batch_line *line)
{
    line->line = sqlite3_column_int(select, 0);
    assert(sqlite3_column_bytes(select, 1) == LINE_HASH_BYTES);
    memcpy(line->sha256, sqlite3_column_blob(select, 1), LINE_HASH_BYTES);
    db_column_text(select, 2, line->job_id, sizeof line->job_id);
    db_column_text(select, 3, line->field, sizeof line->field);
    db_column_text(select, 4, line->detail, sizeof line->detail);
}

enum status batch_line_list(struct db *db, const char *batch_id, int after,
                            struct batch_line *lines, int *count, struct error *err)
{
    static const char sql[] = "SELECT line, sha256, job, field, detail FROM batch_line"
                              " WHERE batch = ?1 AND line > ?2 ORDER BY line LIMIT ?3";
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    int found = 0;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, batch_id);
    sqlite3_bind_int(select, 2, after);
    sqlite3_bind_int(select, 3, *count);
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            read_line(select, &lines[found++]);
        }
    }
    if (status == OK) {
        *count = found;
    }
    return status;
}

enum status batch_line_check(struct db *db, const char *batch_id, const struct batch_line *line,
                             struct error *err)
{
    struct batch_line stored = {0};
    int count = 1;
    enum status status = batch_line_list(db, batch_id, line->line - 1, &stored, &count, err);

    bool is_there = count > 0 && stored.line == line->line;
    bool is_same = line->is_blank
                       ? !is_there
                       : is_there && memcmp(stored.sha256, line->sha256, LINE_HASH_BYTES) == 0;
    if (status == OK && !is_same) {
        status = error_field(err, ERR_CONFLICT, "Idempotency-Key",
                             "line %d is not what came first under this key", line->line);
    }
    return status;
}
