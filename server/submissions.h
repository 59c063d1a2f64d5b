/*
 * submissions.h — the tables of submissions and of their sources.
 *
 * A source is stored once, compressed, under the SHA-256 of its text. `owner` NULL means any owner;
 * what another owner has is ERR_NOT_FOUND.
 */
#pragma once

#include "common/job.h"
#include "server/db.h"

enum { SUBMISSIONS_PAGE_MAX = 200 };

/*
 * Stores a submission whose id, task_number, task, model, owner and created_ms are filled in, and
 * its source; fills in source_bytes and source_sha256. `token_id` is the token that was used.
 */
enum status submission_add(struct db *db, struct submission *submission, const char *token_id,
                           const char *source, size_t source_bytes, struct error *err);

enum status submission_get(struct db *db, const char *id, const char *owner,
                           struct submission *submission, struct error *err);

struct submission_page {
    const char *owner;
    const char *before; /* an id: only those older than it; "": all */
    int count_max;
};

/* The newest first. */
enum status submission_list(struct db *db, const struct submission_page *page,
                            struct submission *submissions, int *count, struct error *err);

/* An admin's decisions; the submission is there. `reason` "": it is ranked again. */
enum status submission_disqualify(struct db *db, const char *id, const char *reason,
                                  struct error *err);
enum status submission_publish(struct db *db, const char *id, int64_t now_ms, struct error *err);
enum status submission_is_published(struct db *db, const char *id, bool *is_published,
                                    struct error *err);

/* The text, owned by the caller and ended by a zero byte. ERR_NOT_FOUND: no such submission, or
 * what is stored of its source is damaged. */
enum status submission_source(struct db *db, const char *id, char **source, size_t *source_bytes,
                              struct error *err);
