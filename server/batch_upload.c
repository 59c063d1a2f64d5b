/*
 * Of batches_api.h: how a batch comes in. Its lines are dealt with as they come, LINES_A_TURN in
 * each turn's transaction. How far it got stands in the database with them, so that the same batch,
 * sent again under its key after whatever went wrong, goes on where it stopped.
 */
#include "server/batches_api.h"

#include "common/log.h"
#include "server/batches.h"
#include "server/events.h"
#include "server/intake.h"
#include "server/service.h"
#include "tasks/task.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum { LINES_A_TURN = 256 };

static_assert(LINE_HASH_BYTES == crypto_hash_sha256_BYTES, "lines are told apart by SHA-256");

/* Finds the batch of the key, or makes a new one. */
static enum status open_batch(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct batch batch = {.state = BATCH_RECEIVING, .created_ms = service->now.wall_ms};
    const char *key = "";
    bool found = false;
    enum status status = call_key(call, &key, err);

    if (status == OK && key[0] != 0) {
        status = batch_find(service->writer, call->token.id, key, call->batch_id, &found, err);
    }
    if (status != OK || found) {
        return status;
    }
    id_make(&service->ids, "bat", service->now.wall_ms, batch.id);
    (void)snprintf(batch.owner, sizeof batch.owner, "%s", call->token.name);
    status = batch_add(service->writer, &batch, call->token.id, key, err);
    if (status == OK) {
        status = event_add(service->writer, batch.created_ms, "batch.created", batch.id,
                           batch.owner, err);
    }
    if (status == OK) {
        memcpy(call->batch_id, batch.id, sizeof call->batch_id);
        log_event(LOG_INFO, "batch.created", "batch=%s owner=%s", batch.id, batch.owner);
    }
    return status;
}

static enum status store_line(struct call *call, struct submission_request *request,
                              struct batch_line *line, struct error *err)
{
    struct db *db = call->service->writer;
    struct intake made = {0};
    enum status status = intake_check(request, err);

    if (status == OK && request->model[0] == 0) {
        status = error_field(err, ERR_INVALID, "model", "a line of a batch names its model");
    }
    if (status == OK && request->attempt == 0) {
        status = error_field(err, ERR_INVALID, "attempt",
                             "a line of a batch has its attempt, 1 to %d", ATTEMPT_MAX);
    }
    if (status != OK) {
        return status;
    }
    struct batch_attempt attempt = {.batch_id = call->batch_id,
                                    .model = request->model,
                                    .task_number = task_number(task_find(request->task)),
                                    .attempt = request->attempt,
                                    .world = request->world,
                                    .dtype = (enum dtype)request->dtype,
                                    .device = request->device};
    status = batch_attempt_check(db, &attempt, err);
    if (status == OK) {
        status = intake_store(call, request, call->batch_id, &made, err);
    }
    if (status == OK) {
        memcpy(line->job_id, made.job.id, sizeof line->job_id);
        status = batch_attempt_add(db, &attempt, made.job.id, err);
    }
    return status;
}

/* What is wrong with the line itself; anything else is wrong with all of us. */
static bool is_refusal(enum status status)
{
    return status == ERR_INVALID || status == ERR_TOO_LARGE || status == ERR_CONFLICT;
}

/* `text` NULL: a line of more than BATCH_LINE_MAX_BYTES. */
static enum status accept_line(struct call *call, struct batch *batch, struct batch_line *line,
                               const char *text, size_t size_bytes, struct error *err)
{
    struct submission_request request = {0};
    struct error refusal = {0};
    enum status status = OK;

    if (text == NULL) {
        status = error_set(&refusal, ERR_TOO_LARGE, "the line is larger than %d bytes",
                           BATCH_LINE_MAX_BYTES);
    } else {
        status = submission_request_read(&request, text, size_bytes, &refusal);
    }
    if (status == OK) {
        status = store_line(call, &request, line, &refusal);
    }
    submission_request_release(&request);
    if (status != OK && !is_refusal(status)) {
        *err = refusal;
        return status;
    }
    if (status != OK) {
        memcpy(line->field, refusal.field, sizeof line->field);
        memcpy(line->detail, refusal.message, sizeof line->detail);
        batch->refused_count++;
    }
    return batch_line_add(call->service->writer, batch->id, line, err);
}

static bool is_blank(const char *text, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') {
            return false;
        }
    }
    return true;
}

/* The next line of the body; `text` NULL: one that is too long. */
static enum status take_line(struct call *call, struct batch *batch, const char *text,
                             size_t size_bytes, struct error *err)
{
    struct batch_line line = {.line = ++call->line};

    if (line.line > BATCH_LINES_MAX) {
        return error_set(err, ERR_TOO_LARGE, "a batch has at most %d lines", BATCH_LINES_MAX);
    }
    line.is_blank = text != NULL && is_blank(text, size_bytes);
    crypto_hash_sha256(line.sha256, (const unsigned char *)(text == NULL ? "" : text),
                       text == NULL ? 0 : size_bytes);
    if (line.line <= batch->line_count) {
        return batch_line_check(call->service->writer, batch->id, &line, err);
    }
    if (batch->state != BATCH_RECEIVING) {
        return error_field(err, ERR_CONFLICT, "Idempotency-Key",
                           "the batch of this key is %s and has %d lines",
                           batch_state_name(batch->state), batch->line_count);
    }
    batch->line_count = line.line;
    if (line.is_blank) {
        return OK;
    }
    return accept_line(call, batch, &line, text, size_bytes, err);
}

/* Takes lines off the body; *is_empty: what is left is no whole line. */
static enum status take_lines(struct call *call, struct batch *batch, bool *is_empty,
                              struct error *err)
{
    struct buffer *body = &call->http->body;
    size_t used = 0;
    enum status status = OK;

    *is_empty = false;
    for (int taken = 0; status == OK && taken < LINES_A_TURN && !*is_empty; taken++) {
        char *text = body->data + used;
        size_t left = body->size_bytes - used;
        char *end = left == 0 ? NULL : memchr(text, '\n', left);
        size_t size_bytes = end == NULL ? left : (size_t)(end - text);

        if (end == NULL && (!call->http->is_complete || left == 0)) {
            *is_empty = true;
        } else if (call->skips_line) {
            call->skips_line = false;
        } else if (size_bytes > BATCH_LINE_MAX_BYTES) {
            status = take_line(call, batch, NULL, 0, err);
        } else {
            status = take_line(call, batch, text, size_bytes, err);
        }
        used += *is_empty ? 0 : size_bytes + (end == NULL ? 0 : 1);
    }
    if (status == OK && *is_empty && body->size_bytes - used > BATCH_LINE_MAX_BYTES) {
        if (!call->skips_line) {
            status = take_line(call, batch, NULL, 0, err);
        }
        call->skips_line = true;
        used = body->size_bytes;
    }
    buffer_consume(body, used);
    return status;
}

static enum status end_batch(struct call *call, struct batch *batch, struct error *err)
{
    struct service *service = call->service;
    bool is_new = batch->state == BATCH_RECEIVING;
    enum status status = OK;

    if (call->line < batch->line_count) {
        return error_field(err, ERR_CONFLICT, "Idempotency-Key",
                           "the batch of this key has %d lines, these are %d", batch->line_count,
                           call->line);
    }
    if (is_new) {
        batch->state = BATCH_RECEIVED;
        status = batch_update(service->writer, batch, err);
    }
    if (status == OK && is_new) {
        status = event_add(service->writer, service->now.wall_ms, "batch.received", batch->id,
                           batch->owner, err);
    }
    if (status == OK) {
        status = batch_count(service->writer, batch, service->now.wall_ms, err);
    }
    if (status == OK) {
        batch_write(batch, &call->http->answer);
        (void)snprintf(call->location, sizeof call->location, "/v1/batches/%s", batch->id);
        call_answer_json(call, is_new ? 201 : 200);
        log_event(LOG_INFO, "batch.received", "batch=%s lines=%d refused=%d", batch->id,
                  batch->line_count, batch->refused_count);
    }
    return status;
}

enum status batches_post(struct call *call, struct error *err)
{
    struct db *db = call->service->writer;
    struct batch batch = {0};
    bool is_empty = false;
    enum status status = call->batch_id[0] == 0 ? open_batch(call, err) : OK;

    if (status == OK) {
        status = batch_get(db, call->batch_id, NULL, &batch, err);
    }
    struct batch before = batch;
    if (status == OK) {
        status = take_lines(call, &batch, &is_empty, err);
    }
    if (status == OK && batch.line_count != before.line_count) {
        status = batch_update(db, &batch, err);
    }
    if (status == OK && is_empty && call->http->is_complete) {
        return end_batch(call, &batch, err);
    }
    call->has_more = !is_empty;
    return status;
}
