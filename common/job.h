/*
 * job.h — submissions and jobs, and the only code that reads or writes their JSON.
 *
 * A submission is a source for one task; a job is one evaluation of it: world, dtype, device kind.
 * Records are plain and copied, except `source` and `json` texts, whose owner is named. Readers
 * refuse unknown and duplicate keys, wrong types and values out of range: ERR_INVALID with the key
 * in err->field and the right values in the message; the record is then untouched.
 */
#pragma once

#include "common/buffer.h"
#include "common/dtype.h"
#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ID_MAX = 40,                   /* a public id with its final zero */
    NAME_MAX_BYTES = 64,           /* names of tasks, workers, models, owners, with final zero */
    SOURCE_MAX_BYTES = 256 * 1024, /* a submission's text */
    JSON_BODY_MAX_BYTES = 1 << 20, /* any JSON body */
    WORLD_MAX = 8,
    ATTEMPT_MAX = 100,
    SHA256_TEXT_MAX = 65,
    JOB_VERSION_MAX = 48,
};

enum device_kind { DEVICE_CUDA, DEVICE_CUDA_SHARED, DEVICE_SIM, DEVICE_KINDS };
enum job_state { JOB_QUEUED, JOB_LEASED, JOB_DONE, JOB_CANCELLED, JOB_QUARANTINED, JOB_STATES };
enum job_stage { STAGE_NONE, STAGE_BUILDING, STAGE_WAITING, STAGE_CHECKING, STAGE_TIMING, STAGES };

const char *device_kind_name(enum device_kind kind); /* "cuda", "cuda-shared", "sim" */
const char *job_state_name(enum job_state state);
const char *job_stage_name(enum job_stage stage); /* "" for STAGE_NONE */
int device_kind_find(const char *name);           /* -1: no such name; so the other two */
int job_state_find(const char *name);
int job_stage_find(const char *name);

/* A stored submission, without its source. */
struct submission {
    char id[ID_MAX];
    int task_number;
    char task[NAME_MAX_BYTES];
    char model[NAME_MAX_BYTES]; /* "": not given */
    int attempt;                /* which of the model's tries at the task, from 1; 0: not given */
    char owner[NAME_MAX_BYTES];
    int64_t created_ms; /* wall clock, ms since 1970 */
    int64_t source_bytes;
    char source_sha256[SHA256_TEXT_MAX]; /* lower-case hex */
};

void submission_write(const struct submission *submission, struct buffer *json);
enum status submission_read(struct submission *submission, const char *json, size_t size_bytes,
                            struct error *err);

/* What a client asks for. Source: POST /v1/submissions. */
struct submission_request {
    char task[NAME_MAX_BYTES]; /* a number ("1", "001") or a name, as the client wrote it */
    int world;                 /* 0: not given (the server takes 4) */
    int dtype;                 /* enum dtype; -1: not given (the server takes bf16) */
    enum device_kind device;   /* given, or DEVICE_SIM */
    char model[NAME_MAX_BYTES];
    int attempt;  /* 1..ATTEMPT_MAX; 0: not given */
    char *source; /* UTF-8, no zero byte, 1..SOURCE_MAX_BYTES; owned by the record */
    size_t source_bytes;
};

/* Reads a request's JSON text of `size_bytes` (at most JSON_BODY_MAX_BYTES). */
enum status submission_request_read(struct submission_request *request, const char *json,
                                    size_t size_bytes, struct error *err);
void submission_request_write(const struct submission_request *request, struct buffer *json);
void submission_request_release(struct submission_request *request);

struct job {
    char id[ID_MAX];
    char submission_id[ID_MAX];
    char batch_id[ID_MAX]; /* "": of none */
    int task_number;
    char task[NAME_MAX_BYTES];
    int world;
    enum dtype dtype;
    enum device_kind device;
    enum job_state state;
    enum job_stage stage;
    int64_t epoch;       /* rises with each lease; fences heartbeats and results */
    int64_t queued_ms;   /* wall clock, ms since 1970 */
    int64_t finished_ms; /* 0: not yet */
    int queue_position;  /* jobs ahead, 0 = next; -1: not queued */
    char worker[NAME_MAX_BYTES];
    char verdict[NAME_MAX_BYTES]; /* "" until done */
};

/* What a long poll compares: STATE.STAGE.POSITION; job_write adds it as the key "version". */
void job_version(const struct job *job, char version[static JOB_VERSION_MAX]);

/* Whether job_version could have written this. */
bool job_version_is_valid(const char *version);

/* `result_json`: the stored result object, or NULL; becomes the job's key "result". */
void job_write(const struct job *job, const char *result_json, struct buffer *json);

/* Reads what job_write wrote. *result_json (may be NULL) gets the text of "result", to be freed,
 * or NULL where the job has none. */
enum status job_read(struct job *job, char **result_json, const char *json, size_t size_bytes,
                     struct error *err);

/* What POST /v1/submissions answers: {"submission": ..., "job": ...}. */
void submission_created_write(const struct submission *submission, const struct job *job,
                              struct buffer *json);
enum status submission_created_read(struct submission *submission, struct job *job,
                                    const char *json, size_t size_bytes, struct error *err);

/* What a worker gets with a lease: the job, its secret seed and the source. */
struct lease_grant {
    struct job job;
    uint64_t seed;
    int64_t ttl_ms;
    char *source; /* owned by the record */
    size_t source_bytes;
};

void lease_grant_write(const struct lease_grant *grant, struct buffer *json);
enum status lease_grant_read(struct lease_grant *grant, const char *json, size_t size_bytes,
                             struct error *err);
void lease_grant_release(struct lease_grant *grant);
