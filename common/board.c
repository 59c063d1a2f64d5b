#include "common/board.h"

#include "common/json.h"

#define NAME(key, member)                                                                          \
    {                                                                                              \
        key, JSON_NAME, AT(member), .size = sizeof_member(member)                                  \
    }
#define TIME(key, member)                                                                          \
    {                                                                                              \
        key, JSON_NUMBER, AT(member), .optional = true, .max = INT64_C(1000000000000000)           \
    }

#define AT(member) .offset = offsetof(struct board_row, member)
#define sizeof_member(member) sizeof((struct board_row *)0)->member
static const struct json_record row_record = {
    .size_bytes = sizeof(struct board_row),
    .open = true,
    .fields =
        {
            {"rank", JSON_INT, AT(rank), .max = INT32_MAX},
            NAME("submission", submission_id),
            NAME("job", job_id),
            NAME("model", model),
            {"accepted_ms", JSON_INT64, AT(accepted_ms), .max = INT64_MAX},
            {"peer_bytes", JSON_INT64, AT(peer_bytes), .max = INT64_MAX},
            TIME("median_us", median_us),
            TIME("low_us", low_us),
            TIME("high_us", high_us),
            TIME("baseline_us", baseline_us),
            TIME("speedup", speedup),
            TIME("target_percent", target_percent),
            {"is_faster", JSON_BOOL, AT(is_faster), .optional = true},
            {"is_verified", JSON_BOOL, AT(is_verified), .optional = true},
            {"runs", JSON_INT, AT(runs), .optional = true, .max = INT32_MAX},
            {"mark", JSON_NAME, AT(mark), .optional = true, .size = NAME_MAX_BYTES},
            {"reason", JSON_NAME, AT(reason), .optional = true, .size = NAME_MAX_BYTES},
        },
};
#undef AT
#undef sizeof_member

#define AT(member) .offset = offsetof(struct board, member)
static const struct json_record board_record = {
    .size_bytes = sizeof(struct board),
    .open = true,
    .fields =
        {
            {"task", JSON_NAME, AT(task), .size = NAME_MAX_BYTES},
            {"world", JSON_INT, AT(world), .min = 1, .max = WORLD_MAX},
            {"dtype", JSON_ENUM, AT(dtype), .size = DTYPE_COUNT, .name = dtype_name},
            {"device", JSON_ENUM, AT(device), .size = DEVICE_KINDS, .name = device_kind_name},
            {"gpu", JSON_NAME, AT(gpu), .optional = true, .size = NAME_MAX_BYTES},
            {"rows", JSON_LIST, AT(rows), .max = BOARD_ROWS_MAX, .record = &row_record,
             .count_offset = offsetof(struct board, row_count)},
        },
};
#undef AT

void board_write(const struct board *board, struct buffer *json)
{
    json_write(&board_record, board, json);
}

enum status board_read(struct board *board, const char *json, size_t size_bytes, struct error *err)
{
    return json_read(&board_record, board, json, size_bytes, err);
}

void board_release(struct board *board)
{
    json_record_release(&board_record, board);
}
