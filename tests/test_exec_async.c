/* cp.async: what it copies is seen when the thread has waited for its group, and not before. */
#include "tests/simulation.h"

#define SHOWN "ld.shared.u32 %r5, [%r3]; st.global.u32 [%rd2], %r5;\n"
#define SHOWN_AGAIN "ld.shared.u32 %r6, [%r3+128]; st.global.u32 [%rd2+128], %r6;\n"

enum { WORDS = 128 };

/* What a CTA finds in its shared memory. */
#define UNTOUCHED UINT32_C(0xffedffed)

/* Lane i copies word i to `words`, word 32 + i behind it, and shows what lies there. */
static void run(const char *body, uint32_t shown[WORDS])
{
    char text[4096];
    struct simulation simulation;
    struct simulation_options options = {.ranks = 1, .seed = 1};
    uint32_t *from = NULL;
    uint32_t *to = NULL;
    uint64_t params[2];

    (void)snprintf(text, sizeof(text),
                   ".version 8.0\n.target sm_90\n.address_size 64\n"
                   ".visible .entry k(.param .u64 from, .param .u64 to)\n{\n"
                   ".reg .pred %%p<3>; .reg .b32 %%r<9>; .reg .b64 %%rd<5>;\n"
                   ".shared .align 16 .b8 words[512];\n"
                   "ld.param.u64 %%rd1, [from]; ld.param.u64 %%rd2, [to]; mov.u32 %%r1, %%tid.x;\n"
                   "mul.wide.u32 %%rd3, %%r1, 4; add.u64 %%rd1, %%rd1, %%rd3;\n"
                   "add.u64 %%rd2, %%rd2, %%rd3; mov.u32 %%r2, words;\n"
                   "mad.lo.u32 %%r3, %%r1, 4, %%r2; setp.lt.u32 %%p1, %%r1, 16;\n%s\nret;\n}\n",
                   body);
    simulation_open(&simulation, &options, text);
    params[0] = simulation_memory(&simulation, 0, UINT64_C(4) * WORDS, (void **)&from);
    params[1] = simulation_memory(&simulation, 0, UINT64_C(4) * WORDS, (void **)&to);
    for (uint32_t i = 0; i < WORDS; i++) {
        from[i] = i + 1;
    }
    simulation_launch(&simulation, &(struct simulation_launch){.kernel = "k", .params = params});
    simulation_check(&simulation);
    memcpy(shown, to, WORDS * sizeof(*shown));
    simulation_close(&simulation);
}

static void check(const uint32_t *shown, uint32_t first, bool is_there)
{
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(shown[i], is_there ? first + i : UNTOUCHED);
    }
}

#define COPY "cp.async.ca.shared.global [%r3], [%rd1], 4;\n"
#define COPY_NEXT "cp.async.ca.shared.global [%r3+128], [%rd1+128], 4;\n"
#define COMMIT "cp.async.commit_group;\n"

static void test_a_read_before_the_wait_sees_what_was_there(void **state)
{
    uint32_t shown[WORDS];

    (void)state;
    run(COPY COMMIT SHOWN, shown);
    check(shown, 1, false);
    run(COPY COMMIT "bar.sync 0;\n" SHOWN, shown);
    check(shown, 1, false);
    run(COPY COMMIT "cp.async.wait_group 0;\n" SHOWN, shown);
    check(shown, 1, true);
}

static void test_a_wait_leaves_the_last_groups_on_their_way(void **state)
{
    uint32_t shown[WORDS];

    (void)state;
    run(COPY COMMIT COPY_NEXT COMMIT "cp.async.wait_group 1;\n" SHOWN SHOWN_AGAIN, shown);
    check(shown, 1, true);
    check(shown + 32, 33, false);
    run(COPY COMMIT COPY_NEXT COMMIT "cp.async.wait_group 2;\n" SHOWN SHOWN_AGAIN, shown);
    check(shown, 1, false);
    check(shown + 32, 33, false);
    run(COPY COMMIT COPY_NEXT COMMIT "cp.async.wait_group 0;\n" SHOWN SHOWN_AGAIN, shown);
    check(shown, 1, true);
    check(shown + 32, 33, true);
}

static void test_only_wait_all_waits_for_what_no_group_holds(void **state)
{
    uint32_t shown[WORDS];

    (void)state;
    run(COPY COMMIT COPY_NEXT "cp.async.wait_group 0;\n" SHOWN SHOWN_AGAIN, shown);
    check(shown, 1, true);
    check(shown + 32, 33, false);
    run(COPY COMMIT COPY_NEXT "cp.async.wait_all;\n" SHOWN SHOWN_AGAIN, shown);
    check(shown, 1, true);
    check(shown + 32, 33, true);
}

static void test_a_thread_waits_for_its_own_copies_only(void **state)
{
    uint32_t shown[WORDS];

    (void)state;
    run(COPY COMMIT "@%p1 cp.async.wait_group 0;\nbar.sync 0;\n" SHOWN, shown);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(shown[i], i < 16 ? i + 1 : UNTOUCHED);
    }
    /* A lane's groups are counted by what it committed itself. */
    run(COPY COMMIT "@%p1 cp.async.commit_group;\ncp.async.wait_group 1;\n" SHOWN, shown);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(shown[i], i < 16 ? i + 1 : UNTOUCHED);
    }
}

static void test_a_copy_holds_what_its_source_was_when_it_was_issued(void **state)
{
    uint32_t shown[WORDS];

    (void)state;
    run(COPY COMMIT "st.global.u32 [%rd1], 0;\ncp.async.wait_all;\n" SHOWN, shown);
    check(shown, 1, true);
}

static void test_copies_that_nobody_waits_for_end_with_the_thread(void **state)
{
    uint32_t shown[WORDS];

    (void)state;
    run("mov.u32 %r8, 0; AGAIN:\n" COPY "add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 40000;\n"
        "@%p2 bra AGAIN;\n" SHOWN,
        shown);
    check(shown, 1, true); /* so many that some land before */
    run(COPY "st.global.u32 [%rd2], 7;", shown);
    assert_int_equal(shown[3], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_before_the_wait_sees_what_was_there),
        cmocka_unit_test(test_a_wait_leaves_the_last_groups_on_their_way),
        cmocka_unit_test(test_only_wait_all_waits_for_what_no_group_holds),
        cmocka_unit_test(test_a_thread_waits_for_its_own_copies_only),
        cmocka_unit_test(test_a_copy_holds_what_its_source_was_when_it_was_issued),
        cmocka_unit_test(test_copies_that_nobody_waits_for_end_with_the_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
