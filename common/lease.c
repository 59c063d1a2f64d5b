#include "common/lease.h"

#include "common/json.h"

#include <string.h>

const char *worker_state_name(enum worker_state state)
{
    static const char *const names[WORKER_STATES] = {"ready", "draining", "quarantined"};

    return names[state];
}

int worker_state_find(const char *name)
{
    for (int state = 0; state < WORKER_STATES; state++) {
        if (strcmp(name, worker_state_name((enum worker_state)state)) == 0) {
            return state;
        }
    }
    return -1;
}

#define AT(member) .offset = offsetof(struct device_offer, member)
static const struct json_record device_record = {
    .size_bytes = sizeof(struct device_offer),
    .fields =
        {
            {"kind", JSON_ENUM, AT(kind), .size = DEVICE_KINDS, .name = device_kind_name},
            {"gpus", JSON_INT, AT(gpus), .min = 1, .max = GPUS_MAX},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct worker_hello, member)
static const struct json_record hello_record = {
    .size_bytes = sizeof(struct worker_hello),
    .fields =
        {
            {"name", JSON_NAME, AT(name), .min = 1, .size = NAME_MAX_BYTES},
            {"devices", JSON_LIST, AT(devices), .min = 1, .max = DEVICES_MAX,
             .record = &device_record, .count_offset = offsetof(struct worker_hello, device_count)},
            {"version", JSON_NAME, AT(version), .min = 1, .size = NAME_MAX_BYTES},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct worker_welcome, member)
static const struct json_record welcome_record = {
    .size_bytes = sizeof(struct worker_welcome),
    .fields =
        {
            {"worker", JSON_NAME, AT(worker), .min = 1, .size = NAME_MAX_BYTES},
            {"ttl_ms", JSON_INT64, AT(ttl_ms), .min = 1, .max = INT64_MAX},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct worker_order, member)
static const struct json_record order_record = {
    .size_bytes = sizeof(struct worker_order),
    .fields =
        {
            {"state", JSON_ENUM, AT(state), .size = WORKER_STATES, .name = worker_state_name},
            {"reason", JSON_NAME, AT(reason), .optional = true, .size = REASON_MAX_BYTES},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct worker, member)
static const struct json_record worker_record = {
    .size_bytes = sizeof(struct worker),
    .fields =
        {
            {"name", JSON_NAME, AT(name), .min = 1, .size = NAME_MAX_BYTES},
            {"version", JSON_NAME, AT(version), .min = 1, .size = NAME_MAX_BYTES},
            {"devices", JSON_LIST, AT(devices), .min = 1, .max = DEVICES_MAX,
             .record = &device_record, .count_offset = offsetof(struct worker, device_count)},
            {"registered_ms", JSON_INT64, AT(registered_ms), .max = INT64_MAX},
            {"state", JSON_ENUM, AT(state), .size = WORKER_STATES, .name = worker_state_name},
            {"reason", JSON_NAME, AT(reason), .size = REASON_MAX_BYTES},
            {"state_by", JSON_NAME, AT(state_by), .size = NAME_MAX_BYTES},
            {"is_own", JSON_BOOL, AT(is_own), .optional = true},
            {"state_ms", JSON_INT64, AT(state_ms), .max = INT64_MAX},
            {"jobs", JSON_INT, AT(jobs), .max = INT32_MAX},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct lease_request, member)
static const struct json_record request_record = {
    .size_bytes = sizeof(struct lease_request),
    .fields =
        {
            {"kinds", JSON_SET, AT(kinds), .min = 1, .size = DEVICE_KINDS,
             .name = device_kind_name},
            {"gpus", JSON_INT, AT(gpus), .min = 1, .max = GPUS_MAX},
            {"wait_s", JSON_INT, AT(wait_s), .min = 0, .max = LEASE_WAIT_MAX_S},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct heartbeat, member)
static const struct json_record heartbeat_record = {
    .size_bytes = sizeof(struct heartbeat),
    .fields =
        {
            {"worker", JSON_NAME, AT(worker), .min = 1, .size = NAME_MAX_BYTES},
            {"epoch", JSON_INT64, AT(epoch), .min = 1, .max = INT64_MAX},
            {"stage", JSON_ENUM, AT(stage), .size = STAGES, .name = job_stage_name},
        },
};
#undef AT

static const struct json_record heartbeat_reply_record = {
    .size_bytes = sizeof(struct heartbeat_reply),
    .fields =
        {
            {"lease_ms", JSON_INT64, .offset = offsetof(struct heartbeat_reply, lease_ms),
             .max = INT64_MAX},
        },
};

#define AT(member) .offset = offsetof(struct result_report, member)
static const struct json_record report_record = {
    .size_bytes = sizeof(struct result_report),
    .fields =
        {
            {"worker", JSON_NAME, AT(worker), .min = 1, .size = NAME_MAX_BYTES},
            {"epoch", JSON_INT64, AT(epoch), .min = 1, .max = INT64_MAX},
            {"result", JSON_RAW, AT(result_json)},
        },
};
#undef AT

void worker_hello_write(const struct worker_hello *hello, struct buffer *json)
{
    json_write(&hello_record, hello, json);
}

enum status worker_hello_read(struct worker_hello *hello, const char *json, size_t size_bytes,
                              struct error *err)
{
    return json_read(&hello_record, hello, json, size_bytes, err);
}

void worker_hello_release(struct worker_hello *hello)
{
    json_record_release(&hello_record, hello);
}

void worker_welcome_write(const struct worker_welcome *welcome, struct buffer *json)
{
    json_write(&welcome_record, welcome, json);
}

enum status worker_welcome_read(struct worker_welcome *welcome, const char *json, size_t size_bytes,
                                struct error *err)
{
    return json_read(&welcome_record, welcome, json, size_bytes, err);
}

void worker_order_write(const struct worker_order *order, struct buffer *json)
{
    json_write(&order_record, order, json);
}

enum status worker_order_read(struct worker_order *order, const char *json, size_t size_bytes,
                              struct error *err)
{
    return json_read(&order_record, order, json, size_bytes, err);
}

void worker_write(const struct worker *worker, struct buffer *json)
{
    json_write(&worker_record, worker, json);
}

enum status worker_read(struct worker *worker, const char *json, size_t size_bytes,
                        struct error *err)
{
    return json_read(&worker_record, worker, json, size_bytes, err);
}

void worker_release(struct worker *worker)
{
    json_record_release(&worker_record, worker);
}

void lease_request_write(const struct lease_request *request, struct buffer *json)
{
    json_write(&request_record, request, json);
}

enum status lease_request_read(struct lease_request *request, const char *json, size_t size_bytes,
                               struct error *err)
{
    return json_read(&request_record, request, json, size_bytes, err);
}

void heartbeat_write(const struct heartbeat *heartbeat, struct buffer *json)
{
    json_write(&heartbeat_record, heartbeat, json);
}

enum status heartbeat_read(struct heartbeat *heartbeat, const char *json, size_t size_bytes,
                           struct error *err)
{
    return json_read(&heartbeat_record, heartbeat, json, size_bytes, err);
}

void heartbeat_reply_write(const struct heartbeat_reply *reply, struct buffer *json)
{
    json_write(&heartbeat_reply_record, reply, json);
}

enum status heartbeat_reply_read(struct heartbeat_reply *reply, const char *json, size_t size_bytes,
                                 struct error *err)
{
    return json_read(&heartbeat_reply_record, reply, json, size_bytes, err);
}

void result_report_write(const struct result_report *report, struct buffer *json)
{
    json_write(&report_record, report, json);
}

enum status result_report_read(struct result_report *report, const char *json, size_t size_bytes,
                               struct error *err)
{
    return json_read(&report_record, report, json, size_bytes, err);
}

void result_report_release(struct result_report *report)
{
    json_record_release(&report_record, report);
}
