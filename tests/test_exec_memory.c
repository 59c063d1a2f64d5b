/* Loads, stores and atomics in all state spaces; faults; bytes counted. */
#include "tests/operation.h"

#define HEADER ".version 8.0\n.target sm_90\n.address_size 64\n"

static const struct simulation_options one_rank = {.ranks = 1, .seed = 1};
static const struct simulation_options two_ranks = {.ranks = 2, .seed = 1};

/* ---- what loads and stores move ---- */

static const char vectors_ptx[] =
    HEADER ".visible .entry vectors(.param .u64 from, .param .u64 to)\n{\n"
           ".reg .b32 %r<12>; .reg .b64 %rd<12>; .reg .b16 %h<9>;\n"
           ".local .align 16 .b8 mine[64];\n"
           ".shared .align 16 .b8 all[512];\n"
           "ld.param.u64 %rd1, [from];\n"
           "ld.param.u64 %rd2, [to];\n"
           "mov.u32 %r1, %tid.x;\n"
           "mad.wide.u32 %rd3, %r1, 64, %rd1;\n"
           "mad.wide.u32 %rd4, %r1, 64, %rd2;\n"
           "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd3];\n"
           "st.local.v4.u32 [mine], {%r5, %r4, %r3, %r2};\n"
           "ld.local.v2.u64 {%rd5, %rd6}, [mine];\n"
           "st.global.v2.u64 [%rd4], {%rd5, %rd6};\n"
           "ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%rd3+16];\n"
           "st.global.v4.u16 [%rd4+16], {%h4, %h3, %h2, %h1};\n"
           "ld.global.s8 %r6, [%rd3+24];\n"
           "st.global.u32 [%rd4+24], %r6;\n"
           "ld.global.u8 %r7, [%rd3+24];\n"
           "st.global.u32 [%rd4+28], %r7;\n"
           "mov.u32 %r8, all;\n"
           "mad.lo.u32 %r9, %r1, 16, %r8;\n"
           "ld.global.nc.v2.f64 {%rd7, %rd8}, [%rd3+32];\n"
           "st.shared.v2.b64 [%r9], {%rd8, %rd7};\n"
           "cvt.u64.u32 %rd9, %r9;\n"
           "cvta.shared.u64 %rd10, %rd9;\n"
           "ld.v4.b32 {%r2, %r3, %r4, %r5}, [%rd10];\n"
           "st.v4.b32 [%rd4+32], {%r2, %r3, %r4, %r5};\n"
           "ret;\n}\n";

static void test_vectors_go_through_every_state_space(void **state)
{
    struct simulation simulation;
    uint32_t *from;
    uint32_t *to;
    uint64_t params[2];

    (void)state;
    simulation_open(&simulation, &one_rank, vectors_ptx);
    params[0] = simulation_memory(&simulation, 0, 2048, (void **)&from);
    params[1] = simulation_memory(&simulation, 0, 2048, (void **)&to);
    for (uint32_t i = 0; i < 512; i++) {
        from[i] = i * 0x9e3779b9u;
    }
    simulation_launch(&simulation,
                      &(struct simulation_launch){.kernel = "vectors", .params = params});
    simulation_check(&simulation);
    for (int lane = 0; lane < 32; lane++) {
        const uint32_t *in = &from[(size_t)(lane * 16)];
        const uint32_t *out = &to[(size_t)(lane * 16)];
        for (int i = 0; i < 4; i++) {
            assert_int_equal(out[i], in[3 - i]);
        }
        assert_int_equal(out[4], in[5] >> 16 | in[5] << 16);
        assert_int_equal(out[5], in[4] >> 16 | in[4] << 16);
        assert_int_equal(out[6], (uint32_t)(int8_t)in[6]);
        assert_int_equal(out[7], (uint8_t)in[6]);
        assert_int_equal(out[8], in[10]);
        assert_int_equal(out[9], in[11]);
        assert_int_equal(out[10], in[8]);
        assert_int_equal(out[11], in[9]);
    }
    simulation_close(&simulation);
}

/* ---- atomics ---- */

struct atomic {
    const char *code; /* on [%rd1], of the lane number in %r1, %f1, %rd2 */
    int bytes;
    uint64_t start, end;
};

static const struct atomic atomics[] = {
    {"red.global.add.u32 [%rd1], %r1;", 4, 5, 5 + 496},
    {"red.global.min.s32 [%rd1], %r2;", 4, 5, (uint32_t)-31},
    {"red.global.max.u32 [%rd1], %r2;", 4, 5, (uint32_t)-1},
    {"red.global.and.b32 [%rd1], %r2;", 4, 0xffffffff, 0},
    {"red.global.or.b32 [%rd1], %r1;", 4, 64, 95},
    {"red.global.xor.b32 [%rd1], %r1;", 4, 7, 7},
    {"red.global.inc.u32 [%rd1], 9;", 4, 3, 5},
    {"red.global.dec.u32 [%rd1], 9;", 4, 3, 1},
    {"atom.global.exch.b32 %r3, [%rd1], %r1;", 4, 3, 31},
    {"atom.global.cas.b32 %r3, [%rd1], 3, %r1;", 4, 3, 0},
    {"red.global.add.u64 [%rd1], %rd2;", 8, (uint64_t)1 << 40, ((uint64_t)1 << 40) + 496},
    {"red.global.add.f32 [%rd1], %f1;", 4, 0x3f000000, 0x43f84000},
    {"red.global.add.f64 [%rd1], %fd1;", 8, 0x3fe0000000000000, 0x407f080000000000},
    {"red.global.add.noftz.f16 [%rd1], %h1;", 2, 0x3800, 0x5fc2},
    {"red.global.add.noftz.f16x2 [%rd1], %r4;", 4, 0x38000000, 0x5fc25fc0},
    {"red.global.add.noftz.bf16x2 [%rd1], %r5;", 4, 0, 0x43c043c0},
    {"atom.global.add.release.gpu.u32 %r3, [%rd1], 2;", 4, 0, 64},
};

static void run_atomic(const struct atomic *atomic, uint64_t *word)
{
    char text[2048];
    struct simulation simulation;
    uint64_t *host;

    (void)snprintf(text, sizeof(text),
                   HEADER
                   ".visible .entry run(.param .u64 at)\n{\n"
                   ".reg .b32 %%r<9>; .reg .b64 %%rd<9>; .reg .f32 %%f<3>; .reg .f64 %%fd<3>;"
                   " .reg .b16 %%h<3>;\n"
                   "ld.param.u64 %%rd1, [at];\nmov.u32 %%r1, %%laneid;\n"
                   "neg.s32 %%r2, %%r1;\ncvt.u64.u32 %%rd2, %%r1;\n"
                   "cvt.rn.f32.u32 %%f1, %%r1;\ncvt.rn.f64.u32 %%fd1, %%r1;\n"
                   "cvt.rn.f16.u32 %%h1, %%r1;\nmov.b32 %%r4, {%%h1, %%h1};\n"
                   "cvt.rn.bf16x2.f32 %%r5, %%f1, %%f1;\n%s\nret;\n}\n",
                   atomic->code);
    simulation_open(&simulation, &one_rank, text);
    uint64_t address = simulation_memory(&simulation, 0, 64, (void **)&host);
    host[0] = atomic->start;
    simulation_launch(&simulation,
                      &(struct simulation_launch){.kernel = "run", .params = &address});
    simulation_check(&simulation);
    *word = host[0];
    simulation_close(&simulation);
}

static void test_atomics_of_all_lanes_add_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(atomics) / sizeof(*atomics); i++) {
        uint64_t word = 0;
        run_atomic(&atomics[i], &word);
        if (word != atomics[i].end && i != 15) {
            fail_msg("%s left %#lx, not %#lx", atomics[i].code, word, atomics[i].end);
        }
    }
}

static void test_bf16_sums_are_rounded_at_every_step(void **state)
{
    float sum = 0;
    uint64_t word = 0;
    uint32_t bits;

    (void)state;
    for (int lane = 0; lane < 32; lane++) { /* in the order of the lanes */
        sum += (float)lane;
        memcpy(&bits, &sum, sizeof(bits));
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
        memcpy(&sum, &bits, sizeof(sum));
    }
    run_atomic(&atomics[15], &word);
    assert_int_equal(word, bits | bits >> 16);
}

static const char old_ptx[] = HEADER ".visible .entry old(.param .u64 at, .param .u64 to)\n{\n"
                                     ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b128 %q<3>;\n"
                                     "ld.param.u64 %rd1, [at];\n"
                                     "ld.param.u64 %rd2, [to];\n"
                                     "atom.global.add.u32 %r1, [%rd1], 3;\n"
                                     "mov.u32 %r2, %laneid;\n"
                                     "mad.wide.u32 %rd3, %r2, 4, %rd2;\n"
                                     "st.global.u32 [%rd3], %r1;\n"
                                     "ret;\n}\n";

static void test_an_atomic_returns_what_was_there(void **state)
{
    struct simulation simulation;
    uint32_t *at;
    uint32_t *to;
    uint64_t params[2];

    (void)state;
    simulation_open(&simulation, &one_rank, old_ptx);
    params[0] = simulation_memory(&simulation, 0, 64, (void **)&at);
    params[1] = simulation_memory(&simulation, 0, 128, (void **)&to);
    simulation_launch(&simulation, &(struct simulation_launch){.kernel = "old", .params = params});
    simulation_check(&simulation);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(to[i], i * 3);
    }
    assert_int_equal(at[0], 96);
    simulation_close(&simulation);
}

/* ---- faults ---- */

struct wrong {
    const char *code; /* %rd1: 64 bytes of memory, %rd2: read-only memory */
    int cuda_error, lane;
    const char *kind, *address;
};

static const struct wrong wrongs[] = {
    {"ld.global.u32 %r2, [%rd1+64];", 700, 0, "illegal_address", "0x200000000040"},
    {"st.global.u32 [%rd3], %r1;", 700, 16, "illegal_address", "0x200000000040"},
    {"ld.u32 %r2, [%rd4];", 700, 0, "illegal_address", "0x0"},
    {"ld.global.u32 %r2, [%rd1+2];", 716, 0, "misaligned_address", "rank 0 allocation 0+2"},
    {"ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+8];", 716, 0, "misaligned_address",
     "rank 0 allocation 0+8"},
    {"st.global.u32 [%rd2+4], %r1;", 700, 0, "read_only", "rank 0 fixed+4"},
    {"red.global.add.u32 [%rd2+4], %r1;", 700, 0, "read_only", "rank 0 fixed+4"},
    {"mov.u32 %r2, all; st.shared.u32 [%r2+64], %r1;", 700, 0, "shared_range", "shared+64"},
    {"mov.u64 %rd4, mine; ld.local.u32 %r2, [%rd4+16];", 700, 0, "local_range", "local+16"},
    {"mov.u64 %rd4, all; cvta.shared.u64 %rd4, %rd4; ld.global.u32 %r2, [%rd4];", 717, 0,
     "address_space", "shared+0"},
    {"trap;", 719, 0, "trap", NULL},
};

static void check_wrong(const struct wrong *wrong)
{
    char text[2048];
    struct simulation simulation;
    static uint8_t fixed[64];
    struct error err = {0};
    uint64_t params[2] = {0, 0x300000000000u};
    void *host;
    int cuda_error = 0;

    (void)snprintf(text, sizeof(text),
                   HEADER ".visible .entry run(.param .u64 at, .param .u64 fixed)\n{\n"
                          ".reg .b32 %%r<9>; .reg .b64 %%rd<9>;\n"
                          ".shared .align 4 .b8 all[64];\n.local .align 4 .b8 mine[16];\n"
                          "ld.param.u64 %%rd1, [at];\nld.param.u64 %%rd2, [fixed];\n"
                          "mov.u32 %%r1, %%laneid;\nmad.wide.u32 %%rd3, %%r1, 4, %%rd1;\n"
                          "mov.u64 %%rd4, 0;\n.loc 1 33 1\n%s\nret;\n}\n.file 1 \"solution.cu\"\n",
                   wrong->code);
    simulation_open(&simulation, &one_rank, text);
    params[0] = simulation_memory(&simulation, 0, 64, &host);
    struct mapping mapping = {.address = params[1],
                              .size_bytes = sizeof(fixed),
                              .host = fixed,
                              .access = MAP_READ,
                              .label = "fixed"};
    assert_int_equal(space_map(simulation.spaces[0], &mapping, &err), OK);
    struct grid *grid = simulation_launch(
        &simulation, &(struct simulation_launch){.kernel = "run", .threads = 32, .params = params});
    assert_int_equal(simulation_run(&simulation), ENGINE_IDLE);
    assert_int_equal(grid_state(grid), GRID_FAULTED);
    const struct fault *fault = grid_fault(grid, &cuda_error);
    assert_int_equal(cuda_error, wrong->cuda_error);
    assert_string_equal(fault->kind, wrong->kind);
    assert_string_equal(fault->source, "solution.cu:33");
    assert_string_equal(fault->kernel, "run");
    assert_int_equal(fault->lane, wrong->lane);
    assert_int_equal(fault->cta, 0);
    assert_int_equal(fault->warp, 0);
    if (wrong->address) {
        assert_string_equal(fault->address, wrong->address);
    }
    simulation_close(&simulation);
}

static void test_each_wrong_access_is_a_fault_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(*wrongs); i++) {
        check_wrong(&wrongs[i]);
    }
}

/* ---- accounting ---- */

static const char traffic_ptx[] =
    HEADER ".visible .entry traffic(.param .u64 mine, .param .u64 theirs)\n{\n"
           ".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
           "ld.param.u64 %rd1, [mine];\n"
           "ld.param.u64 %rd2, [theirs];\n"
           "mov.u32 %r1, %laneid;\n"
           "mad.wide.u32 %rd3, %r1, 16, %rd2;\n"
           "mad.wide.u32 %rd4, %r1, 4, %rd1;\n"
           "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd3];\n"
           "st.global.u32 [%rd4], %r2;\n"
           "setp.lt.u32 %p, %r1, 5;\n"
           "@%p red.global.add.u32 [%rd3], 1;\n"
           "@%p st.global.u16 [%rd3], %r1;\n"
           "ret;\n}\n";

static uint64_t bytes_of(const struct result *result, int source, int owner, const char *name)
{
    for (size_t i = 0; i < result->traffic_count; i++) {
        const struct traffic *traffic = &result->traffic[i];
        if (traffic->source == source && traffic->owner == owner &&
            strcmp(traffic->mechanism, name) == 0) {
            return traffic->bytes;
        }
    }
    return 0;
}

static void test_bytes_are_counted_by_source_owner_and_mechanism(void **state)
{
    struct simulation simulation;
    struct result result = {.rank = -1};
    struct error err = {0};
    uint64_t params[2];
    void *host;

    (void)state;
    simulation_open(&simulation, &two_ranks, traffic_ptx);
    params[0] = simulation_memory(&simulation, 1, 512, &host);
    params[1] = simulation_memory(&simulation, 0, 512, &host);
    simulation_launch(
        &simulation, &(struct simulation_launch){.kernel = "traffic", .rank = 1, .params = params});
    simulation_check(&simulation);
    assert_int_equal(
        engine_copy(simulation.engine, simulation.spaces[0], params[0], params[1], 100, &err), OK);
    engine_report(simulation.engine, &result);
    assert_int_equal(result.traffic_count, 6);
    assert_int_equal(bytes_of(&result, 1, 0, "sm_load"), 512);
    assert_int_equal(bytes_of(&result, 1, 1, "sm_store"), 128);
    assert_int_equal(bytes_of(&result, 1, 0, "sm_atomic"), 20);
    assert_int_equal(bytes_of(&result, 1, 0, "sm_store"), 10);
    assert_int_equal(bytes_of(&result, 0, 0, "copy_engine"), 100);
    assert_int_equal(bytes_of(&result, 0, 1, "copy_engine"), 100);
    result_release(&result);
    simulation_close(&simulation);
}

/* ---- printf and assert ---- */

static const char print_ptx[] = HEADER
    ".extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 list);\n"
    ".global .align 1 .b8 text[40] = {37, 100, 32, 37, 53, 46, 50, 102, 124, 37, 115, 124, 37, 48,"
    " 52, 120, 124, 37, 99, 124, 37, 108, 108, 117, 37, 37, 10};\n"
    ".global .align 1 .b8 word[4] = {97, 98, 99};\n"
    ".visible .entry print()\n{\n"
    ".reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f64 %fd<2>;\n"
    ".local .align 8 .b8 list[48];\n"
    "mov.u32 %r1, %tid.x;\n"
    "setp.ne.u32 %p, %r1, 3;\n"
    "@%p bra OUT;\n"
    "st.local.u32 [list], -7;\n"
    "mov.f64 %fd1, 0d400921FB54442D18;\n"
    "st.local.f64 [list+8], %fd1;\n"
    "mov.u64 %rd1, word;\n"
    "cvta.global.u64 %rd1, %rd1;\n"
    "st.local.u64 [list+16], %rd1;\n"
    "st.local.u32 [list+24], 171;\n"
    "st.local.u32 [list+28], 120;\n"
    "st.local.u64 [list+32], -1;\n"
    "mov.u64 %rd2, text;\n"
    "cvta.global.u64 %rd2, %rd2;\n"
    "mov.u64 %rd3, list;\n"
    "cvta.local.u64 %rd3, %rd3;\n"
    "{ .param .b64 p0; st.param.b64 [p0+0], %rd2; .param .b64 p1; st.param.b64 [p1+0], %rd3;\n"
    ".param .b32 r0; call.uni (r0), vprintf, (p0, p1); ld.param.b32 %r2, [r0+0]; }\n"
    "OUT:\nret;\n}\n";

static void test_printf_formats_as_the_host_does(void **state)
{
    struct simulation simulation;
    struct buffer text = {0};

    (void)state;
    simulation_open(&simulation, &one_rank, print_ptx);
    struct grid *grid =
        simulation_launch(&simulation, &(struct simulation_launch){.kernel = "print"});
    simulation_check(&simulation);
    grid_take_output(grid, &text);
    assert_string_equal(text.data, "-7  3.14|abc|00ab|x|18446744073709551615%\n");
    buffer_release(&text);
    simulation_close(&simulation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_go_through_every_state_space),
        cmocka_unit_test(test_atomics_of_all_lanes_add_up),
        cmocka_unit_test(test_bf16_sums_are_rounded_at_every_step),
        cmocka_unit_test(test_an_atomic_returns_what_was_there),
        cmocka_unit_test(test_each_wrong_access_is_a_fault_with_its_place),
        cmocka_unit_test(test_bytes_are_counted_by_source_owner_and_mechanism),
        cmocka_unit_test(test_printf_formats_as_the_host_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
