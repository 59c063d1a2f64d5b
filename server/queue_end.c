/* Of queue.h: how leases and jobs end: with a result, without one, or because they are cancelled.
 */
#include "server/queue_state.h"

#include "common/log.h"
#include "server/events.h"
#include "server/jobs.h"
#include "server/losses.h"
#include "server/results.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

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
    db_bind_text(update, 4, verdict_name(row->facts->verdict));
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
    return row ? OK : queue_refuse_stale(queue, job_id, report->epoch, err);
}

/* Stores a verdict, or puts the job back; *changed is false when the lease was not held. */
static enum status take_result(struct queue *queue, const struct result_row *row, bool *changed,
                               struct error *err)
{
    struct lease lease = {.epoch = row->epoch};
    bool is_of_node = row->facts->verdict == VERDICT_INTERNAL_ERROR &&
                      strcmp(row->facts->reason, NODE_FAULT_REASON) == 0;
    enum job_state state = JOB_DONE;
    enum status status = OK;

    *changed = false;
    memcpy(lease.job_id, row->job->id, sizeof lease.job_id);
    (void)snprintf(lease.worker, sizeof lease.worker, "%s", row->worker);
    if (is_of_node) {
        status = node_fault_count(queue->db, &lease, row->finished_ms, &state, changed, err);
    } else if (row->facts->verdict == VERDICT_INTERNAL_ERROR) {
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
    status = event_add(queue->db, row->finished_ms, kind, row->job->id,
                       verdict_name(row->facts->verdict), err);
    if (status == OK) {
        leases_drop(&queue->leases, row->job->id);
        queue->queued += state == JOB_QUEUED ? 1 : 0;
        queue_note_change(queue, row->job->id);
        log_event(LOG_INFO, kind, "job=%s worker=%s epoch=%lld verdict=%s", row->job->id,
                  row->worker, (long long)row->epoch, verdict_name(row->facts->verdict));
    }
    return status;
}

enum status queue_finish(struct queue *queue, const char *job_id,
                         const struct result_report *report, struct moment now, struct error *err)
{
    struct job job = {0};
    struct result result = {.rank = -1};
    struct facts facts = {0};
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
    facts_take(&facts, &result);
    struct result_row row = {.job = &job,
                             .worker = report->worker,
                             .epoch = report->epoch,
                             .finished_ms = now.wall_ms,
                             .facts = &facts,
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

/* Ends a lease without a result; `is_lost`: the worker fell silent, and the job may be why. */
static enum status end_without_result(struct queue *queue, const struct lease *lease, bool is_lost,
                                      int64_t wall_ms, struct error *err)
{
    static const char give_back[] =
        "UPDATE job SET state = 'queued', stage = '', worker = ''"
        " WHERE id = ?1 AND epoch = ?2 AND worker = ?3 AND state = 'leased'";
    enum job_state state = JOB_QUEUED;
    bool changed = false;
    const char *kind = "job.returned";
    enum status status = OK;

    if (!is_lost) {
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
        queue_note_change(queue, lease->job_id);
        log_event(LOG_WARN, kind, "job=%s worker=%s epoch=%lld", lease->job_id, lease->worker,
                  (long long)lease->epoch);
    }
    return status;
}

enum status queue_return_leases(struct queue *queue, const char *worker, struct moment now,
                                struct error *err)
{
    struct lease *lease = NULL;

    while ((lease = leases_find_of(&queue->leases, worker)) != NULL) {
        enum status status = end_without_result(queue, lease, false, now.wall_ms, err);
        if (status != OK) {
            return status;
        }
        leases_drop(&queue->leases, lease->job_id);
    }
    return OK;
}

enum status queue_expire(struct queue *queue, struct moment now, struct error *err)
{
    struct lease *lease = leases_find_ended(&queue->leases, now.boot_ms);

    while (lease != NULL) {
        enum status status = end_without_result(queue, lease, lease->has_beaten, now.wall_ms, err);
        if (status != OK) {
            return status;
        }
        leases_drop(&queue->leases, lease->job_id);
        lease = leases_find_ended(&queue->leases, now.boot_ms);
    }
    return OK;
}

/* ---- cancelling ---- */

/* Cancels the jobs that `update` names with ?1; *count is how many it were. */
static enum status cancel(struct queue *queue, struct sqlite3_stmt *update, struct moment now,
                          int *count, struct error *err)
{
    char id[ID_MAX];
    bool row = true;
    enum status status = OK;

    *count = 0;
    while (status == OK && row) {
        status = db_step(queue->db, update, &row, err);
        if (status != OK || !row) {
            break;
        }
        db_column_text(update, 0, id, sizeof id);
        bool was_leased = sqlite3_column_text(update, 1)[0] != 0;
        leases_drop(&queue->leases, id);
        queue->queued -= was_leased ? 0 : 1;
        queue_note_change(queue, id);
        status = event_add(queue->db, now.wall_ms, "job.cancelled", id, "", err);
        log_event(LOG_INFO, "job.cancelled", "job=%s", id);
        ++*count;
    }
    if (status != OK) {
        db_reset(update);
    }
    return status;
}

enum status queue_cancel(struct queue *queue, const char *job_id, struct moment now,
                         struct error *err)
{
    static const char sql[] = "UPDATE job SET state = 'cancelled', stage = '', finished_ms = ?2"
                              " WHERE id = ?1 AND state IN ('queued', 'leased')"
                              " RETURNING id, worker";
    struct sqlite3_stmt *update = NULL;
    struct job job = {0};
    int count = 0;
    enum status status = db_prepare(queue->db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, job_id);
    sqlite3_bind_int64(update, 2, now.wall_ms);
    status = cancel(queue, update, now, &count, err);
    if (status == OK && count == 0) {
        status = job_get(queue->db, job_id, NULL, &job, err);
    }
    if (status == OK && count == 0 && job.state != JOB_CANCELLED) {
        status = error_set(err, ERR_CONFLICT, "the job is %s already", job_state_name(job.state));
    }
    return status;
}

enum status queue_cancel_batch(struct queue *queue, const char *batch_id, struct moment now,
                               bool *has_more, struct error *err)
{
    static const char sql[] = "UPDATE job SET state = 'cancelled', stage = '', finished_ms = ?2"
                              " WHERE id IN (SELECT id FROM job WHERE batch = ?1 AND batch <> ''"
                              " AND state IN ('queued', 'leased') LIMIT ?3)"
                              " RETURNING id, worker";
    struct sqlite3_stmt *update = NULL;
    int count = 0;
    enum status status = db_prepare(queue->db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, batch_id);
    sqlite3_bind_int64(update, 2, now.wall_ms);
    sqlite3_bind_int(update, 3, CANCELLED_AT_ONCE);
    status = cancel(queue, update, now, &count, err);
    if (status == OK) {
        *has_more = count == CANCELLED_AT_ONCE;
    }
    return status;
}
