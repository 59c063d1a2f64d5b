#include "client/listing.h"

#include "client/show.h"
#include "common/board.h"
#include "common/json.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { ROWS_MAX = 10000, TEXT_MAX = 1 << 20 };

struct task_row {
    int number;
    char *name, *summary, *worlds, *dtypes, *statement;
};

#define AT(member) .offset = offsetof(struct task_row, member)
static const struct json_record task_record = {
    .size_bytes = sizeof(struct task_row),
    .open = true,
    .fields =
        {
            {"number", JSON_INT, AT(number), .min = 1, .max = 999},
            {"name", JSON_TEXT, AT(name), .min = 1, .max = TEXT_MAX},
            {"summary", JSON_TEXT, AT(summary), .max = TEXT_MAX},
            {"worlds", JSON_RAW, AT(worlds)},
            {"dtypes", JSON_RAW, AT(dtypes)},
            {"statement", JSON_TEXT, AT(statement), .optional = true, .max = TEXT_MAX},
        },
};
#undef AT

struct task_list {
    struct task_row *rows;
    size_t count;
};

static const struct json_record task_list_record = {
    .size_bytes = sizeof(struct task_list),
    .open = true,
    .fields = {{"tasks", JSON_LIST, .offset = offsetof(struct task_list, rows), .max = ROWS_MAX,
                .record = &task_record, .count_offset = offsetof(struct task_list, count)}},
};

/* `["bf16","fp16"]` as "bf16 fp16", in place. */
static const char *plain(char *json)
{
    char *to = json;

    for (const char *from = json; *from != 0; from++) {
        if (*from == ',') {
            *to++ = ' ';
        } else if (strchr("[]\"", *from) == NULL) {
            *to++ = *from;
        }
    }
    *to = 0;
    return json;
}

/* The text in a column of `width` bytes, and a gap. */
static void column(const char *value, int width, struct buffer *text)
{
    size_t before = text->size_bytes;

    show_text(value, text);
    int used = (int)(text->size_bytes - before);
    buffer_printf(text, "%*s", used < width ? width - used + 2 : 2, "");
}

static enum status refuse(struct error *err)
{
    return error_set(err, ERR_PROTOCOL, "the server's answer cannot be read: %s", err->message);
}

enum status listing_tasks(const char *json, size_t size_bytes, struct buffer *text,
                          struct error *err)
{
    struct task_list list = {0};

    if (json_read(&task_list_record, &list, json, size_bytes, err) != OK) {
        return refuse(err);
    }
    for (size_t i = 0; i < list.count; i++) {
        struct task_row *row = &list.rows[i];
        buffer_printf(text, "%03d  ", row->number);
        column(row->name, 28, text);
        column(plain(row->worlds), 7, text);
        column(plain(row->dtypes), 14, text);
        show_text(row->summary, text);
        buffer_append(text, "\n", 1);
    }
    json_record_release(&task_list_record, &list);
    return OK;
}

enum status listing_task(const char *json, size_t size_bytes, struct buffer *text,
                         struct error *err)
{
    struct task_row task = {0};

    if (json_read(&task_record, &task, json, size_bytes, err) != OK) {
        return refuse(err);
    }
    if (task.statement != NULL) {
        show_text(task.statement, text);
    }
    json_record_release(&task_record, &task);
    return OK;
}

static void show_time(int64_t wall_ms, struct buffer *text)
{
    char written[32] = "";
    time_t seconds = wall_ms / 1000;
    struct tm utc = {0};

    gmtime_r(&seconds, &utc);
    (void)strftime(written, sizeof written, "%Y-%m-%d %H:%M:%S", &utc);
    buffer_printf(text, "%s  ", written);
}

static void show_board_row(const struct board_row *row, struct buffer *text)
{
    if (row->rank > 0) {
        buffer_printf(text, "%4d  ", row->rank);
    } else {
        buffer_printf(text, "   -  ");
    }
    show_time(row->accepted_ms, text);
    if (row->median_us > 0) {
        buffer_printf(text, "%11.2f  %6.2fx", row->median_us, row->speedup);
    } else {
        buffer_printf(text, "%11s  %7s", "-", "-");
    }
    buffer_printf(text, "  %16" PRId64 "  ", row->peer_bytes);
    column(row->model[0] == 0 ? "-" : row->model, 16, text);
    show_text(row->job_id, text);
    if (row->is_verified) {
        buffer_printf(text, "  verified");
    }
    if (row->mark[0] != 0) {
        buffer_printf(text, "  ");
        show_text(row->mark, text);
        buffer_printf(text, row->reason[0] == 0 ? "" : ": ");
        show_text(row->reason, text);
    }
    buffer_append(text, "\n", 1);
}

enum status listing_board(const char *json, size_t size_bytes, struct buffer *text,
                          struct error *err)
{
    struct board board = {0};

    if (board_read(&board, json, size_bytes, err) != OK) {
        return refuse(err);
    }
    show_text(board.task, text);
    buffer_printf(text, ", %d ranks, %s, %s", board.world, dtype_name(board.dtype),
                  device_kind_name(board.device));
    if (board.gpu[0] != 0) {
        buffer_printf(text, ", ");
        show_text(board.gpu, text);
    }
    if (board.row_count == 0) {
        buffer_printf(text, ": nothing accepted yet\n");
    } else {
        buffer_printf(text, "\nrank  accepted (UTC)         median us  speedup        peer bytes  "
                            "model             job\n");
    }
    for (size_t i = 0; i < board.row_count; i++) {
        show_board_row(&board.rows[i], text);
    }
    board_release(&board);
    return OK;
}
