/* Conversions from integers: every 8- and 16-bit value, random ones of the others. */
#include "tests/operation.h"
#include "tests/rounded.h"

#include <fenv.h>

enum { COUNT = 65536 + 4096 };

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

static void test_integers_become_halves_in_every_rounding(void **state)
{
    static uint64_t values[COUNT];
    static uint64_t source[COUNT];
    static uint64_t result[COUNT];

    (void)state;
    fill(values);
    for (int k = 0; k < 2 * INTEGERS * 4; k++) {
        bool saturates = k % 2;
        const struct integer *from = &integers[k / 2 % INTEGERS];
        int rounding = k / 2 / INTEGERS;
        for (int is_bf16 = saturates || from->bytes == 1 ? 0 : 1; is_bf16 >= 0; is_bf16--) {
            const struct narrow *format = is_bf16 ? &narrow_bf16 : &narrow_f16;
            char code[64];
            (void)snprintf(code, sizeof(code), "cvt.%s%s.%s.%s %%d, %%a;", roundings[rounding].name,
                           saturates ? ".sat" : "", is_bf16 ? "bf16" : "f16", from->name);
            cut(source, values, from->bytes);
            run(code, 2, from->bytes, source, result);
            for (int i = 0; i < COUNT; i += i < 65536 ? 61 : 1) {
                __int128 value = value_of(values[i], from);
                value = saturates && value > 1 ? 1 : saturates && value < 0 ? 0 : value;
                uint64_t wanted =
                    narrow_round(format, (__float128)value, roundings[rounding].direction, false);
                if (element(result, i, 2) != wanted) {
                    fail_msg("%s %#lx gave %#lx, not %#lx", code, values[i], element(result, i, 2),
                             wanted);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_are_cut_extended_and_saturated),
        cmocka_unit_test(test_integers_become_floats_in_every_rounding),
        cmocka_unit_test(test_integers_become_halves_in_every_rounding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
