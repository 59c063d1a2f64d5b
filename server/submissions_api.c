#include "server/submissions_api.h"

#include "common/mem.h"
#include "common/utf8.h"
#include "server/intake.h"
#include "server/jobs.h"
#include "server/service.h"
#include "server/submissions.h"
#include "tasks/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status read_name(const struct call *call, const char *name, char to[NAME_MAX_BYTES],
                             struct error *err)
{
    const char *text = call_query(call, name);

    if (text == NULL) {
        return OK;
    }
    bool is_plain = utf8_valid_bytes(text, strlen(text)) == strlen(text);
    for (const char *byte = text; *byte != 0; byte++) {
        is_plain = is_plain && (unsigned char)*byte >= ' ' && *byte != 0x7f;
    }
    if (text[0] == 0 || strlen(text) >= NAME_MAX_BYTES || !is_plain) {
        return error_field(err, ERR_INVALID, name,
                           "'%s' must be a text of 1 to %d bytes without control characters", name,
                           NAME_MAX_BYTES - 1);
    }
    (void)snprintf(to, NAME_MAX_BYTES, "%s", text);
    return OK;
}

static enum status read_raw_source(const struct call *call, struct submission_request *request,
                                   struct error *err)
{
    const struct buffer *body = &call->http->body;

    if (body->size_bytes == 0) {
        return error_field(err, ERR_INVALID, "source", "the source is empty");
    }
    if (body->size_bytes > SOURCE_MAX_BYTES) {
        return error_field(err, ERR_TOO_LARGE, "source", "the source is larger than %d bytes",
                           SOURCE_MAX_BYTES);
    }
    size_t valid_bytes = utf8_valid_bytes(body->data, body->size_bytes);
    if (valid_bytes != body->size_bytes) {
        return error_field(err, ERR_INVALID, "source", "the source is not UTF-8 at byte %zu",
                           valid_bytes);
    }
    request->source = xstrndup(body->data, body->size_bytes);
    request->source_bytes = body->size_bytes;
    return OK;
}

/* A body that is the source itself, with the settings in the query. */
static enum status read_raw(const struct call *call, struct submission_request *request,
                            struct error *err)
{
    const char *dtype = call_query(call, "dtype");
    const char *device = call_query(call, "device");
    enum status status = read_name(call, "task", request->task, err);

    request->dtype = -1;
    request->device = DEVICE_SIM;
    if (status == OK && request->task[0] == 0) {
        status = error_field(err, ERR_INVALID, "task", "no task: give its number or name");
    }
    if (status == OK) {
        status = read_name(call, "model", request->model, err);
    }
    if (status == OK) {
        status = call_query_int(call, "world", 1, WORLD_MAX, &request->world, err);
    }
    if (status == OK) {
        status = call_query_int(call, "attempt", 1, ATTEMPT_MAX, &request->attempt, err);
    }
    if (status == OK && dtype != NULL && (request->dtype = dtype_find(dtype)) < 0) {
        const struct task *task = task_find(request->task);
        status = error_field(err, ERR_INVALID, "dtype", "no dtype '%.60s': the task allows %s",
                             dtype, task == NULL ? "none" : task_dtypes_text(task));
    }
    if (status == OK && device != NULL) {
        int kind = device_kind_find(device);
        request->device = (enum device_kind)kind;
        if (kind < 0) {
            status = error_field(err, ERR_INVALID, "device",
                                 "no device '%.60s': give cuda, cuda-shared or sim", device);
        }
    }
    return status == OK ? read_raw_source(call, request, err) : status;
}

static enum status read_request(const struct call *call, struct submission_request *request,
                                struct error *err)
{
    if (call->is_source) {
        return read_raw(call, request, err);
    }
    if (call->http->query_count > 0) {
        return error_field(err, ERR_INVALID, call->http->query[0].name,
                           "settings belong into the JSON body, or send the source alone as"
                           " Content-Type: text/x-cuda");
    }
    return submission_request_read(request, call->http->body.data, call->http->body.size_bytes,
                                   err);
}

enum status submissions_post(struct call *call, struct error *err)
{
    struct submission_request request = {0};
    struct intake made = {0};
    enum status status = read_request(call, &request, err);

    if (status == OK) {
        status = intake_check(&request, err);
    }
    if (status == OK) {
        status = intake_store(call, &request, "", &made, err);
    }
    if (status == OK) {
        submission_created_write(&made.submission, &made.job, &call->http->answer);
        (void)snprintf(call->location, sizeof call->location, "/v1/submissions/%s",
                       made.submission.id);
        call_answer_json(call, 201);
    }
    submission_request_release(&request);
    return status;
}

enum status submissions_list(struct call *call, struct error *err)
{
    struct buffer *answer = &call->http->answer;
    const char *cursor = call_query(call, "cursor");
    int limit = LIST_LIMIT_DEFAULT;
    int count = 0;
    struct submission *submissions = NULL;
    enum status status = call_query_int(call, "limit", 1, LIST_LIMIT_MAX, &limit, err);

    if (status == OK && cursor != NULL && !id_is_valid("sub", cursor)) {
        status = error_field(err, ERR_INVALID, "cursor",
                             "not a cursor: give the key next_cursor of the page before");
    }
    if (status != OK) {
        return status;
    }
    submissions = xcalloc((size_t)limit + 1, sizeof submissions[0]);
    struct submission_page page = {
        .owner = call_owner(call), .before = cursor == NULL ? "" : cursor, .count_max = limit + 1};
    status = submission_list(call->service->reader, &page, submissions, &count, err);
    if (status != OK) {
        goto out;
    }
    bool has_more = count > limit;
    count = has_more ? limit : count;
    buffer_printf(answer, "{\"submissions\":[");
    for (int i = 0; i < count; i++) {
        buffer_printf(answer, i > 0 ? "," : "");
        submission_write(&submissions[i], answer);
    }
    buffer_printf(answer, "],\"next_cursor\":");
    if (has_more) {
        buffer_printf(answer, "\"%s\"}", submissions[count - 1].id);
    } else {
        buffer_printf(answer, "null}");
    }
    call_answer_json(call, 200);

out:
    free(submissions);
    return status;
}

/* Appends the jobs of a submission as the key "jobs". */
static enum status write_jobs(struct call *call, const char *submission_id, struct error *err)
{
    struct buffer *answer = &call->http->answer;
    struct job *jobs = xcalloc(JOBS_LIST_MAX, sizeof jobs[0]);
    int count = 0;
    enum status status =
        job_list(call->service->reader, submission_id, jobs, JOBS_LIST_MAX, &count, err);

    if (status == OK) {
        buffer_printf(answer, "\"jobs\":[");
        for (int i = 0; i < count; i++) {
            buffer_printf(answer, i > 0 ? "," : "");
            job_write(&jobs[i], NULL, answer);
        }
        buffer_printf(answer, "]");
    }
    free(jobs);
    return status;
}

enum status submissions_get(struct call *call, struct error *err)
{
    struct buffer *answer = &call->http->answer;
    struct submission submission = {0};
    enum status status =
        submission_get(call->service->reader, call->id, call_owner(call), &submission, err);

    if (status != OK) {
        return status;
    }
    submission_write(&submission, answer);
    answer->size_bytes--; /* its closing brace: the jobs are one key more */
    buffer_printf(answer, ",");
    status = write_jobs(call, submission.id, err);
    buffer_printf(answer, "}");
    call_answer_json(call, 200);
    return status;
}

enum status submissions_jobs(struct call *call, struct error *err)
{
    struct buffer *answer = &call->http->answer;
    struct submission submission = {0};
    enum status status =
        submission_get(call->service->reader, call->id, call_owner(call), &submission, err);

    if (status != OK) {
        return status;
    }
    buffer_printf(answer, "{");
    status = write_jobs(call, submission.id, err);
    buffer_printf(answer, "}");
    call_answer_json(call, 200);
    return status;
}
