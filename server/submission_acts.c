#include "server/submission_acts.h"

#include "common/json.h"
#include "common/log.h"
#include "server/boards.h"
#include "server/jobs.h"
#include "server/service.h"
#include "server/submissions.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everybody may read what is published, also without owning it. */
enum status submissions_source(struct call *call, struct error *err)
{
    struct db *db = call->service->reader;
    struct submission submission = {0};
    char *source = NULL;
    size_t source_bytes = 0;
    bool is_published = false;
    enum status status = submission_is_published(db, call->id, &is_published, err);

    if (status == OK) {
        status =
            submission_get(db, call->id, is_published ? NULL : call_owner(call), &submission, err);
    }
    if (status == OK) {
        status = submission_source(db, submission.id, &source, &source_bytes, err);
    }
    if (status == OK) {
        buffer_append(&call->http->answer, source, source_bytes);
        call_answer_text(call);
        call->http->is_attachment = true;
    }
    free(source);
    return status;
}

struct disqualification {
    char reason[NAME_MAX_BYTES];
};

static const struct json_record disqualification_record = {
    .size_bytes = sizeof(struct disqualification),
    .fields = {{"reason", JSON_NAME, .offset = offsetof(struct disqualification, reason),
                .size = NAME_MAX_BYTES}},
};

enum status submissions_disqualify(struct call *call, struct error *err)
{
    struct service *service = call->service;
    const struct buffer *body = &call->http->body;
    struct disqualification wish = {0};
    struct submission submission = {0};
    enum status status =
        json_read(&disqualification_record, &wish, body->data, body->size_bytes, err);

    if (status == OK) {
        status = submission_get(service->writer, call->id, NULL, &submission, err);
    }
    if (status == OK) {
        status = submission_disqualify(service->writer, submission.id, wish.reason, err);
    }
    if (status == OK) {
        status = board_note_submission(service->writer, submission.id, err);
    }
    if (status == OK) {
        const char *kind =
            wish.reason[0] == 0 ? "submission.requalified" : "submission.disqualified";
        status = call_event(call, kind, submission.id, wish.reason, err);
    }
    if (status == OK) {
        submission_write(&submission, &call->http->answer);
        call_answer_json(call, 200);
    }
    return status;
}

enum status submissions_publish(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct submission submission = {0};
    enum status status = submission_get(service->writer, call->id, NULL, &submission, err);

    if (status == OK) {
        status = submission_publish(service->writer, submission.id, service->now.wall_ms, err);
    }
    if (status == OK) {
        status = call_event(call, "submission.published", submission.id, "", err);
    }
    if (status == OK) {
        submission_write(&submission, &call->http->answer);
        call_answer_json(call, 200);
    }
    return status;
}

/* One more evaluation of the same submission in the same setting, with a seed of its own. */
enum status jobs_rerun(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct job job = {0};
    uint64_t seed = 0;
    enum status status = job_get(service->writer, call->id, call_owner(call), &job, err);

    if (status != OK) {
        return status;
    }
    struct job again = {.task_number = job.task_number,
                        .world = job.world,
                        .dtype = job.dtype,
                        .device = job.device,
                        .state = JOB_QUEUED,
                        .queued_ms = service->now.wall_ms};
    memcpy(again.submission_id, job.submission_id, sizeof again.submission_id);
    memcpy(again.task, job.task, sizeof again.task);
    id_make(&service->ids, "job", service->now.wall_ms, again.id);
    randombytes_buf(&seed, sizeof seed);
    status = queue_push(service->queue, &again, seed, err);
    if (status == OK) {
        status = call_event(call, "job.rerun", again.id, job.id, err);
    }
    if (status == OK) {
        log_event(LOG_INFO, "job.queued", "job=%s submission=%s again=%s by=%s", again.id,
                  again.submission_id, job.id, call->token.name);
        job_write(&again, NULL, &call->http->answer);
        (void)snprintf(call->location, sizeof call->location, "/v1/jobs/%s", again.id);
        call_answer_json(call, 201);
    }
    return status;
}
