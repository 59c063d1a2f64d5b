/* What lanes tell each other: shuffles, votes, matches, reductions, also after they diverged. */
#include "tests/simulation.h"

#define HEADER ".version 8.0\n.target sm_90\n.address_size 64\n"

static const struct simulation_options one_rank = {.ranks = 1, .seed = 1};

enum { PROLOGUE_MAX = 4096, LANES = 32, RESULT_BYTES = 128 };

/* Runs `code` on one warp: %r1 is the lane, %r2 its value (lane * 7 + 3); stores %d. */
static void run(const char *code, uint32_t result[LANES])
{
    char text[PROLOGUE_MAX];
    struct simulation simulation;
    uint32_t *out;

    (void)snprintf(text, sizeof(text),
                   HEADER
                   ".visible .entry run(.param .u64 out)\n{\n"
                   ".reg .pred %%p<9>; .reg .b32 %%r<20>; .reg .b32 %%d; .reg .b64 %%rd<9>;\n"
                   "mov.u32 %%r1, %%laneid;\nmad.lo.u32 %%r2, %%r1, 7, 3;\nmov.u32 %%d, 0;\n"
                   "%s\nld.param.u64 %%rd1, [out];\nmad.wide.u32 %%rd2, %%r1, 4, %%rd1;\n"
                   "st.global.u32 [%%rd2], %%d;\nret;\n}\n",
                   code);
    simulation_open(&simulation, &one_rank, text);
    uint64_t address = simulation_memory(&simulation, 0, RESULT_BYTES, (void **)&out);
    simulation_launch(&simulation,
                      &(struct simulation_launch){.kernel = "run", .params = &address});
    simulation_check(&simulation);
    memcpy(result, out, RESULT_BYTES);
    simulation_close(&simulation);
}

static uint32_t value_of(uint32_t lane)
{
    return lane * 7 + 3;
}

static void test_shuffles_read_the_lane_that_the_mode_says(void **state)
{
    uint32_t result[LANES];

    (void)state;
    run("shfl.sync.bfly.b32 %d|%p1, %r2, 5, 31, -1;", result);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(result[i], value_of(i ^ 5));
    }
    run("shfl.sync.down.b32 %d|%p1, %r2, 4, 31, -1; @!%p1 mov.u32 %d, 99999;", result);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(result[i], i + 4 < LANES ? value_of(i + 4) : 99999);
    }
    run("shfl.sync.up.b32 %d|%p1, %r2, 3, 0, -1; @!%p1 mov.u32 %d, 99999;", result);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(result[i], i >= 3 ? value_of(i - 3) : 99999);
    }
    /* Four teams of eight: c is 31 & ~7 as segment, 7 as the highest. */
    run("shfl.sync.idx.b32 %d, %r2, 2, 0x181f, -1;", result);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(result[i], value_of((i & 24) | 2));
    }
}

static void test_votes_count_the_lanes_that_take_part(void **state)
{
    uint32_t result[LANES];

    (void)state;
    run("setp.gt.u32 %p1, %r1, 20; vote.sync.ballot.b32 %d, %p1, -1;", result);
    assert_int_equal(result[0], 0xffe00000);
    run("setp.gt.u32 %p1, %r1, 20; vote.sync.any.pred %p2, %p1, -1; selp.b32 %d, 1, 0, %p2;",
        result);
    assert_int_equal(result[9], 1);
    run("setp.gt.u32 %p1, %r1, 20; vote.sync.all.pred %p2, %p1, -1; selp.b32 %d, 1, 0, %p2;",
        result);
    assert_int_equal(result[9], 0);
    run("setp.lt.u32 %p1, %r1, 8; @!%p1 bra OUT; setp.lt.u32 %p2, %r1, 9;\n"
        "vote.sync.all.pred %p3, %p2, 0xff; selp.b32 %d, 1, 0, %p3; OUT:",
        result);
    assert_int_equal(result[7], 1);
    assert_int_equal(result[8], 0);
    run("activemask.b32 %d;", result);
    assert_int_equal(result[31], 0xffffffff);
}

static void test_lanes_with_one_value_are_matched(void **state)
{
    uint32_t result[LANES];

    (void)state;
    run("and.b32 %r3, %r1, 3; match.any.sync.b32 %d, %r3, -1;", result);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(result[i], 0x11111111u << (i & 3));
    }
    run("match.all.sync.b32 %d|%p1, %r1, -1; @%p1 mov.u32 %d, 7;", result);
    assert_int_equal(result[3], 0);
}

static void test_redux_reduces_over_the_members(void **state)
{
    uint32_t result[LANES];

    (void)state;
    run("redux.sync.add.u32 %d, %r2, -1;", result);
    assert_int_equal(result[17], 7 * 496 + 96);
    run("neg.s32 %r3, %r2; redux.sync.min.s32 %d, %r3, -1;", result);
    assert_int_equal(result[17], (uint32_t)-220);
    run("redux.sync.xor.b32 %d, %r1, -1;", result);
    assert_int_equal(result[0], 0);
}

static void test_lanes_that_diverged_meet_at_a_shuffle(void **state)
{
    uint32_t result[LANES];

    (void)state;
    /* Odd lanes take a longer way; the shuffle waits for them. */
    run("and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra MEET;\n"
        "mov.u32 %r4, 0;\nAGAIN: add.u32 %r2, %r2, 1; add.u32 %r4, %r4, 1;\n"
        "setp.lt.u32 %p2, %r4, %r1; @%p2 bra AGAIN;\n"
        "MEET: shfl.sync.bfly.b32 %d, %r2, 1, 31, -1;",
        result);
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t other = i ^ 1;
        assert_int_equal(result[i], value_of(other) + (other & 1 ? other : 0));
    }
}

static void test_lanes_meet_in_bar_warp_at_different_places(void **state)
{
    uint32_t result[LANES];

    (void)state;
    run(".shared .align 4 .b8 words[128]; mov.u32 %r5, words; mad.lo.u32 %r6, %r1, 4, %r5;\n"
        "st.shared.u32 [%r6], %r2; xor.b32 %r7, %r1, 1; mad.lo.u32 %r7, %r7, 4, %r5;\n"
        "and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra EVEN;\n"
        "bar.warp.sync -1; ld.shared.u32 %d, [%r7]; bra DONE;\n"
        "EVEN: add.u32 %r2, %r2, 1; st.shared.u32 [%r6], %r2; bar.warp.sync -1;\n"
        "ld.shared.u32 %d, [%r7]; DONE:",
        result);
    for (uint32_t i = 0; i < LANES; i++) {
        uint32_t other = i ^ 1;
        assert_int_equal(result[i], value_of(other) + !(other & 1));
    }
}

static void test_teams_of_one_warp_each_have_their_mask(void **state)
{
    uint32_t result[LANES];

    (void)state;
    run("and.b32 %r3, %r1, 24; mov.u32 %r4, 0xff; shl.b32 %r4, %r4, %r3;\n"
        "redux.sync.add.u32 %d, %r1, %r4;",
        result);
    for (uint32_t i = 0; i < LANES; i++) {
        assert_int_equal(result[i], 8 * (i & 24) + 28);
    }
}

static void test_lanes_that_ended_are_not_waited_for(void **state)
{
    uint32_t result[LANES];

    (void)state;
    run("setp.gt.u32 %p1, %r1, 15; @%p1 exit; redux.sync.add.u32 %d, %r1, -1;", result);
    assert_int_equal(result[0], 120);
    assert_int_equal(result[20], 0);
}

static void test_lanes_that_never_meet_are_stuck(void **state)
{
    static const char never_ptx[] =
        HEADER ".visible .entry never()\n{\n.reg .pred %p; .reg .b32 %r<9>;\n"
               "mov.u32 %r1, %laneid; setp.gt.u32 %p, %r1, 15; @%p bra OTHER;\n"
               "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; ret;\n"
               "OTHER: bar.warp.sync -1; ret;\n}\n";
    struct simulation simulation;
    struct wait *waits = NULL;
    size_t count = 0;

    (void)state;
    simulation_open(&simulation, &one_rank, never_ptx);
    simulation_launch(&simulation, &(struct simulation_launch){.kernel = "never"});
    assert_int_equal(simulation_run(&simulation), ENGINE_STUCK);
    engine_waits(simulation.engine, &waits, &count);
    assert_true(count >= 1);
    assert_string_equal(waits[0].wanted, "lanes 0xffffffff");
    for (size_t i = 0; i < count; i++) {
        wait_release(&waits[i]);
    }
    free(waits);
    simulation_close(&simulation);
}

static void test_a_shuffle_from_a_lane_that_is_not_there_is_a_finding(void **state)
{
    static const char outside_ptx[] =
        HEADER ".visible .entry outside()\n{\n.reg .pred %p; .reg .b32 %r<9>;\n"
               "mov.u32 %r1, %laneid; setp.gt.u32 %p, %r1, 15; @%p bra OUT;\n"
               "shfl.sync.idx.b32 %r2, %r1, 20, 31, 0xffff;\nOUT: ret;\n}\n";
    struct simulation simulation;
    struct result result = {.rank = -1};

    (void)state;
    simulation_open(&simulation, &one_rank, outside_ptx);
    simulation_launch(&simulation, &(struct simulation_launch){.kernel = "outside"});
    simulation_check(&simulation);
    engine_report(simulation.engine, &result);
    assert_int_equal(result.finding_count, 1);
    assert_string_equal(result.findings[0].kind, "shfl_mask");
    result_release(&result);
    simulation_close(&simulation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shuffles_read_the_lane_that_the_mode_says),
        cmocka_unit_test(test_votes_count_the_lanes_that_take_part),
        cmocka_unit_test(test_lanes_with_one_value_are_matched),
        cmocka_unit_test(test_redux_reduces_over_the_members),
        cmocka_unit_test(test_lanes_that_diverged_meet_at_a_shuffle),
        cmocka_unit_test(test_lanes_meet_in_bar_warp_at_different_places),
        cmocka_unit_test(test_teams_of_one_warp_each_have_their_mask),
        cmocka_unit_test(test_lanes_that_ended_are_not_waited_for),
        cmocka_unit_test(test_lanes_that_never_meet_are_stuck),
        cmocka_unit_test(test_a_shuffle_from_a_lane_that_is_not_there_is_a_finding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
