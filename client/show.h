/*
 * show.h — what a person reads of a job: where it stands, and why it ended as it did.
 *
 * Texts that a submission can choose (names, logs, messages) are shown with their control bytes
 * escaped, so that they cannot steer a terminal.
 */
#pragma once

#include "common/buffer.h"
#include "common/job.h"
#include "common/result.h"

/* Appends `text` with bytes that are no printable UTF-8 as \xHH; newlines and tabs stay. */
void show_text(const char *text, struct buffer *to);

/* "queued, 3 ahead", "checking on ada", "done: accepted". */
void show_progress(const struct job *job, struct buffer *to);

/* The whole report. `result` is NULL while there is none. */
void show_job(const struct job *job, const struct result *result, struct buffer *to);
