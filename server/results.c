#include "server/results.h"

#include "common/mem.h"
#include "server/boards.h"

#include <sqlite3.h>

enum status result_add(struct db *db, const struct result_row *row, struct error *err)
{
    static const char sql[] =
        "INSERT INTO result (job, epoch, worker, verdict, task, world, dtype, device, finished_ms,"
        " peer_bytes, json, reason, stage, mechanisms, gpu, is_insecure, median_us, low_us,"
        " high_us, baseline_us, speedup, is_faster, target_percent, submission)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
        " ?19, ?20, ?21, ?22, ?23, ?24)";
    const struct facts *facts = row->facts;
    struct sqlite3_stmt *insert = NULL;
    char mechanisms[MECHANISMS_TEXT_MAX];
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    mechanisms_write(facts->mechanisms, mechanisms);
    db_bind_text(insert, 1, row->job->id);
    sqlite3_bind_int64(insert, 2, row->epoch);
    db_bind_text(insert, 3, row->worker);
    db_bind_text(insert, 4, verdict_name(facts->verdict));
    sqlite3_bind_int(insert, 5, row->job->task_number);
    sqlite3_bind_int(insert, 6, row->job->world);
    db_bind_text(insert, 7, dtype_name(row->job->dtype));
    db_bind_text(insert, 8, device_kind_name(row->job->device));
    sqlite3_bind_int64(insert, 9, row->finished_ms);
    sqlite3_bind_int64(insert, 10, facts->peer_bytes);
    db_bind_text(insert, 11, row->json);
    db_bind_text(insert, 12, facts->reason);
    db_bind_text(insert, 13, facts->stage);
    db_bind_text(insert, 14, mechanisms);
    db_bind_text(insert, 15, facts->gpu);
    sqlite3_bind_int(insert, 16, facts->is_insecure);
    const double numbers[] = {facts->median_us, facts->low_us, facts->high_us, facts->baseline_us,
                              facts->speedup};
    for (int i = 0; i < 5; i++) {
        sqlite3_bind_double(insert, 17 + i, numbers[i]);
    }
    sqlite3_bind_int(insert, 22, facts->is_faster);
    sqlite3_bind_double(insert, 23, facts->target_percent);
    db_bind_text(insert, 24, row->job->submission_id);
    status = db_run(db, insert, NULL, err);
    return status == OK ? board_note_result(db, row->job, facts, err) : status;
}

enum status result_get(struct db *db, const char *job_id, char **json, struct error *err)
{
    static const char sql[] = "SELECT json FROM result WHERE job = ?1";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, job_id);
    status = db_step(db, select, &row, err);
    if (status != OK) {
        return status;
    }
    *json = NULL;
    if (row) {
        *json = xstrdup((const char *)sqlite3_column_text(select, 0));
        db_reset(select);
    }
    return OK;
}
