#include "common/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const struct submission submission = {
    .id = "s-1",
    .task_number = 1,
    .task = "allreduce",
    .model = "a model \xc3\xa9",
    .owner = "ada",
    .created_ms = 1700000000000,
    .source_bytes = SOURCE_MAX_BYTES,
    .source_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
};

static const struct job job = {
    .id = "j-1",
    .submission_id = "s-1",
    .task_number = 87,
    .task = "allreduce",
    .world = 8,
    .dtype = DTYPE_FP32,
    .device = DEVICE_CUDA_SHARED,
    .state = JOB_LEASED,
    .stage = STAGE_CHECKING,
    .epoch = INT64_MAX,
    .queued_ms = 1,
    .finished_ms = 2,
    .queue_position = -1,
    .worker = "node",
    .verdict = "deadlock",
};

static void assert_same_submission(const struct submission *a, const struct submission *b)
{
    assert_string_equal(a->id, b->id);
    assert_int_equal(a->task_number, b->task_number);
    assert_string_equal(a->task, b->task);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->owner, b->owner);
    assert_true(a->created_ms == b->created_ms);
    assert_true(a->source_bytes == b->source_bytes);
    assert_string_equal(a->source_sha256, b->source_sha256);
}

static void assert_same_job(const struct job *a, const struct job *b)
{
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->submission_id, b->submission_id);
    assert_int_equal(a->task_number, b->task_number);
    assert_string_equal(a->task, b->task);
    assert_int_equal(a->world, b->world);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->device, b->device);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->stage, b->stage);
    assert_true(a->epoch == b->epoch);
    assert_true(a->queued_ms == b->queued_ms);
    assert_true(a->finished_ms == b->finished_ms);
    assert_int_equal(a->queue_position, b->queue_position);
    assert_string_equal(a->worker, b->worker);
    assert_string_equal(a->verdict, b->verdict);
}

static void test_names_are_found_and_others_are_not(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DEVICE_KINDS; i++) {
        assert_int_equal(device_kind_find(device_kind_name((enum device_kind)i)), i);
    }
    for (unsigned i = 0; i < JOB_STATES; i++) {
        assert_int_equal(job_state_find(job_state_name((enum job_state)i)), i);
    }
    for (unsigned i = 0; i < STAGES; i++) {
        assert_int_equal(job_stage_find(job_stage_name((enum job_stage)i)), i);
    }
    assert_int_equal(device_kind_find("gpu"), -1);
    assert_int_equal(job_state_find(""), -1);
    assert_int_equal(job_stage_find("done"), -1);
}

static void test_a_submission_round_trips(void **state)
{
    struct submission read = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    submission_write(&submission, &json);
    assert_int_equal(submission_read(&read, json.data, json.size_bytes, &err), OK);
    assert_same_submission(&read, &submission);
    json.size_bytes--;
    assert_int_equal(submission_read(&read, json.data, json.size_bytes, &err), ERR_INVALID);
    buffer_release(&json);
}

static void test_a_job_round_trips_with_its_result(void **state)
{
    struct job read = {0};
    char *result = NULL;
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    job_write(&job, "{\"verdict\":\"deadlock\"}", &json);
    assert_int_equal(job_read(&read, &result, json.data, json.size_bytes, &err), OK);
    assert_same_job(&read, &job);
    assert_string_equal(result, "{\"verdict\":\"deadlock\"}");
    free(result);
    assert_int_equal(job_read(&read, NULL, json.data, json.size_bytes, &err), OK);
    buffer_release(&json);
}

static void test_a_job_without_a_result_has_none(void **state)
{
    struct job read = {0};
    char *result = (char *)&read;
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    job_write(&job, NULL, &json);
    assert_int_equal(job_read(&read, &result, json.data, json.size_bytes, &err), OK);
    assert_null(result);
    buffer_release(&json);
}

static void test_a_jobs_version_changes_with_what_a_waiting_client_sees(void **state)
{
    struct job changed = job;
    char version[JOB_VERSION_MAX];

    (void)state;
    job_version(&changed, version);
    assert_string_equal(version, "leased.checking.-1");
    changed.state = JOB_QUEUED;
    changed.stage = STAGE_NONE;
    changed.queue_position = 3;
    job_version(&changed, version);
    assert_string_equal(version, "queued..3");
}

static void test_a_created_submission_round_trips(void **state)
{
    struct submission read = {0};
    struct job read_job = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    submission_created_write(&submission, &job, &json);
    assert_int_equal(submission_created_read(&read, &read_job, json.data, json.size_bytes, &err),
                     OK);
    assert_same_submission(&read, &submission);
    assert_same_job(&read_job, &job);
    assert_int_equal(submission_created_read(&read, &read_job, "{}", 2, &err), ERR_INVALID);
    buffer_release(&json);
}

/* Reading a job with `from` replaced by `to` must fail at `field`. */
static void refused_job(const char *from, const char *to, const char *field)
{
    struct job read = {.world = 99};
    struct error err = {0};
    struct buffer json = {0};
    struct buffer changed = {0};

    job_write(&job, NULL, &json);
    const char *at = strstr(json.data, from);
    assert_non_null(at);
    buffer_printf(&changed, "%.*s%s%s", (int)(at - json.data), json.data, to, at + strlen(from));
    assert_int_equal(job_read(&read, NULL, changed.data, changed.size_bytes, &err), ERR_INVALID);
    assert_string_equal(err.field, field);
    assert_int_equal(read.world, 99);
    buffer_release(&changed);
    buffer_release(&json);
}

static void test_a_job_with_a_wrong_value_is_refused_by_its_key(void **state)
{
    (void)state;
    refused_job("\"world\":8", "\"world\":9", "world");
    refused_job("\"world\":8", "\"world\":0", "world");
    refused_job("\"world\":8", "\"world\":8,\"x\":1", "x");
    refused_job("\"world\":8", "\"world\":8,\"world\":8", "world");
    refused_job("\"fp32\"", "\"fp31\"", "dtype");
    refused_job("\"leased\"", "\"lost\"", "state");
    refused_job("\"checking\"", "3", "stage");
    refused_job("\"queue_position\":-1", "\"queue_position\":-2", "queue_position");
    refused_job("\"task_number\":87", "\"task_number\":0", "task_number");
    refused_job("\"id\":\"j-1\",", "", "id");
    refused_job("\"version\":\"", "\"result\":7,\"version\":\"", "result");
}

/* ---- requests ---- */

static void test_a_request_round_trips(void **state)
{
    struct submission_request request = {.task = "001",
                                         .world = 2,
                                         .dtype = DTYPE_FP16,
                                         .device = DEVICE_CUDA,
                                         .model = "m",
                                         .source = (char *)"// \xe2\x82\xac \"\n"};
    struct submission_request read = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    submission_request_write(&request, &json);
    assert_int_equal(submission_request_read(&read, json.data, json.size_bytes, &err), OK);
    assert_string_equal(read.task, "001");
    assert_int_equal(read.world, 2);
    assert_int_equal(read.dtype, DTYPE_FP16);
    assert_int_equal(read.device, DEVICE_CUDA);
    assert_string_equal(read.model, "m");
    assert_string_equal(read.source, request.source);
    assert_int_equal(read.source_bytes, strlen(request.source));
    submission_request_release(&read);
    assert_null(read.source);
    buffer_release(&json);
}

static void test_what_a_request_leaves_out_is_not_given(void **state)
{
    struct submission_request read = {0};
    struct error err = {0};
    static const char json[] = "{\"task\":\"1\",\"source\":\"x\"}";

    (void)state;
    assert_int_equal(submission_request_read(&read, json, strlen(json), &err), OK);
    assert_int_equal(read.world, 0);
    assert_int_equal(read.dtype, -1);
    assert_int_equal(read.device, DEVICE_SIM);
    assert_string_equal(read.model, "");
    struct buffer written = {0};
    submission_request_write(&read, &written);
    assert_string_equal(written.data, json);
    buffer_release(&written);
    submission_request_release(&read);
}

static enum status read_source_of(size_t source_bytes, struct error *err)
{
    struct submission_request read = {0};
    struct buffer json = {0};

    buffer_printf(&json, "{\"task\":\"1\",\"source\":\"");
    memset(buffer_reserve(&json, source_bytes), 'x', source_bytes);
    json.size_bytes += source_bytes;
    buffer_append(&json, "\"}", 2);
    enum status status = submission_request_read(&read, json.data, json.size_bytes, err);
    assert_int_equal(read.source_bytes, status == OK ? source_bytes : 0);
    submission_request_release(&read);
    buffer_release(&json);
    return status;
}

static void test_a_source_has_1_to_262144_bytes(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(read_source_of(SOURCE_MAX_BYTES, &err), OK);
    assert_int_equal(read_source_of(SOURCE_MAX_BYTES + 1, &err), ERR_TOO_LARGE);
    assert_string_equal(err.field, "source");
    assert_int_equal(read_source_of(0, &err), ERR_INVALID);
    assert_string_equal(err.field, "source");
    assert_int_equal(read_source_of(JSON_BODY_MAX_BYTES, &err), ERR_TOO_LARGE);
    assert_non_null(strstr(err.message, "1048576"));
}

static void test_a_source_is_utf8_without_zero_bytes(void **state)
{
    struct submission_request read = {0};
    struct error err = {0};
    static const char latin[] = "{\"task\":\"1\",\"source\":\"caf\xe9\"}";
    static const char zero[] = "{\"task\":\"1\",\"source\":\"a\\u0000\"}";

    (void)state;
    assert_int_equal(submission_request_read(&read, latin, strlen(latin), &err), ERR_INVALID);
    assert_string_equal(err.field, "source");
    assert_int_equal(submission_request_read(&read, zero, strlen(zero), &err), ERR_INVALID);
    assert_string_equal(err.field, "source");
}

static void test_a_grant_round_trips(void **state)
{
    struct lease_grant grant = {
        .job = job, .seed = UINT64_MAX, .ttl_ms = 30000, .source = (char *)"int x;"};
    struct lease_grant read = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    lease_grant_write(&grant, &json);
    assert_int_equal(lease_grant_read(&read, json.data, json.size_bytes, &err), OK);
    assert_same_job(&read.job, &job);
    assert_true(read.seed == UINT64_MAX);
    assert_int_equal(read.ttl_ms, 30000);
    assert_string_equal(read.source, "int x;");
    assert_int_equal(read.source_bytes, 6);
    lease_grant_release(&read);
    assert_int_equal(lease_grant_read(&read, json.data, json.size_bytes - 1, &err), ERR_INVALID);
    buffer_release(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_found_and_others_are_not),
        cmocka_unit_test(test_a_submission_round_trips),
        cmocka_unit_test(test_a_job_round_trips_with_its_result),
        cmocka_unit_test(test_a_job_without_a_result_has_none),
        cmocka_unit_test(test_a_jobs_version_changes_with_what_a_waiting_client_sees),
        cmocka_unit_test(test_a_created_submission_round_trips),
        cmocka_unit_test(test_a_job_with_a_wrong_value_is_refused_by_its_key),
        cmocka_unit_test(test_a_request_round_trips),
        cmocka_unit_test(test_what_a_request_leaves_out_is_not_given),
        cmocka_unit_test(test_a_source_has_1_to_262144_bytes),
        cmocka_unit_test(test_a_source_is_utf8_without_zero_bytes),
        cmocka_unit_test(test_a_grant_round_trips),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
