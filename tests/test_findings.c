/* What the interpreter notes that hardware leaves undefined: reads of what nobody wrote, barriers
 * and member masks that do not fit. */
#include "tests/simulation.h"

#define HEADER ".version 8.0\n.target sm_90\n.address_size 64\n"

static const struct simulation_options one_rank = {.ranks = 1, .seed = 1};

enum { TEXT_MAX = 4096 };

struct example {
    const char *code; /* %rd1: 256 bytes of undefined memory; %r1: the thread */
    const char *kind; /* NULL: no finding */
    const char *message;
    bool is_stuck;
};

/* Memory as cudaMalloc gives it. */
static uint64_t undefined_memory(struct simulation *simulation)
{
    static uint8_t bytes[256];
    struct mapping mapping = {.address = 0x300000000000u,
                              .size_bytes = sizeof(bytes),
                              .host = bytes,
                              .owner = 0,
                              .access = MAP_READ | MAP_WRITE,
                              .allocation = 7,
                              .starts_undefined = true,
                              .label = ""};
    struct error err = {0};

    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(space_map(simulation->spaces[0], &mapping, &err), OK);
    return mapping.address;
}

/* Runs the code on a CTA of 64 threads, twice, and looks at the findings. */
static void check(const struct example *example)
{
    char text[TEXT_MAX];
    struct simulation simulation;
    struct result result = {.rank = -1};

    (void)snprintf(text, sizeof(text),
                   HEADER ".visible .entry run(.param .u64 in)\n{\n"
                          ".reg .pred %%p<9>; .reg .b32 %%r<20>; .reg .b64 %%rd<9>;\n"
                          ".shared .align 16 .b8 shared[512]; .local .align 16 .b8 own[64];\n"
                          "ld.param.u64 %%rd1, [in]; mov.u32 %%r1, %%tid.x;\n"
                          "mov.u32 %%r2, shared; setp.lt.u32 %%p1, %%r1, 32;\n%s\nret;\n}\n",
                   example->code);
    simulation_open(&simulation, &one_rank, text);
    uint64_t address = undefined_memory(&simulation);
    for (int i = 0; i < 2; i++) {
        simulation_launch(&simulation, &(struct simulation_launch){
                                           .kernel = "run", .threads = 64, .params = &address});
    }
    enum engine_outcome outcome = simulation_run(&simulation);
    assert_int_equal(outcome, example->is_stuck ? ENGINE_STUCK : ENGINE_IDLE);
    if (example->is_stuck) {
        struct wait *waits = NULL;
        size_t count = 0;
        engine_waits(simulation.engine, &waits, &count);
        for (size_t i = 0; i < count; i++) {
            wait_release(&waits[i]);
        }
        free(waits);
    }
    engine_report(simulation.engine, &result);
    if (example->kind == NULL) {
        assert_int_equal(result.finding_count, 0);
    } else {
        assert_int_equal(result.finding_count, 1);
        assert_string_equal(result.findings[0].kind, example->kind);
        assert_int_equal(result.findings[0].rank, 0);
        if (strstr(result.findings[0].message, example->message) == NULL) {
            fail_msg("'%s' is not in '%s'", example->message, result.findings[0].message);
        }
    }
    result_release(&result);
    simulation_close(&simulation);
}

static void finds(const char *code, const char *kind, const char *message)
{
    check(&(struct example){.code = code, .kind = kind, .message = message});
}

static void finds_nothing(const char *code)
{
    check(&(struct example){.code = code});
}

static void test_a_read_of_global_memory_that_nobody_wrote_is_a_finding(void **state)
{
    (void)state;
    finds("ld.global.u32 %r3, [%rd1+64];", "uninitialised_read", "rank 0 allocation 7+64 (block 0");
    finds("mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; @%p1 st.global.u32 [%rd3], %r1;\n"
          "bar.sync 0; ld.global.u32 %r3, [%rd3];",
          "uninitialised_read", "allocation 7+128 (block 0, warp 1, lane 0)");
    finds("atom.global.add.u32 %r3, [%rd1+8], 1;", "uninitialised_read", "allocation 7+8 ");
    finds("and.b32 %r3, %r1, 3; mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd1, %rd2;\n"
          "st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+8], %r1; ld.global.u32 %r4, [%rd3];",
          "uninitialised_read", "allocation 7+4 ");
}

static void test_what_was_written_is_defined_whatever_it_is(void **state)
{
    (void)state;
    finds_nothing("mov.u32 %r3, 0; st.global.u32 [%rd1], %r3; ld.global.u32 %r4, [%rd1];"
                  "atom.global.add.u32 %r3, [%rd1], 0; ld.global.u8 %r4, [%rd1+3];");
    finds("atom.global.exch.b32 %r3, [%rd1], 0;", "uninitialised_read", "allocation 7+0 ");
    finds_nothing(
        "cvt.u64.u32 %rd2, %r1; st.global.u64 [%rd1+16], %rd2; ld.global.v2.u32 {%r3, %r4}, "
        "[%rd1+16]; st.shared.u32 [shared+4], %r1; bar.sync 0; ld.shared.u32 %r3, [shared+4];");
}

static void test_shared_and_local_memory_start_undefined(void **state)
{
    (void)state;
    finds("ld.shared.u32 %r3, [shared+4];", "uninitialised_read", "shared+4 (block 0");
    finds("ld.shared.u16 %r3, [shared+6];", "uninitialised_read", "shared+6 ");
    finds_nothing("mov.u32 %r3, 9; st.shared.u8 [shared+6], %r3; bar.sync 0; ld.shared.u8 %r3, "
                  "[shared+7];"); /* by words of four bytes */
    finds("shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; @%p1 st.shared.u32 [%r3], %r1; bar.sync 0;\n"
          "ld.shared.u32 %r4, [%r3];",
          "uninitialised_read", "shared+128 (block 0, warp 1, lane 0)");
    finds("atom.shared.add.u32 %r3, [shared+12], 1;", "uninitialised_read", "shared+12 ");
    finds("st.local.u32 [own], %r1; ld.local.u32 %r3, [own+4];", "uninitialised_read", "local+4 ");
    finds_nothing("st.local.v2.u32 [own], {%r1, %r1}; ld.local.u32 %r3, [own+4];");
    finds("mov.u64 %rd2, shared; cvta.shared.u64 %rd2, %rd2; ld.u32 %r3, [%rd2+8];",
          "uninitialised_read", "shared+8 ");
}

static void test_threads_that_meet_in_different_barriers_are_a_finding(void **state)
{
    (void)state;
    finds(".loc 1 10 1\n@%p1 bra ONE;\nbar.sync 0;\nbra DONE;\n.loc 1 20 1\nONE:\nbar.sync 0;\n"
          "DONE:",
          "barrier_divergence", "threads of a block meet in barriers");
    finds("and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 1;\n.loc 1 10 1\n@%p2 bra ONE;\n"
          "bar.sync 1, 64;\nbra DONE;\n.loc 1 20 1\nONE:\nbar.sync 1, 64;\nDONE:",
          "barrier_divergence", "threads of a block meet in barriers");
    finds_nothing(".loc 1 10 1\n@%p1 bra ONE;\nbar.sync 1, 64;\nbra DONE;\n.loc 1 20 1\nONE:\n"
                  "bar.sync 1, 64;\nDONE:"); /* warps may agree on a count */
    check(
        &(struct example){.code = "@%p1 bra ONE;\nbar.sync 1;\nbra DONE;\nONE:\nbar.sync 2;\nDONE:",
                          .kind = "barrier_divergence",
                          .message = "threads of a block wait in different barriers",
                          .is_stuck = true});
    finds("@%p1 bra ONE;\nbar.arrive 1, 96;\nbar.sync 1, 64;\nbra DONE;\nONE:\nDONE:",
          "barrier_divergence", "another count of threads");
    finds_nothing("bar.sync 0; @%p1 bra DONE; bar.sync 0; DONE:"); /* the others have exited */
}

static void test_member_masks_that_do_not_fit_are_findings(void **state)
{
    (void)state;
    finds("setp.eq.u32 %p2, %r1, 3; @%p2 bra DONE; @!%p1 bra DONE;\n"
          "vote.sync.ballot.b32 %r3, %p1, 0xf; DONE:",
          "member_mask", "lanes 0xfffffff0 name the mask 0xf, in which they are not");
    finds("and.b32 %r3, %r1, 1; mov.u32 %r4, -1; setp.eq.u32 %p2, %r3, 1; selp.b32 %r4, "
          "0xaaaaaaaa, %r4, %p2; shfl.sync.bfly.b32 %r5, %r1, 0, 31, %r4;",
          "member_mask", "lanes 0x55555555 name the mask 0xffffffff, but lanes 0xaaaaaaaa");
    finds_nothing(
        "and.b32 %r3, %r1, 16; mov.u32 %r4, 0xffff; shl.b32 %r4, %r4, %r3;\n"
        "redux.sync.add.u32 %r5, %r1, %r4; match.any.sync.b32 %r6, %r1, %r4;"); /* two teams, each
                                                                                   of one mask */
    finds_nothing("setp.gt.u32 %p2, %r1, 47; @%p2 bra DONE; vote.sync.ballot.b32 %r3, %p1, -1; "
                  "DONE:"); /* lanes that exited may be named */
    finds("shfl.sync.idx.b32 %r3, %r1, 20, 31, 0xffff;", "member_mask", "in which they are not");
}

static void test_residency_is_no_cause_of_a_wait_that_nothing_ends(void **state)
{
    static const char endless_ptx[] =
        HEADER ".visible .entry endless(.param .u64 in)\n{\n"
               ".reg .pred %p1; .reg .b32 %r1; .reg .b64 %rd1;\nld.param.u64 %rd1, [in];\n"
               "WAIT:\nld.volatile.global.u32 %r1, [%rd1];\nsetp.eq.u32 %p1, %r1, 0;\n"
               "@%p1 bra WAIT;\nret;\n}\n";
    struct simulation simulation;
    void *word = NULL;

    (void)state;
    simulation_open(&simulation, &one_rank, endless_ptx);
    uint64_t address = simulation_memory(&simulation, 0, 64, &word);
    simulation_launch(&simulation,
                      &(struct simulation_launch){
                          .kernel = "endless", .ctas = 9, .threads = 1024, .params = &address});
    assert_int_equal(simulation_run(&simulation), ENGINE_STUCK);
    assert_null(engine_residency(simulation.engine));
    simulation_close(&simulation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_of_global_memory_that_nobody_wrote_is_a_finding),
        cmocka_unit_test(test_what_was_written_is_defined_whatever_it_is),
        cmocka_unit_test(test_shared_and_local_memory_start_undefined),
        cmocka_unit_test(test_threads_that_meet_in_different_barriers_are_a_finding),
        cmocka_unit_test(test_member_masks_that_do_not_fit_are_findings),
        cmocka_unit_test(test_residency_is_no_cause_of_a_wait_that_nothing_ends),
    };

    return cmocka_run_group_tests_name("findings", tests, NULL, NULL);
}
