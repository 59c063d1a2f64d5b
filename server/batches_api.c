#include "server/batches_api.h"

#include "common/json_write.h"
#include "common/log.h"
#include "common/mem.h"
#include "server/batches.h"
#include "server/report_write.h"
#include "server/service.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status batches_list(struct call *call, struct error *err)
{
    struct buffer *answer = &call->http->answer;
    struct db *db = call->service->reader;
    const char *cursor = call_query(call, "cursor");
    int limit = LIST_LIMIT_DEFAULT;
    enum status status = call_query_int(call, "limit", 1, LIST_LIMIT_MAX, &limit, err);

    if (status == OK && cursor != NULL && !id_is_valid("bat", cursor)) {
        status = error_field(err, ERR_INVALID, "cursor",
                             "not a cursor: give the key next_cursor of the page before");
    }
    if (status != OK) {
        return status;
    }
    int count = limit + 1;
    struct batch *batches = xcalloc((size_t)count, sizeof batches[0]);
    status = batch_list(db, call_owner(call), cursor == NULL ? "" : cursor, batches, &count, err);
    bool has_more = count > limit;
    buffer_printf(answer, "{\"batches\":[");
    for (int i = 0; status == OK && i < count - has_more; i++) {
        status = batch_count(db, &batches[i], call->service->now.wall_ms, err);
        buffer_printf(answer, i > 0 ? "," : "");
        batch_write(&batches[i], answer);
    }
    buffer_printf(answer, has_more ? "],\"next_cursor\":\"%s\"}" : "],\"next_cursor\":null}",
                  has_more ? batches[limit - 1].id : "");
    free(batches);
    call_answer_json(call, 200);
    return status;
}

enum status batches_get(struct call *call, struct error *err)
{
    struct db *db = call->service->reader;
    struct batch batch = {0};
    enum status status = batch_get(db, call->id, call_owner(call), &batch, err);

    if (status == OK) {
        status = batch_count(db, &batch, call->service->now.wall_ms, err);
    }
    if (status == OK) {
        batch_write(&batch, &call->http->answer);
        call_answer_json(call, 200);
    }
    return status;
}

static void write_line(const struct batch_line *line, struct buffer *json)
{
    buffer_printf(json, "{\"line\":%d,", line->line);
    if (line->job_id[0] != 0) {
        buffer_printf(json, "\"job\":\"%s\"}", line->job_id);
        return;
    }
    buffer_printf(json, "\"field\":");
    json_write_text(json, line->field, SIZE_MAX);
    buffer_printf(json, ",\"detail\":");
    json_write_text(json, line->detail, SIZE_MAX);
    buffer_printf(json, "}");
}

enum status batches_lines(struct call *call, struct error *err)
{
    struct buffer *answer = &call->http->answer;
    struct db *db = call->service->reader;
    struct batch batch = {0};
    int after = 0;
    int limit = LIST_LIMIT_DEFAULT;
    enum status status = call_query_int(call, "limit", 1, LINES_PAGE_MAX, &limit, err);

    if (status == OK) {
        status = call_query_int(call, "cursor", 0, BATCH_LINES_MAX, &after, err);
    }
    if (status == OK) {
        status = batch_get(db, call->id, call_owner(call), &batch, err);
    }
    if (status != OK) {
        return status;
    }
    int count = limit + 1;
    struct batch_line *lines = xcalloc((size_t)count, sizeof lines[0]);
    status = batch_line_list(db, batch.id, after, lines, &count, err);
    bool has_more = count > limit;
    buffer_printf(answer, "{\"lines\":[");
    for (int i = 0; status == OK && i < count - has_more; i++) {
        buffer_printf(answer, i > 0 ? "," : "");
        write_line(&lines[i], answer);
    }
    if (has_more) {
        buffer_printf(answer, "],\"next_cursor\":\"%d\"}", lines[limit - 1].line);
    } else {
        buffer_printf(answer, "],\"next_cursor\":null}");
    }
    free(lines);
    call_answer_json(call, 200);
    return status;
}

/* ---- the report ---- */

/* The p of fast_p, "1,1.5,2". */
static enum status read_thresholds(const struct call *call, double *thresholds, int *count,
                                   struct error *err)
{
    const char *text = call_query(call, "p");

    text = text == NULL ? "1" : text;
    for (*count = 0; *count < THRESHOLDS_MAX; text++) {
        char *end = NULL;
        double value = strtod(text, &end);
        bool is_plain = text[0] >= '0' && text[0] <= '9' && isfinite(value);
        if (!is_plain || (*end != 0 && *end != ',')) {
            break;
        }
        thresholds[(*count)++] = value;
        text = end;
        if (*end == 0) {
            return OK;
        }
    }
    return error_field(err, ERR_INVALID, "p", "'p' is not a list of 1 to %d speedups, like 1,1.5,2",
                       THRESHOLDS_MAX);
}

/* What the query says, and else the setting that most attempts have. */
static enum status read_setting(const struct call *call, const struct batch *batch,
                                struct batch_setting *setting, struct error *err)
{
    const char *dtype = call_query(call, "dtype");
    const char *device = call_query(call, "device");
    enum status status = batch_usual_setting(call->service->reader, batch->id, setting, err);

    if (status == OK) {
        status = call_query_int(call, "world", 1, WORLD_MAX, &setting->world, err);
    }
    if (status == OK && dtype != NULL) {
        int found = dtype_find(dtype);
        setting->dtype = (enum dtype)found;
        if (found < 0) {
            status = error_field(err, ERR_INVALID, "dtype", "no dtype '%.60s'", dtype);
        }
    }
    if (status == OK && device != NULL) {
        int found = device_kind_find(device);
        setting->device = (enum device_kind)found;
        if (found < 0) {
            status = error_field(err, ERR_INVALID, "device",
                                 "no device '%.60s': give cuda, cuda-shared or sim", device);
        }
    }
    return status;
}

static enum status write_report(struct call *call, const struct batch *batch,
                                const struct batch_setting *setting, const struct report *report,
                                struct error *err)
{
    const char *format = call_query(call, "format");
    struct buffer *answer = &call->http->answer;
    char head[256];

    format = format == NULL ? "json" : format;
    if (strcmp(format, "json") == 0) {
        (void)snprintf(head, sizeof head,
                       "\"batch\":\"%s\",\"world\":%d,\"dtype\":\"%s\",\"device\":\"%s\",",
                       batch->id, setting->world, dtype_name(setting->dtype),
                       device_kind_name(setting->device));
        report_write_json(report, head, answer);
        call_answer_json(call, 200);
    } else if (strcmp(format, "csv") == 0) {
        report_write_csv(report, answer);
        call_answer_text(call);
        call->content_type = "text/csv; charset=utf-8; header=present";
    } else if (strcmp(format, "markdown") == 0) {
        buffer_printf(answer, "Batch %s, world %d, %s, %s.\n\n", batch->id, setting->world,
                      dtype_name(setting->dtype), device_kind_name(setting->device));
        report_write_markdown(report, answer);
        call_answer_text(call);
        call->content_type = "text/markdown; charset=utf-8";
    } else {
        return error_field(err, ERR_INVALID, "format",
                           "no format '%.60s': give json, csv or markdown", format);
    }
    return OK;
}

enum status batches_report(struct call *call, struct error *err)
{
    struct db *db = call->service->reader;
    struct batch batch = {0};
    struct batch_setting setting = {0};
    double thresholds[THRESHOLDS_MAX];
    int threshold_count = 0;
    struct report *report = NULL;
    enum status status = read_thresholds(call, thresholds, &threshold_count, err);

    if (status == OK) {
        status = batch_get(db, call->id, call_owner(call), &batch, err);
    }
    if (status == OK) {
        status = read_setting(call, &batch, &setting, err);
    }
    if (status != OK) {
        return status;
    }
    report = report_open();
    status = batch_report(db, batch.id, &setting, report, err);
    if (status == OK) {
        report_count(report, thresholds, threshold_count);
        status = write_report(call, &batch, &setting, report, err);
    }
    report_close(report);
    return status;
}

enum status batches_cancel(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct batch batch = {0};
    bool has_more = false;
    enum status status = batch_get(service->writer, call->id, call_owner(call), &batch, err);

    if (status == OK && batch.state != BATCH_CANCELLED) {
        batch.state = BATCH_CANCELLED;
        status = batch_update(service->writer, &batch, err);
        if (status == OK) {
            status = call_event(call, "batch.cancelled", batch.id, "", err);
        }
        log_event(LOG_INFO, "batch.cancelled", "batch=%s by=%s", batch.id, call->token.name);
    }
    if (status == OK) {
        status = queue_cancel_batch(service->queue, batch.id, service->now, &has_more, err);
    }
    call->has_more = has_more;
    if (status != OK || has_more) {
        return status;
    }
    status = batch_count(service->writer, &batch, service->now.wall_ms, err);
    if (status == OK) {
        batch_write(&batch, &call->http->answer);
        call_answer_json(call, 200);
    }
    return status;
}
