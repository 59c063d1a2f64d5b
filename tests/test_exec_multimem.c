/* Multicast memory: reductions over and stores to all replicas; and copies that are asynchronous.
 */
#include "tests/simulation.h"

#define HEADER ".version 8.1\n.target sm_90\n.address_size 64\n"

static const struct simulation_options two_ranks = {.ranks = 2, .seed = 1};

enum { WORDS = 128 };
static const uint64_t multicast_address = 0x400000000000u;

/* Two replicas of WORDS words, mapped together at multicast_address on rank 0. */
struct replicas {
    struct simulation simulation;
    uint32_t *words[2];
    uint32_t *out;
    uint64_t out_address;
};

static void open_replicas(struct replicas *replicas, const char *code)
{
    char text[2048];
    struct error err = {0};

    (void)snprintf(text, sizeof(text),
                   HEADER ".visible .entry run(.param .u64 all, .param .u64 out)\n{\n"
                          ".reg .b32 %%r<9>; .reg .b64 %%rd<9>; .reg .f32 %%f<9>;\n"
                          "ld.param.u64 %%rd1, [all];\nld.param.u64 %%rd2, [out];\n"
                          "mov.u32 %%r1, %%laneid;\nmad.wide.u32 %%rd3, %%r1, 16, %%rd1;\n"
                          "mad.wide.u32 %%rd4, %%r1, 16, %%rd2;\n%s\nret;\n}\n",
                   code);
    simulation_open(&replicas->simulation, &two_ranks, text);
    struct mapping mapping = {.address = multicast_address,
                              .size_bytes = WORDS * sizeof(uint32_t),
                              .owner = -1,
                              .access = MAP_READ | MAP_WRITE,
                              .label = ""};
    for (int i = 0; i < 2; i++) {
        simulation_memory(&replicas->simulation, i, WORDS * sizeof(uint32_t),
                          (void **)&replicas->words[i]);
        mapping.replicas[i] = (uint8_t *)replicas->words[i];
    }
    replicas->out_address = simulation_memory(&replicas->simulation, 0, WORDS * sizeof(uint32_t),
                                              (void **)&replicas->out);
    assert_int_equal(space_map(replicas->simulation.spaces[0], &mapping, &err), OK);
}

static struct grid *launch(struct replicas *replicas)
{
    uint64_t params[2] = {multicast_address, replicas->out_address};

    return simulation_launch(&replicas->simulation,
                             &(struct simulation_launch){.kernel = "run", .params = params});
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void test_a_load_reduces_over_all_replicas_and_is_counted(void **state)
{
    struct replicas replicas;
    struct result result = {.rank = -1};

    (void)state;
    open_replicas(&replicas, "multimem.ld_reduce.relaxed.sys.global.add.v4.f32"
                             " {%f1, %f2, %f3, %f4}, [%rd3];\n"
                             "st.global.v4.f32 [%rd4], {%f1, %f2, %f3, %f4};");
    for (uint32_t i = 0; i < WORDS; i++) {
        replicas.words[0][i] = bits_of((float)i);
        replicas.words[1][i] = bits_of((float)i * 3 + 0.5f);
    }
    launch(&replicas);
    simulation_check(&replicas.simulation);
    for (uint32_t i = 0; i < WORDS; i++) {
        assert_int_equal(replicas.out[i], bits_of((float)i * 4 + 0.5f));
    }
    engine_report(replicas.simulation.engine, &result);
    assert_int_equal(result.traffic_count, 3);
    assert_string_equal(result.traffic[1].mechanism, "multimem_load");
    assert_int_equal(result.traffic[1].bytes, 512);
    assert_int_equal(result.traffic[2].owner, 1);
    assert_int_equal(result.traffic[2].bytes, 512);
    result_release(&result);
    simulation_close(&replicas.simulation);
}

static void test_bf16_pairs_are_summed_in_f32_and_rounded_once(void **state)
{
    struct replicas replicas;

    (void)state;
    open_replicas(&replicas, "multimem.ld_reduce.weak.global.add.acc::f32.v4.bf16x2"
                             " {%r2, %r3, %r4, %r5}, [%rd3];\n"
                             "st.global.v4.u32 [%rd4], {%r2, %r3, %r4, %r5};");
    for (uint32_t i = 0; i < WORDS; i++) {
        replicas.words[0][i] = 0x3f803f80; /* 1 */
        replicas.words[1][i] = 0x3c0040a0; /* 2^-7, 5 */
    }
    launch(&replicas);
    simulation_check(&replicas.simulation);
    assert_int_equal(replicas.out[WORDS - 1], 0x3f8140c0);
    simulation_close(&replicas.simulation);
}

static void test_stores_and_reductions_reach_every_replica(void **state)
{
    struct replicas replicas;

    (void)state;
    open_replicas(&replicas, "multimem.st.relaxed.sys.global.u32 [%rd3], %r1;\n"
                             "multimem.red.relaxed.sys.global.add.u32 [%rd1+4], 1;\n"
                             "multimem.red.release.sys.global.max.s32 [%rd1+8], %r1;");
    for (int i = 0; i < 2; i++) {
        replicas.words[i][1] = 10 * (uint32_t)i;
        replicas.words[i][2] = (uint32_t)-5;
    }
    launch(&replicas);
    simulation_check(&replicas.simulation);
    for (uint32_t i = 0; i < 2; i++) {
        for (size_t lane = 0; lane < 32; lane++) {
            assert_int_equal(replicas.words[i][lane * 4], lane);
        }
        assert_int_equal(replicas.words[i][1], 10 * i + 32);
        assert_int_equal(replicas.words[i][2], 31);
    }
    simulation_close(&replicas.simulation);
}

static void check_fault(const char *code, const char *kind)
{
    struct replicas replicas;
    int cuda_error = 0;

    open_replicas(&replicas, code);
    struct grid *grid = launch(&replicas);
    assert_int_equal(simulation_run(&replicas.simulation), ENGINE_IDLE);
    assert_int_equal(grid_state(grid), GRID_FAULTED);
    assert_string_equal(grid_fault(grid, &cuda_error)->kind, kind);
    simulation_close(&replicas.simulation);
}

static void test_only_multimem_may_use_multicast_memory_and_only_that(void **state)
{
    (void)state;
    check_fault("ld.global.u32 %r2, [%rd1];", "illegal_address");
    check_fault("st.global.u32 [%rd1], %r1;", "illegal_address");
    check_fault("multimem.st.weak.global.u32 [%rd2], %r1;", "illegal_address");
    check_fault("multimem.st.weak.global.u32 [%rd1+512], %r1;", "illegal_address");
    check_fault("multimem.st.weak.global.u64 [%rd1+4], %rd1;", "misaligned_address");
}

static void test_asynchronous_copies_fill_shared_memory(void **state)
{
    struct replicas replicas;

    (void)state;
    open_replicas(&replicas, ".shared .align 16 .b8 words[512];\n"
                             "mov.u32 %r2, words; mad.lo.u32 %r3, %r1, 16, %r2;\n"
                             "and.b32 %r4, %r1, 1; shl.b32 %r4, %r4, 3;\n"
                             "cp.async.cg.shared.global [%r3], [%rd4], 16, %r4;\n"
                             "cp.async.commit_group; cp.async.wait_group 0;\n"
                             "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3];\n"
                             "st.global.v4.u32 [%rd4], {%r8, %r7, %r6, %r5};");
    for (uint32_t i = 0; i < WORDS; i++) {
        replicas.out[i] = i + 1;
    }
    launch(&replicas);
    simulation_check(&replicas.simulation);
    for (size_t lane = 0; lane < 32; lane++) {
        size_t at = lane * 4;
        assert_int_equal(replicas.out[at], 0);
        assert_int_equal(replicas.out[at + 1], 0);
        assert_int_equal(replicas.out[at + 2], lane & 1 ? at + 2 : 0);
        assert_int_equal(replicas.out[at + 3], lane & 1 ? at + 1 : 0);
    }
    simulation_close(&replicas.simulation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_load_reduces_over_all_replicas_and_is_counted),
        cmocka_unit_test(test_bf16_pairs_are_summed_in_f32_and_rounded_once),
        cmocka_unit_test(test_stores_and_reductions_reach_every_replica),
        cmocka_unit_test(test_only_multimem_may_use_multicast_memory_and_only_that),
        cmocka_unit_test(test_asynchronous_copies_fill_shared_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
