/*
 * leases.h — the leases that are held now: in memory only, by job.
 *
 * A plain table for queue.c; it starts as {.expires_ms = INT64_MAX} and ends with leases_release.
 */
#pragma once

#include "common/job.h"

#include <stdbool.h>

enum { LEASE_BUCKETS = 4096 };

struct lease {
    char job_id[ID_MAX];
    char worker[NAME_MAX_BYTES];
    int64_t epoch;
    int64_t until_ms;
    enum job_stage stage;
    bool has_beaten;    /* a heartbeat has come: the grant was received */
    struct lease *next; /* in the same bucket */
};

struct leases {
    struct lease *buckets[LEASE_BUCKETS];
    int64_t expires_ms; /* no lease ends before */
};

void leases_release(struct leases *leases);

/* NULL: none. Valid until it is dropped. */
/* Any lease of a worker; NULL: it has none. */
struct lease *leases_find_of(struct leases *leases, const char *worker);
struct lease *leases_find(struct leases *leases, const char *job_id);

/* Adds a lease, in the place of one of the same job, and returns where it is. */
struct lease *leases_put(struct leases *leases, const struct lease *lease);

void leases_renew(struct leases *leases, struct lease *lease, int64_t until_ms);
void leases_drop(struct leases *leases, const char *job_id);

/* One that has ended by `now_ms`, or NULL, and then expires_ms is exact. */
struct lease *leases_find_ended(struct leases *leases, int64_t now_ms);
