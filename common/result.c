#include "common/result.h"

#include "common/json.h"
#include "common/mem.h"

#include <assert.h>
#include <string.h>

const char *verdict_name(enum verdict verdict)
{
    static const char *const names[VERDICTS] = {
        [VERDICT_ACCEPTED] = "accepted",
        [VERDICT_COMPILE_ERROR] = "compile_error",
        [VERDICT_LINK_ERROR] = "link_error",
        [VERDICT_WRONG_ANSWER] = "wrong_answer",
        [VERDICT_NONDETERMINISTIC] = "nondeterministic",
        [VERDICT_CONTRACT_VIOLATION] = "contract_violation",
        [VERDICT_RUNTIME_ERROR] = "runtime_error",
        [VERDICT_OUT_OF_MEMORY] = "out_of_memory",
        [VERDICT_DEADLOCK] = "deadlock",
        [VERDICT_TIMEOUT] = "timeout",
        [VERDICT_LIMIT_EXCEEDED] = "limit_exceeded",
        [VERDICT_SUSPECT] = "suspect",
        [VERDICT_NOT_SIMULABLE] = "not_simulable",
        [VERDICT_INTERNAL_ERROR] = "internal_error",
    };

    assert(verdict < VERDICTS);
    return names[verdict];
}

int verdict_find(const char *name)
{
    for (unsigned verdict = 0; verdict < VERDICTS; verdict++) {
        if (strcmp(verdict_name(verdict), name) == 0) {
            return (int)verdict;
        }
    }
    return -1;
}

/* ---- how the records look in JSON ---- */

/* What comes after the key in the rows below; a rank or index of -1 (none) is left out. */
#define TEXT(member) JSON_TEXT, AT(member), .optional = true, .max = RESULT_TEXT_MAX_BYTES
#define RANK(member)                                                                               \
    JSON_INT, AT(member), .optional = true, .max = RESULT_RANKS_MAX - 1, .absent = -1
#define INDEX(member) JSON_INT64, AT(member), .optional = true, .max = INT64_MAX, .absent = -1
#define LIST(member, count)                                                                        \
    JSON_LIST, AT(member), .optional = true, .max = RESULT_ROWS_MAX,                               \
                           .count_offset = offsetof(struct result, count)

#define AT(member) .offset = offsetof(struct wait, member)
static const struct json_record wait_record = {
    .size_bytes = sizeof(struct wait),
    .fields =
        {
            {"rank", RANK(rank)},
            {"where", TEXT(where)},
            {"kernel", TEXT(kernel)},
            {"source", TEXT(source)},
            {"cta", INDEX(cta)},
            {"warp", INDEX(warp)},
            {"lanes", JSON_UINT32, AT(lanes), .optional = true, .max = UINT32_MAX},
            {"warps", JSON_INT64, AT(warps), .optional = true, .max = INT64_MAX},
            {"address", TEXT(address)},
            {"owner", RANK(owner)},
            {"value", TEXT(value)},
            {"wanted", TEXT(wanted)},
            {"last_writer", TEXT(last_writer)},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct fault, member)
static const struct json_record fault_record = {
    .size_bytes = sizeof(struct fault),
    .fields =
        {
            {"rank", RANK(rank)},
            {"kind", TEXT(kind)},
            {"kernel", TEXT(kernel)},
            {"source", TEXT(source)},
            {"cta", INDEX(cta)},
            {"warp", INDEX(warp)},
            {"lane", JSON_INT, AT(lane), .optional = true, .max = 31, .absent = -1},
            {"address", TEXT(address)},
            {"message", TEXT(message)},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct finding, member)
static const struct json_record finding_record = {
    .size_bytes = sizeof(struct finding),
    .fields =
        {
            {"kind", TEXT(kind)},
            {"rank", RANK(rank)},
            {"source", TEXT(source)},
            {"message", TEXT(message)},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct traffic, member)
static const struct json_record traffic_record = {
    .size_bytes = sizeof(struct traffic),
    .fields =
        {
            {"source", RANK(source)},
            {"owner", RANK(owner)},
            {"mechanism", JSON_TEXT, AT(mechanism), .min = 1, .max = RESULT_TEXT_MAX_BYTES},
            {"bytes", JSON_UINT64, AT(bytes)},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct mismatch, member)
static const struct json_record mismatch_record = {
    .size_bytes = sizeof(struct mismatch),
    .fields =
        {
            {"output", TEXT(output)},
            {"rank", RANK(rank)},
            {"index", TEXT(index)},
            {"expected", TEXT(expected)},
            {"got", TEXT(got)},
            {"bound", TEXT(bound)},
            {"bad", JSON_UINT64, AT(bad)},
            {"total", JSON_UINT64, AT(total)},
        },
};
#undef AT

/* No time is a billion seconds. */
#define NUMBER(member) JSON_NUMBER, AT(member), .optional = true, .max = INT64_C(1000000000000000)

#define AT(member) .offset = offsetof(struct regime, member)
static const struct json_record regime_record = {
    .size_bytes = sizeof(struct regime),
    .fields =
        {
            {"median_us", NUMBER(median_us)},
            {"p10_us", NUMBER(p10_us)},
            {"p90_us", NUMBER(p90_us)},
            {"low_us", NUMBER(low_us)},
            {"high_us", NUMBER(high_us)},
            {"events_us", NUMBER(events_us)},
            {"window_us", NUMBER(window_us)},
            {"skew_us", NUMBER(skew_us)},
            {"iterations", JSON_INT, AT(iterations), .max = INT32_MAX},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct timing, member)
static const struct json_record timing_record = {
    .size_bytes = sizeof(struct timing),
    .fields =
        {
            {"case", TEXT(case_name)},
            {"variant", TEXT(variant)},
            {"latency", JSON_STRUCT, AT(latency), .record = &regime_record},
            {"throughput", JSON_STRUCT, AT(throughput), .record = &regime_record},
            {"calibration_us", NUMBER(calibration_us)},
            {"answer_us", NUMBER(answer_us)},
            {"slow_us", NUMBER(slow_us)},
            {"baseline_us", NUMBER(baseline_us)},
            {"baseline_low_us", NUMBER(baseline_low_us)},
            {"baseline_high_us", NUMBER(baseline_high_us)},
            {"speedup", NUMBER(speedup)},
            {"is_faster", JSON_BOOL, AT(is_faster), .optional = true},
            {"floor_us", NUMBER(floor_us)},
            {"target_us", NUMBER(target_us)},
            {"target_percent", NUMBER(target_percent)},
        },
};
#undef AT

#define COUNT(member) JSON_INT, AT(member), .optional = true, .max = INT32_MAX
#define AT(member) .offset = offsetof(struct gpu, member)
static const struct json_record gpu_record = {
    .size_bytes = sizeof(struct gpu),
    .fields =
        {
            {"name", TEXT(name)},
            {"uuid", TEXT(uuid)},
            {"driver", TEXT(driver)},
            {"cuda", TEXT(cuda)},
            {"nccl", TEXT(nccl)},
            {"count", COUNT(count)},
            {"sm_mhz", COUNT(sm_mhz)},
            {"memory_mhz", COUNT(memory_mhz)},
            {"temperature_c", COUNT(temperature_c)},
            {"throttled", TEXT(throttled)},
        },
};
#undef AT

#define AT(member) .offset = offsetof(struct result, member)
static const struct json_record result_record = {
    .size_bytes = sizeof(struct result),
    .fields =
        {
            {"verdict", JSON_ENUM, AT(verdict), .size = VERDICTS, .name = verdict_name},
            {"reason", TEXT(reason)},
            {"message", TEXT(message)},
            {"stage", TEXT(stage)},
            {"case", TEXT(case_name)},
            {"variant", TEXT(variant)},
            {"rank", RANK(rank)},
            {"output_digest", TEXT(output_digest)},
            {"mismatch", JSON_OWNED, AT(mismatch), .optional = true, .record = &mismatch_record},
            {"waits", LIST(waits, wait_count), .record = &wait_record},
            {"faults", LIST(faults, fault_count), .record = &fault_record},
            {"findings", LIST(findings, finding_count), .record = &finding_record},
            {"traffic", LIST(traffic, traffic_count), .record = &traffic_record},
            {"timings", LIST(timings, timing_count), .record = &timing_record},
            {"gpu", JSON_OWNED, AT(gpu), .optional = true, .record = &gpu_record},
            {"schedules", JSON_INT, AT(schedules), .optional = true, .max = INT32_MAX},
            {"replay", JSON_OWNED, AT(replay), .optional = true, .record = &replay_record},
            {"build_log", JSON_TEXT, AT(build_log), .optional = true, .max = RESULT_LOG_MAX_BYTES},
            {"run_log", JSON_TEXT, AT(run_log), .optional = true, .max = RESULT_LOG_MAX_BYTES},
            {"flags", JSON_TEXTS, AT(flags), .optional = true, .max = RESULT_FLAGS_MAX,
             .size = RESULT_TEXT_MAX_BYTES, .count_offset = offsetof(struct result, flag_count)},
            {"builder", TEXT(builder)},
            {"mechanisms", JSON_TEXTS, AT(mechanisms), .optional = true, .max = RESULT_FLAGS_MAX,
             .size = RESULT_TEXT_MAX_BYTES,
             .count_offset = offsetof(struct result, mechanism_count)},
            {"build_ms", JSON_INT64, AT(build_ms), .max = INT64_MAX},
            {"run_ms", JSON_INT64, AT(run_ms), .max = INT64_MAX},
        },
};
#undef AT

/* ---- writing and reading ---- */

static void keep_at_most(size_t *count, size_t rows_max)
{
    *count = *count > rows_max ? rows_max : *count;
}

/* Writes with at most `rows_max` rows of each kind. */
static void write_rows(const struct result *result, size_t rows_max, struct buffer *json)
{
    struct result cut = *result;
    char *flags[RESULT_FLAGS_MAX];

    keep_at_most(&cut.wait_count, rows_max);
    keep_at_most(&cut.fault_count, rows_max);
    keep_at_most(&cut.finding_count, rows_max);
    keep_at_most(&cut.traffic_count, rows_max);
    keep_at_most(&cut.timing_count, rows_max);
    if (cut.timing_count < result->timing_count || cut.wait_count < result->wait_count ||
        cut.fault_count < result->fault_count || cut.finding_count < result->finding_count ||
        cut.traffic_count < result->traffic_count) {
        keep_at_most(&cut.flag_count, RESULT_FLAGS_MAX - 1);
        for (size_t i = 0; i < cut.flag_count; i++) {
            flags[i] = result->flags[i];
        }
        flags[cut.flag_count++] = (char *)"rows_cut";
        cut.flags = flags;
    }
    json_write(&result_record, &cut, json);
}

void result_write(const struct result *result, struct buffer *json)
{
    size_t start_bytes = json->size_bytes;
    size_t rows_max = RESULT_ROWS_MAX;

    write_rows(result, rows_max, json);
    while (json->size_bytes - start_bytes > RESULT_JSON_MAX_BYTES - 1024 && rows_max > 0) {
        json->size_bytes = start_bytes;
        rows_max /= 2;
        write_rows(result, rows_max, json);
    }
    assert(json->size_bytes - start_bytes <= RESULT_JSON_MAX_BYTES - 1024);
}

enum status result_read(struct result *result, const char *json, size_t size_bytes,
                        struct error *err)
{
    if (size_bytes > RESULT_JSON_MAX_BYTES) {
        return error_set(err, ERR_TOO_LARGE, "the result has %zu bytes, at most %d are allowed",
                         size_bytes, RESULT_JSON_MAX_BYTES);
    }
    return json_read(&result_record, result, json, size_bytes, err);
}

/* ---- release and adding ---- */

void result_release(struct result *result)
{
    json_record_release(&result_record, result);
    result->rank = -1;
}

void wait_release(struct wait *wait)
{
    json_record_release(&wait_record, wait);
}

void fault_release(struct fault *fault)
{
    json_record_release(&fault_record, fault);
}

void finding_release(struct finding *finding)
{
    json_record_release(&finding_record, finding);
}

void traffic_release(struct traffic *traffic)
{
    json_record_release(&traffic_record, traffic);
}

void mismatch_release(struct mismatch *mismatch)
{
    json_record_release(&mismatch_record, mismatch);
}

void timing_release(struct timing *timing)
{
    json_record_release(&timing_record, timing);
}

void gpu_release(struct gpu *gpu)
{
    json_record_release(&gpu_record, gpu);
}

/* Makes room for one row more, in powers of two. */
static void *grown(void *rows, size_t count, size_t row_bytes)
{
    if ((count & (count - 1)) != 0) {
        return rows;
    }
    return xrealloc(rows, (count == 0 ? 1 : 2 * count) * row_bytes);
}

void result_add_wait(struct result *result, struct wait wait)
{
    if (result->wait_count == RESULT_ROWS_MAX) {
        wait_release(&wait);
        return;
    }
    result->waits = grown(result->waits, result->wait_count, sizeof wait);
    result->waits[result->wait_count++] = wait;
}

void result_add_fault(struct result *result, struct fault fault)
{
    if (result->fault_count == RESULT_ROWS_MAX) {
        fault_release(&fault);
        return;
    }
    result->faults = grown(result->faults, result->fault_count, sizeof fault);
    result->faults[result->fault_count++] = fault;
}

void result_add_finding(struct result *result, struct finding finding)
{
    if (result->finding_count == RESULT_ROWS_MAX) {
        finding_release(&finding);
        return;
    }
    result->findings = grown(result->findings, result->finding_count, sizeof finding);
    result->findings[result->finding_count++] = finding;
}

static bool is_same_text(const char *a, const char *b)
{
    return (a == NULL && b == NULL) || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool result_has_finding(const struct result *result, const struct finding *finding)
{
    bool has_place = finding->source != NULL && finding->source[0] != 0;

    for (size_t i = 0; i < result->finding_count; i++) {
        const struct finding *row = &result->findings[i];
        if (row->rank == finding->rank && is_same_text(row->kind, finding->kind) &&
            is_same_text(row->source, finding->source) &&
            (has_place || is_same_text(row->message, finding->message))) {
            return true;
        }
    }
    return false;
}

void result_add_timing(struct result *result, struct timing timing)
{
    if (result->timing_count == RESULT_ROWS_MAX) {
        timing_release(&timing);
        return;
    }
    result->timings = grown(result->timings, result->timing_count, sizeof timing);
    result->timings[result->timing_count++] = timing;
}

void result_add_traffic(struct result *result, const struct traffic *traffic)
{
    for (size_t i = 0; i < result->traffic_count; i++) {
        struct traffic *row = &result->traffic[i];
        if (row->source == traffic->source && row->owner == traffic->owner &&
            strcmp(row->mechanism, traffic->mechanism) == 0) {
            row->bytes += traffic->bytes;
            return;
        }
    }
    if (result->traffic_count == RESULT_ROWS_MAX) {
        return;
    }
    result->traffic = grown(result->traffic, result->traffic_count, sizeof *traffic);
    result->traffic[result->traffic_count] = *traffic;
    result->traffic[result->traffic_count++].mechanism = xstrdup(traffic->mechanism);
}

/* A text that is there already is not added twice. */
static void add_text(char ***texts, size_t *count, const char *text)
{
    for (size_t i = 0; i < *count; i++) {
        if (strcmp((*texts)[i], text) == 0) {
            return;
        }
    }
    if (*count < RESULT_FLAGS_MAX) {
        *texts = grown(*texts, *count, sizeof **texts);
        (*texts)[(*count)++] = xstrdup(text);
    }
}

void result_add_flag(struct result *result, const char *flag)
{
    add_text(&result->flags, &result->flag_count, flag);
}

void result_add_mechanism(struct result *result, const char *mechanism)
{
    add_text(&result->mechanisms, &result->mechanism_count, mechanism);
}
