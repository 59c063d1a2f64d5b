#include "server/tasks_api.h"

#include "common/json.h"
#include "common/mem.h"
#include "server/service.h"
#include "tasks/task.h"

#include <stdint.h>
#include <stdlib.h>

enum status tasks_find(const struct call *call, const struct task **task, struct error *err)
{
    *task = task_find(call->id);
    if (*task == NULL) {
        return error_set(err, ERR_NOT_FOUND, "no task '%s': GET /v1/tasks lists them", call->id);
    }
    return OK;
}

static void write_text(struct buffer *json, const char *key, const char *text)
{
    buffer_printf(json, "\"%s\":", key);
    json_write_text(json, text, SIZE_MAX);
}

/* The keys that a list shows, without the braces. */
static void write_summary(const struct task *task, struct buffer *json)
{
    const char *comma = "";

    buffer_printf(json, "\"number\":%d,", task_number(task));
    write_text(json, "name", task_name(task));
    buffer_printf(json, ",");
    write_text(json, "summary", task_summary(task));
    buffer_printf(json, ",");
    write_text(json, "family", task_family(task));
    buffer_printf(json, ",\"worlds\":[");
    for (int world = 1; world <= WORLD_MAX; world++) {
        if (task_allows_world(task, world)) {
            buffer_printf(json, "%s%d", comma, world);
            comma = ",";
        }
    }
    buffer_printf(json, "],\"dtypes\":[");
    comma = "";
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (task_allows_dtype(task, (enum dtype)dtype)) {
            buffer_printf(json, "%s\"%s\"", comma, dtype_name((enum dtype)dtype));
            comma = ",";
        }
    }
    buffer_printf(json, "]");
}

static void write_cases(const struct task *task, struct buffer *json)
{
    buffer_printf(json, "\"cases\":[");
    for (int i = 0; i < task_case_count(task); i++) {
        buffer_printf(json, i > 0 ? ",{" : "{");
        write_text(json, "name", task_case_name(task, i));
        buffer_printf(json, ",\"variants\":[");
        for (int k = 0; k < task_variant_count(task, i); k++) {
            const char *variant = task_variant_name(task, i, k);
            if (variant[0] != 0) {
                buffer_printf(json, k > 0 ? "," : "");
                json_write_text(json, variant, SIZE_MAX);
            }
        }
        buffer_printf(json, "]}");
    }
    buffer_printf(json, "]");
}

enum status tasks_list(struct call *call, struct error *err)
{
    struct buffer *answer = &call->http->answer;

    (void)err;
    buffer_printf(answer, "{\"tasks\":[");
    for (int i = 0; i < task_count; i++) {
        buffer_printf(answer, i > 0 ? ",{" : "{");
        write_summary(tasks[i], answer);
        buffer_printf(answer, "}");
    }
    buffer_printf(answer, "]}");
    call_answer_json(call, 200);
    return OK;
}

enum status tasks_get(struct call *call, struct error *err)
{
    struct buffer *answer = &call->http->answer;
    const struct task *task = NULL;
    enum status status = tasks_find(call, &task, err);

    if (status != OK) {
        return status;
    }
    buffer_printf(answer, "{");
    write_summary(task, answer);
    buffer_printf(answer, ",");
    write_text(answer, "statement", task_statement(task));
    buffer_printf(answer, ",");
    write_cases(task, answer);
    buffer_printf(answer, "}");
    call_answer_json(call, 200);
    return OK;
}

enum status tasks_read_dtype(const struct call *call, const struct task *task, enum dtype *dtype,
                             struct error *err)
{
    const char *name = call_query(call, "dtype");
    int found = dtype_find(name == NULL ? dtype_name(DTYPE_BF16) : name);

    if (found < 0 || !task_allows_dtype(task, (enum dtype)found)) {
        return error_field(err, ERR_INVALID, "dtype", "task '%s' allows dtype %s, not %.60s",
                           task_name(task), task_dtypes_text(task), name == NULL ? "bf16" : name);
    }
    *dtype = (enum dtype)found;
    return OK;
}

enum status tasks_header(struct call *call, struct error *err)
{
    const struct task *task = NULL;
    enum dtype dtype = DTYPE_BF16;
    enum status status = tasks_find(call, &task, err);

    if (status == OK) {
        status = tasks_read_dtype(call, task, &dtype, err);
    }
    if (status == OK) {
        task_header_write(task, dtype, &call->http->answer);
        call_answer_text(call);
    }
    return status;
}
