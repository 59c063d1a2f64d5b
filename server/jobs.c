#include "server/jobs.h"

#include "tasks/task.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>

enum status job_add(struct db *db, const struct job *job, uint64_t seed, struct error *err)
{
    static const char sql[] =
        "INSERT INTO job (id, submission, world, dtype, device, seed, state, queued_ms, batch)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'queued', ?7, ?8)";
    struct sqlite3_stmt *insert = NULL;
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(insert, 1, job->id);
    db_bind_text(insert, 2, job->submission_id);
    sqlite3_bind_int(insert, 3, job->world);
    db_bind_text(insert, 4, dtype_name(job->dtype));
    db_bind_text(insert, 5, device_kind_name(job->device));
    sqlite3_bind_int64(insert, 6, (int64_t)seed);
    sqlite3_bind_int64(insert, 7, job->queued_ms);
    db_bind_text(insert, 8, job->batch_id);
    return db_run(db, insert, NULL, err);
}

/* A column that holds one of our own words; -1 would be a word that only a newer program knows. */
static int read_word(struct sqlite3_stmt *select, int column, int (*find)(const char *))
{
    char word[NAME_MAX_BYTES];

    db_column_text(select, column, word, sizeof word);
    int value = find(word);
    assert(value >= 0);
    return value;
}

#define JOB_COLUMNS                                                                                \
    "job.id, submission, task, world, dtype, device, state, stage, epoch, queued_ms, finished_ms," \
    " worker, verdict, batch"

static void read_row(struct sqlite3_stmt *select, struct job *job)
{
    char number[16];

    *job = (struct job){.queue_position = -1};
    db_column_text(select, 0, job->id, sizeof job->id);
    db_column_text(select, 1, job->submission_id, sizeof job->submission_id);
    job->task_number = sqlite3_column_int(select, 2);
    job->world = sqlite3_column_int(select, 3);
    job->dtype = (enum dtype)read_word(select, 4, dtype_find);
    job->device = (enum device_kind)read_word(select, 5, device_kind_find);
    job->state = (enum job_state)read_word(select, 6, job_state_find);
    job->stage = (enum job_stage)read_word(select, 7, job_stage_find);
    job->epoch = sqlite3_column_int64(select, 8);
    job->queued_ms = sqlite3_column_int64(select, 9);
    job->finished_ms = sqlite3_column_int64(select, 10);
    db_column_text(select, 11, job->worker, sizeof job->worker);
    db_column_text(select, 12, job->verdict, sizeof job->verdict);
    db_column_text(select, 13, job->batch_id, sizeof job->batch_id);

    (void)snprintf(number, sizeof number, "%d", job->task_number);
    const struct task *task = task_find(number);
    (void)snprintf(job->task, sizeof job->task, "%s", task == NULL ? number : task_name(task));
}

/* How many queued jobs come before this one: the order is that of queue.c's lease. */
static enum status read_position(struct db *db, struct job *job, struct error *err)
{
    static const char sql[] = "SELECT count(*) FROM (SELECT 1 FROM job"
                              " WHERE state = 'queued' AND (queued_ms, id) < (?1, ?2) LIMIT ?3)";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = OK;

    if (job->state != JOB_QUEUED) {
        return OK;
    }
    status = db_prepare(db, sql, &select, err);
    if (status != OK) {
        return status;
    }
    sqlite3_bind_int64(select, 1, job->queued_ms);
    db_bind_text(select, 2, job->id);
    sqlite3_bind_int(select, 3, QUEUE_POSITION_MAX);
    status = db_step(db, select, &row, err);
    if (status == OK) {
        job->queue_position = sqlite3_column_int(select, 0);
        db_reset(select);
    }
    return status;
}

enum status job_get(struct db *db, const char *id, const char *owner, struct job *job,
                    struct error *err)
{
    static const char sql[] =
        "SELECT " JOB_COLUMNS " FROM job JOIN submission ON submission.id = job.submission"
        " WHERE job.id = ?1 AND (?2 IS NULL OR owner = ?2)";
    struct sqlite3_stmt *select = NULL;
    struct job found = {0};
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
        return error_set(err, ERR_NOT_FOUND, "no job '%.*s'", ID_MAX, id);
    }
    read_row(select, &found);
    db_reset(select);
    status = read_position(db, &found, err);
    if (status == OK) {
        *job = found;
    }
    return status;
}

enum status job_list(struct db *db, const char *submission_id, struct job *jobs, int count_max,
                     int *count, struct error *err)
{
    static const char sql[] =
        "SELECT " JOB_COLUMNS " FROM job JOIN submission ON submission.id = job.submission"
        " WHERE job.submission = ?1 ORDER BY job.id LIMIT ?2";
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    int found = 0;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, submission_id);
    sqlite3_bind_int(select, 2, count_max);
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            read_row(select, &jobs[found++]);
        }
    }
    for (int i = 0; status == OK && i < found; i++) {
        status = read_position(db, &jobs[i], err);
    }
    if (status == OK) {
        *count = found;
    }
    return status;
}
