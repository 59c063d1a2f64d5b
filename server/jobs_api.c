#include "server/jobs_api.h"

#include "server/jobs.h"
#include "server/polls.h"
#include "server/results.h"
#include "server/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status write_job(struct call *call, struct db *db, const struct job *job,
                             struct error *err)
{
    char *json = NULL;
    enum status status = result_get(db, job->id, &json, err);

    if (status != OK) {
        return status;
    }
    job_write(job, json, &call->http->answer);
    call_answer_json(call, 200);
    free(json);
    return OK;
}

enum status jobs_look(struct call *call, bool in_any_case, struct error *err)
{
    struct db *reader = call->service->reader;
    struct job job = {0};
    char version[JOB_VERSION_MAX];
    enum status status = job_get(reader, call->id, call_owner(call), &job, err);

    if (status != OK) {
        return status;
    }
    job_version(&job, version);
    bool has_ended = job.state != JOB_QUEUED && job.state != JOB_LEASED;
    bool has_changed = call->since[0] != 0 && strcmp(call->since, version) != 0;
    return has_ended || has_changed || in_any_case ? write_job(call, reader, &job, err) : OK;
}

enum status jobs_get(struct call *call, struct error *err)
{
    const char *since = call_query(call, "since");
    int wait_s = 0;
    enum status status = call_query_int(call, "wait", 0, LONG_POLL_MAX_S, &wait_s, err);

    if (status != OK) {
        return status;
    }
    if (since != NULL && !job_version_is_valid(since)) {
        return error_field(err, ERR_INVALID, "since",
                           "not a version of a job: give the key version of its last answer");
    }
    (void)snprintf(call->since, sizeof call->since, "%s", since == NULL ? "" : since);
    status = jobs_look(call, wait_s == 0, err);
    if (status == OK && call->http_status == 0) {
        poll_job(call, wait_s);
    }
    return status;
}

enum status jobs_log(struct call *call, struct error *err)
{
    struct db *reader = call->service->reader;
    struct job job = {0};
    struct result result = {.rank = -1};
    char *json = NULL;
    enum status status = job_get(reader, call->id, call_owner(call), &job, err);

    if (status == OK) {
        status = result_get(reader, job.id, &json, err);
    }
    if (status != OK) {
        return status;
    }
    if (json == NULL) {
        status = error_set(err, ERR_NOT_FOUND, "the job is %s: its log comes with its result",
                           job_state_name(job.state));
    } else {
        status = result_read(&result, json, strlen(json), err);
    }
    if (status == OK) {
        buffer_printf(&call->http->answer, "== build ==\n%s\n== run ==\n%s\n",
                      result.build_log == NULL ? "" : result.build_log,
                      result.run_log == NULL ? "" : result.run_log);
        call_answer_text(call);
    }
    result_release(&result);
    free(json);
    return status;
}

enum status jobs_cancel(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct job job = {0};
    enum status status = job_get(service->writer, call->id, call_owner(call), &job, err);

    if (status == OK) {
        status = queue_cancel(service->queue, job.id, service->now, err);
    }
    if (status == OK) {
        status = job_get(service->writer, call->id, NULL, &job, err);
    }
    if (status == OK) {
        job_write(&job, NULL, &call->http->answer);
        call_answer_json(call, 200);
    }
    return status;
}

enum status jobs_heartbeat(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct heartbeat heartbeat = {0};
    struct heartbeat_reply reply = {.lease_ms = service->options.ttl_ms};
    enum status status =
        heartbeat_read(&heartbeat, call->http->body.data, call->http->body.size_bytes, err);

    if (status == OK) {
        status = call_check_node(call, "worker", heartbeat.worker, err);
    }
    if (status == OK) {
        status = queue_heartbeat(service->queue, call->id, &heartbeat, service->now, err);
    }
    if (status == OK) {
        heartbeat_reply_write(&reply, &call->http->answer);
        call_answer_json(call, 200);
    }
    return status;
}

enum status jobs_result(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct result_report report = {0};
    struct job job = {0};
    enum status status =
        result_report_read(&report, call->http->body.data, call->http->body.size_bytes, err);

    if (status == OK) {
        status = call_check_node(call, "worker", report.worker, err);
    }
    if (status == OK) {
        status = queue_finish(service->queue, call->id, &report, service->now, err);
    }
    if (status == OK) {
        status = job_get(service->writer, call->id, NULL, &job, err);
    }
    if (status == OK) {
        job_write(&job, NULL, &call->http->answer);
        call_answer_json(call, 200);
    }
    result_report_release(&report);
    return status;
}
