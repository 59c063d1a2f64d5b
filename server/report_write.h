/* report_write.h — a counted report (report.h) as text. */
#pragma once

#include "common/buffer.h"
#include "server/report.h"

/* An object; `head` are keys that come first, "\"batch\":\"...\",". */
void report_write_json(const struct report *report, const char *head, struct buffer *text);
/* One line a number: model, family, measure, k, value. */
void report_write_csv(const struct report *report, struct buffer *text);
/* Tables for people. */
void report_write_markdown(const struct report *report, struct buffer *text);
