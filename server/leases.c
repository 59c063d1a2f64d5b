#include "server/leases.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

static struct lease **bucket_of(struct leases *leases, const char *job_id)
{
    uint32_t hash = 2166136261; /* FNV-1a */

    for (; *job_id != 0; job_id++) {
        hash = (hash ^ (unsigned char)*job_id) * 16777619;
    }
    return &leases->buckets[hash % LEASE_BUCKETS];
}

void leases_release(struct leases *leases)
{
    for (int i = 0; i < LEASE_BUCKETS; i++) {
        while (leases->buckets[i] != NULL) {
            struct lease *next = leases->buckets[i]->next;
            free(leases->buckets[i]);
            leases->buckets[i] = next;
        }
    }
}

struct lease *leases_find(struct leases *leases, const char *job_id)
{
    struct lease *lease = *bucket_of(leases, job_id);

    while (lease != NULL && strcmp(lease->job_id, job_id) != 0) {
        lease = lease->next;
    }
    return lease;
}

struct lease *leases_find_of(struct leases *leases, const char *worker)
{
    for (int i = 0; i < LEASE_BUCKETS; i++) {
        for (struct lease *lease = leases->buckets[i]; lease != NULL; lease = lease->next) {
            if (strcmp(lease->worker, worker) == 0) {
                return lease;
            }
        }
    }
    return NULL;
}

struct lease *leases_put(struct leases *leases, const struct lease *lease)
{
    struct lease *put = xmalloc(sizeof *put);
    struct lease **bucket = bucket_of(leases, lease->job_id);

    leases_drop(leases, lease->job_id);
    *put = *lease;
    put->next = *bucket;
    *bucket = put;
    leases_renew(leases, put, lease->until_ms);
    return put;
}

void leases_renew(struct leases *leases, struct lease *lease, int64_t until_ms)
{
    lease->until_ms = until_ms;
    if (until_ms < leases->expires_ms) {
        leases->expires_ms = until_ms;
    }
}

void leases_drop(struct leases *leases, const char *job_id)
{
    struct lease **link = bucket_of(leases, job_id);

    while (*link != NULL && strcmp((*link)->job_id, job_id) != 0) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        struct lease *gone = *link;
        *link = gone->next;
        free(gone);
    }
}

struct lease *leases_find_ended(struct leases *leases, int64_t now_ms)
{
    int64_t expires_ms = INT64_MAX;

    if (now_ms < leases->expires_ms) {
        return NULL;
    }
    for (int i = 0; i < LEASE_BUCKETS; i++) {
        for (struct lease *lease = leases->buckets[i]; lease != NULL; lease = lease->next) {
            if (lease->until_ms <= now_ms) {
                return lease;
            }
            expires_ms = lease->until_ms < expires_ms ? lease->until_ms : expires_ms;
        }
    }
    leases->expires_ms = expires_ms;
    return NULL;
}
