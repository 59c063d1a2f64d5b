#include "worker/hearing.h"

#include "common/log.h"
#include "common/mem.h"
#include "worker/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void hearing_init(struct hearing *hearing, int judge, int report, struct evidence *evidence)
{
    *hearing = (struct hearing){.judge = judge,
                                .report = report,
                                .judge_ended = judge < 0,
                                .report_ended = report < 0,
                                .evidence = evidence,
                                .message = xcalloc(1, sizeof *hearing->message)};
}

bool hearing_awaits_an_end(const struct hearing *hearing)
{
    const struct evidence *evidence = hearing->evidence;
    const struct result *judge = evidence->judge;

    return judge != NULL && judge->reason != NULL && strcmp(judge->reason, REPORT_ENDED) == 0 &&
           judge->rank >= 0 && judge->rank < evidence->world &&
           !evidence->rank[judge->rank].has_ended;
}

static void take_device_line(struct hearing *hearing, const char *line, size_t size_bytes)
{
    struct evidence *evidence = hearing->evidence;
    struct result result = {0};
    struct error err = {0};

    if (result_read(&result, line, size_bytes, &err) != OK) {
        log_event(LOG_ERROR, "simulator.malformed", "%s: %s", err.field, err.message);
    } else if (result.verdict == VERDICT_ACCEPTED && evidence->device_end == NULL) {
        hearing->device_end = result;
        evidence->device_end = &hearing->device_end;
    } else if (result.verdict != VERDICT_ACCEPTED && evidence->device == NULL &&
               !hearing->is_decided) {
        hearing->device = result;
        evidence->device = &hearing->device;
        hearing->is_decided = !evidence->crashed_first;
    } else {
        result_release(&result);
    }
}

void hearing_report(struct hearing *hearing)
{
    struct buffer *lines = &hearing->lines;
    char chunk[16384];
    ssize_t size = 0;

    while (!hearing->report_ended && (size = read(hearing->report, chunk, sizeof chunk)) > 0 &&
           lines->size_bytes + (size_t)size <= HEARING_REPORT_MAX_BYTES) {
        buffer_append(lines, chunk, (size_t)size);
    }
    hearing->report_ended |= size >= 0; /* the end, or too much */
    size_t used = 0;
    const char *end = NULL;
    while (used < lines->size_bytes &&
           (end = memchr(lines->data + used, '\n', lines->size_bytes - used)) != NULL) {
        size_t length = (size_t)(end - (lines->data + used));
        take_device_line(hearing, lines->data + used, length);
        used += length + 1;
    }
    buffer_consume(lines, used);
}

static void take_judge_report(struct hearing *hearing)
{
    struct error err = {0};

    /* The simulator told of a cause before the judge could see what came of it. */
    hearing_report(hearing);
    if (hearing->evidence->judge != NULL) {
        return;
    }
    if (result_read(&hearing->judge_report, (const char *)hearing->message->body,
                    hearing->message->size_bytes, &err) != OK) {
        log_event(LOG_ERROR, "judge.malformed", "%s", err.message);
        hearing->is_decided = true;
        return;
    }
    hearing->evidence->judge = &hearing->judge_report;
    hearing->is_decided |= !hearing_awaits_an_end(hearing);
}

void hearing_judge(struct hearing *hearing)
{
    struct evidence *evidence = hearing->evidence;
    struct error err = {0};

    while (!hearing->judge_ended) {
        enum status status = channel_receive(hearing->judge, hearing->message, &err);
        if (status == ERR_NOT_FOUND) {
            return;
        }
        if (status != OK) {
            hearing->judge_ended = true;
            return;
        }
        message_close_fds(hearing->message);
        if (hearing->message->kind == MESSAGE_REPORT) {
            take_judge_report(hearing);
        } else if (hearing->message->kind == MESSAGE_STATUS &&
                   channel_body(hearing->message, &evidence->status, sizeof evidence->status,
                                &err) == OK) {
            hearing->progress++;
        }
    }
}

void hearing_release(struct hearing *hearing)
{
    result_release(&hearing->judge_report);
    result_release(&hearing->device);
    result_release(&hearing->device_end);
    buffer_release(&hearing->lines);
    free(hearing->message);
    hearing->message = NULL;
}
