#include "server/queue.h"

#include "common/log.h"
#include "common/mem.h"
#include "server/events.h"
#include "server/jobs.h"
#include "server/leases.h"
#include "server/losses.h"
#include "server/results.h"
#include "server/submissions.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct queue {
    struct db *db;
    int64_t ttl_ms;
    int queued; /* jobs in that state */
    struct leases leases;
    struct buffer changes; /* ids of ID_MAX bytes each */
};

static void note_change(struct queue *queue, const char *job_id)
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

enum status queue_lease(struct queue *queue, const struct lease_wish *wish, struct moment now,
                        struct lease_grant *grant, struct error *err)
{
    struct sqlite3_stmt *update = NULL;
    struct lease_grant granted = {.ttl_ms = queue->ttl_ms};
    char id[ID_MAX] = "";
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
    if (status != OK) {
        return status;
    }
    if (!row) {
        return error_set(err, ERR_NOT_FOUND, "no queued job fits %d GPUs", wish->gpus);
    }
    db_column_text(update, 0, id, sizeof id);
    granted.seed = (uint64_t)sqlite3_column_int64(update, 1);
    db_reset(update);

    status = job_get(queue->db, id, NULL, &granted.job, err);
    if (status == OK) {
        status = submission_source(queue->db, granted.job.submission_id, &granted.source,
                                   &granted.source_bytes, err);
    }
    if (status == OK) {
        status = event_add(queue->db, now.wall_ms, "job.leased", id, wish->worker, err);
    }
    if (status != OK) {
        lease_grant_release(&granted);
        return status;
    }
    struct lease lease = {.epoch = granted.job.epoch};
    memcpy(lease.job_id, granted.job.id, sizeof lease.job_id);
    (void)snprintf(lease.worker, sizeof lease.worker, "%s", wish->worker);
    lease.until_ms =
        now.boot_ms + (queue->ttl_ms < FIRST_HEARTBEAT_MS ? queue->ttl_ms : FIRST_HEARTBEAT_MS);
    leases_put(&queue->leases, &lease);
    queue->queued--;
    log_event(LOG_INFO, "job.leased", "job=%s worker=%s epoch=%lld", id, wish->worker,
              (long long)lease.epoch);
    note_change(queue, id);
    *grant = granted;
    return OK;
}

static enum status refuse_stale(struct queue *queue, const char *job_id, int64_t epoch,
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
        return refuse_stale(queue, job_id, heartbeat->epoch, err);
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
        note_change(queue, job_id);
    }
    lease->has_beaten = true;
    leases_renew(&queue->leases, lease, now.boot_ms + queue->ttl_ms);
    return OK;
}

/* Runs one guarded update with ?1 job, ?2 epoch, ?3 worker; *changed is false when that worker does
 * not hold that lease. */
static enum status end_lease(struct queue *queue, const struct lease *lease, const char *sql,
                             bool *changed, struct error *err)
{
    struct sqlite3_stmt *update = NULL;
    int changes = 0;
    enum status status = db_prepare(queue->db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, lease->job_id);
    sqlite3_bind_int64(update, 2, lease->epoch);
    db_bind_text(update, 3, lease->worker);
    status = db_run(queue->db, update, &changes, err);
    if (status == OK) {
        *changed = changes == 1;
    }
    return status;
}

/* A job that failed by our fault goes back, unless it has done so often enough. */
static enum status try_again(struct queue *queue, const struct lease *lease, bool *changed,
                             struct error *err)
{
    static const char sql[] = "UPDATE job SET state = 'queued', stage = '', worker = '',"
                              " internal_errors = internal_errors + 1, internal_error_epoch = ?2"
                              " WHERE id = ?1 AND epoch = ?2 AND worker = ?3 AND state = 'leased'"
                              " AND internal_errors < 3";

    static_assert(INTERNAL_ERRORS_MAX == 3, "the statement names it");
    return end_lease(queue, lease, sql, changed, err);
}

static enum status finish(struct queue *queue, const struct result_row *row, bool *changed,
                          struct error *err)
{
    static const char sql[] =
        "UPDATE job SET state = 'done', stage = '', verdict = ?4, finished_ms = ?5"
        " WHERE id = ?1 AND epoch = ?2 AND worker = ?3 AND state = 'leased'";
    struct sqlite3_stmt *update = NULL;
    int changes = 0;
    enum status status = db_prepare(queue->db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, row->job->id);
    sqlite3_bind_int64(update, 2, row->epoch);
    db_bind_text(update, 3, row->worker);
    db_bind_text(update, 4, verdict_name(row->verdict));
    sqlite3_bind_int64(update, 5, row->finished_ms);
    status = db_run(queue->db, update, &changes, err);
    if (status == OK && changes == 1) {
        status = result_add(queue->db, row, err);
    }
    if (status == OK) {
        *changed = changes == 1;
    }
    return status;
}

/* OK when this very report ended the lease before, and only its answer was lost. */
static enum status check_repeated(struct queue *queue, const char *job_id,
                                  const struct result_report *report, struct error *err)
{
    static const char sql[] = "SELECT 1 FROM result WHERE job = ?1 AND epoch = ?2 AND worker = ?3"
                              " UNION ALL SELECT 1 FROM job WHERE id = ?1 AND ?2 > 0"
                              " AND ?2 IN (internal_error_epoch, node_fault_epoch)";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(queue->db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, job_id);
    sqlite3_bind_int64(select, 2, report->epoch);
    db_bind_text(select, 3, report->worker);
    status = db_step(queue->db, select, &row, err);
    if (status != OK) {
        return status;
    }
    db_reset(select);
    return row ? OK : refuse_stale(queue, job_id, report->epoch, err);
}

/* What ranks moved to or from other ranks' memory. */
static int64_t peer_bytes(const struct result *result)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < result->traffic_count; i++) {
        const struct traffic *traffic = &result->traffic[i];
        if (traffic->source != traffic->owner && traffic->bytes < INT64_MAX - sum) {
            sum += traffic->bytes;
        }
    }
    return (int64_t)sum;
}

/* Stores a verdict, or puts the job back; *changed is false when the lease was not held. */
static enum status take_result(struct queue *queue, const struct result_row *row, bool *changed,
                               struct error *err)
{
    struct lease lease = {.epoch = row->epoch};
    bool is_of_node = row->verdict == VERDICT_INTERNAL_ERROR && row->reason != NULL &&
                      strcmp(row->reason, NODE_FAULT_REASON) == 0;
    enum job_state state = JOB_DONE;
    enum status status = OK;

    *changed = false;
    memcpy(lease.job_id, row->job->id, sizeof lease.job_id);
    (void)snprintf(lease.worker, sizeof lease.worker, "%s", row->worker);
    if (is_of_node) {
        status = node_fault_count(queue->db, &lease, row->finished_ms, &state, changed, err);
    } else if (row->verdict == VERDICT_INTERNAL_ERROR) {
        status = try_again(queue, &lease, changed, err);
        state = *changed ? JOB_QUEUED : JOB_DONE;
    }
    if (status == OK && !*changed && !is_of_node) {
        status = finish(queue, row, changed, err);
    }
    if (status != OK || !*changed) {
        return status;
    }
    const char *kind = state == JOB_QUEUED        ? "job.retried"
                       : state == JOB_QUARANTINED ? "job.quarantined"
                                                  : "job.done";
    status =
        event_add(queue->db, row->finished_ms, kind, row->job->id, verdict_name(row->verdict), err);
    if (status == OK) {
        leases_drop(&queue->leases, row->job->id);
        queue->queued += state == JOB_QUEUED ? 1 : 0;
        note_change(queue, row->job->id);
        log_event(LOG_INFO, kind, "job=%s worker=%s epoch=%lld verdict=%s", row->job->id,
                  row->worker, (long long)row->epoch, verdict_name(row->verdict));
    }
    return status;
}

enum status queue_finish(struct queue *queue, const char *job_id,
                         const struct result_report *report, struct moment now, struct error *err)
{
    struct job job = {0};
    struct result result = {.rank = -1};
    struct buffer json = {0};
    bool changed = false;
    char field[ERROR_FIELD_MAX];
    enum status status =
        result_read(&result, report->result_json, strlen(report->result_json), err);

    if (status != OK) {
        (void)snprintf(field, sizeof field, "result%s%.50s", err->field[0] == 0 ? "" : ".",
                       err->field);
        return error_field(err, status, field, "%s", err->message);
    }
    status = job_get(queue->db, job_id, NULL, &job, err);
    if (status != OK) {
        goto out;
    }
    result_write(&result, &json);
    struct result_row row = {.job = &job,
                             .worker = report->worker,
                             .epoch = report->epoch,
                             .verdict = result.verdict,
                             .reason = result.reason,
                             .finished_ms = now.wall_ms,
                             .peer_bytes = peer_bytes(&result),
                             .json = json.data};
    status = take_result(queue, &row, &changed, err);
    if (status == OK && !changed) {
        status = check_repeated(queue, job_id, report, err);
    }

out:
    buffer_release(&json);
    result_release(&result);
    return status;
}

static enum status expire_one(struct queue *queue, const struct lease *lease, int64_t wall_ms,
                              struct error *err)
{
    static const char give_back[] =
        "UPDATE job SET state = 'queued', stage = '', worker = ''"
        " WHERE id = ?1 AND epoch = ?2 AND worker = ?3 AND state = 'leased'";
    enum job_state state = JOB_QUEUED;
    bool changed = false;
    const char *kind = "job.returned";
    enum status status = OK;

    if (!lease->has_beaten) {
        status = end_lease(queue, lease, give_back, &changed, err);
    } else {
        status = loss_count(queue->db, lease, wall_ms, &state, err);
        kind = state == JOB_QUARANTINED ? "job.quarantined" : "job.lost";
    }
    if (status == OK) {
        status = event_add(queue->db, wall_ms, kind, lease->job_id, lease->worker, err);
    }
    if (status == OK) {
        queue->queued += state == JOB_QUEUED ? 1 : 0;
        note_change(queue, lease->job_id);
        log_event(LOG_WARN, kind, "job=%s worker=%s epoch=%lld", lease->job_id, lease->worker,
                  (long long)lease->epoch);
    }
    return status;
}

enum status queue_expire(struct queue *queue, struct moment now, struct error *err)
{
    struct lease *lease = leases_find_ended(&queue->leases, now.boot_ms);

    while (lease != NULL) {
        enum status status = expire_one(queue, lease, now.wall_ms, err);
        if (status != OK) {
            return status;
        }
        leases_drop(&queue->leases, lease->job_id);
        lease = leases_find_ended(&queue->leases, now.boot_ms);
    }
    return OK;
}

int64_t queue_expires_ms(const struct queue *queue)
{
    return queue->leases.expires_ms;
}
