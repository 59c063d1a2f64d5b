#include "common/batch.h"

#include "common/json.h"

#include <assert.h>
#include <string.h>

static const char *const states[BATCH_STATES] = {[BATCH_RECEIVING] = "receiving",
                                                 [BATCH_RECEIVED] = "received",
                                                 [BATCH_CANCELLED] = "cancelled"};

const char *batch_state_name(enum batch_state state)
{
    assert(state < BATCH_STATES);
    return states[state];
}

int batch_state_find(const char *name)
{
    for (int i = 0; i < BATCH_STATES; i++) {
        if (strcmp(states[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

#define AT(member) .offset = offsetof(struct batch, member)
#define COUNT(member) JSON_INT, AT(member), .max = BATCH_LINES_MAX
static const struct json_record batch_record = {
    .size_bytes = sizeof(struct batch),
    .fields =
        {
            {"id", JSON_NAME, AT(id), .min = 1, .size = ID_MAX},
            {"owner", JSON_NAME, AT(owner), .min = 1, .size = NAME_MAX_BYTES},
            {"state", JSON_ENUM, AT(state), .size = BATCH_STATES, .name = batch_state_name},
            {"created_ms", JSON_INT64, AT(created_ms), .max = INT64_MAX},
            {"lines", COUNT(line_count)},
            {"refused", COUNT(refused_count)},
            {"queued", COUNT(jobs[JOB_QUEUED])},
            {"leased", COUNT(jobs[JOB_LEASED])},
            {"done", COUNT(jobs[JOB_DONE])},
            {"cancelled", COUNT(jobs[JOB_CANCELLED])},
            {"quarantined", COUNT(jobs[JOB_QUARANTINED])},
            {"per_minute", JSON_NUMBER, AT(per_minute), .optional = true, .max = INT32_MAX},
            {"eta_ms", JSON_INT64, AT(eta_ms), .optional = true, .absent = -1, .max = INT64_MAX},
        },
};
#undef COUNT
#undef AT

void batch_write(const struct batch *batch, struct buffer *json)
{
    json_write(&batch_record, batch, json);
}

enum status batch_read(struct batch *batch, const char *json, size_t size_bytes, struct error *err)
{
    return json_read(&batch_record, batch, json, size_bytes, err);
}
