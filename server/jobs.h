/*
 * jobs.h — the rows of the table of jobs: added and read here, moved on by queue.h.
 *
 * `owner` NULL means any owner; what another owner has is ERR_NOT_FOUND.
 */
#pragma once

#include "common/job.h"
#include "server/db.h"

enum {
    JOBS_LIST_MAX = 1000,
    QUEUE_POSITION_MAX = 1000, /* this place or a later one: nobody counts further */
};

/* Stores a queued job: id, submission_id, world, dtype, device and queued_ms are filled in. */
enum status job_add(struct db *db, const struct job *job, uint64_t seed, struct error *err);

/* Fills in queue_position too. */
enum status job_get(struct db *db, const char *id, const char *owner, struct job *job,
                    struct error *err);

/* The jobs of a submission, oldest first. */
enum status job_list(struct db *db, const char *submission_id, struct job *jobs, int count_max,
                     int *count, struct error *err);
