/*
 * batch.h — a batch of submissions, as it travels, and the only code that reads or writes its JSON.
 *
 * A batch is sent as JSON Lines, each line what struct submission_request says, with model and
 * attempt. Each line becomes a submission with one job, or is refused for a reason of its own.
 */
#pragma once

#include "common/job.h"

enum {
    BATCH_LINES_MAX = 100000,
    BATCH_LINE_MAX_BYTES = JSON_BODY_MAX_BYTES,
};

enum batch_state { BATCH_RECEIVING, BATCH_RECEIVED, BATCH_CANCELLED, BATCH_STATES };

const char *batch_state_name(enum batch_state state);
int batch_state_find(const char *name); /* -1: no such state */

struct batch {
    char id[ID_MAX];
    char owner[NAME_MAX_BYTES];
    enum batch_state state;
    int64_t created_ms;
    int line_count; /* dealt with so far, blank ones too */
    int refused_count;
    int jobs[JOB_STATES]; /* in each state */
    double per_minute;    /* jobs that ended lately; 0: none did */
    int64_t eta_ms;       /* from now to the end of its last job, at that rate; -1: not known */
};

void batch_write(const struct batch *batch, struct buffer *json);
enum status batch_read(struct batch *batch, const char *json, size_t size_bytes, struct error *err);
