/* Lanes in order, in reverse, at one address and spread: whichever way an access takes, it moves
 * the same bytes, and counts them. */
#include "tests/simulation.h"

#define HEADER ".version 8.0\n.target sm_90\n.address_size 64\n"

enum { LANES = 32, ELEMENT_MAX_BYTES = 16, REGION_BYTES = LANES * ELEMENT_MAX_BYTES };

static const struct simulation_options one_rank = {.ranks = 1, .seed = 1};

struct kind {
    const char *type, *registers; /* of one element */
    uint32_t bytes;
};
static const struct kind kinds[] = {
    {"u8", "b16", 1},  {"s8", "b16", 1},  {"u16", "b16", 2}, {"s16", "b16", 2},
    {"b32", "b32", 4}, {"f32", "f32", 4}, {"b64", "b64", 8}, {"f64", "f64", 8},
};

/* Which element a lane takes: (lane * factor + offset) & 31. */
struct order {
    uint32_t factor, offset;
    bool is_one_to_one;
};
static const struct order orders[] = {
    {1, 0, true}, {31, 31, true}, {0, 7, false}, {16, 3, false}, {5, 2, true},
};

static uint32_t element_of(const struct order *order, uint32_t lane)
{
    return (lane * order->factor + order->offset) & (LANES - 1);
}

struct trial {
    const struct kind *kind;
    const struct order *order;
    uint32_t vector;
    bool is_shared, is_store, is_odd_only;
};

/* The kernel: moves one vector from `in` to `out`, one of them by order, in shared memory or not.
 */
static char *text_of(const struct trial *trial)
{
    const struct kind *kind = trial->kind;
    uint32_t size = kind->bytes * trial->vector;
    const char *element = kind->registers;
    const char *list = trial->vector == 1   ? "%v0"
                       : trial->vector == 2 ? "{%v0, %v1}"
                                            : "{%v0, %v1, %v2, %v3}";
    const char *vector = trial->vector == 1 ? "" : trial->vector == 2 ? ".v2" : ".v4";
    const char *guard = trial->is_odd_only ? "@%p " : "";
    char *load = xasprintf("%sld.%s%s.%s %s, [%s];\n", guard,
                           trial->is_shared && !trial->is_store ? "shared" : "global", vector,
                           kind->type, list,
                           trial->is_store    ? "%in_order"
                           : trial->is_shared ? "%shared_by"
                                              : "%in_by");
    char *store =
        xasprintf("%sst.%s%s.%s [%s], %s;\n", guard,
                  trial->is_shared && trial->is_store ? "shared" : "global", vector, kind->type,
                  !trial->is_store   ? "%out_order"
                  : trial->is_shared ? "%shared_by"
                                     : "%out_by",
                  list);
    char *text = xasprintf(
        HEADER ".visible .entry move(.param .u64 in, .param .u64 out)\n{\n"
               ".reg .pred %%p; .reg .%s %%v<4>; .reg .b32 %%r<9>; .reg .b64 %%rd<9>;\n"
               ".reg .b32 %%shared_by; .reg .b64 %%in_by, %%out_by, %%in_order, %%out_order;\n"
               ".shared .align 16 .b8 all[512];\n"
               "ld.param.u64 %%rd1, [in];\nld.param.u64 %%rd2, [out];\nmov.u32 %%r1, %%laneid;\n"
               "and.b32 %%r2, %%r1, 1;\nsetp.eq.u32 %%p, %%r2, 1;\n"
               "mad.lo.u32 %%r3, %%r1, %u, %u;\nand.b32 %%r3, %%r3, 31;\n"
               "mad.wide.u32 %%in_by, %%r3, %u, %%rd1;\nmad.wide.u32 %%out_by, %%r3, %u, %%rd2;\n"
               "mad.wide.u32 %%in_order, %%r1, %u, %%rd1;\n"
               "mad.wide.u32 %%out_order, %%r1, %u, %%rd2;\n"
               "mov.u32 %%r4, all;\nmad.lo.u32 %%shared_by, %%r3, %u, %%r4;\n"
               "mad.lo.u32 %%r5, %%r1, 16, %%r4;\nmad.wide.u32 %%rd3, %%r1, 16, %%rd1;\n"
               "mad.wide.u32 %%rd4, %%r1, 16, %%rd2;\n"
               "%s%s%s%sret;\n}\n",
        element, trial->order->factor, trial->order->offset, size, size, size, size, size,
        /* Shared memory starts as `in`, or ends in `out`. */
        !trial->is_shared ? ""
        : trial->is_store ? "{ .reg .b64 %z; mov.u64 %z, 0; st.shared.v2.b64 [%r5], {%z, %z}; }\n"
                          : "{ .reg .b64 %a, %b; ld.global.v2.b64 {%a, %b}, [%rd3];\n"
                            "st.shared.v2.b64 [%r5], {%a, %b}; }\n",
        load, store,
        trial->is_shared && trial->is_store
            ? "{ .reg .b64 %a, %b; ld.shared.v2.b64 {%a, %b}, [%r5];\n"
              "st.global.v2.b64 [%rd4], {%a, %b}; }\n"
            : "");
    free(load);
    free(store);
    return text;
}

static void expect(const struct trial *trial, const uint8_t *in, uint8_t *out)
{
    uint32_t size = trial->kind->bytes * trial->vector;

    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint32_t element = element_of(trial->order, lane);
        if (!trial->is_odd_only || lane % 2 == 1) {
            memcpy(out + (size_t)(trial->is_store ? element : lane) * size,
                   in + (size_t)(trial->is_store ? lane : element) * size, size);
        }
    }
}

static uint64_t bytes_counted(const struct simulation *simulation)
{
    struct result result = {.rank = -1};
    uint64_t bytes = 0;

    engine_report(simulation->engine, &result);
    for (size_t i = 0; i < result.traffic_count; i++) {
        bytes += result.traffic[i].bytes;
    }
    result_release(&result);
    return bytes;
}

static void check(const struct trial *trial)
{
    char *text = text_of(trial);
    struct simulation simulation;
    uint8_t expected[REGION_BYTES] = {0};
    uint64_t params[2];
    uint8_t *in;
    uint8_t *out;
    uint32_t lanes = trial->is_odd_only ? LANES / 2 : LANES;

    simulation_open(&simulation, &one_rank, text);
    params[0] = simulation_memory(&simulation, 0, REGION_BYTES, (void **)&in);
    params[1] = simulation_memory(&simulation, 0, REGION_BYTES, (void **)&out);
    for (int i = 0; i < REGION_BYTES; i++) {
        in[i] = (uint8_t)(i * 37 + i / 256 + 1);
    }
    simulation_launch(&simulation, &(struct simulation_launch){.kernel = "move", .params = params});
    simulation_check(&simulation);
    expect(trial, in, expected);
    if (memcmp(out, expected, REGION_BYTES) != 0) {
        fail_msg("wrong bytes by\n%s", text);
    }
    uint64_t counted = (uint64_t)lanes * trial->kind->bytes * trial->vector;
    assert_int_equal(bytes_counted(&simulation),
                     trial->is_shared ? counted + REGION_BYTES : counted * 2);
    simulation_close(&simulation);
    free(text);
}

static void check_orders(struct trial trial)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(*orders); i++) {
        for (int guard = 0; guard < 2; guard++) {
            trial.order = &orders[i];
            trial.is_odd_only = guard;
            /* Where lanes store to one place, the manual does not say whose value stays. */
            if (!trial.is_store || orders[i].is_one_to_one) {
                check(&trial);
            }
        }
    }
}

static void check_kinds(bool is_shared, bool is_store)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        for (uint32_t vector = 1; vector <= 4; vector *= 2) {
            if (kinds[i].bytes * vector <= ELEMENT_MAX_BYTES) {
                check_orders((struct trial){.kind = &kinds[i],
                                            .vector = vector,
                                            .is_shared = is_shared,
                                            .is_store = is_store});
            }
        }
    }
}

static void test_lanes_load_in_any_order(void **state)
{
    (void)state;
    check_kinds(false, false);
}

static void test_lanes_load_from_shared_memory_in_any_order(void **state)
{
    (void)state;
    check_kinds(true, false);
}

static void test_lanes_store_in_any_order(void **state)
{
    (void)state;
    check_kinds(false, true);
}

static void test_lanes_store_to_shared_memory_in_any_order(void **state)
{
    (void)state;
    check_kinds(true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_load_in_any_order),
        cmocka_unit_test(test_lanes_load_from_shared_memory_in_any_order),
        cmocka_unit_test(test_lanes_store_in_any_order),
        cmocka_unit_test(test_lanes_store_to_shared_memory_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
