#include "server/queue.h"

#include "common/log.h"
#include "common/mem.h"
#include "server/events.h"
#include "server/jobs.h"
#include "server/queue_state.h"
#include "server/submissions.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void queue_note_change(struct queue *queue, const char *job_id)
{
    char id[ID_MAX] = "";

    (void)snprintf(id, sizeof id, "%s", job_id);
    buffer_append(&queue->changes, id, sizeof id);
}

bool queue_take_change(struct queue *queue, char job_id[static ID_MAX])
{
    if (queue->changes.size_bytes == 0) {
        return false;
    }
    assert(queue->changes.size_bytes % ID_MAX == 0);
    queue->changes.size_bytes -= ID_MAX;
    memcpy(job_id, queue->changes.data + queue->changes.size_bytes, ID_MAX);
    return true;
}

static void read_lease(struct sqlite3_stmt *select, struct lease *lease)
{
    char stage[NAME_MAX_BYTES];

    *lease = (struct lease){.epoch = sqlite3_column_int64(select, 2)};
    db_column_text(select, 0, lease->job_id, sizeof lease->job_id);
    db_column_text(select, 1, lease->worker, sizeof lease->worker);
    db_column_text(select, 3, stage, sizeof stage);
    lease->stage = (enum job_stage)job_stage_find(stage);
}

static enum status count_queued(struct db *db, int *count, struct error *err)
{
    static const char sql[] = "SELECT count(*) FROM job WHERE state = 'queued'";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status == OK) {
        status = db_step(db, select, &row, err);
    }
    if (status == OK) {
        *count = sqlite3_column_int(select, 0);
        db_reset(select);
    }
    return status;
}

enum status queue_open(struct queue **queue, struct db *db, int64_t ttl_ms, struct moment now,
                       struct error *err)
{
    static const char sql[] = "SELECT id, worker, epoch, stage FROM job WHERE state = 'leased'";
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    struct lease lease = {0};
    struct queue *opened = NULL;
    enum status status = db_prepare(db, sql, &select, err);

    assert(ttl_ms > 0);
    if (status != OK) {
        return status;
    }
    opened = xcalloc(1, sizeof *opened);
    opened->db = db;
    opened->ttl_ms = ttl_ms;
    opened->leases.expires_ms = INT64_MAX;
    while (status == OK && row) {
        status = db_step(db, select, &row, err);
        if (status == OK && row) {
            read_lease(select, &lease);
            lease.until_ms = now.boot_ms + ttl_ms;
            leases_put(&opened->leases, &lease);
        }
    }
    if (status == OK) {
        status = count_queued(db, &opened->queued, err);
    }
    if (status != OK) {
        queue_close(opened);
        return status;
    }
    *queue = opened;
    return OK;
}

enum status queue_push(struct queue *queue, struct job *job, uint64_t seed, struct error *err)
{
    enum status status = job_add(queue->db, job, seed, err);

    if (status == OK) {
        /* The youngest of all: to count those before it in the table would take longest. */
        job->queue_position =
            queue->queued < QUEUE_POSITION_MAX ? queue->queued : QUEUE_POSITION_MAX;
        queue->queued++;
    }
    return status;
}

void queue_close(struct queue *queue)
{
    if (queue == NULL) {
        return;
    }
    leases_release(&queue->leases);
    buffer_release(&queue->changes);
    free(queue);
}

/* One statement, so that two workers can never get the same job. */
static const char lease_sql[] =
    "UPDATE job SET state = 'leased', worker = ?1, epoch = epoch + 1, stage = ''"
    " WHERE id = (SELECT id FROM job WHERE state = 'queued' AND world <= ?2"
    " AND ((device = 'cuda' AND ?3) OR (device = 'cuda-shared' AND ?4) OR (device = 'sim' AND ?5))"
    " ORDER BY queued_ms, id LIMIT 1)"
    " RETURNING id, seed";

/* Takes the next job that fits off the queue; ERR_NOT_FOUND: none does. */
static enum status take(struct queue *queue, const struct lease_wish *wish, char id[static ID_MAX],
                        uint64_t *seed, struct error *err)
{
    struct sqlite3_stmt *update = NULL;
    bool row = false;
    enum status status = db_prepare(queue->db, lease_sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, wish->worker);
    sqlite3_bind_int(update, 2, wish->gpus);
    for (int kind = 0; kind < DEVICE_KINDS; kind++) {
        sqlite3_bind_int(update, 3 + kind, (int)(wish->kinds >> kind & 1));
    }
    status = db_step(queue->db, update, &row, err);
    if (status == OK && !row) {
        return error_set(err, ERR_NOT_FOUND, "no queued job fits %d GPUs", wish->gpus);
    }
    if (status == OK) {
        db_column_text(update, 0, id, ID_MAX);
        *seed = (uint64_t)sqlite3_column_int64(update, 1);
        db_reset(update);
        queue->queued--;
    }
    return status;
}

/* A job that was taken and cannot be evaluated is nobody's any more. */
static enum status set_aside(struct queue *queue, const char *job_id, const char *why,
                             struct moment now, struct error *err)
{
    static const char sql[] = "UPDATE job SET state = 'quarantined', stage = '', worker = '',"
                              " finished_ms = ?2 WHERE id = ?1";
    struct sqlite3_stmt *update = NULL;
    enum status status = db_prepare(queue->db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, job_id);
    sqlite3_bind_int64(update, 2, now.wall_ms);
    status = db_run(queue->db, update, NULL, err);
    if (status == OK) {
        status = event_add(queue->db, now.wall_ms, "job.quarantined", job_id, why, err);
    }
    log_event(LOG_ERROR, "job.quarantined", "job=%s error=\"%s\"", job_id, why);
    queue_note_change(queue, job_id);
    return status;
}

static void hold(struct queue *queue, const struct lease_grant *granted, const char *worker,
                 struct moment now)
{
    struct lease lease = {.epoch = granted->job.epoch};

    memcpy(lease.job_id, granted->job.id, sizeof lease.job_id);
    (void)snprintf(lease.worker, sizeof lease.worker, "%s", worker);
    lease.until_ms =
        now.boot_ms + (queue->ttl_ms < FIRST_HEARTBEAT_MS ? queue->ttl_ms : FIRST_HEARTBEAT_MS);
    leases_put(&queue->leases, &lease);
    log_event(LOG_INFO, "job.leased", "job=%s worker=%s epoch=%lld", lease.job_id, worker,
              (long long)lease.epoch);
    queue_note_change(queue, lease.job_id);
}

enum status queue_lease(struct queue *queue, const struct lease_wish *wish, struct moment now,
                        struct lease_grant *grant, struct error *err)
{
    struct lease_grant granted = {.ttl_ms = queue->ttl_ms};
    char id[ID_MAX] = "";
    bool is_damaged = true;
    enum status status = OK;

    while (status == OK && is_damaged) {
        struct error why = {0};
        status = take(queue, wish, id, &granted.seed, err);
        if (status == OK) {
            status = job_get(queue->db, id, NULL, &granted.job, err);
        }
        if (status != OK) {
            return status;
        }
        status = submission_source(queue->db, granted.job.submission_id, &granted.source,
                                   &granted.source_bytes, &why);
        is_damaged = status == ERR_NOT_FOUND;
        if (is_damaged) {
            status = set_aside(queue, id, why.message, now, err);
        } else if (status != OK) {
            *err = why;
        }
    }
    if (status == OK) {
        status = event_add(queue->db, now.wall_ms, "job.leased", id, wish->worker, err);
    }
    if (status != OK) {
        lease_grant_release(&granted);
        return status;
    }
    hold(queue, &granted, wish->worker, now);
    *grant = granted;
    return OK;
}

enum status queue_refuse_stale(struct queue *queue, const char *job_id, int64_t epoch,
                               struct error *err)
{
    struct job job = {0};
    enum status status = job_get(queue->db, job_id, NULL, &job, err);

    if (status != OK) {
        return status;
    }
    return error_field(err, ERR_CONFLICT, "epoch",
                       "the lease of epoch %lld has ended: the job is %s, its epoch is %lld",
                       (long long)epoch, job_state_name(job.state), (long long)job.epoch);
}

enum status queue_heartbeat(struct queue *queue, const char *job_id,
                            const struct heartbeat *heartbeat, struct moment now, struct error *err)
{
    static const char sql[] =
        "UPDATE job SET stage = ?1 WHERE id = ?2 AND epoch = ?3 AND state = 'leased'";
    struct sqlite3_stmt *update = NULL;
    struct lease *lease = leases_find(&queue->leases, job_id);
    enum status status = OK;

    if (lease == NULL || lease->epoch != heartbeat->epoch ||
        strcmp(lease->worker, heartbeat->worker) != 0) {
        return queue_refuse_stale(queue, job_id, heartbeat->epoch, err);
    }
    if (lease->stage != heartbeat->stage) {
        status = db_prepare(queue->db, sql, &update, err);
        if (status != OK) {
            return status;
        }
        db_bind_text(update, 1, job_stage_name(heartbeat->stage));
        db_bind_text(update, 2, job_id);
        sqlite3_bind_int64(update, 3, heartbeat->epoch);
        status = db_run(queue->db, update, NULL, err);
        if (status != OK) {
            return status;
        }
        lease->stage = heartbeat->stage;
        queue_note_change(queue, job_id);
    }
    lease->has_beaten = true;
    leases_renew(&queue->leases, lease, now.boot_ms + queue->ttl_ms);
    return OK;
}

int64_t queue_expires_ms(const struct queue *queue)
{
    return queue->leases.expires_ms;
}
