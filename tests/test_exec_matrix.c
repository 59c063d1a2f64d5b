/* Small matrix products and the loads of their fragments, laid out as the PTX manual draws them. */
#include "tests/simulation.h"

#define HEADER ".version 8.4\n.target sm_90\n.address_size 64\n"

static const struct simulation_options one_rank = {.ranks = 1, .seed = 1};

enum { REGISTERS = 12, INPUT_BYTES = 32 * REGISTERS * 4 };

/* One warp: register i of a lane is word 12 * lane + i of `in`; results are 4 words a lane. */
static void run(const char *code, const uint32_t in[32 * REGISTERS], uint32_t out[32 * 4])
{
    char text[4096];
    struct simulation simulation;
    uint32_t *memory;
    uint64_t params[2];
    int at = snprintf(text, sizeof(text),
                      HEADER ".visible .entry run(.param .u64 in, .param .u64 out)\n{\n"
                             ".reg .b32 %%r<20>; .reg .b64 %%rd<5>; .reg .b32 %%d<4>;\n"
                             ".reg .b32 %%lane;\nld.param.u64 %%rd1, [in];\n"
                             "ld.param.u64 %%rd2, [out];\nmov.u32 %%lane, %%laneid;\n"
                             "mad.wide.u32 %%rd3, %%lane, %d, %%rd1;\n"
                             "mad.wide.u32 %%rd4, %%lane, 16, %%rd2;\n",
                      REGISTERS * 4);

    for (int i = 0; i < REGISTERS; i++) {
        at += snprintf(text + at, sizeof(text) - (size_t)at, "ld.global.u32 %%r%d, [%%rd3+%d];\n",
                       i, i * 4);
    }
    (void)snprintf(text + at, sizeof(text) - (size_t)at,
                   "%s\nst.global.v4.u32 [%%rd4], {%%d0, %%d1, %%d2, %%d3};\nret;\n}\n", code);
    simulation_open(&simulation, &one_rank, text);
    params[0] = simulation_memory(&simulation, 0, INPUT_BYTES, (void **)&memory);
    memcpy(memory, in, INPUT_BYTES);
    params[1] = simulation_memory(&simulation, 0, 512, (void **)&memory);
    simulation_launch(&simulation, &(struct simulation_launch){.kernel = "run", .params = params});
    simulation_check(&simulation);
    memcpy(out, memory, 512);
    simulation_close(&simulation);
}

/* ---- mma: integers, so that every format holds them and every sum is exact ---- */

struct product {
    const char *code;
    int depth, bits; /* of a factor */
    uint32_t (*encode)(int value);
    int a_registers, b_registers;
    bool is_integer;
};

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static uint32_t as_f32(int value)
{
    return bits_of((float)value);
}
static uint32_t as_bf16(int value)
{
    return as_f32(value) >> 16;
}
static uint32_t as_s8(int value)
{
    return (uint32_t)value & 0xff;
}
/* Small integers only: exponent and fraction cut from those of f32. */
static uint32_t as_f16(int value)
{
    uint32_t bits = as_f32(value);

    return value == 0 ? 0 : (bits >> 16 & 0x8000) | (((bits >> 13) & 0x3ffff) - (112 << 10));
}
static uint32_t as_e4m3(int value)
{
    uint32_t bits = as_f32(value);

    return value == 0 ? 0 : (bits >> 24 & 0x80) | ((bits >> 20 & 0x7ff) - (120 << 3));
}

static const struct product products[] = {
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d0, %d1, %d2, %d3},"
     " {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r8, %r9, %r10, %r11};",
     16, 16, as_f16, 4, 2, false},
    {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%d0, %d1, %d2, %d3},"
     " {%r0, %r1}, {%r4}, {%r8, %r9, %r10, %r11};",
     8, 16, as_bf16, 2, 1, false},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%d0, %d1, %d2, %d3},"
     " {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r8, %r9, %r10, %r11};",
     8, 32, as_f32, 4, 2, false},
    {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%d0, %d1, %d2, %d3},"
     " {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r8, %r9, %r10, %r11};",
     32, 8, as_s8, 4, 2, true},
    {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%d0, %d1, %d2, %d3},"
     " {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r8, %r9, %r10, %r11};",
     32, 8, as_e4m3, 4, 2, false},
};

static int a_of(int row, int k)
{
    return (row * 3 + k * 5) % 9 - 4;
}
static int b_of(int k, int column)
{
    return (k * 7 + column * 2) % 7 - 3;
}
static int c_of(int row, int column)
{
    return row * 10 - column;
}

/* The manual's figures: four lanes share a row of A, a column of B; 32 bits hold neighbours. */
static void lay_out(const struct product *product, uint32_t in[32 * REGISTERS])
{
    int each = 32 / product->bits;

    memset(in, 0, INPUT_BYTES);
    for (int lane = 0; lane < 32; lane++) {
        uint32_t *registers = in + (size_t)lane * REGISTERS;
        for (int i = 0; i < product->a_registers * each; i++) {
            int row = lane / 4 + (i / each % 2 ? 8 : 0);
            int k = lane % 4 * each + i % each + (i >= 2 * each ? 4 * each : 0);
            registers[i / each] |= product->encode(a_of(row, k)) << (i % each * product->bits % 32);
        }
        for (int i = 0; i < product->b_registers * each; i++) {
            int k = lane % 4 * each + i % each + (i >= each ? 4 * each : 0);
            registers[4 + i / each] |= product->encode(b_of(k, lane / 4))
                                       << (i % each * product->bits % 32);
        }
        for (int i = 0; i < 4; i++) {
            int value = c_of(lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2);
            registers[8 + i] = product->is_integer ? (uint32_t)value : as_f32(value);
        }
    }
}

static void test_products_of_every_format_are_exact_for_integers(void **state)
{
    uint32_t in[32 * REGISTERS];
    uint32_t out[32 * 4];

    (void)state;
    for (size_t p = 0; p < sizeof(products) / sizeof(*products); p++) {
        lay_out(&products[p], in);
        run(products[p].code, in, out);
        for (int at = 0; at < 32 * 4; at++) {
            int row = at / 4 / 4 + at % 4 / 2 * 8;
            int column = at / 4 % 4 * 2 + at % 2;
            int sum = c_of(row, column);
            for (int k = 0; k < products[p].depth; k++) {
                sum += a_of(row, k) * b_of(k, column);
            }
            assert_int_equal(out[at], products[p].is_integer ? (uint32_t)sum : as_f32(sum));
        }
    }
}

/* ---- ldmatrix ---- */

static void check_ldmatrix(bool is_transposed)
{
    uint32_t in[32 * REGISTERS];
    uint32_t out[32 * 4];
    char code[512];

    for (uint32_t lane = 0; lane < 32; lane++) { /* row `lane` of four 8 x 8 matrices */
        for (uint32_t i = 0; i < 4; i++) {
            in[lane * REGISTERS + i] = (lane * 8 + i * 2 + 1) << 16 | (lane * 8 + i * 2);
        }
    }
    (void)snprintf(code, sizeof(code),
                   ".shared .align 16 .b8 rows[512]; mov.u32 %%r12, rows;\n"
                   "mad.lo.u32 %%r13, %%lane, 16, %%r12;\n"
                   "st.shared.v4.u32 [%%r13], {%%r0, %%r1, %%r2, %%r3};\nbar.sync 0;\n"
                   "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%d0, %%d1, %%d2, %%d3}, [%%r13];",
                   is_transposed ? ".trans" : "");
    run(code, in, out);
    for (uint32_t at = 0; at < 32 * 8; at++) {
        uint32_t lane = at / 8;
        uint32_t matrix = at / 2 % 4;
        uint32_t row = lane / 4;
        uint32_t column = lane % 4 * 2 + at % 2;
        uint32_t half = out[lane * 4 + matrix] >> (at % 2 * 16) & 0xffff;
        uint32_t wanted =
            is_transposed ? (matrix * 8 + column) * 8 + row : (matrix * 8 + row) * 8 + column;
        assert_int_equal(half, wanted);
    }
}

static void test_ldmatrix_hands_out_rows_and_columns(void **state)
{
    (void)state;
    check_ldmatrix(false);
    check_ldmatrix(true);
}

/* ---- wmma: the layout is ours, so memory to memory ---- */

static const char wmma_ptx[] = HEADER
    ".visible .entry run(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n"
    ".reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>; .reg .b64 %rd<4>; .reg .b32 %n;\n"
    "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];\nmov.u32 %n, 20;\n"
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
    " {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [%rd1], %n;\n"
    "wmma.load.b.sync.aligned.col.m16n16k16.global.f16"
    " {%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}, [%rd2], %n;\n"
    "wmma.load.c.sync.aligned.row.m16n16k16.global.f32"
    " {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, [%rd3], %n;\n"
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7},"
    " {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, {%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7},"
    " {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7};\n"
    "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd3],"
    " {%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}, %n;\nret;\n}\n";

/* Of each matrix every lane asks for eight words. */
static void check_wmma_traffic(const struct simulation *simulation)
{
    struct result result = {.rank = -1};

    engine_report(simulation->engine, &result);
    assert_int_equal(result.traffic_count, 2);
    assert_string_equal(result.traffic[0].mechanism, "sm_load");
    assert_int_equal(result.traffic[0].bytes, 3 * 32 * 32);
    assert_string_equal(result.traffic[1].mechanism, "sm_store");
    assert_int_equal(result.traffic[1].bytes, 32 * 32);
    result_release(&result);
}

static void test_wmma_multiplies_from_memory_to_memory(void **state)
{
    enum { SIDE = 16, STRIDE = 20, AREA = SIDE * STRIDE };
    struct simulation simulation;
    uint16_t *a;
    uint16_t *b;
    float *c;
    uint64_t params[3];

    (void)state;
    simulation_open(&simulation, &one_rank, wmma_ptx);
    params[0] = simulation_memory(&simulation, 0, AREA * sizeof(*a), (void **)&a);
    params[1] = simulation_memory(&simulation, 0, AREA * sizeof(*b), (void **)&b);
    params[2] = simulation_memory(&simulation, 0, AREA * sizeof(*c), (void **)&c);
    for (int i = 0; i < SIDE; i++) {
        for (int k = 0; k < SIDE; k++) {
            a[i * STRIDE + k] = (uint16_t)as_f16(a_of(i, k));
            b[i * STRIDE + k] = (uint16_t)as_f16(b_of(k, i)); /* by columns */
            c[i * STRIDE + k] = (float)c_of(i, k);
        }
    }
    simulation_launch(&simulation, &(struct simulation_launch){.kernel = "run", .params = params});
    simulation_check(&simulation);
    for (int i = 0; i < SIDE * SIDE; i++) {
        int sum = c_of(i / SIDE, i % SIDE);
        for (int k = 0; k < SIDE; k++) {
            sum += a_of(i / SIDE, k) * b_of(k, i % SIDE);
        }
        assert_true(c[i / SIDE * STRIDE + i % SIDE] == (float)sum);
    }
    check_wmma_traffic(&simulation);
    simulation_close(&simulation);
}

/* Loads from shared memory, whose start has a copy of `from`, at a stride in elements. */
static const char fragment_ptx[] =
    HEADER ".visible .entry run(.param .u64 from, .param .u64 to, .param .u64 stride)\n{\n"
           ".reg .b32 %%a<8>; .reg .b64 %%rd<6>; .reg .b32 %%n, %%lane, %%at;\n"
           ".shared .align 16 .b8 all[1024];\n"
           "ld.param.u64 %%rd1, [from]; ld.param.u64 %%rd2, [to]; ld.param.u32 %%n, [stride];\n"
           "mov.u32 %%lane, %%laneid; mad.wide.u32 %%rd3, %%lane, 32, %%rd1;\n"
           "mov.u32 %%at, all; mad.lo.u32 %%lane, %%lane, 32, %%at;\n"
           "ld.global.v4.u32 {%%a0, %%a1, %%a2, %%a3}, [%%rd3];\n"
           "ld.global.v4.u32 {%%a4, %%a5, %%a6, %%a7}, [%%rd3+16];\n"
           "st.shared.v4.u32 [%%lane], {%%a0, %%a1, %%a2, %%a3};\n"
           "st.shared.v4.u32 [%%lane+16], {%%a4, %%a5, %%a6, %%a7};\n"
           "cvt.u64.u32 %%rd4, %%at; cvta.shared.u64 %%rd4, %%rd4; add.u64 %%rd4, %%rd4, %d;\n"
           "wmma.load.a.sync.aligned.%s.m16n16k16%s.%s {%%a0, %%a1%s}, [%s], %%n;\n"
           "mov.u32 %%lane, %%laneid; mad.wide.u32 %%rd5, %%lane, 4, %%rd2;\n"
           "st.global.u32 [%%rd5], %%a0; st.global.u32 [%%rd5+128], %%a1;\nret;\n}\n";

struct fragment_case {
    bool is_by_columns, is_shared, is_wide; /* f16, otherwise u8 */
    bool is_good;
    int offset_bytes;
    uint32_t stride;
};
static const struct fragment_case fragment_cases[] = {
    {false, false, true, true, 0, 24},  {true, false, true, true, 0, 24},
    {false, true, true, true, 0, 16},   {true, true, true, true, 0, 24},
    {false, false, false, true, 0, 17}, {true, true, false, true, 0, 33},
    {false, false, true, false, 0, 40}, {false, true, true, false, 512, 24},
    {false, true, true, false, 1, 16},
};

static void check_fragment(const struct fragment_case *fragment)
{
    char text[2048];
    struct simulation simulation;
    uint8_t *from;
    uint8_t *to;
    uint64_t params[3] = {0, 0, fragment->stride};
    size_t size = fragment->is_wide ? 2 : 1;

    (void)snprintf(text, sizeof(text), fragment_ptx, fragment->offset_bytes,
                   fragment->is_by_columns ? "col" : "row", fragment->is_shared ? "" : ".global",
                   fragment->is_wide ? "f16" : "u8",
                   fragment->is_wide ? ", %a2, %a3, %a4, %a5, %a6, %a7" : "",
                   fragment->is_shared ? "%rd4" : "%rd1");
    simulation_open(&simulation, &one_rank, text);
    params[0] = simulation_memory(&simulation, 0, 1024, (void **)&from);
    params[1] = simulation_memory(&simulation, 0, 256, (void **)&to);
    for (int i = 0; i < 1024; i++) {
        from[i] = (uint8_t)(i * 29 + i / 256);
    }
    struct grid *grid = simulation_launch(
        &simulation, &(struct simulation_launch){.kernel = "run", .params = params});
    assert_int_equal(simulation_run(&simulation), ENGINE_IDLE);
    assert_int_equal(grid_state(grid), fragment->is_good ? GRID_DONE : GRID_FAULTED);
    /* Two words a lane are elements lane, lane + 32, ... of the matrix by rows. */
    for (size_t i = 0; fragment->is_good && i < 256 / size; i++) {
        size_t part = i / 32;
        size_t row = i / 16;
        size_t column = i % 16;
        size_t at = fragment->is_by_columns ? column * fragment->stride + row
                                            : row * fragment->stride + column;
        size_t word = part * size / 4 * 32 + i % 32;
        assert_memory_equal(to + word * 4 + part * size % 4, from + at * size, size);
    }
    simulation_close(&simulation);
}

static void test_fragments_load_by_rows_and_columns_from_all_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(fragment_cases) / sizeof(*fragment_cases); i++) {
        check_fragment(&fragment_cases[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_of_every_format_are_exact_for_integers),
        cmocka_unit_test(test_ldmatrix_hands_out_rows_and_columns),
        cmocka_unit_test(test_wmma_multiplies_from_memory_to_memory),
        cmocka_unit_test(test_fragments_load_by_rows_and_columns_from_all_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
