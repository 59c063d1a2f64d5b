/* queue_state.h — what queue.c and queue_end.c share of a queue. */
#pragma once

#include "server/leases.h"
#include "server/queue.h"

struct queue {
    struct db *db;
    int64_t ttl_ms;
    int queued; /* jobs in that state */
    struct leases leases;
    struct buffer changes; /* ids of ID_MAX bytes each */
};

/* For queue_take_change. */
void queue_note_change(struct queue *queue, const char *job_id);

/* ERR_CONFLICT with what the job is now. */
enum status queue_refuse_stale(struct queue *queue, const char *job_id, int64_t epoch,
                               struct error *err);
