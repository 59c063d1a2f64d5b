#include "server/intake.h"

#include "common/log.h"
#include "server/events.h"
#include "server/service.h"
#include "server/submissions.h"
#include "tasks/task.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum { WORLD_DEFAULT = 4 };

enum status intake_check(struct submission_request *request, struct error *err)
{
    const struct task *task = task_find(request->task);

    if (task == NULL) {
        return error_field(err, ERR_INVALID, "task", "no task '%s': GET /v1/tasks lists them",
                           request->task);
    }
    if (request->world == 0) {
        request->world = WORLD_DEFAULT;
    }
    if (request->dtype < 0) {
        request->dtype = DTYPE_BF16;
    }
    if (!task_allows_world(task, request->world)) {
        return error_field(err, ERR_INVALID, "world", "task '%s' allows world %s, not %d",
                           task_name(task), task_worlds_text(task), request->world);
    }
    if (!task_allows_dtype(task, (enum dtype)request->dtype)) {
        return error_field(err, ERR_INVALID, "dtype", "task '%s' allows dtype %s, not %s",
                           task_name(task), task_dtypes_text(task),
                           dtype_name((enum dtype)request->dtype));
    }
    return OK;
}

enum status intake_store(struct call *call, const struct submission_request *request,
                         const char *batch_id, struct intake *made, struct error *err)
{
    struct service *service = call->service;
    const struct task *task = task_find(request->task);
    struct submission *submission = &made->submission;
    struct job *job = &made->job;
    uint64_t seed = 0;
    enum status status = OK;

    assert(task != NULL);
    *made = (struct intake){0};
    id_make(&service->ids, "sub", service->now.wall_ms, submission->id);
    submission->created_ms = service->now.wall_ms;
    submission->task_number = task_number(task);
    submission->attempt = request->attempt;
    (void)snprintf(submission->task, sizeof submission->task, "%s", task_name(task));
    (void)snprintf(submission->model, sizeof submission->model, "%s", request->model);
    (void)snprintf(submission->owner, sizeof submission->owner, "%s", call->token.name);
    status = submission_add(service->writer, submission, call->token.id, request->source,
                            request->source_bytes, err);
    if (status == OK) {
        status = event_add(service->writer, submission->created_ms, "submission.created",
                           submission->id, submission->owner, err);
    }
    if (status != OK) {
        return status;
    }
    id_make(&service->ids, "job", service->now.wall_ms, job->id);
    memcpy(job->submission_id, submission->id, sizeof job->submission_id);
    (void)snprintf(job->batch_id, sizeof job->batch_id, "%s", batch_id);
    job->state = JOB_QUEUED;
    job->queued_ms = service->now.wall_ms;
    job->task_number = submission->task_number;
    memcpy(job->task, submission->task, sizeof job->task);
    job->world = request->world;
    job->dtype = (enum dtype)request->dtype;
    job->device = request->device;
    randombytes_buf(&seed, sizeof seed);
    status = queue_push(service->queue, job, seed, err);
    if (status == OK) {
        log_event(LOG_INFO, "job.queued", "job=%s submission=%s task=%d world=%d owner=%s", job->id,
                  submission->id, submission->task_number, job->world, submission->owner);
    }
    return status;
}
