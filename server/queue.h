/*
 * queue.h — which worker runs which job, and for how long.
 *
 * A job is queued, then leased to one worker, then done. Each lease has a higher epoch; what comes
 * from an older one is refused. A lease lives `ttl_ms` from the last heartbeat; it must have a
 * first one within FIRST_HEARTBEAT_MS, else the grant was never received. A lease that runs out
 * puts the job back in its place in the queue, or into quarantine (losses.h); leases without a
 * heartbeat are not counted as losses.
 *
 * When a lease ends is kept in memory only: after queue_open each has ttl_ms from now. Changes are
 * part of the caller's transaction; when that fails, open the queue again. Time is an argument.
 */
#pragma once

#include "common/lease.h"
#include "common/result.h"
#include "server/db.h"

enum {
    LEASE_TTL_MS = 30000,
    FIRST_HEARTBEAT_MS = 5000, /* or the ttl, where that is less */
    CANCELLED_AT_ONCE = 256,
    INTERNAL_ERRORS_MAX = 3, /* so often a job that failed by our own fault is tried again */
};

struct moment {
    int64_t boot_ms; /* for leases */
    int64_t wall_ms; /* for records */
};

struct queue;

enum status queue_open(struct queue **queue, struct db *db, int64_t ttl_ms, struct moment now,
                       struct error *err);
void queue_close(struct queue *queue);

/* Stores a new job: id, submission_id, world, dtype, device and queued_ms are filled in; fills in
 * queue_position. The last step of what the caller may undo. */
enum status queue_push(struct queue *queue, struct job *job, uint64_t seed, struct error *err);

struct lease_wish {
    const char *worker;
    unsigned kinds; /* bits as in struct lease_request */
    int gpus;
};

/* Leases the oldest job that fits. ERR_NOT_FOUND if there is none; `grant` is then untouched. */
enum status queue_lease(struct queue *queue, const struct lease_wish *wish, struct moment now,
                        struct lease_grant *grant, struct error *err);

/* ERR_CONFLICT: the worker does not hold this lease any more. */
enum status queue_heartbeat(struct queue *queue, const char *job_id,
                            const struct heartbeat *heartbeat, struct moment now,
                            struct error *err);

/*
 * Ends a job with its result, read from report->result_json (ERR_INVALID: not a result). An
 * internal_error puts the job back instead, INTERNAL_ERRORS_MAX times; one whose reason is
 * NODE_FAULT_REASON as losses.h says. A report that was taken already is OK again; one from another
 * lease is ERR_CONFLICT.
 */
enum status queue_finish(struct queue *queue, const char *job_id,
                         const struct result_report *report, struct moment now, struct error *err);

/*
 * Ends a job that nobody wants any more, queued or leased: what its worker says from then on is
 * ERR_CONFLICT. Again: OK. ERR_CONFLICT: it has ended otherwise.
 */
enum status queue_cancel(struct queue *queue, const char *job_id, struct moment now,
                         struct error *err);
/* The same for the jobs of a batch, CANCELLED_AT_ONCE of them; *has_more: call it again. */
enum status queue_cancel_batch(struct queue *queue, const char *batch_id, struct moment now,
                               bool *has_more, struct error *err);

/* Puts back what a worker holds, who may not go on with it; no job is to blame. */
enum status queue_return_leases(struct queue *queue, const char *worker, struct moment now,
                                struct error *err);

/* Ends the leases that ran out. */
enum status queue_expire(struct queue *queue, struct moment now, struct error *err);
/* When queue_expire has something to do next (boot_ms); INT64_MAX: never. */
int64_t queue_expires_ms(const struct queue *queue);

/* Hands out the ids of the jobs that changed, one at a time; false when there are no more. */
bool queue_take_change(struct queue *queue, char job_id[static ID_MAX]);
