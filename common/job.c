#include "common/job.h"

#include "common/json.h"
#include "common/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const device_kinds[DEVICE_KINDS] = {
    [DEVICE_CUDA] = "cuda", [DEVICE_CUDA_SHARED] = "cuda-shared", [DEVICE_SIM] = "sim"};

static const char *const states[JOB_STATES] = {[JOB_QUEUED] = "queued",
                                               [JOB_LEASED] = "leased",
                                               [JOB_DONE] = "done",
                                               [JOB_CANCELLED] = "cancelled",
                                               [JOB_QUARANTINED] = "quarantined"};

static const char *const stages[STAGES] = {[STAGE_NONE] = "",
                                           [STAGE_BUILDING] = "building",
                                           [STAGE_WAITING] = "waiting",
                                           [STAGE_CHECKING] = "checking",
                                           [STAGE_TIMING] = "timing"};

static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *device_kind_name(enum device_kind kind)
{
    assert(kind < DEVICE_KINDS);
    return device_kinds[kind];
}

const char *job_state_name(enum job_state state)
{
    assert(state < JOB_STATES);
    return states[state];
}

const char *job_stage_name(enum job_stage stage)
{
    assert(stage < STAGES);
    return stages[stage];
}

int device_kind_find(const char *name)
{
    return find(device_kinds, DEVICE_KINDS, name);
}

int job_state_find(const char *name)
{
    return find(states, JOB_STATES, name);
}

int job_stage_find(const char *name)
{
    return find(stages, STAGES, name);
}

/* ---- submissions ---- */

#define AT(member) .offset = offsetof(struct submission, member)
static const struct json_record submission_record = {
    .size_bytes = sizeof(struct submission),
    .fields =
        {
            {"id", JSON_NAME, AT(id), .min = 1, .size = ID_MAX},
            {"task_number", JSON_INT, AT(task_number), .min = 1, .max = 999},
            {"task", JSON_NAME, AT(task), .min = 1, .size = NAME_MAX_BYTES},
            {"model", JSON_NAME, AT(model), .size = NAME_MAX_BYTES},
            {"attempt", JSON_INT, AT(attempt), .optional = true, .min = 1, .max = ATTEMPT_MAX},
            {"owner", JSON_NAME, AT(owner), .min = 1, .size = NAME_MAX_BYTES},
            {"created_ms", JSON_INT64, AT(created_ms), .max = INT64_MAX},
            {"source_bytes", JSON_INT64, AT(source_bytes), .min = 1, .max = SOURCE_MAX_BYTES},
            {"source_sha256", JSON_NAME, AT(source_sha256), .min = SHA256_TEXT_MAX - 1,
             .size = SHA256_TEXT_MAX},
        },
};
#undef AT

void submission_write(const struct submission *submission, struct buffer *json)
{
    json_write(&submission_record, submission, json);
}

enum status submission_read(struct submission *submission, const char *json, size_t size_bytes,
                            struct error *err)
{
    return json_read(&submission_record, submission, json, size_bytes, err);
}

#define AT(member) .offset = offsetof(struct submission_request, member)
static const struct json_record submission_request_record = {
    .size_bytes = sizeof(struct submission_request),
    .fields =
        {
            {"task", JSON_NAME, AT(task), .min = 1, .size = NAME_MAX_BYTES},
            {"world", JSON_INT, AT(world), .optional = true, .min = 1, .max = WORLD_MAX},
            {"dtype", JSON_ENUM, AT(dtype), .optional = true, .absent = -1, .size = DTYPE_COUNT,
             .name = dtype_name},
            {"device", JSON_ENUM, AT(device), .optional = true, .absent = DEVICE_SIM,
             .size = DEVICE_KINDS, .name = device_kind_name},
            {"model", JSON_NAME, AT(model), .optional = true, .size = NAME_MAX_BYTES},
            {"attempt", JSON_INT, AT(attempt), .optional = true, .min = 1, .max = ATTEMPT_MAX},
            {"source", JSON_TEXT, AT(source), .min = 1, .max = SOURCE_MAX_BYTES},
        },
};
#undef AT

enum status submission_request_read(struct submission_request *request, const char *json,
                                    size_t size_bytes, struct error *err)
{
    if (size_bytes > JSON_BODY_MAX_BYTES) {
        return error_set(err, ERR_TOO_LARGE, "the body has %zu bytes, at most %d are allowed",
                         size_bytes, JSON_BODY_MAX_BYTES);
    }
    enum status status = json_read(&submission_request_record, request, json, size_bytes, err);
    if (status == OK) {
        request->source_bytes = strlen(request->source);
    }
    return status;
}

void submission_request_write(const struct submission_request *request, struct buffer *json)
{
    json_write(&submission_request_record, request, json);
}

void submission_request_release(struct submission_request *request)
{
    json_record_release(&submission_request_record, request);
}

/* ---- jobs ---- */

/* A job as it travels: with what is derived from it, and its result. */
struct job_document {
    struct job job;
    char *version;
    char *result;
};

#define AT(member) .offset = offsetof(struct job_document, member)
static const struct json_record job_record = {
    .size_bytes = sizeof(struct job_document),
    .fields =
        {
            {"id", JSON_NAME, AT(job.id), .min = 1, .size = ID_MAX},
            {"submission_id", JSON_NAME, AT(job.submission_id), .min = 1, .size = ID_MAX},
            {"batch_id", JSON_NAME, AT(job.batch_id), .optional = true, .min = 1, .size = ID_MAX},
            {"task_number", JSON_INT, AT(job.task_number), .min = 1, .max = 999},
            {"task", JSON_NAME, AT(job.task), .min = 1, .size = NAME_MAX_BYTES},
            {"world", JSON_INT, AT(job.world), .min = 1, .max = WORLD_MAX},
            {"dtype", JSON_ENUM, AT(job.dtype), .size = DTYPE_COUNT, .name = dtype_name},
            {"device", JSON_ENUM, AT(job.device), .size = DEVICE_KINDS, .name = device_kind_name},
            {"state", JSON_ENUM, AT(job.state), .size = JOB_STATES, .name = job_state_name},
            {"stage", JSON_ENUM, AT(job.stage), .size = STAGES, .name = job_stage_name},
            {"epoch", JSON_INT64, AT(job.epoch), .max = INT64_MAX},
            {"queued_ms", JSON_INT64, AT(job.queued_ms), .max = INT64_MAX},
            {"finished_ms", JSON_INT64, AT(job.finished_ms), .max = INT64_MAX},
            {"queue_position", JSON_INT, AT(job.queue_position), .min = -1, .max = INT32_MAX},
            {"worker", JSON_NAME, AT(job.worker), .size = NAME_MAX_BYTES},
            {"verdict", JSON_NAME, AT(job.verdict), .size = NAME_MAX_BYTES},
            {"version", JSON_TEXT, AT(version), .optional = true, .max = JOB_VERSION_MAX},
            {"result", JSON_RAW, AT(result), .optional = true},
        },
};
#undef AT

void job_version(const struct job *job, char version[static JOB_VERSION_MAX])
{
    (void)snprintf(version, JOB_VERSION_MAX, "%s.%s.%d", job_state_name(job->state),
                   job_stage_name(job->stage), job->queue_position);
}

bool job_version_is_valid(const char *version)
{
    struct job job = {0};
    char state[JOB_VERSION_MAX];
    char stage[JOB_VERSION_MAX];
    char again[JOB_VERSION_MAX];
    const char *dot = strchr(version, '.');
    const char *last = strrchr(version, '.');
    char *end = NULL;

    if (strlen(version) >= JOB_VERSION_MAX || dot == NULL || dot == last) {
        return false;
    }
    (void)snprintf(state, sizeof state, "%.*s", (int)(dot - version), version);
    (void)snprintf(stage, sizeof stage, "%.*s", (int)(last - dot - 1), dot + 1);
    if (job_state_find(state) < 0 || job_stage_find(stage) < 0) {
        return false;
    }
    job.state = (enum job_state)job_state_find(state);
    job.stage = (enum job_stage)job_stage_find(stage);
    long position = strtol(last + 1, &end, 10);
    if (end == last + 1 || *end != 0 || position < -1 || position > INT32_MAX) {
        return false;
    }
    job.queue_position = (int)position;
    job_version(&job, again);
    return strcmp(version, again) == 0;
}

void job_write(const struct job *job, const char *result_json, struct buffer *json)
{
    char version[JOB_VERSION_MAX];
    struct job_document document = {.job = *job, .version = version, .result = (char *)result_json};

    job_version(job, version);
    json_write(&job_record, &document, json);
}

/* Moves what was read to the caller. */
static void take_job(struct job_document *document, struct job *job, char **result_json)
{
    *job = document->job;
    if (result_json != NULL) {
        *result_json = document->result;
        document->result = NULL;
    }
}

enum status job_read(struct job *job, char **result_json, const char *json, size_t size_bytes,
                     struct error *err)
{
    struct job_document document = {0};

    enum status status = json_read(&job_record, &document, json, size_bytes, err);
    if (status == OK) {
        take_job(&document, job, result_json);
    }
    json_record_release(&job_record, &document);
    return status;
}

struct created_document {
    struct submission submission;
    struct job_document job;
};

static const struct json_record created_record = {
    .size_bytes = sizeof(struct created_document),
    .fields =
        {
            {"submission", JSON_STRUCT, .offset = offsetof(struct created_document, submission),
             .record = &submission_record},
            {"job", JSON_STRUCT, .offset = offsetof(struct created_document, job),
             .record = &job_record},
        },
};

void submission_created_write(const struct submission *submission, const struct job *job,
                              struct buffer *json)
{
    buffer_append(json, "{\"submission\":", strlen("{\"submission\":"));
    submission_write(submission, json);
    buffer_append(json, ",\"job\":", strlen(",\"job\":"));
    job_write(job, NULL, json);
    buffer_append(json, "}", 1);
}

enum status submission_created_read(struct submission *submission, struct job *job,
                                    const char *json, size_t size_bytes, struct error *err)
{
    struct created_document document = {0};

    enum status status = json_read(&created_record, &document, json, size_bytes, err);
    if (status == OK) {
        *submission = document.submission;
        take_job(&document.job, job, NULL);
    }
    json_record_release(&created_record, &document);
    return status;
}

/* ---- leases ---- */

struct grant_document {
    struct job_document job;
    uint64_t seed;
    int64_t ttl_ms;
    char *source;
};

#define AT(member) .offset = offsetof(struct grant_document, member)
static const struct json_record grant_record = {
    .size_bytes = sizeof(struct grant_document),
    .fields =
        {
            {"job", JSON_STRUCT, AT(job), .record = &job_record},
            {"seed", JSON_UINT64, AT(seed)},
            {"ttl_ms", JSON_INT64, AT(ttl_ms), .min = 1, .max = INT64_MAX},
            {"source", JSON_TEXT, AT(source), .min = 1, .max = SOURCE_MAX_BYTES},
        },
};
#undef AT

void lease_grant_write(const struct lease_grant *grant, struct buffer *json)
{
    struct grant_document document = {.job.job = grant->job,
                                      .seed = grant->seed,
                                      .ttl_ms = grant->ttl_ms,
                                      .source = grant->source};

    json_write(&grant_record, &document, json);
}

enum status lease_grant_read(struct lease_grant *grant, const char *json, size_t size_bytes,
                             struct error *err)
{
    struct grant_document document = {0};

    enum status status = json_read(&grant_record, &document, json, size_bytes, err);
    if (status == OK) {
        take_job(&document.job, &grant->job, NULL);
        grant->seed = document.seed;
        grant->ttl_ms = document.ttl_ms;
        grant->source = document.source;
        grant->source_bytes = strlen(document.source);
        document.source = NULL;
    }
    json_record_release(&grant_record, &document);
    return status;
}

void lease_grant_release(struct lease_grant *grant)
{
    free(grant->source);
    *grant = (struct lease_grant){0};
}
