/* Conversions between all types: every 8- and 16-bit value, edges and random ones of the others. */
#include "tests/operation.h"
#include "tests/rounded.h"

#include <fenv.h>
#include <math.h>

enum { COUNT = 65536 + 4096 };

static const struct narrow narrow_e4m3 = {4, 3, false};
static const struct narrow narrow_e5m2 = {5, 2, true};
static const struct narrow narrow_tf32 = {8, 10, true};

struct integer {
    const char *name;
    int bytes;
    bool is_signed;
};
static const struct integer integers[] = {{"u8", 1, false},  {"s8", 1, true},   {"u16", 2, false},
                                          {"s16", 2, true},  {"u32", 4, false}, {"s32", 4, true},
                                          {"u64", 8, false}, {"s64", 8, true}};
enum { INTEGERS = 8 };

/* All 16-bit patterns, then random ones of random lengths. */
static void fill(uint64_t values[COUNT])
{
    uint64_t state = 88172645463325252u;

    for (int i = 0; i < COUNT; i++) {
        uint64_t random = operation_random(&state);
        values[i] = i < 65536 ? (uint64_t)(i < 32768 ? i : i - 65536)
                              : operation_random(&state) >> (random & 63);
    }
}

static __int128 value_of(uint64_t bits, const struct integer *type)
{
    int width = type->bytes * 8;
    unsigned __int128 low = bits & (width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1);

    return type->is_signed && low >> (width - 1) & 1 ? (__int128)low - ((__int128)1 << width)
                                                     : (__int128)low;
}

static __int128 lowest(const struct integer *type)
{
    return type->is_signed ? -((__int128)1 << (type->bytes * 8 - 1)) : 0;
}

static __int128 highest(const struct integer *type)
{
    return ((__int128)1 << (type->bytes * 8 - type->is_signed)) - 1;
}

/* Runs a conversion of elements of `from` bytes to 64 bits each, so that extension is seen. */
static void run(const char *code, int to, int from, const void *source, void *result)
{
    struct operation operation = {
        .code = code, .bytes = to, .source_bytes = {from}, .sources = {source}};

    operation_run(&operation, COUNT, result);
}

static void cut(void *to, const uint64_t *from, int bytes)
{
    for (int i = 0; i < COUNT; i++) {
        memcpy((uint8_t *)to + (size_t)i * (size_t)bytes, &from[i], (size_t)bytes);
    }
}

static uint64_t element(const void *array, int index, int bytes)
{
    uint64_t value = 0;

    memcpy(&value, (const uint8_t *)array + (size_t)index * (size_t)bytes, (size_t)bytes);
    return value;
}

static void test_integers_are_cut_extended_and_saturated(void **state)
{
    static uint64_t values[COUNT];
    static uint64_t source[COUNT];
    static uint64_t result[COUNT];

    (void)state;
    fill(values);
    for (int k = 0; k < INTEGERS * INTEGERS * 2; k++) {
        const struct integer *to = &integers[k % INTEGERS];
        const struct integer *from = &integers[k / INTEGERS % INTEGERS];
        bool saturates = k >= INTEGERS * INTEGERS;
        char code[64];
        (void)snprintf(code, sizeof(code), "cvt%s.%s.%s %%d, %%a;", saturates ? ".sat" : "",
                       to->name, from->name);
        cut(source, values, from->bytes);
        run(code, to->bytes, from->bytes, source, result);
        for (int i = 0; i < COUNT; i++) {
            __int128 value = value_of(values[i], from);
            if (saturates) {
                value = value < lowest(to) ? lowest(to) : value > highest(to) ? highest(to) : value;
            }
            uint64_t wanted = (uint64_t)value_of((uint64_t)value, &integers[6]);
            wanted = element(&wanted, 0, to->bytes);
            if (element(result, i, to->bytes) != wanted) {
                fail_msg("%s %#lx gave %#lx", code, values[i], element(result, i, to->bytes));
            }
        }
    }
}

static const struct {
    const char *name;
    int fenv;
    enum direction direction;
} roundings[] = {{"rn", FE_TONEAREST, TO_NEAREST},
                 {"rz", FE_TOWARDZERO, TO_ZERO},
                 {"rm", FE_DOWNWARD, TO_MINUS},
                 {"rp", FE_UPWARD, TO_PLUS}};

static void test_integers_become_floats_in_every_rounding(void **state)
{
    static uint64_t values[COUNT];
    static uint64_t source[COUNT];
    static uint64_t result[COUNT];

    (void)state;
    fill(values);
    for (int k = 0; k < INTEGERS * 4; k++) {
        const struct integer *from = &integers[k % INTEGERS];
        char code[64];
        cut(source, values, from->bytes);
        for (int is_wide = 0; is_wide < 2; is_wide++) {
            (void)snprintf(code, sizeof(code), "cvt.%s.%s.%s %%d, %%a;",
                           roundings[k / INTEGERS].name, is_wide ? "f64" : "f32", from->name);
            run(code, is_wide ? 8 : 4, from->bytes, source, result);
            for (int i = 0; i < COUNT; i++) {
                fesetround(roundings[k / INTEGERS].fenv);
                volatile __float128 exact = (__float128)value_of(values[i], from);
                float narrow = (float)exact;
                double wide = (double)exact;
                fesetround(FE_TONEAREST);
                assert_memory_equal((uint8_t *)result + (size_t)i * (is_wide ? 8 : 4),
                                    is_wide ? (void *)&wide : (void *)&narrow, is_wide ? 8 : 4);
            }
        }
    }
}

/* ---- floats to integers ---- */

static void fill_floats(float values[COUNT])
{
    uint64_t state = 88172645463325252u;

    for (int i = 0; i < COUNT; i++) {
        uint64_t random = operation_random(&state);
        uint32_t bits = (uint32_t)random;
        if (i < 65536) {
            /* Near halves and near the ends of the ranges. */
            float centre = ldexpf(1, i % 70 - 2);
            float step = (float)((int)(random >> 32 & 7) - 4) * 0.25f;
            float value = centre + step * (i % 3 ? 1 : centre * 0x1p-22f);
            values[i] = i % 2 ? value : -value;
            continue;
        }
        memcpy(&values[i], &bits, sizeof(bits));
    }
    values[0] = 0;
    values[1] = -0.0f;
    values[2] = INFINITY;
    values[3] = -INFINITY;
    values[4] = NAN;
}

static const struct {
    const char *name;
    double (*round)(double x);
} whole_roundings[] = {{"rni", nearbyint}, {"rzi", trunc}, {"rmi", floor}, {"rpi", ceil}};

static uint64_t integer_of(double value, const struct integer *to, bool is_from_f64)
{
    if (value != value) {
        return is_from_f64 || to->bytes == 8 ? (uint64_t)1 << (to->bytes * 8 - 1) : 0;
    }
    if (value >= (double)highest(to)) {
        return (uint64_t)highest(to);
    }
    return value <= (double)lowest(to) ? (uint64_t)lowest(to) : (uint64_t)(__int128)value;
}

static void test_floats_become_integers_within_the_range(void **state)
{
    static float values[COUNT];
    static double wide[COUNT];
    static uint64_t result[COUNT];

    (void)state;
    fill_floats(values);
    for (int i = 0; i < COUNT; i++) {
        wide[i] = values[i];
    }
    for (int k = 0; k < INTEGERS * 4 * 2; k++) {
        const struct integer *to = &integers[k % INTEGERS];
        int rounding = k / INTEGERS % 4;
        bool is_wide = k >= INTEGERS * 4;
        char code[64];
        (void)snprintf(code, sizeof(code), "cvt.%s.%s.%s %%d, %%a;", whole_roundings[rounding].name,
                       to->name, is_wide ? "f64" : "f32");
        run(code, to->bytes, is_wide ? 8 : 4, is_wide ? (void *)wide : (void *)values, result);
        for (int i = 0; i < COUNT; i++) {
            uint64_t wanted = integer_of(whole_roundings[rounding].round(values[i]), to, is_wide);
            wanted = element(&wanted, 0, to->bytes);
            if (element(result, i, to->bytes) != wanted) {
                fail_msg("%s %a gave %#lx, not %#lx", code, values[i],
                         element(result, i, to->bytes), wanted);
            }
        }
    }
}

/* ---- floats to narrower floats ---- */

struct narrowing {
    const char *code; /* from f32 in %a */
    const struct narrow *format;
    enum direction direction;
    bool saturates, is_relu;
    int bytes, shift; /* of the result in the register */
};
static const struct narrowing narrowings[] = {
    {"cvt.rn.f16.f32 %d, %a;", &narrow_f16, TO_NEAREST, false, false, 2, 0},
    {"cvt.rz.f16.f32 %d, %a;", &narrow_f16, TO_ZERO, false, false, 2, 0},
    {"cvt.rm.f16.f32 %d, %a;", &narrow_f16, TO_MINUS, false, false, 2, 0},
    {"cvt.rp.f16.f32 %d, %a;", &narrow_f16, TO_PLUS, false, false, 2, 0},
    {"cvt.rn.bf16.f32 %d, %a;", &narrow_bf16, TO_NEAREST, false, false, 2, 0},
    {"cvt.rz.bf16.f32 %d, %a;", &narrow_bf16, TO_ZERO, false, false, 2, 0},
    {"cvt.rn.relu.bf16.f32 %d, %a;", &narrow_bf16, TO_NEAREST, false, true, 2, 0},
    {"cvt.rn.f16x2.f32 %d, %a, %a;", &narrow_f16, TO_NEAREST, false, false, 4, 16},
    {"cvt.rn.bf16x2.f32 %d, %a, %a;", &narrow_bf16, TO_NEAREST, false, false, 4, 16},
    {"cvt.rz.bf16x2.f32 %d, %a, %a;", &narrow_bf16, TO_ZERO, false, false, 4, 16},
    {"cvt.rn.satfinite.e4m3x2.f32 %d, %a, %a;", &narrow_e4m3, TO_NEAREST, true, false, 2, 8},
    {"cvt.rn.satfinite.e5m2x2.f32 %d, %a, %a;", &narrow_e5m2, TO_NEAREST, true, false, 2, 8},
    {"cvt.rn.satfinite.relu.e4m3x2.f32 %d, %a, %a;", &narrow_e4m3, TO_NEAREST, true, true, 2, 8},
    {"cvt.rna.tf32.f32 %d, %a;", &narrow_tf32, TO_NEAREST_AWAY, false, false, 4, -13},
};

static uint32_t narrowed(const struct narrowing *row, float value)
{
    if (row->is_relu && (value < 0 || (value == 0 && signbit(value)))) {
        return 0;
    }
    return narrow_round(row->format, value, row->direction, row->saturates);
}

static void check_narrowing(const struct narrowing *row)
{
    static float values[COUNT];
    static uint32_t result[COUNT];

    fill_floats(values);
    for (int i = 5; i < COUNT; i += 2) { /* on and beside what rounding has to tell apart */
        uint32_t bits = (uint32_t)i * 0x00013579;
        bits = (bits & ~(uint32_t)0xfff) | (i % 3 ? 0x1000 * (bits & 1) : 0x7fff);
        memcpy(&values[i], &bits, sizeof(bits));
    }
    run(row->code, row->bytes, 4, values, result);
    for (int i = 0; i < COUNT; i++) {
        uint32_t wanted = narrowed(row, values[i]);
        if (row->shift > 0) {
            wanted |= wanted << row->shift;
        } else {
            wanted <<= -row->shift;
        }
        uint32_t got = (uint32_t)element(result, i, row->bytes);
        if (got != wanted && values[i] == values[i]) {
            fail_msg("%s %a gave %#x, not %#x", row->code, values[i], got, wanted);
        }
    }
}

static void test_floats_are_narrowed_with_one_rounding(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(narrowings) / sizeof(*narrowings); i++) {
        check_narrowing(&narrowings[i]);
    }
}

static void test_every_half_and_code_widens_exactly(void **state)
{
    static uint16_t all[COUNT];
    static uint32_t result[COUNT];
    static const struct {
        const char *code;
        const struct narrow *format;
    } rows[] = {{"cvt.f32.f16 %d, %a;", &narrow_f16}, {"cvt.f32.bf16 %d, %a;", &narrow_bf16}};

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        all[i] = (uint16_t)i;
    }
    for (int k = 0; k < 2; k++) {
        run(rows[k].code, 4, 2, all, result);
        for (int i = 0; i < COUNT; i++) {
            float exact = (float)narrow_value(rows[k].format, all[i]);
            uint32_t wanted = k == 0 ? 0x7fffffff : (uint32_t)all[i] << 16; /* of NaN */
            if (exact == exact) {
                memcpy(&wanted, &exact, sizeof(wanted));
            }
            assert_int_equal(result[i], wanted);
        }
    }
    run("cvt.rn.f16x2.e4m3x2 %d, %a;", 4, 2, all, result);
    for (int i = 0; i < COUNT; i++) {
        uint32_t low =
            narrow_round(&narrow_f16, narrow_value(&narrow_e4m3, all[i] & 0xff), TO_NEAREST, false);
        uint32_t high =
            narrow_round(&narrow_f16, narrow_value(&narrow_e4m3, all[i] >> 8), TO_NEAREST, false);
        assert_int_equal(result[i], high << 16 | low);
    }
}

static void test_f64_and_f32_convert_in_every_rounding(void **state)
{
    static double values[COUNT];
    static float result[COUNT];
    static float narrow[COUNT];
    uint64_t random = 88172645463325252u;

    (void)state;
    fill_floats(narrow);
    for (int i = 0; i < COUNT; i++) {
        values[i] = narrow[i] * (1 + (double)(operation_random(&random) & 3) * 0x1p-25);
    }
    for (int k = 0; k < 4; k++) {
        char code[64];
        (void)snprintf(code, sizeof(code), "cvt.%s.f32.f64 %%d, %%a;", roundings[k].name);
        run(code, 4, 8, values, result);
        for (int i = 0; i < COUNT; i++) {
            fesetround(roundings[k].fenv);
            volatile float expected = (float)values[i];
            fesetround(FE_TONEAREST);
            assert_true(result[i] == expected || (result[i] != result[i] && expected != expected));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_are_cut_extended_and_saturated),
        cmocka_unit_test(test_integers_become_floats_in_every_rounding),
        cmocka_unit_test(test_floats_become_integers_within_the_range),
        cmocka_unit_test(test_floats_are_narrowed_with_one_rounding),
        cmocka_unit_test(test_every_half_and_code_widens_exactly),
        cmocka_unit_test(test_f64_and_f32_convert_in_every_rounding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
