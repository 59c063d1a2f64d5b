#include "server/boards_api.h"

#include "common/json_write.h"
#include "server/boards.h"
#include "server/report_write.h"
#include "server/service.h"
#include "server/tasks_api.h"
#include "tasks/task.h"

#include <stdio.h>
#include <string.h>

enum { WORLD_DEFAULT = 4 };

static enum status read_device(const struct call *call, enum device_kind *device, struct error *err)
{
    const char *name = call_query(call, "device");
    int kind = device_kind_find(name == NULL ? "sim" : name);

    if (kind < 0) {
        return error_field(err, ERR_INVALID, "device",
                           "no device '%.60s': give cuda, cuda-shared or sim", name);
    }
    *device = (enum device_kind)kind;
    return OK;
}

static enum status read_gpu(const struct call *call, char gpu[static NAME_MAX_BYTES],
                            struct error *err)
{
    const char *name = call_query(call, "gpu");

    if (name != NULL && (name[0] == 0 || strlen(name) >= NAME_MAX_BYTES)) {
        return error_field(err, ERR_INVALID, "gpu", "'gpu' must have 1 to %d bytes",
                           NAME_MAX_BYTES - 1);
    }
    (void)snprintf(gpu, NAME_MAX_BYTES, "%s", name == NULL ? "" : name);
    return OK;
}

static enum status read_board(const struct call *call, const struct task *task, struct board *board,
                              struct error *err)
{
    enum status status = tasks_read_dtype(call, task, &board->dtype, err);

    (void)snprintf(board->task, sizeof board->task, "%s", task_name(task));
    board->world = WORLD_DEFAULT;
    if (status == OK) {
        status = call_query_int(call, "world", 1, WORLD_MAX, &board->world, err);
    }
    if (status == OK && !task_allows_world(task, board->world)) {
        status = error_field(err, ERR_INVALID, "world", "task '%s' allows world %s, not %d",
                             task_name(task), task_worlds_text(task), board->world);
    }
    if (status == OK) {
        status = read_device(call, &board->device, err);
    }
    return status == OK ? read_gpu(call, board->gpu, err) : status;
}

static enum status answer_board(struct call *call,
                                enum status (*make)(struct db *db, int task_number,
                                                    struct board *board, struct error *err),
                                struct error *err)
{
    const struct task *task = NULL;
    struct board board = {0};
    enum status status = tasks_find(call, &task, err);

    if (status == OK) {
        status = read_board(call, task, &board, err);
    }
    if (status == OK) {
        status = make(call->service->reader, task_number(task), &board, err);
    }
    if (status == OK) {
        board_write(&board, &call->http->answer);
        call_answer_json(call, 200);
    }
    board_release(&board);
    return status;
}

enum status boards_task(struct call *call, struct error *err)
{
    return answer_board(call, board_make, err);
}

enum status boards_history(struct call *call, struct error *err)
{
    return answer_board(call, board_history, err);
}

enum status boards_models(struct call *call, struct error *err)
{
    static const double thresholds[] = {1, 1.5, 2};
    const char *dtype = call_query(call, "dtype");
    struct models_key key = {.world = WORLD_DEFAULT, .dtype = DTYPE_BF16};
    struct buffer head = {0};
    struct report *report = NULL;
    enum status status = call_query_int(call, "world", 1, WORLD_MAX, &key.world, err);

    if (status == OK && dtype != NULL) {
        key.dtype = (enum dtype)dtype_find(dtype);
        if (dtype_find(dtype) < 0) {
            status = error_field(err, ERR_INVALID, "dtype", "no dtype '%.60s'", dtype);
        }
    }
    if (status == OK) {
        status = read_device(call, &key.device, err);
    }
    if (status == OK) {
        status = read_gpu(call, key.gpu, err);
    }
    if (status != OK) {
        return status;
    }
    report = report_open();
    status = board_models(call->service->reader, &key, report, err);
    if (status == OK) {
        report_count(report, thresholds, sizeof thresholds / sizeof thresholds[0]);
        buffer_printf(&head, "\"world\":%d,\"dtype\":\"%s\",\"device\":\"%s\",\"gpu\":", key.world,
                      dtype_name(key.dtype), device_kind_name(key.device));
        json_write_text(&head, key.gpu, SIZE_MAX);
        buffer_printf(&head, ",");
        report_write_json(report, head.data, &call->http->answer);
        call_answer_json(call, 200);
    }
    report_close(report);
    buffer_release(&head);
    return status;
}
