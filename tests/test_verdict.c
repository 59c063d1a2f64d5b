#include "worker/verdict.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(literal) ((char *)(literal))

/* Wait statuses as waitpid gives them. */
static int exited(int code)
{
    return code << 8;
}

static int killed(int number)
{
    return number;
}

static struct evidence evidence_of_two(void)
{
    return (struct evidence){
        .world = 2, .status = {.stage = "check", .case_name = "check", .variant = "exact"}};
}

static struct fault host_fault = {.rank = 1,
                                  .kind = TEXT("host_access_of_device_memory"),
                                  .cta = -1,
                                  .warp = -1,
                                  .lane = -1,
                                  .address = TEXT("rank 1 inputs+256"),
                                  .message = TEXT("host code in pkb_run (call 0) accessed rank 1 "
                                                  "inputs+256")};

/* The judge's report of a rank that hung up. */
static const struct result ended = {.verdict = VERDICT_RUNTIME_ERROR,
                                    .reason = TEXT("ended"),
                                    .message = TEXT("rank 1 ended in pkb_run (call 0)"),
                                    .stage = TEXT("check"),
                                    .case_name = TEXT("check"),
                                    .variant = TEXT("exact"),
                                    .rank = 1,
                                    .faults = &host_fault,
                                    .fault_count = 1};
static const struct result accepted = {.verdict = VERDICT_ACCEPTED,
                                       .message = TEXT("right"),
                                       .stage = TEXT("check"),
                                       .rank = -1,
                                       .output_digest = TEXT("00ff")};
static struct wait kernel_wait = {.rank = 0,
                                  .where = TEXT("kernel"),
                                  .kernel = TEXT("k"),
                                  .source = TEXT("solution.cu:3"),
                                  .owner = -1};
static const struct result deadlock = {.verdict = VERDICT_DEADLOCK,
                                       .message = TEXT("nothing can move"),
                                       .rank = -1,
                                       .waits = &kernel_wait,
                                       .wait_count = 1};

static void assert_place(const struct result *result)
{
    assert_string_equal(result->stage, "check");
    assert_string_equal(result->case_name, "check");
    assert_string_equal(result->variant, "exact");
}

static void test_what_the_judge_says_counts_when_nothing_explains_it(void **state)
{
    struct mismatch mismatch = {.output = TEXT("y"), .rank = 1, .index = TEXT("[0, 7]"), .bad = 1};
    struct result wrong = {.verdict = VERDICT_WRONG_ANSWER,
                           .message = TEXT("y is wrong"),
                           .stage = TEXT("check"),
                           .case_name = TEXT("check"),
                           .variant = TEXT("exact"),
                           .rank = 1,
                           .mismatch = &mismatch};
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.judge = &wrong;
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_WRONG_ANSWER);
    assert_string_equal(result.mismatch->index, "[0, 7]");
    assert_int_equal(result.rank, 1);
    assert_place(&result);
    result_release(&result);
}

static void test_a_crash_names_rank_signal_and_address(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.judge = &ended;
    evidence.crashed_first = true;
    evidence.rank[1] = (struct ending){true, killed(SIGSEGV)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_RUNTIME_ERROR);
    assert_string_equal(result.reason, "signal");
    assert_string_equal(result.message,
                        "rank 1 ended in pkb_run (call 0): killed by SIGSEGV; host code in pkb_run "
                        "(call 0) accessed rank 1 inputs+256");
    assert_int_equal(result.rank, 1);
    assert_int_equal(result.fault_count, 1);
    assert_place(&result);
    result_release(&result);
}

static void test_an_exit_in_the_middle_names_rank_and_code(void **state)
{
    struct result quiet_end = ended;
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    quiet_end.fault_count = 0;
    evidence.judge = &quiet_end;
    evidence.crashed_first = true;
    evidence.rank[1] = (struct ending){true, exited(0)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_RUNTIME_ERROR);
    assert_string_equal(result.reason, "exit");
    assert_string_equal(result.message, "rank 1 ended in pkb_run (call 0): exit code 0");
    result_release(&result);
}

static void test_a_crash_counts_without_the_judges_word(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.crashed_first = true;
    evidence.rank[0] = (struct ending){true, killed(SIGABRT)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_RUNTIME_ERROR);
    assert_string_equal(result.message, "rank 0 ended: killed by SIGABRT");
    assert_place(&result);
    result_release(&result);
}

static void test_a_crash_beats_the_deadlock_that_it_causes(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.judge = &ended;
    evidence.device = &deadlock;
    evidence.crashed_first = true;
    evidence.rank[1] = (struct ending){true, killed(SIGSEGV)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_RUNTIME_ERROR);
    assert_int_equal(result.wait_count, 0);
    result_release(&result);
}

static void test_a_deadlock_beats_the_crash_that_follows_it(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.judge = &ended;
    evidence.device = &deadlock;
    evidence.rank[1] = (struct ending){true, killed(SIGABRT)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_DEADLOCK);
    assert_int_equal(result.wait_count, 1);
    assert_string_equal(result.waits[0].kernel, "k");
    assert_place(&result);
    result_release(&result);
}

static void test_a_fault_of_the_device_explains_the_code_that_a_rank_returned(void **state)
{
    struct fault fault = {
        .rank = 1, .kind = TEXT("illegal_address"), .kernel = TEXT("k"), .lane = 3};
    struct result device = {.verdict = VERDICT_RUNTIME_ERROR,
                            .message = TEXT("illegal address"),
                            .rank = -1,
                            .faults = &fault,
                            .fault_count = 1};
    struct result code = {.verdict = VERDICT_RUNTIME_ERROR,
                          .message = TEXT("pkb_run returned 700 on rank 1"),
                          .stage = TEXT("check"),
                          .rank = 1};
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.judge = &code;
    evidence.device = &device;
    verdict_decide(&evidence, &result);
    assert_string_equal(result.message, "illegal address");
    assert_int_equal(result.rank, 1);
    assert_place(&result);
    result_release(&result);
}

static void test_a_flood_of_output_is_a_limit(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.stop = STOP_LOG;
    evidence.stop_rank = 1;
    evidence.judge = &ended; /* because we killed it */
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_LIMIT_EXCEEDED);
    assert_string_equal(result.reason, "log");
    assert_int_equal(result.rank, 1);
    result_release(&result);
}

static void test_an_endless_host_loop_is_named_with_its_function(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.stop = STOP_HOST_BUSY;
    evidence.stop_rank = 1;
    evidence.status.phase[1] = RANK_IN_RUN;
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_TIMEOUT);
    assert_string_equal(result.reason, "host_busy");
    assert_non_null(strstr(result.message, "rank 1 runs on in pkb_run"));
    assert_int_equal(result.rank, 1);
    assert_place(&result);
    result_release(&result);
}

static void test_ranks_that_all_wait_on_the_host_are_a_deadlock(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.stop = STOP_WAITING;
    evidence.status.phase[0] = RANK_IN_RUN;
    evidence.status.in_barrier[0] = 1;
    evidence.status.phase[1] = RANK_SETUP;
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_DEADLOCK);
    assert_int_equal(result.wait_count, 2);
    assert_string_equal(result.waits[0].where, "pkb_host_barrier");
    assert_string_equal(result.waits[1].where, "pkb_setup");
    result_release(&result);
}

static void test_a_job_that_takes_too_long_is_a_timeout(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.stop = STOP_WALL;
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_TIMEOUT);
    assert_string_equal(result.reason, "wall");
    result_release(&result);
}

static void test_who_kills_the_judge_or_the_keeper_is_to_blame(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.status.phase[0] = RANK_IN_RUN;
    evidence.judge_ending = (struct ending){true, killed(SIGKILL)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_RUNTIME_ERROR);
    assert_string_equal(result.reason, "killed_evaluator");
    assert_non_null(strstr(result.message, "pkb-judge was killed"));
    result_release(&result);

    result = (struct result){.rank = -1};
    evidence.judge_ending.has_ended = false;
    evidence.is_keeper_lost = true;
    verdict_decide(&evidence, &result);
    assert_string_equal(result.reason, "killed_evaluator");
    assert_non_null(strstr(result.message, "the keeper"));
    result_release(&result);
}

static void test_our_own_programs_that_end_early_are_our_fault(void **state)
{
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.judge_ending = (struct ending){true, killed(SIGSEGV)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_INTERNAL_ERROR);
    assert_non_null(strstr(result.message, "pkb-judge ended without a report: killed by SIGSEGV"));
    result_release(&result);

    result = (struct result){.rank = -1};
    evidence.judge_ending.has_ended = false;
    evidence.device_ending = (struct ending){true, exited(1)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_INTERNAL_ERROR);
    assert_non_null(strstr(result.message, "the simulator ended without a report: exit code 1"));
    result_release(&result);

    result = (struct result){.rank = -1};
    evidence.crashed_first = true;
    evidence.rank[0] = (struct ending){true, exited(127)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_INTERNAL_ERROR);
    result_release(&result);
}

static void test_the_simulators_death_explains_what_the_judge_says_then(void **state)
{
    static const struct result failed = {.verdict = VERDICT_RUNTIME_ERROR,
                                         .reason = TEXT("code"),
                                         .message = TEXT("pkb_run of rank 0 returned 999"),
                                         .rank = 0};
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.status.phase[0] = RANK_IN_RUN;
    evidence.judge = &failed;
    evidence.device_ending = (struct ending){true, killed(SIGSYS)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_INTERNAL_ERROR);
    assert_string_equal(result.message, "the simulator ended without a report: killed by SIGSYS");
    result_release(&result);

    result = (struct result){.rank = -1};
    evidence.device_ending = (struct ending){true, killed(SIGKILL)};
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_RUNTIME_ERROR);
    assert_string_equal(result.reason, "killed_evaluator");
    result_release(&result);

    result = (struct result){.rank = -1};
    evidence.device_ending = (struct ending){true, exited(0)};
    verdict_decide(&evidence, &result);
    assert_string_equal(result.message, failed.message);
    result_release(&result);
}

static void test_an_accepted_job_needs_the_simulators_last_report(void **state)
{
    struct traffic row = {.source = 0, .owner = 1, .mechanism = TEXT("sm_load"), .bytes = 64};
    struct finding finding = {.kind = TEXT("race"), .rank = 0, .message = TEXT("a race")};
    struct result end = {.verdict = VERDICT_ACCEPTED,
                         .traffic = &row,
                         .traffic_count = 1,
                         .findings = &finding,
                         .finding_count = 1};
    struct evidence evidence = evidence_of_two();
    struct result result = {.rank = -1};

    (void)state;
    evidence.judge = &accepted;
    evidence.device_end = &end;
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_ACCEPTED);
    assert_string_equal(result.output_digest, "00ff");
    assert_int_equal(result.traffic[0].bytes, 64);
    assert_string_equal(result.findings[0].message, "a race");
    result_release(&result);

    result = (struct result){.rank = -1};
    evidence.device_end = NULL;
    verdict_decide(&evidence, &result);
    assert_int_equal(result.verdict, VERDICT_INTERNAL_ERROR);
    result_release(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_judge_says_counts_when_nothing_explains_it),
        cmocka_unit_test(test_a_crash_names_rank_signal_and_address),
        cmocka_unit_test(test_an_exit_in_the_middle_names_rank_and_code),
        cmocka_unit_test(test_a_crash_counts_without_the_judges_word),
        cmocka_unit_test(test_a_crash_beats_the_deadlock_that_it_causes),
        cmocka_unit_test(test_a_deadlock_beats_the_crash_that_follows_it),
        cmocka_unit_test(test_a_fault_of_the_device_explains_the_code_that_a_rank_returned),
        cmocka_unit_test(test_a_flood_of_output_is_a_limit),
        cmocka_unit_test(test_an_endless_host_loop_is_named_with_its_function),
        cmocka_unit_test(test_ranks_that_all_wait_on_the_host_are_a_deadlock),
        cmocka_unit_test(test_a_job_that_takes_too_long_is_a_timeout),
        cmocka_unit_test(test_who_kills_the_judge_or_the_keeper_is_to_blame),
        cmocka_unit_test(test_our_own_programs_that_end_early_are_our_fault),
        cmocka_unit_test(test_the_simulators_death_explains_what_the_judge_says_then),
        cmocka_unit_test(test_an_accepted_job_needs_the_simulators_last_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
