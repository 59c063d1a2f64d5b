/*
 * problem.h — how an error travels over HTTP: a problem details object (RFC 9457,
 * application/problem+json) with type, title, status, detail and, where one part of the request is
 * wrong, field.
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"

enum { PROBLEM_MAX_BYTES = 8 * 1024 };

/* `http_status` is the caller's choice; title is status_name(err->status). */
void problem_write(const struct error *err, int http_status, struct buffer *json);

/* What an answer of this HTTP status (>= 300) means, where there is nothing better to go by. */
enum status problem_status(int http_status);

/* Turns a problem back into the error it came from. ERR_PROTOCOL in the returned status: the body
 * is no problem; `problem` is then untouched. */
enum status problem_read(struct error *problem, const char *json, size_t size_bytes,
                         struct error *err);
