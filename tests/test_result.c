#include "common/result.h"

#include "common/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wait full_wait(void)
{
    return (struct wait){.rank = 1,
                         .where = xstrdup("kernel"),
                         .kernel = xstrdup("ring(float*)"),
                         .source = xstrdup("solution.cu:33"),
                         .cta = 7,
                         .warp = 3,
                         .lanes = UINT32_MAX,
                         .warps = 12,
                         .address = xstrdup("rank 1 signal+64"),
                         .owner = 0,
                         .value = xstrdup("0"),
                         .wanted = xstrdup(">= 1"),
                         .last_writer = xstrdup("never written")};
}

static struct replay *full_replay(void)
{
    struct replay *replay = xcalloc(1, sizeof *replay);

    *replay = (struct replay){.format = REPLAY_FORMAT,
                              .evaluator = "0.1",
                              .task = "allreduce",
                              .world = 4,
                              .dtype = DTYPE_FP16,
                              .seed = UINT64_MAX,
                              .schedule_seed = 2,
                              .fuel = 5000000000,
                              .stall_ms = 10000,
                              .no_multicast = true};
    memset(replay->source_sha256, 'a', SHA256_TEXT_MAX - 1);
    return replay;
}

static struct gpu *full_gpu(void)
{
    struct gpu *gpu = xmalloc(sizeof *gpu);

    *gpu = (struct gpu){.name = xstrdup("NVIDIA H200"),
                        .uuid = xstrdup("GPU-1"),
                        .driver = xstrdup("580.1"),
                        .cuda = xstrdup("13.0"),
                        .nccl = xstrdup("2.28.3"),
                        .count = 4,
                        .sm_mhz = 1980,
                        .memory_mhz = 3201,
                        .temperature_c = 40,
                        .throttled = xstrdup("power")};
    return gpu;
}

static struct timing full_timing(void)
{
    struct timing timing = {.case_name = xstrdup("bench"),
                            .variant = xstrdup("rounding"),
                            .latency = {.median_us = 5.125,
                                        .p10_us = 5,
                                        .p90_us = 5.5,
                                        .low_us = 5.0625,
                                        .high_us = 5.25,
                                        .events_us = 5.1,
                                        .window_us = 5.2,
                                        .skew_us = 0.1,
                                        .iterations = 100},
                            .throughput = {.median_us = 4, .iterations = 25},
                            .calibration_us = 140.3,
                            .answer_us = 12.5,
                            .slow_us = 5.5,
                            .baseline_us = 20.5,
                            .baseline_low_us = 20,
                            .baseline_high_us = 21,
                            .speedup = 4,
                            .is_faster = true,
                            .floor_us = 1,
                            .target_us = 2.5,
                            .target_percent = 48.75};

    return timing;
}

/* Every member set. */
static struct result full(void)
{
    struct result result = {.verdict = VERDICT_DEADLOCK,
                            .reason = xstrdup("r"),
                            .message = xstrdup("rank 1 waits"),
                            .stage = xstrdup("check"),
                            .case_name = xstrdup("check/small"),
                            .variant = xstrdup("normal"),
                            .rank = 1,
                            .output_digest = xstrdup("0123456789abcdef"),
                            .mismatch = xmalloc(sizeof(struct mismatch)),
                            .build_log = xstrdup("built\n\ttwice\n"),
                            .builder = xstrdup("stages"),
                            .run_log = xstrdup("ran"),
                            .build_ms = 1234,
                            .run_ms = INT64_MAX};

    *result.mismatch = (struct mismatch){.output = xstrdup("y"),
                                         .rank = 2,
                                         .index = xstrdup("[3, 17]"),
                                         .expected = xstrdup("0x1.8p+1 (3)"),
                                         .got = xstrdup("nan"),
                                         .bound = xstrdup("0x1p-7 (0.0078125)"),
                                         .bad = UINT64_MAX,
                                         .total = 4096};
    result_add_wait(&result, full_wait());
    result_add_wait(&result, (struct wait){.rank = -1, .cta = -1, .warp = -1, .owner = -1});
    result_add_fault(&result, (struct fault){.rank = 0,
                                             .kind = xstrdup("illegal_address"),
                                             .kernel = xstrdup("k"),
                                             .source = xstrdup("solution.cu:1"),
                                             .cta = 0,
                                             .warp = 0,
                                             .lane = 31,
                                             .address = xstrdup("0x10"),
                                             .message = xstrdup("beyond x")});
    result_add_finding(&result, (struct finding){.kind = xstrdup("race"),
                                                 .rank = 3,
                                                 .source = xstrdup("solution.cu:2"),
                                                 .message = xstrdup("two writers")});
    result_add_traffic(&result, &(struct traffic){0, 1, (char *)"sm_load", UINT64_MAX});
    result_add_timing(&result, full_timing());
    result.gpu = full_gpu();
    result.schedules = 3;
    result.replay = full_replay();
    result_add_flag(&result, "insecure");
    result_add_mechanism(&result, "code:bulk");
    result_add_mechanism(&result, "moved:sm_load");
    result_add_mechanism(&result, "code:bulk");
    return result;
}

static void test_a_full_result_round_trips(void **state)
{
    struct result result = full();
    struct result read = {0};
    struct error err = {0};
    struct buffer json = {0};
    struct buffer again = {0};

    (void)state;
    result_write(&result, &json);
    assert_int_equal(result_read(&read, json.data, json.size_bytes, &err), OK);
    assert_int_equal(read.verdict, VERDICT_DEADLOCK);
    assert_int_equal(read.rank, 1);
    assert_string_equal(read.output_digest, "0123456789abcdef");
    assert_true(read.mismatch->bad == UINT64_MAX);
    assert_string_equal(read.mismatch->got, "nan");
    assert_int_equal(read.schedules, 3);
    assert_true(read.replay->seed == UINT64_MAX);
    assert_true(read.replay->no_multicast);
    assert_string_equal(read.replay->source_sha256, result.replay->source_sha256);
    assert_int_equal(read.waits[0].lanes, UINT32_MAX);
    assert_string_equal(read.waits[0].last_writer, "never written");
    assert_int_equal(read.waits[1].rank, -1);
    assert_true(read.waits[1].cta == -1);
    assert_null(read.waits[1].kernel);
    assert_int_equal(read.faults[0].lane, 31);
    assert_string_equal(read.findings[0].message, "two writers");
    assert_true(read.traffic[0].bytes == UINT64_MAX);
    assert_string_equal(read.flags[0], "insecure");
    assert_int_equal(read.mechanism_count, 2);
    assert_string_equal(read.mechanisms[1], "moved:sm_load");
    assert_string_equal(read.timings[0].variant, "rounding");
    assert_true(read.timings[0].latency.median_us == 5.125);
    assert_true(read.timings[0].throughput.p10_us == 0);
    assert_true(read.timings[0].target_percent == 48.75);
    assert_true(read.timings[0].is_faster);
    assert_string_equal(read.gpu->throttled, "power");
    assert_int_equal(read.gpu->sm_mhz, 1980);
    assert_string_equal(read.build_log, "built\n\ttwice\n");
    assert_string_equal(read.builder, "stages");
    assert_true(read.run_ms == INT64_MAX);
    /* Nothing got lost: it writes the same text. */
    result_write(&read, &again);
    assert_string_equal(again.data, json.data);
    buffer_release(&again);
    buffer_release(&json);
    result_release(&read);
    result_release(&result);
    assert_null(result.waits);
    assert_int_equal(result.rank, -1);
}

static void test_an_empty_result_has_only_what_must_be(void **state)
{
    struct result result = {.rank = -1};
    struct result read = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    result_write(&result, &json);
    assert_string_equal(json.data, "{\"verdict\":\"accepted\",\"build_ms\":0,\"run_ms\":0}");
    assert_int_equal(result_read(&read, json.data, json.size_bytes, &err), OK);
    assert_int_equal(read.rank, -1);
    assert_null(read.mismatch);
    assert_int_equal(read.wait_count, 0);
    buffer_release(&json);
}

static void test_there_are_14_verdicts_in_the_order_of_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(VERDICTS, 14);
    assert_int_equal(verdict_find("accepted"), 0);
    assert_int_equal(verdict_find("compile_error"), 1);
    assert_int_equal(verdict_find("internal_error"), 13);
    assert_int_equal(verdict_find("cancelled"), -1);
    for (unsigned i = 0; i < VERDICTS; i++) {
        assert_int_equal(verdict_find(verdict_name((enum verdict)i)), i);
    }
}

/* Reading must fail at `field`; what is in `rest` follows the verdict. */
static void refused(const char *rest, enum status status, const char *field)
{
    struct result read = {.rank = 55};
    struct error err = {0};
    char *json = xasprintf("{\"verdict\":\"accepted\",\"build_ms\":0,\"run_ms\":0%s}", rest);

    assert_int_equal(result_read(&read, json, strlen(json), &err), status);
    assert_string_equal(err.field, field);
    assert_int_equal(read.rank, 55);
    free(json);
}

static void test_what_a_result_does_not_have_is_refused(void **state)
{
    (void)state;
    refused(",\"score\":1", ERR_INVALID, "score");
    refused(",\"rank\":8", ERR_INVALID, "rank");
    refused(",\"rank\":\"x\"", ERR_INVALID, "rank");
    refused(",\"verdict\":\"accepted\"", ERR_INVALID, "verdict");
    refused(",\"waits\":{}", ERR_INVALID, "waits");
    refused(",\"waits\":[{\"lanes\":4294967296}]", ERR_INVALID, "waits[0].lanes");
    refused(",\"waits\":[{},{\"where\":1}]", ERR_INVALID, "waits[1].where");
    refused(",\"faults\":[{\"lane\":32}]", ERR_INVALID, "faults[0].lane");
    refused(",\"findings\":[{\"weight\":1}]", ERR_INVALID, "findings[0].weight");
    refused(",\"traffic\":[{\"mechanism\":\"nccl\"}]", ERR_INVALID, "traffic[0].bytes");
    refused(",\"traffic\":[{\"bytes\":1}]", ERR_INVALID, "traffic[0].mechanism");
    refused(",\"mismatch\":{\"bad\":-1,\"total\":0}", ERR_INVALID, "mismatch.bad");
    refused(",\"flags\":[3]", ERR_INVALID, "flags[0]");
    refused(",\"timings\":[{\"latency\":{\"iterations\":1},\"throughput\":{}}]", ERR_INVALID,
            "timings[0].throughput.iterations");
    refused(",\"timings\":[{\"speedup\":-1}]", ERR_INVALID, "timings[0].speedup");
    refused(",\"timings\":[{\"speedup\":\"1\"}]", ERR_INVALID, "timings[0].speedup");
    refused(",\"timings\":[{\"is_faster\":1}]", ERR_INVALID, "timings[0].is_faster");
    refused(",\"gpu\":{\"name\":1}", ERR_INVALID, "gpu.name");
}

static void test_a_result_needs_a_known_verdict(void **state)
{
    struct result read = {0};
    struct error err = {0};
    static const char none[] = "{\"build_ms\":0,\"run_ms\":0}";
    static const char other[] = "{\"verdict\":\"great\",\"build_ms\":0,\"run_ms\":0}";

    (void)state;
    assert_int_equal(result_read(&read, none, strlen(none), &err), ERR_INVALID);
    assert_string_equal(err.field, "verdict");
    assert_int_equal(result_read(&read, other, strlen(other), &err), ERR_INVALID);
    assert_string_equal(err.field, "verdict");
    assert_non_null(strstr(err.message, "\"not_simulable\""));
}

/* `count` times `item`, separated by commas. */
static char *repeated(const char *item, size_t count)
{
    struct buffer text = {0};

    for (size_t i = 0; i < count; i++) {
        buffer_printf(&text, "%s%s", i == 0 ? "" : ",", item);
    }
    return text.data;
}

static void test_one_beyond_each_limit_is_refused(void **state)
{
    (void)state;
    char *rows = repeated("{}", RESULT_ROWS_MAX + 1);
    char *json = xasprintf(",\"waits\":[%s]", rows);
    refused(json, ERR_INVALID, "waits");
    free(json);
    free(rows);

    rows = repeated("\"a\"", RESULT_FLAGS_MAX + 1);
    json = xasprintf(",\"flags\":[%s]", rows);
    refused(json, ERR_INVALID, "flags");
    free(json);
    free(rows);

    char *text = xmalloc(RESULT_LOG_MAX_BYTES + 2);
    memset(text, 'x', RESULT_LOG_MAX_BYTES + 1);
    text[RESULT_LOG_MAX_BYTES + 1] = 0;
    json = xasprintf(",\"run_log\":\"%s\"", text);
    refused(json, ERR_TOO_LARGE, "run_log");
    free(json);
    text[RESULT_TEXT_MAX_BYTES + 1] = 0;
    json = xasprintf(",\"message\":\"%s\"", text);
    refused(json, ERR_TOO_LARGE, "message");
    free(json);
    free(text);

    text = xmalloc(RESULT_JSON_MAX_BYTES + 1);
    memset(text, ' ', RESULT_JSON_MAX_BYTES);
    text[RESULT_JSON_MAX_BYTES] = 0;
    refused(text, ERR_TOO_LARGE, "");
    free(text);
}

static void test_texts_and_logs_that_are_too_long_are_cut_when_written(void **state)
{
    struct result result = {.rank = -1};
    struct result read = {0};
    struct error err = {0};
    struct buffer json = {0};

    (void)state;
    result.run_log = xmalloc(RESULT_LOG_MAX_BYTES + 10);
    memset(result.run_log, '\x1b', RESULT_LOG_MAX_BYTES + 9);
    result.run_log[RESULT_LOG_MAX_BYTES + 9] = 0;
    result.message = xstrdup(result.run_log);
    result_write(&result, &json);
    assert_int_equal(result_read(&read, json.data, json.size_bytes, &err), OK);
    assert_int_equal(strlen(read.run_log), RESULT_LOG_MAX_BYTES);
    assert_int_equal(strlen(read.message), RESULT_TEXT_MAX_BYTES);
    buffer_release(&json);
    result_release(&read);
    result_release(&result);
}

static void test_rows_are_left_out_where_the_result_would_be_too_large(void **state)
{
    struct result result = {.rank = -1};
    struct result read = {0};
    struct error err = {0};
    struct buffer json = {0};
    char text[1000];

    (void)state;
    memset(text, '"', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int i = 0; i < 2000; i++) {
        result_add_finding(&result, (struct finding){.rank = i % 4, .message = xstrdup(text)});
    }
    for (int i = 0; i < RESULT_FLAGS_MAX; i++) {
        (void)snprintf(text, sizeof text, "flag %d", i);
        result_add_flag(&result, text);
    }
    buffer_printf(&json, "before");
    result_write(&result, &json);
    assert_memory_equal(json.data, "before{", 7);
    assert_true(json.size_bytes <= RESULT_JSON_MAX_BYTES - 1024 + 6);
    assert_int_equal(result_read(&read, json.data + 6, json.size_bytes - 6, &err), OK);
    assert_true(read.finding_count > 100);
    assert_true(read.finding_count < 2000);
    assert_string_equal(read.flags[read.flag_count - 1], "rows_cut");
    buffer_release(&json);
    result_release(&read);
    result_release(&result);
}

static void test_rows_beyond_the_limit_are_dropped(void **state)
{
    struct result result = {.rank = -1};

    (void)state;
    for (int i = 0; i < RESULT_ROWS_MAX + 2; i++) {
        result_add_wait(&result, (struct wait){.rank = 1, .where = xstrdup("kernel")});
        result_add_fault(&result, (struct fault){.rank = 1, .kind = xstrdup("trap")});
        result_add_finding(&result, (struct finding){.rank = 1, .kind = xstrdup("race")});
    }
    assert_int_equal(result.wait_count, RESULT_ROWS_MAX);
    assert_int_equal(result.fault_count, RESULT_ROWS_MAX);
    assert_int_equal(result.finding_count, RESULT_ROWS_MAX);
    result_release(&result);
}

static void test_traffic_of_one_kind_is_added_up(void **state)
{
    struct result result = {.rank = -1};

    (void)state;
    result_add_traffic(&result, &(struct traffic){0, 1, (char *)"sm_load", 10});
    result_add_traffic(&result, &(struct traffic){0, 1, (char *)"sm_store", 1});
    result_add_traffic(&result, &(struct traffic){1, 0, (char *)"sm_load", 2});
    result_add_traffic(&result, &(struct traffic){0, 1, (char *)"sm_load", 5});
    assert_int_equal(result.traffic_count, 3);
    assert_true(result.traffic[0].bytes == 15);
    result_release(&result);
}

static void test_a_flag_is_there_once_and_there_are_at_most_32(void **state)
{
    struct result result = {.rank = -1};
    char flag[16];

    (void)state;
    result_add_flag(&result, "noisy");
    result_add_flag(&result, "noisy");
    assert_int_equal(result.flag_count, 1);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(flag, sizeof flag, "%d", i);
        result_add_flag(&result, flag);
    }
    assert_int_equal(result.flag_count, RESULT_FLAGS_MAX);
    result_release(&result);
}

static void test_single_rows_are_released_alone(void **state)
{
    struct wait wait = full_wait();
    struct fault fault = {.kind = xstrdup("trap")};
    struct finding finding = {.kind = xstrdup("race")};
    struct traffic traffic = {.mechanism = xstrdup("nccl")};
    struct mismatch mismatch = {.output = xstrdup("y")};

    (void)state;
    wait_release(&wait);
    assert_null(wait.kernel);
    fault_release(&fault);
    assert_null(fault.kind);
    finding_release(&finding);
    assert_null(finding.kind);
    traffic_release(&traffic);
    assert_null(traffic.mechanism);
    mismatch_release(&mismatch);
    assert_null(mismatch.output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_result_round_trips),
        cmocka_unit_test(test_an_empty_result_has_only_what_must_be),
        cmocka_unit_test(test_there_are_14_verdicts_in_the_order_of_exit_codes),
        cmocka_unit_test(test_what_a_result_does_not_have_is_refused),
        cmocka_unit_test(test_a_result_needs_a_known_verdict),
        cmocka_unit_test(test_one_beyond_each_limit_is_refused),
        cmocka_unit_test(test_texts_and_logs_that_are_too_long_are_cut_when_written),
        cmocka_unit_test(test_rows_are_left_out_where_the_result_would_be_too_large),
        cmocka_unit_test(test_rows_beyond_the_limit_are_dropped),
        cmocka_unit_test(test_traffic_of_one_kind_is_added_up),
        cmocka_unit_test(test_a_flag_is_there_once_and_there_are_at_most_32),
        cmocka_unit_test(test_single_rows_are_released_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
