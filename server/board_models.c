/* Of boards.h: models over all tasks, by a table of each one's best. */
#include "server/boards.h"

#include <sqlite3.h>
#include <stdio.h>

static enum status add_tasks(struct db *db, struct report *report, struct error *err)
{
    static const char sql[] = "SELECT number, family FROM task";
    struct sqlite3_stmt *select = NULL;
    char family[NAME_MAX_BYTES];
    bool row = true;
    enum status status = db_prepare(db, sql, &select, err);

    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            db_column_text(select, 1, family, sizeof family);
            report_add_task(report, sqlite3_column_int(select, 0), family);
        }
    }
    return status;
}

static void bind_key(struct sqlite3_stmt *statement, const struct models_key *key)
{
    sqlite3_bind_int(statement, 1, key->world);
    db_bind_text(statement, 2, dtype_name(key->dtype));
    db_bind_text(statement, 3, device_kind_name(key->device));
    db_bind_text(statement, 4, key->gpu);
}

static enum status find_gpu(struct db *db, struct models_key *key, struct error *err)
{
    static const char sql[] =
        "SELECT gpu FROM model_task WHERE world = ?1 AND dtype = ?2 AND device = ?3 AND ?4 = ''"
        " GROUP BY gpu ORDER BY count(*) DESC, gpu LIMIT 1";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    bind_key(select, key);
    status = db_step(db, select, &row, err);
    if (status == OK && row) {
        db_column_text(select, 0, key->gpu, sizeof key->gpu);
        db_reset(select);
    }
    return status;
}

enum status board_models(struct db *db, struct models_key *key, struct report *report,
                         struct error *err)
{
    static const char sql[] =
        "SELECT model, task, speedup, is_faster, target_percent, mechanisms FROM model_task"
        " WHERE world = ?1 AND dtype = ?2 AND device = ?3 AND gpu = ?4"
        " AND model IN (SELECT model FROM model_task WHERE world = ?1 AND dtype = ?2"
        " AND device = ?3 AND gpu = ?4 GROUP BY model ORDER BY count(*) DESC, model LIMIT ?5)";
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    char model[NAME_MAX_BYTES];
    char mechanisms[MECHANISMS_TEXT_MAX];
    enum status status = add_tasks(db, report, err);

    if (status == OK && key->gpu[0] == 0) {
        status = find_gpu(db, key, err);
    }
    if (status == OK) {
        status = db_prepare(db, sql, &select, err);
    }
    if (status != OK) {
        return status;
    }
    bind_key(select, key);
    sqlite3_bind_int(select, 5, MODELS_MAX);
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status != OK || !row) {
            break;
        }
        db_column_text(select, 0, model, sizeof model);
        db_column_text(select, 5, mechanisms, sizeof mechanisms);
        report_add_task(report, sqlite3_column_int(select, 1), "");
        report_add(report, &(struct attempt){.model = model,
                                             .task_number = sqlite3_column_int(select, 1),
                                             .number = 1,
                                             .outcome = OUTCOME_CORRECT,
                                             .speedup = sqlite3_column_double(select, 2),
                                             .is_faster = sqlite3_column_int(select, 3) != 0,
                                             .target_percent = sqlite3_column_double(select, 4),
                                             .mechanisms = mechanisms_read(mechanisms)});
    }
    return status;
}

/* A result takes the place of a slower one; where nothing is timed the first one stays. */
#define TAKES_PLACE                                                                                \
    " ON CONFLICT DO UPDATE SET job = excluded.job, median_us = excluded.median_us,"               \
    " speedup = excluded.speedup, is_faster = excluded.is_faster,"                                 \
    " target_percent = excluded.target_percent, mechanisms = excluded.mechanisms"                  \
    " WHERE excluded.median_us < model_task.median_us"

enum status board_note_result(struct db *db, const struct job *job, const struct facts *facts,
                              struct error *err)
{
    static const char sql[] =
        "INSERT INTO model_task SELECT ?1, ?2, ?3, ?4, model, task, ?5, ?6, ?7, ?8, ?9, ?10"
        " FROM submission WHERE id = ?11 AND model <> '' AND disqualified = ''" TAKES_PLACE;
    struct models_key key = {.world = job->world, .dtype = job->dtype, .device = job->device};
    struct sqlite3_stmt *insert = NULL;
    char mechanisms[MECHANISMS_TEXT_MAX];
    bool is_timed = facts->median_us > 0 || job->device == DEVICE_SIM;
    enum status status = OK;

    if (facts->verdict != VERDICT_ACCEPTED || facts->is_insecure || !is_timed) {
        return OK;
    }
    status = db_prepare(db, sql, &insert, err);
    if (status != OK) {
        return status;
    }
    (void)snprintf(key.gpu, sizeof key.gpu, "%s", facts->gpu);
    mechanisms_write(facts->mechanisms, mechanisms);
    bind_key(insert, &key);
    db_bind_text(insert, 5, job->id);
    sqlite3_bind_double(insert, 6, facts->median_us);
    sqlite3_bind_double(insert, 7, facts->speedup);
    sqlite3_bind_int(insert, 8, facts->is_faster);
    sqlite3_bind_double(insert, 9, facts->target_percent);
    db_bind_text(insert, 10, mechanisms);
    db_bind_text(insert, 11, job->submission_id);
    return db_run(db, insert, NULL, err);
}

enum status board_note_submission(struct db *db, const char *submission_id, struct error *err)
{
    static const char drop[] = "DELETE FROM model_task WHERE (model, task) ="
                               " (SELECT model, task FROM submission WHERE id = ?1)";
    static const char make[] =
        "INSERT INTO model_task SELECT world, dtype, device, gpu, model, result.task, job,"
        " median_us, speedup, is_faster, target_percent, mechanisms"
        " FROM result JOIN submission ON submission.id = result.submission"
        " WHERE (model, result.task) = (SELECT model, task FROM submission WHERE id = ?1)"
        " AND model <> '' AND disqualified = '' AND verdict = 'accepted' AND NOT is_insecure"
        " AND (median_us > 0 OR device = 'sim') ORDER BY finished_ms, job" TAKES_PLACE;
    struct sqlite3_stmt *statement = NULL;
    enum status status = db_prepare(db, drop, &statement, err);

    if (status == OK) {
        db_bind_text(statement, 1, submission_id);
        status = db_run(db, statement, NULL, err);
    }
    if (status == OK) {
        status = db_prepare(db, make, &statement, err);
    }
    if (status == OK) {
        db_bind_text(statement, 1, submission_id);
        status = db_run(db, statement, NULL, err);
    }
    return status;
}
