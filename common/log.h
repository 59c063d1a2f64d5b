/*
 * log.h — one line per event on stderr:
 *
 *     2026-01-02T03:04:05.678Z info job.leased job=17 worker=ada epoch=1
 *
 * error: a person must act. warn: odd but handled. info: a job or worker changed state. debug: off
 * unless asked for. Bytes outside printable ASCII are escaped and a line is cut at LOG_LINE_MAX, so
 * that what a client sends cannot forge a line. Never a secret, never a submission's text.
 */
#pragma once

enum { LOG_LINE_MAX = 2048 };
enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Events of a level above `level` are not written; LOG_INFO at first. */
void log_set_level(enum log_level level);

/* `event` is subject.verb; the format gives key=value pairs, or is "". */
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
