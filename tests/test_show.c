#include "client/show.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define TEXT(literal) ((char *)(literal))

static struct job done(void)
{
    return (struct job){.id = "job_1",
                        .task_number = 1,
                        .task = "allreduce",
                        .world = 2,
                        .dtype = DTYPE_BF16,
                        .device = DEVICE_SIM,
                        .state = JOB_DONE,
                        .worker = "ada"};
}

/* The report, which lives until the next call. */
static const char *report(const struct result *result)
{
    static struct buffer text;
    struct job job = done();

    buffer_release(&text);
    show_job(&job, result, &text);
    return text.data;
}

static void assert_shows(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\n%s\nlacks\n%s", text, part);
    }
}

static void assert_progress(const struct job *job, const char *expected)
{
    struct buffer text = {0};

    show_progress(job, &text);
    assert_string_equal(text.data, expected);
    buffer_release(&text);
}

static void test_progress_tells_position_stage_and_verdict(void **state)
{
    struct job job = done();

    (void)state;
    job.state = JOB_QUEUED;
    job.queue_position = 3;
    assert_progress(&job, "queued, 3 ahead");
    job.queue_position = 0;
    assert_progress(&job, "queued, next");
    job.state = JOB_LEASED;
    assert_progress(&job, "starting on ada");
    job.stage = STAGE_CHECKING;
    assert_progress(&job, "checking on ada");
    job.state = JOB_DONE;
    (void)snprintf(job.verdict, sizeof job.verdict, "accepted");
    assert_progress(&job, "done: accepted");
    job.state = JOB_QUARANTINED;
    assert_progress(&job, "quarantined");
}

static void test_a_job_without_a_result_is_one_line(void **state)
{
    struct job job = done();
    struct buffer text = {0};

    (void)state;
    job.state = JOB_QUEUED;
    show_job(&job, NULL, &text);
    assert_string_equal(text.data, "job_1: queued, next\n");
    buffer_release(&text);
}

static void test_accepted_shows_task_times_and_traffic(void **state)
{
    struct replay replay = {.schedule_seed = 1};
    struct traffic traffic[] = {{0, 1, TEXT("sm_load"), 4096},
                                {1, 0, TEXT("sm_load"), UINT64_C(1) << 40},
                                {0, 1, TEXT("copy_engine"), 7},
                                {-1, 0, TEXT("sm_load"), 5}};
    struct result result = {.rank = -1,
                            .traffic = traffic,
                            .traffic_count = 4,
                            .schedules = 3,
                            .replay = &replay,
                            .build_ms = 2340,
                            .run_ms = 50,
                            .build_log = TEXT("a warning")};

    (void)state;
    assert_string_equal(
        report(&result),
        "accepted\n"
        "  job_1: task 001 allreduce, 2 ranks, bf16, sim, on ada; build 2.34 s, run 0.05 s\n"
        "  schedule seed 1; tried: 3; to repeat it: pkb status --replay\n"
        "\nbytes moved, by the rank that moved them and the owner of the memory:\n"
        "  sm_load\n"
        "                  of rank 0       of rank 1\n"
        "  by rank 0               0            4096\n"
        "  by rank 1   1099511627776               0\n"
        "  copy_engine\n"
        "                  of rank 0       of rank 1\n"
        "  by rank 0               0               7\n"
        "  by rank 1               0               0\n");
}

static void test_wrong_answer_shows_the_first_wrong_element(void **state)
{
    struct mismatch mismatch = {.output = TEXT("y"),
                                .rank = 2,
                                .index = TEXT("[3, 17]"),
                                .expected = TEXT("0x1.8p+1 (3)"),
                                .got = TEXT("nan"),
                                .bound = TEXT("0x1p-7 (0.0078125)"),
                                .bad = 17,
                                .total = 4096};
    struct result result = {.verdict = VERDICT_WRONG_ANSWER,
                            .message = TEXT("values differ"),
                            .stage = TEXT("check"),
                            .case_name = TEXT("check/small"),
                            .variant = TEXT("normal"),
                            .rank = 2,
                            .mismatch = &mismatch};

    (void)state;
    const char *text = report(&result);
    assert_shows(text, "wrong_answer: values differ\n");
    assert_shows(text, "  stage check, case check/small, variant normal, rank 2\n");
    assert_shows(text, "  output y of rank 2: 17 of 4096 elements are wrong\n"
                       "  first at [3, 17]: expected 0x1.8p+1 (3), got nan, allowed error "
                       "0x1p-7 (0.0078125)\n");
}

static void test_deadlock_shows_one_line_per_wait(void **state)
{
    struct wait waits[] = {
        {.rank = 0,
         .where = TEXT("kernel"),
         .kernel = TEXT("ring(float*)"),
         .source = TEXT("solution.cu:33"),
         .warps = 4,
         .address = TEXT("rank 1 signal+64"),
         .owner = 1,
         .value = TEXT("0"),
         .wanted = TEXT(">= 1"),
         .last_writer = TEXT("never written")},
        {.rank = 1, .where = TEXT("cudaStreamSynchronize"), .cta = -1, .warp = -1, .owner = -1}};
    struct result result = {
        .verdict = VERDICT_DEADLOCK, .rank = -1, .waits = waits, .wait_count = 2};

    (void)state;
    assert_shows(
        report(&result),
        "where the ranks wait:\n"
        "  rank 0: in ring(float*), solution.cu:33, cta 0, warp 0 and 3 more, reads rank 1 "
        "signal+64 (memory of rank 1) = 0, waits for >= 1, last writer: never written\n"
        "  rank 1: in cudaStreamSynchronize\n");
}

static void test_faults_and_findings_show_their_place(void **state)
{
    struct fault faults[] = {{.rank = 1,
                              .kind = TEXT("illegal_address"),
                              .kernel = TEXT("k"),
                              .source = TEXT("solution.cu:9"),
                              .cta = 2,
                              .warp = 1,
                              .lane = 31,
                              .address = TEXT("0x10"),
                              .message = TEXT("no memory there")},
                             {.rank = -1, .kind = TEXT("exit"), .cta = -1, .warp = -1, .lane = -1}};
    struct finding findings[] = {{TEXT("race"), 3, TEXT("solution.cu:4"), TEXT("two writers")}};
    struct result result = {.verdict = VERDICT_RUNTIME_ERROR,
                            .reason = TEXT("illegal_address"),
                            .rank = 1,
                            .faults = faults,
                            .fault_count = 2,
                            .findings = findings,
                            .finding_count = 1};

    (void)state;
    const char *text = report(&result);
    assert_shows(text, "runtime_error (illegal_address)\n");
    assert_shows(text, "  rank 1: illegal_address in k, solution.cu:9, cta 2, warp 1, lane 31, at "
                       "0x10: no memory there\n  no rank: exit\n");
    assert_shows(text, "  finding: race, rank 3, solution.cu:4: two writers\n");
}

static void test_the_end_of_the_right_log_is_shown(void **state)
{
    struct buffer log = {0};
    struct result result = {.verdict = VERDICT_COMPILE_ERROR, .rank = -1};

    (void)state;
    for (int i = 1; i <= 50; i++) {
        buffer_printf(&log, "line %d\n", i);
    }
    result.build_log = log.data;
    result.run_log = TEXT("not this");
    const char *text = report(&result);
    assert_shows(text, "\nbuild log (its end; 'pkb log' shows all):\nline 11\nline 12\n");
    assert_shows(text, "line 50\n");
    assert_null(strstr(text, "not this"));

    result.verdict = VERDICT_TIMEOUT;
    text = report(&result);
    assert_shows(text, "\nrun log:\nnot this\n");
    assert_null(strstr(text, "line 50"));
    buffer_release(&log);
}

static void test_times_are_shown_with_interval_baseline_and_roofline(void **state)
{
    struct timing timing = {.case_name = TEXT("bench"),
                            .variant = TEXT("rounding"),
                            .latency = {.median_us = 5,
                                        .p10_us = 4.5,
                                        .p90_us = 6,
                                        .low_us = 4.9,
                                        .high_us = 5.1,
                                        .iterations = 100},
                            .throughput = {.median_us = 4},
                            .baseline_us = 20,
                            .speedup = 4,
                            .is_faster = true,
                            .target_us = 2.5,
                            .target_percent = 50};
    struct result result = {.rank = -1, .timings = &timing, .timing_count = 1};

    (void)state;
    const char *text = report(&result);
    assert_shows(text,
                 "bench rounding: 5.00 us (4.90 to 5.10; p10 4.50, p90 6.00; 100 iterations)");
    assert_shows(text, "back to back: 4.00 us a call");
    assert_shows(text, "baseline: 20.00 us, so 4.00 times as fast\n");
    assert_shows(text, "50 % of the roofline of 2.50 us");
    timing.is_faster = false;
    assert_shows(report(&result), "(not faster)");
}

static void test_flags_are_listed(void **state)
{
    char *flags[] = {TEXT("insecure"), TEXT("insecure:cgroup")};
    struct result result = {.rank = -1, .flags = flags, .flag_count = 2};

    (void)state;
    assert_shows(report(&result), "  flags: insecure, insecure:cgroup\n");
}

static void test_what_a_submission_says_cannot_steer_the_terminal(void **state)
{
    struct buffer text = {0};
    struct result result = {.rank = -1, .message = TEXT("\x1b[2Jgone\r\x07")};

    (void)state;
    show_text("a\tb\n\xc3\xa9 \x7f\xc2\x9b\xff", &text);
    assert_string_equal(text.data, "a\tb\n\xc3\xa9 \\x7f\\xc2\\x9b\\xff");
    assert_shows(report(&result), "accepted: \\x1b[2Jgone\\x0d\\x07\n");
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_tells_position_stage_and_verdict),
        cmocka_unit_test(test_a_job_without_a_result_is_one_line),
        cmocka_unit_test(test_accepted_shows_task_times_and_traffic),
        cmocka_unit_test(test_wrong_answer_shows_the_first_wrong_element),
        cmocka_unit_test(test_deadlock_shows_one_line_per_wait),
        cmocka_unit_test(test_faults_and_findings_show_their_place),
        cmocka_unit_test(test_the_end_of_the_right_log_is_shown),
        cmocka_unit_test(test_times_are_shown_with_interval_baseline_and_roofline),
        cmocka_unit_test(test_flags_are_listed),
        cmocka_unit_test(test_what_a_submission_says_cannot_steer_the_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
