#include "server/submissions.h"

#include "common/mem.h"
#include "tasks/task.h"

#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { ZSTD_LEVEL = 1, HASH_BYTES = crypto_hash_sha256_BYTES };

static enum status add_source(struct db *db, const unsigned char *hash, const char *source,
                              size_t source_bytes, struct error *err)
{
    static const char sql[] = "INSERT INTO source (sha256, size_bytes, zstd) VALUES (?1, ?2, ?3)"
                              " ON CONFLICT (sha256) DO NOTHING";
    struct sqlite3_stmt *insert = NULL;
    size_t bound_bytes = ZSTD_compressBound(source_bytes);
    void *packed = NULL;
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    packed = xmalloc(bound_bytes);
    size_t packed_bytes = ZSTD_compress(packed, bound_bytes, source, source_bytes, ZSTD_LEVEL);
    if (ZSTD_isError(packed_bytes)) {
        status = error_set(err, ERR_INTERNAL, "cannot compress a source: %s",
                           ZSTD_getErrorName(packed_bytes));
        goto out;
    }
    sqlite3_bind_blob(insert, 1, hash, HASH_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 2, (int64_t)source_bytes);
    sqlite3_bind_blob64(insert, 3, packed, packed_bytes, SQLITE_STATIC);
    status = db_run(db, insert, NULL, err);

out:
    free(packed);
    return status;
}

enum status submission_add(struct db *db, struct submission *submission, const char *token_id,
                           const char *source, size_t source_bytes, struct error *err)
{
    static const char sql[] =
        "INSERT INTO submission (id, owner, token, task, model, source, created_ms, attempt)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    unsigned char hash[HASH_BYTES];
    struct sqlite3_stmt *insert = NULL;
    enum status status = OK;

    crypto_hash_sha256(hash, (const unsigned char *)source, source_bytes);
    status = add_source(db, hash, source, source_bytes, err);
    if (status == OK) {
        status = db_prepare(db, sql, &insert, err);
    }
    if (status != OK) {
        return status;
    }
    db_bind_text(insert, 1, submission->id);
    db_bind_text(insert, 2, submission->owner);
    db_bind_text(insert, 3, token_id);
    sqlite3_bind_int(insert, 4, submission->task_number);
    db_bind_text(insert, 5, submission->model);
    sqlite3_bind_blob(insert, 6, hash, sizeof hash, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 7, submission->created_ms);
    sqlite3_bind_int(insert, 8, submission->attempt);
    status = db_run(db, insert, NULL, err);
    if (status == OK) {
        submission->source_bytes = (int64_t)source_bytes;
        sodium_bin2hex(submission->source_sha256, sizeof submission->source_sha256, hash,
                       sizeof hash);
    }
    return status;
}

/* Columns: id, owner, task, model, created_ms, source, size_bytes, attempt. */
static void read_row(struct sqlite3_stmt *select, struct submission *submission)
{
    char number[16];

    *submission = (struct submission){0};
    db_column_text(select, 0, submission->id, sizeof submission->id);
    db_column_text(select, 1, submission->owner, sizeof submission->owner);
    submission->task_number = sqlite3_column_int(select, 2);
    db_column_text(select, 3, submission->model, sizeof submission->model);
    submission->created_ms = sqlite3_column_int64(select, 4);
    sodium_bin2hex(submission->source_sha256, sizeof submission->source_sha256,
                   sqlite3_column_blob(select, 5), (size_t)sqlite3_column_bytes(select, 5));
    submission->source_bytes = sqlite3_column_int64(select, 6);
    submission->attempt = sqlite3_column_int(select, 7);

    (void)snprintf(number, sizeof number, "%d", submission->task_number);
    const struct task *task = task_find(number);
    (void)snprintf(submission->task, sizeof submission->task, "%s",
                   task == NULL ? number : task_name(task));
}

enum status submission_get(struct db *db, const char *id, const char *owner,
                           struct submission *submission, struct error *err)
{
    static const char sql[] = "SELECT id, owner, task, model, created_ms, source, size_bytes,"
                              " attempt"
                              " FROM submission JOIN source ON source.sha256 = submission.source"
                              " WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, id);
    db_bind_text(select, 2, owner);
    status = db_step(db, select, &row, err);
    if (status != OK) {
        return status;
    }
    if (!row) {
        return error_set(err, ERR_NOT_FOUND, "no submission '%.*s'", ID_MAX, id);
    }
    read_row(select, submission);
    db_reset(select);
    return OK;
}

enum status submission_list(struct db *db, const struct submission_page *page,
                            struct submission *submissions, int *count, struct error *err)
{
    static const char of_one[] = "SELECT id, owner, task, model, created_ms, source, size_bytes,"
                                 " attempt"
                                 " FROM submission JOIN source ON source.sha256 = submission.source"
                                 " WHERE owner = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
    static const char of_all[] = "SELECT id, owner, task, model, created_ms, source, size_bytes,"
                                 " attempt"
                                 " FROM submission JOIN source ON source.sha256 = submission.source"
                                 " WHERE ?1 IS NULL AND id < ?2 ORDER BY id DESC LIMIT ?3";
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    int found = 0;
    enum status status = db_prepare(db, page->owner == NULL ? of_all : of_one, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, page->owner);
    db_bind_text(select, 2, page->before[0] != 0 ? page->before : "~"); /* beyond every id */
    sqlite3_bind_int(select, 3, page->count_max);
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            read_row(select, &submissions[found++]);
        }
    }
    if (status == OK) {
        *count = found;
    }
    return status;
}

/* Columns: size_bytes, zstd, sha256. False: what comes out is not what went in. */
static bool unpack(struct sqlite3_stmt *select, char *text, size_t size_bytes)
{
    unsigned char hash[HASH_BYTES];
    const void *packed = sqlite3_column_blob(select, 1);
    size_t packed_bytes = (size_t)sqlite3_column_bytes(select, 1);

    if (ZSTD_decompress(text, size_bytes, packed, packed_bytes) != size_bytes) {
        return false;
    }
    crypto_hash_sha256(hash, (const unsigned char *)text, size_bytes);
    return sqlite3_column_bytes(select, 2) == HASH_BYTES &&
           memcmp(hash, sqlite3_column_blob(select, 2), HASH_BYTES) == 0;
}

enum status submission_source(struct db *db, const char *id, char **source, size_t *source_bytes,
                              struct error *err)
{
    static const char sql[] = "SELECT size_bytes, zstd, sha256 FROM source WHERE sha256 ="
                              " (SELECT source FROM submission WHERE id = ?1)";
    struct sqlite3_stmt *select = NULL;
    char *text = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, id);
    status = db_step(db, select, &row, err);
    if (status != OK) {
        return status;
    }
    if (!row) {
        return error_set(err, ERR_NOT_FOUND, "no submission '%.*s'", ID_MAX, id);
    }
    size_t size_bytes = (size_t)sqlite3_column_int64(select, 0);
    if (size_bytes <= SOURCE_MAX_BYTES) {
        text = xcalloc(1, size_bytes + 1);
    }
    if (text == NULL || !unpack(select, text, size_bytes)) {
        free(text);
        db_reset(select);
        return error_set(err, ERR_NOT_FOUND, "the stored source of '%.*s' is damaged", ID_MAX, id);
    }
    db_reset(select);
    *source = text;
    *source_bytes = size_bytes;
    return OK;
}

enum status submission_disqualify(struct db *db, const char *id, const char *reason,
                                  struct error *err)
{
    static const char sql[] = "UPDATE submission SET disqualified = ?2 WHERE id = ?1";
    struct sqlite3_stmt *update = NULL;
    enum status status = db_prepare(db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, id);
    db_bind_text(update, 2, reason);
    return db_run(db, update, NULL, err);
}

enum status submission_publish(struct db *db, const char *id, int64_t now_ms, struct error *err)
{
    static const char sql[] =
        "UPDATE submission SET published_ms = ?2 WHERE id = ?1 AND published_ms = 0";
    struct sqlite3_stmt *update = NULL;
    enum status status = db_prepare(db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, id);
    sqlite3_bind_int64(update, 2, now_ms);
    return db_run(db, update, NULL, err);
}

enum status submission_is_published(struct db *db, const char *id, bool *is_published,
                                    struct error *err)
{
    static const char sql[] = "SELECT 1 FROM submission WHERE id = ?1 AND published_ms > 0";
    struct sqlite3_stmt *select = NULL;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, id);
    status = db_step(db, select, is_published, err);
    db_reset(select);
    return status;
}
