#include "common/replay.h"

#include <string.h>

#define AT(member) .offset = offsetof(struct replay, member)
const struct json_record replay_record = {
    .size_bytes = sizeof(struct replay),
    .fields =
        {
            {"format", JSON_INT, AT(format), .min = REPLAY_FORMAT, .max = REPLAY_FORMAT},
            {"evaluator", JSON_NAME, AT(evaluator), .min = 1, .size = NAME_MAX_BYTES},
            {"task", JSON_NAME, AT(task), .min = 1, .size = NAME_MAX_BYTES},
            {"world", JSON_INT, AT(world), .min = 1, .max = WORLD_MAX},
            {"dtype", JSON_ENUM, AT(dtype), .size = DTYPE_COUNT, .name = dtype_name},
            {"seed", JSON_UINT64, AT(seed)},
            {"schedule_seed", JSON_UINT64, AT(schedule_seed)},
            {"fuel", JSON_UINT64, AT(fuel)},
            {"stall_ms", JSON_INT64, AT(stall_ms), .max = INT32_MAX},
            {"no_multicast", JSON_BOOL, AT(no_multicast), .optional = true},
            {"source_sha256", JSON_NAME, AT(source_sha256), .min = SHA256_TEXT_MAX - 1,
             .size = SHA256_TEXT_MAX},
        },
};
#undef AT

void replay_write(const struct replay *replay, struct buffer *json)
{
    json_write(&replay_record, replay, json);
}

enum status replay_read(struct replay *replay, const char *json, size_t size_bytes,
                        struct error *err)
{
    struct replay read = {0};

    enum status status = json_read(&replay_record, &read, json, size_bytes, err);
    if (status != OK) {
        return status;
    }
    if (strspn(read.source_sha256, "0123456789abcdef") != SHA256_TEXT_MAX - 1) {
        return error_field(err, ERR_INVALID, "source_sha256", "'%s' is no SHA-256 in hexadecimal",
                           read.source_sha256);
    }
    *replay = read;
    return OK;
}
