/* Of batches.h: the attempts of a batch, and the report made from them. */
#include "server/batches.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>

static enum status count_other_models(struct db *db, const struct batch_attempt *attempt,
                                      int *count, struct error *err)
{
    static const char sql[] = "SELECT count(*) FROM batch_model WHERE batch = ?1 AND model <> ?2";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, attempt->batch_id);
    db_bind_text(select, 2, attempt->model);
    status = db_step(db, select, &row, err);
    if (status == OK) {
        *count = sqlite3_column_int(select, 0);
        db_reset(select);
    }
    return status;
}

static void bind_attempt(struct sqlite3_stmt *statement, const struct batch_attempt *attempt)
{
    db_bind_text(statement, 1, attempt->batch_id);
    db_bind_text(statement, 2, attempt->model);
    sqlite3_bind_int(statement, 3, attempt->task_number);
    sqlite3_bind_int(statement, 4, attempt->attempt);
    sqlite3_bind_int(statement, 5, attempt->world);
    db_bind_text(statement, 6, dtype_name(attempt->dtype));
    db_bind_text(statement, 7, device_kind_name(attempt->device));
}

enum status batch_attempt_check(struct db *db, const struct batch_attempt *attempt,
                                struct error *err)
{
    static const char sql[] =
        "SELECT job FROM batch_attempt WHERE batch = ?1 AND model = ?2 AND task = ?3"
        " AND attempt = ?4 AND world = ?5 AND dtype = ?6 AND device = ?7";
    struct sqlite3_stmt *select = NULL;
    char job_id[ID_MAX];
    bool row = false;
    int models = 0;
    enum status status = count_other_models(db, attempt, &models, err);

    if (status == OK && models >= MODELS_MAX) {
        return error_field(err, ERR_TOO_LARGE, "model", "the batch has %d other models already",
                           models);
    }
    if (status == OK) {
        status = db_prepare(db, sql, &select, err);
    }
    if (status != OK) {
        return status;
    }
    bind_attempt(select, attempt);
    status = db_step(db, select, &row, err);
    if (status == OK && row) {
        db_column_text(select, 0, job_id, sizeof job_id);
        db_reset(select);
        status = error_field(err, ERR_CONFLICT, "attempt",
                             "attempt %d of this model at this task is there already: %s",
                             attempt->attempt, job_id);
    }
    return status;
}

enum status batch_attempt_add(struct db *db, const struct batch_attempt *attempt,
                              const char *job_id, struct error *err)
{
    static const char model_sql[] = "INSERT INTO batch_model (batch, model) VALUES (?1, ?2)"
                                    " ON CONFLICT DO NOTHING";
    static const char sql[] =
        "INSERT INTO batch_attempt (batch, model, task, attempt, world, dtype, device, job)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    struct sqlite3_stmt *insert = NULL;
    enum status status = db_prepare(db, model_sql, &insert, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(insert, 1, attempt->batch_id);
    db_bind_text(insert, 2, attempt->model);
    status = db_run(db, insert, NULL, err);
    if (status == OK) {
        status = db_prepare(db, sql, &insert, err);
    }
    if (status != OK) {
        return status;
    }
    bind_attempt(insert, attempt);
    db_bind_text(insert, 8, job_id);
    return db_run(db, insert, NULL, err);
}

enum status batch_usual_setting(struct db *db, const char *batch_id, struct batch_setting *setting,
                                struct error *err)
{
    static const char sql[] =
        "SELECT world, dtype, device FROM batch_attempt WHERE batch = ?1"
        " GROUP BY world, dtype, device ORDER BY count(*) DESC, world, dtype, device LIMIT 1";
    struct sqlite3_stmt *select = NULL;
    char word[NAME_MAX_BYTES];
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, batch_id);
    status = db_step(db, select, &row, err);
    if (status == OK && !row) {
        return error_set(err, ERR_NOT_FOUND, "the batch has no attempt to report on");
    }
    if (status == OK) {
        setting->world = sqlite3_column_int(select, 0);
        db_column_text(select, 1, word, sizeof word);
        setting->dtype = (enum dtype)dtype_find(word);
        db_column_text(select, 2, word, sizeof word);
        setting->device = (enum device_kind)device_kind_find(word);
        db_reset(select);
    }
    return status;
}

/* Columns: model, task, family, attempt, state, verdict, reason, stage, mechanisms, is_faster,
 * speedup, target_percent. */
static void add_row(struct sqlite3_stmt *select, struct report *report)
{
    char model[NAME_MAX_BYTES];
    char family[NAME_MAX_BYTES];
    char state[NAME_MAX_BYTES];
    char verdict[NAME_MAX_BYTES];
    char reason[NAME_MAX_BYTES];
    char stage[NAME_MAX_BYTES];
    char mechanisms[MECHANISMS_TEXT_MAX];
    struct attempt attempt = {.model = model, .outcome = OUTCOME_OURS};

    db_column_text(select, 0, model, sizeof model);
    attempt.task_number = sqlite3_column_int(select, 1);
    db_column_text(select, 2, family, sizeof family);
    attempt.number = sqlite3_column_int(select, 3);
    db_column_text(select, 4, state, sizeof state);
    db_column_text(select, 5, verdict, sizeof verdict);
    db_column_text(select, 6, reason, sizeof reason);
    db_column_text(select, 7, stage, sizeof stage);
    db_column_text(select, 8, mechanisms, sizeof mechanisms);
    attempt.mechanisms = mechanisms_read(mechanisms);
    attempt.is_faster = sqlite3_column_int(select, 9) != 0;
    attempt.speedup = sqlite3_column_double(select, 10);
    attempt.target_percent = sqlite3_column_double(select, 11);
    int job_state = job_state_find(state);
    if (job_state == JOB_QUEUED || job_state == JOB_LEASED) {
        attempt.outcome = OUTCOME_PENDING;
    } else if (job_state == JOB_DONE) {
        assert(verdict_find(verdict) >= 0);
        attempt.outcome = outcome_of((enum verdict)verdict_find(verdict), reason, stage);
    }
    report_add_task(report, attempt.task_number, family);
    report_add(report, &attempt);
}

enum status batch_report(struct db *db, const char *batch_id, const struct batch_setting *setting,
                         struct report *report, struct error *err)
{
    static const char sql[] =
        "SELECT model, batch_attempt.task, coalesce(family, ''), attempt, state, job.verdict,"
        " reason, result.stage, mechanisms, is_faster, speedup, target_percent"
        " FROM batch_attempt JOIN job ON job.id = batch_attempt.job"
        " LEFT JOIN result ON result.job = job.id"
        " LEFT JOIN task ON task.number = batch_attempt.task"
        " WHERE batch_attempt.batch = ?1 AND batch_attempt.world = ?2"
        " AND batch_attempt.dtype = ?3 AND batch_attempt.device = ?4";
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, batch_id);
    sqlite3_bind_int(select, 2, setting->world);
    db_bind_text(select, 3, dtype_name(setting->dtype));
    db_bind_text(select, 4, device_kind_name(setting->device));
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            add_row(select, report);
        }
    }
    return status;
}
