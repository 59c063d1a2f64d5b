#include "common/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void test_a_hello_and_its_welcome_round_trip(void **state)
{
    struct device_offer devices[] = {{DEVICE_SIM, 8}, {DEVICE_CUDA, GPUS_MAX}};
    struct worker_hello hello = {
        .name = "ada", .devices = devices, .device_count = 2, .version = "1"};
    struct worker_hello read = {0};
    struct worker_welcome welcome = {.worker = "ada", .ttl_ms = 30000};
    struct worker_welcome read_welcome = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    worker_hello_write(&hello, &json);
    assert_int_equal(worker_hello_read(&read, json.data, json.size_bytes, &err), OK);
    assert_string_equal(read.name, "ada");
    assert_int_equal(read.device_count, 2);
    assert_int_equal(read.devices[1].kind, DEVICE_CUDA);
    assert_int_equal(read.devices[1].gpus, GPUS_MAX);
    worker_hello_release(&read);
    json.size_bytes = 0;
    worker_welcome_write(&welcome, &json);
    assert_int_equal(worker_welcome_read(&read_welcome, json.data, json.size_bytes, &err), OK);
    assert_string_equal(read_welcome.worker, "ada");
    assert_int_equal(read_welcome.ttl_ms, 30000);
    buffer_release(&json);
}

/* Reading `json` as a hello must fail at `field`. */
static void refused_hello(const char *json, const char *field)
{
    struct worker_hello read = {0};
    struct error err = {0};

    assert_int_equal(worker_hello_read(&read, json, strlen(json), &err), ERR_INVALID);
    assert_string_equal(err.field, field);
}

static void test_a_hello_with_wrong_devices_is_refused(void **state)
{
    (void)state;
    refused_hello("{\"name\":\"a\",\"version\":\"1\",\"devices\":[]}", "devices");
    refused_hello("{\"name\":\"a\",\"version\":\"1\",\"devices\":[{\"kind\":\"sim\",\"gpus\":0}]}",
                  "devices[0].gpus");
    refused_hello("{\"name\":\"a\",\"version\":\"1\",\"devices\":[{\"kind\":\"sim\",\"gpus\":65}]}",
                  "devices[0].gpus");
    refused_hello("{\"name\":\"a\",\"version\":\"1\",\"devices\":[{\"kind\":\"tpu\",\"gpus\":1}]}",
                  "devices[0].kind");
    refused_hello("{\"name\":\"a\",\"devices\":[{\"kind\":\"sim\",\"gpus\":1}]}", "version");
}

static void test_a_lease_request_round_trips_and_waits_at_most_25_seconds(void **state)
{
    struct lease_request request = {
        .kinds = 1U << DEVICE_SIM | 1U << DEVICE_CUDA, .gpus = 8, .wait_s = LEASE_WAIT_MAX_S};
    struct lease_request read = {0};
    struct error err = {0};
    struct buffer json = {0};
    static const char longer[] = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":26}";
    static const char none[] = "{\"kinds\":[],\"gpus\":8,\"wait_s\":25}";

    (void)state;
    lease_request_write(&request, &json);
    assert_int_equal(lease_request_read(&read, json.data, json.size_bytes, &err), OK);
    assert_int_equal(read.kinds, request.kinds);
    assert_int_equal(read.gpus, 8);
    assert_int_equal(read.wait_s, LEASE_WAIT_MAX_S);
    assert_int_equal(lease_request_read(&read, longer, strlen(longer), &err), ERR_INVALID);
    assert_string_equal(err.field, "wait_s");
    assert_int_equal(lease_request_read(&read, none, strlen(none), &err), ERR_INVALID);
    assert_string_equal(err.field, "kinds");
    buffer_release(&json);
}

static void test_a_heartbeat_and_its_reply_round_trip(void **state)
{
    struct heartbeat heartbeat = {.worker = "ada", .epoch = 3, .stage = STAGE_BUILDING};
    struct heartbeat read = {0};
    struct heartbeat_reply reply = {.lease_ms = 29999};
    struct heartbeat_reply read_reply = {0};
    struct error err = {0};
    struct buffer json = {0};
    static const char epoch[] = "{\"worker\":\"a\",\"epoch\":0,\"stage\":\"\"}";

    (void)state;
    heartbeat_write(&heartbeat, &json);
    assert_int_equal(heartbeat_read(&read, json.data, json.size_bytes, &err), OK);
    assert_string_equal(read.worker, "ada");
    assert_int_equal(read.epoch, 3);
    assert_int_equal(read.stage, STAGE_BUILDING);
    json.size_bytes = 0;
    heartbeat_reply_write(&reply, &json);
    assert_int_equal(heartbeat_reply_read(&read_reply, json.data, json.size_bytes, &err), OK);
    assert_int_equal(read_reply.lease_ms, 29999);
    assert_int_equal(heartbeat_read(&read, epoch, strlen(epoch), &err), ERR_INVALID);
    assert_string_equal(err.field, "epoch");
    assert_int_equal(heartbeat_reply_read(&read_reply, "{}", 2, &err), ERR_INVALID);
    assert_string_equal(err.field, "lease_ms");
    buffer_release(&json);
}

static void test_a_report_round_trips_and_keeps_the_results_text(void **state)
{
    struct result_report report = {
        .worker = "ada", .epoch = 1, .result_json = (char *)"{\"verdict\":\"accepted\",\"x\":[1]}"};
    struct result_report read = {0};
    struct error err = {0};
    struct buffer json = {0};
    static const char wrong[] = "{\"worker\":\"a\",\"epoch\":1,\"result\":\"accepted\"}";

    (void)state;
    result_report_write(&report, &json);
    assert_int_equal(result_report_read(&read, json.data, json.size_bytes, &err), OK);
    assert_string_equal(read.worker, "ada");
    assert_string_equal(read.result_json, report.result_json);
    result_report_release(&read);
    assert_int_equal(result_report_read(&read, wrong, strlen(wrong), &err), ERR_INVALID);
    assert_string_equal(err.field, "result");
    buffer_release(&json);
}

static void test_a_worker_and_an_order_round_trip(void **state)
{
    struct device_offer devices[] = {{DEVICE_CUDA, 2}};
    struct worker worker = {.name = "ada",
                            .version = "1",
                            .devices = devices,
                            .device_count = 1,
                            .registered_ms = 5,
                            .state = WORKER_QUARANTINED,
                            .reason = "Xid 79",
                            .is_own = true,
                            .state_ms = 7,
                            .jobs = 1};
    struct worker_order order = {.state = WORKER_DRAINING, .reason = "why"};
    struct worker_order read_order = {0};
    struct worker read = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    worker_write(&worker, &json);
    assert_int_equal(worker_read(&read, json.data, json.size_bytes, &err), OK);
    assert_int_equal(read.state, WORKER_QUARANTINED);
    assert_string_equal(read.reason, "Xid 79");
    assert_string_equal(read.state_by, "");
    assert_true(read.is_own);
    assert_int_equal(read.jobs, 1);
    assert_int_equal(read.devices[0].gpus, 2);
    worker_release(&read);
    json.size_bytes = 0;
    worker_order_write(&order, &json);
    assert_int_equal(worker_order_read(&read_order, json.data, json.size_bytes, &err), OK);
    assert_int_equal(read_order.state, WORKER_DRAINING);
    assert_string_equal(read_order.reason, "why");
    buffer_release(&json);
    assert_int_equal(worker_state_find("ready"), WORKER_READY);
    assert_int_equal(worker_state_find("broken"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_hello_and_its_welcome_round_trip),
        cmocka_unit_test(test_a_worker_and_an_order_round_trip),
        cmocka_unit_test(test_a_hello_with_wrong_devices_is_refused),
        cmocka_unit_test(test_a_lease_request_round_trips_and_waits_at_most_25_seconds),
        cmocka_unit_test(test_a_heartbeat_and_its_reply_round_trip),
        cmocka_unit_test(test_a_report_round_trips_and_keeps_the_results_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
