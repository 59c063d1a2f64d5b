/* Waits that a value of an earlier pkb_run ends, and those that only look like it. */
#include "tests/simulation.h"

#define KERNEL(name, code)                                                                         \
    ".visible .entry " name "(.param .u64 at, .param .u64 to)\n{\n"                                \
    ".reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<5>;\n"                                       \
    "ld.param.u64 %rd1, [at]; ld.param.u64 %rd2, [to]; cvt.u32.u64 %r1, %rd2;\n" code              \
    "\nDONE:\nret;\n}\n"

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n" KERNEL(
    "set", ".loc 1 10 1\nst.release.sys.global.u32 [%rd1], %r1;")   /* */
    KERNEL("set_plain", "st.global.u32 [%rd1], %r1;")               /* */
    KERNEL("set_long", "st.volatile.global.u64 [%rd1], %rd2;")      /* */
    KERNEL("swap_in", "atom.sys.global.exch.b32 %r2, [%rd1], %r1;") /* */
    KERNEL("join_bit", "red.sys.global.or.b32 [%rd1], %r1;")        /* */
    KERNEL("wait", "WAIT:\n.loc 1 20 1\nld.acquire.sys.global.u32 %r2, [%rd1];\n"
                   "setp.ne.u32 %p1, %r2, %r1; @%p1 bra WAIT;") /* */
    KERNEL("wait_as_many", "WAIT:\nld.relaxed.sys.global.u32 %r2, [%rd1];\n"
                           "setp.lt.s32 %p1, %r2, %r1; @%p1 bra WAIT;") /* */
    KERNEL("wait_long", "WAIT:\nld.volatile.global.u64 %rd3, [%rd1];\n"
                        "setp.eq.s64 %p1, %rd3, %rd2; @!%p1 bra WAIT;") /* */
    KERNEL("wait_asleep", "WAIT:\nld.acquire.sys.global.u32 %r2, [%rd1];\n"
                          "setp.eq.u32 %p1, %r1, %r2; @%p1 bra DONE; nanosleep.u32 100;\n"
                          "bra WAIT;") /* */
    KERNEL("wait_for_each", "mov.u32 %r3, 0;\nNEXT:\nWAIT:\n"
                            "ld.acquire.sys.global.u32 %r2, [%rd1];\n"
                            "setp.ne.u32 %p1, %r2, %r1; @%p1 bra WAIT;\n"
                            "add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 2; @%p2 bra NEXT;") /* */
    KERNEL("read", "ld.acquire.sys.global.u32 %r2, [%rd1];\n"
                   "setp.ne.u32 %p1, %r2, %r1; @%p1 bra DONE;") /* */
    KERNEL("wait_unless", "add.u64 %rd3, %rd1, 4;\nWAIT:\n"
                          "ld.acquire.sys.global.u32 %r2, [%rd1];\n" /* goes on where it is 1 */
                          "setp.ne.u32 %p1, %r2, 1; @%p1 bra DONE;\n"
                          "ld.acquire.sys.global.u32 %r3, [%rd3];\n"
                          "setp.ne.u32 %p2, %r3, %r1; @%p2 bra WAIT;");

struct step {
    const char *kernel; /* NULL: the end */
    uint64_t value;
    int rank;
    uint32_t call;
    bool is_beside; /* begins with the next one */
    uint64_t offset_bytes;
};

/* By kernel, value, rank and call. */
#define STEP(...) STEP_OF(__VA_ARGS__, )
#define STEP_OF(name, what, who, when, ...)                                                        \
    {                                                                                              \
        .kernel = (name), .value = (what), .rank = (who), .call = (when), __VA_ARGS__              \
    }
#define BESIDE(...) STEP_OF(__VA_ARGS__, .is_beside = true)
#define BEHIND(...) STEP_OF(__VA_ARGS__, .offset_bytes = 4)
#define STEPS(...)                                                                                 \
    (struct step[STEPS_MAX])                                                                       \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

enum { STEPS_MAX = 8 };

/* Runs the steps one after the other; the caller releases the result. */
static void run(const struct step *steps, struct result *result)
{
    static const struct simulation_options two_ranks = {.ranks = 2, .seed = 3};
    struct simulation simulation;
    void *host = NULL;

    simulation_open(&simulation, &two_ranks, ptx);
    uint64_t address = simulation_memory(&simulation, 1, 64, &host);
    for (int i = 0; steps[i].kernel; i++) {
        uint64_t params[] = {address + steps[i].offset_bytes, steps[i].value};
        simulation_launch(&simulation, &(struct simulation_launch){.kernel = steps[i].kernel,
                                                                   .rank = steps[i].rank,
                                                                   .call = steps[i].call,
                                                                   .threads = 1,
                                                                   .params = params});
        if (!steps[i].is_beside) {
            simulation_check(&simulation);
        }
    }
    *result = (struct result){.rank = -1};
    engine_report(simulation.engine, result);
    simulation_close(&simulation);
}

static void finds_nothing(const struct step *steps)
{
    struct result result;

    run(steps, &result);
    if (result.finding_count) {
        fail_msg("%s", result.findings[0].message);
    }
    result_release(&result);
}

static void finds(const struct step *steps, const char *text)
{
    struct result result;

    run(steps, &result);
    assert_int_equal(result.finding_count, 1);
    assert_string_equal(result.findings[0].kind, "signal_pads_not_reset");
    assert_int_equal(result.findings[0].rank, 1);
    if (strstr(result.findings[0].message, text) == NULL) {
        fail_msg("'%s' is not in '%s'", text, result.findings[0].message);
    }
    result_release(&result);
}

/* A flag that stays: set in call 0, waited for in call 1 before it is set there. */
static void finds_pair(const char *set, const char *wait)
{
    finds(STEPS(STEP(set, 1, 0, 0), STEP(wait, 1, 1, 0), STEP(wait, 1, 1, 1), STEP(set, 1, 0, 1)),
          "left there in pkb_run 1; in pkb_run 2, for which it was to wait, rank 0 wrote 1 only");
}

static void test_a_wait_that_an_earlier_call_ended_is_a_finding(void **state)
{
    (void)state;
    finds_pair("set", "wait");
    finds(STEPS(STEP("set", 5, 0, 2), STEP("wait", 5, 1, 7), STEP("set", 5, 0, 7)),
          "the wait of wait for rank 1 allocation 0+0 (block 0, warp 0, lane 0) was ended by the 5 "
          "that rank 0 (kernel set");
}

static void test_loops_of_all_forms_are_waits(void **state)
{
    (void)state;
    finds_pair("set", "wait_as_many");
    finds_pair("set", "wait_asleep");
    finds_pair("set", "wait_for_each");
    finds_pair("set_long", "wait_long");
    finds_pair("swap_in", "wait");
    finds_pair("join_bit", "wait");
}

static void test_a_line_is_told_once(void **state)
{
    (void)state;
    finds(STEPS(STEP("set", 1, 0, 0), STEP("wait", 1, 1, 1), STEP("set", 1, 0, 1),
                STEP("wait", 1, 1, 2), STEP("set", 1, 0, 2)),
          "in pkb_run 2,");
}

static void test_flags_that_count_toggle_or_are_reset_are_none(void **state)
{
    (void)state;
    finds_nothing(STEPS(STEP("set", 1, 0, 0), STEP("wait_as_many", 1, 1, 0),
                        BESIDE("wait_as_many", 2, 1, 1), STEP("set", 2, 0, 1)));
    finds_nothing(STEPS(STEP("set", 1, 0, 0), STEP("wait", 1, 1, 0), BESIDE("wait", 0, 1, 1),
                        STEP("set", 0, 0, 1), BESIDE("wait", 1, 1, 2), STEP("set", 1, 0, 2)));
    finds_nothing(STEPS(STEP("set", 1, 0, 0), STEP("wait", 1, 1, 0), STEP("set", 0, 1, 0),
                        BESIDE("wait", 1, 1, 1), STEP("set", 1, 0, 1)));
}

static void test_a_place_that_is_awaited_free_is_none(void **state)
{
    (void)state;
    /* Rank 1 finds the place free, as rank 0 left it in the call before, and fills it. */
    finds_nothing(STEPS(STEP("set", 1, 1, 0), STEP("set", 0, 0, 0), STEP("wait", 0, 1, 1),
                        STEP("set", 1, 1, 1), STEP("set", 0, 0, 1)));
}

static void test_a_flag_that_is_set_once_for_all_calls_is_none(void **state)
{
    (void)state;
    finds_nothing(STEPS(STEP("set", 1, 0, 0), STEP("wait", 1, 1, 0), STEP("wait", 1, 1, 1)));
    /* Set twice in one call, waited for between. */
    finds_nothing(STEPS(STEP("set", 1, 0, 0), STEP("set", 1, 0, 1), STEP("wait", 1, 1, 1),
                        STEP("set", 1, 0, 1)));
    /* In a later call than the wait. */
    finds_nothing(STEPS(STEP("set", 1, 0, 0), STEP("wait", 1, 1, 1), STEP("set", 1, 0, 2)));
}

static void test_a_look_that_ends_no_wait_is_none(void **state)
{
    (void)state;
    finds_nothing(STEPS(STEP("set", 1, 0, 0), STEP("read", 1, 1, 1), STEP("set", 1, 0, 1)));
    /* A flag for giving up, looked at in a wait for another one. */
    finds_nothing(STEPS(STEP("set", 1, 0, 0), BEHIND("set", 2, 1, 0), STEP("wait_unless", 2, 1, 1),
                        STEP("set", 1, 0, 1)));
    /* A rank's own flag. */
    finds_nothing(STEPS(STEP("set", 1, 1, 0), STEP("wait", 1, 1, 1), STEP("set", 1, 1, 1)));
}

static void test_what_another_wrote_meanwhile_is_none(void **state)
{
    (void)state;
    finds_nothing(STEPS(STEP("set", 1, 0, 0), STEP("wait", 1, 1, 1), STEP("set_plain", 0, 1, 1),
                        STEP("set_plain", 1, 1, 1), STEP("set", 1, 0, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_that_an_earlier_call_ended_is_a_finding),
        cmocka_unit_test(test_loops_of_all_forms_are_waits),
        cmocka_unit_test(test_a_line_is_told_once),
        cmocka_unit_test(test_flags_that_count_toggle_or_are_reset_are_none),
        cmocka_unit_test(test_a_place_that_is_awaited_free_is_none),
        cmocka_unit_test(test_a_flag_that_is_set_once_for_all_calls_is_none),
        cmocka_unit_test(test_a_look_that_ends_no_wait_is_none),
        cmocka_unit_test(test_what_another_wrote_meanwhile_is_none),
    };

    return cmocka_run_group_tests_name("stale", tests, NULL, NULL);
}
