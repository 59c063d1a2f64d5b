/*
 * lease.h — what a worker and the server say to each other, and the only code that reads or writes
 * its JSON. Rules of reading as in job.h.
 *
 * A worker says hello with its devices, then asks for leases in a long poll. A grant (lease_grant
 * in job.h) must be kept alive by heartbeats, and ends with a report, which is sent again until it
 * is acknowledged.
 */
#pragma once

#include "common/job.h"

#include <stdbool.h>

enum { DEVICES_MAX = 8, GPUS_MAX = 64, LEASE_WAIT_MAX_S = 25, REASON_MAX_BYTES = 256 };

/* Only a ready worker gets leases. */
enum worker_state { WORKER_READY, WORKER_DRAINING, WORKER_QUARANTINED, WORKER_STATES };

const char *worker_state_name(enum worker_state state);
int worker_state_find(const char *name); /* -1: no such name */

struct device_offer {
    enum device_kind kind;
    int gpus;
};

/* POST /v1/workers */
struct worker_hello {
    char name[NAME_MAX_BYTES];
    struct device_offer *devices; /* owned by the record; 1..DEVICES_MAX */
    size_t device_count;
    char version[NAME_MAX_BYTES];
};

void worker_hello_write(const struct worker_hello *hello, struct buffer *json);
enum status worker_hello_read(struct worker_hello *hello, const char *json, size_t size_bytes,
                              struct error *err);
void worker_hello_release(struct worker_hello *hello);

/* Its answer. */
struct worker_welcome {
    char worker[NAME_MAX_BYTES];
    int64_t ttl_ms; /* how long a lease lives without a heartbeat */
};

void worker_welcome_write(const struct worker_welcome *welcome, struct buffer *json);
enum status worker_welcome_read(struct worker_welcome *welcome, const char *json, size_t size_bytes,
                                struct error *err);

/* POST /v1/workers/{name}/state: from the worker itself, or from an admin. */
struct worker_order {
    enum worker_state state;
    char reason[REASON_MAX_BYTES];
};

void worker_order_write(const struct worker_order *order, struct buffer *json);
enum status worker_order_read(struct worker_order *order, const char *json, size_t size_bytes,
                              struct error *err);

/* What the server knows of a worker; the answer to an order, and a row of GET /v1/workers. */
struct worker {
    char name[NAME_MAX_BYTES];
    char version[NAME_MAX_BYTES];
    struct device_offer *devices; /* owned by the record; 1..DEVICES_MAX */
    size_t device_count;
    int64_t registered_ms;
    enum worker_state state;
    char reason[REASON_MAX_BYTES]; /* of that state */
    char state_by[NAME_MAX_BYTES]; /* whose token set it; "": nobody's yet */
    bool is_own;                   /* the worker itself set it */
    int64_t state_ms;
    int jobs; /* that it holds */
};

void worker_write(const struct worker *worker, struct buffer *json);
enum status worker_read(struct worker *worker, const char *json, size_t size_bytes,
                        struct error *err);
void worker_release(struct worker *worker);

/* POST /v1/workers/{name}/lease; the answer is a lease_grant, or 204 without a body. */
struct lease_request {
    unsigned kinds; /* bit 1 << enum device_kind of each that would do; never 0 */
    int gpus;       /* free now, 1..GPUS_MAX */
    int wait_s;     /* 0..LEASE_WAIT_MAX_S */
};

void lease_request_write(const struct lease_request *request, struct buffer *json);
enum status lease_request_read(struct lease_request *request, const char *json, size_t size_bytes,
                               struct error *err);

/* POST /v1/jobs/{id}/heartbeat */
struct heartbeat {
    char worker[NAME_MAX_BYTES];
    int64_t epoch;
    enum job_stage stage;
};

void heartbeat_write(const struct heartbeat *heartbeat, struct buffer *json);
enum status heartbeat_read(struct heartbeat *heartbeat, const char *json, size_t size_bytes,
                           struct error *err);

/* Its answer: {"lease_ms": from now}. */
struct heartbeat_reply {
    int64_t lease_ms;
};

void heartbeat_reply_write(const struct heartbeat_reply *reply, struct buffer *json);
enum status heartbeat_reply_read(struct heartbeat_reply *reply, const char *json, size_t size_bytes,
                                 struct error *err);

/* The reason of an internal_error that is a fault of the worker's node. */
#define NODE_FAULT_REASON "node_fault"

/* POST /v1/jobs/{id}/result */
struct result_report {
    char worker[NAME_MAX_BYTES];
    int64_t epoch;
    char *result_json; /* owned by the record; what result_write made: not read here */
};

void result_report_write(const struct result_report *report, struct buffer *json);
enum status result_report_read(struct result_report *report, const char *json, size_t size_bytes,
                               struct error *err);
void result_report_release(struct result_report *report);
