/*
 * fuzz_json.c — every record that is read from JSON. What was read is written, and must be read
 * again.
 */
#include "common/job.h"
#include "common/lease.h"
#include "common/problem.h"
#include "common/result.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>

/* Reads `type` by `name`_read, writes it by `name`_write, and reads that; then `release`s. */
#define TRY(type, name, release)                                                                   \
    static void try_##name(const char *text, size_t size_bytes)                                    \
    {                                                                                              \
        struct type first = {0}, second = {0};                                                     \
        struct buffer json = {0};                                                                  \
        struct error err = {0};                                                                    \
        if (name##_read(&first, text, size_bytes, &err) == OK) {                                   \
            name##_write(&first, &json);                                                           \
            enum status status = name##_read(&second, json.data, json.size_bytes, &err);           \
            assert(status == OK);                                                                  \
            release(&first);                                                                       \
            release(&second);                                                                      \
        }                                                                                          \
        buffer_release(&json);                                                                     \
    }

static void keep(void *record)
{
    (void)record; /* owns nothing */
}

TRY(submission, submission, keep)
TRY(submission_request, submission_request, submission_request_release)
TRY(lease_grant, lease_grant, lease_grant_release)
TRY(worker_hello, worker_hello, worker_hello_release)
TRY(worker_welcome, worker_welcome, keep)
TRY(lease_request, lease_request, keep)
TRY(heartbeat, heartbeat, keep)
TRY(heartbeat_reply, heartbeat_reply, keep)
TRY(result_report, result_report, result_report_release)
TRY(result, result, result_release)

static void try_job(const char *text, size_t size_bytes)
{
    struct job job = {0};
    struct buffer json = {0};
    struct error err = {0};
    char *result = NULL;

    if (job_read(&job, &result, text, size_bytes, &err) == OK) {
        job_write(&job, result, &json);
        free(result);
        result = NULL;
        enum status status = job_read(&job, &result, json.data, json.size_bytes, &err);
        assert(status == OK);
        free(result);
    }
    buffer_release(&json);
}

static void try_created(const char *text, size_t size_bytes)
{
    struct submission submission = {0};
    struct job job = {0};
    struct error err = {0};

    (void)submission_created_read(&submission, &job, text, size_bytes, &err);
}

static void try_problem(const char *text, size_t size_bytes)
{
    struct error problem = {0}, err = {0};
    struct buffer json = {0};

    if (problem_read(&problem, text, size_bytes, &err) == OK) {
        problem_write(&problem, 400, &json);
    }
    buffer_release(&json);
}

void fuzz_json(const uint8_t *data, size_t size_bytes)
{
    static void (*const all[])(const char *, size_t) = {
        try_submission,
        try_submission_request,
        try_lease_grant,
        try_worker_hello,
        try_worker_welcome,
        try_lease_request,
        try_heartbeat,
        try_heartbeat_reply,
        try_result_report,
        try_result,
        try_job,
        try_created,
        try_problem,
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        all[i]((const char *)data, size_bytes);
    }
}
