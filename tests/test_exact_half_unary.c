/* Operations of one operand on every value of f16 and bf16, alone and in pairs. */
#include "tests/exact_half.h"

#define EXPECT(name, expression)                                                                   \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        return (uint64_t)(expression);                                                             \
    }
/* NaN becomes the canonical one. */
EXPECT(negative, half_is_nan(a) ? HALF_NAN : a ^ HALF_SIGN)
EXPECT(magnitude, half_is_nan(a) ? HALF_NAN : a & 0x7fff)
EXPECT(negative_flushed, negative(half_flushed(a), b, c))
EXPECT(magnitude_flushed, magnitude(half_flushed(a), b, c))
EXPECT(negative_pair, negative(a, b, c) | negative(~a & 0xffff, b, c) << 16)
EXPECT(magnitude_pair, magnitude(a, b, c) | magnitude(~a & 0xffff, b, c) << 16)

static const struct exact_row f16_rows[] = {
    {"neg.f16 %d, %a;", 2, negative},
    {"abs.f16 %d, %a;", 2, magnitude},
    {"neg.ftz.f16 %d, %a;", 2, negative_flushed},
    {"abs.ftz.f16 %d, %a;", 2, magnitude_flushed},
    {"{ .reg .b16 h; not.b16 h, %a; mov.b32 %x, {%a, h}; neg.f16x2 %d, %x; }", 4, negative_pair},
    {"{ .reg .b16 h; not.b16 h, %a; mov.b32 %x, {%a, h}; abs.f16x2 %d, %x; }", 4, magnitude_pair},
};
static const struct exact_row bf16_rows[] = {
    {"neg.bf16 %d, %a;", 2, negative},
    {"abs.bf16 %d, %a;", 2, magnitude},
    {"{ .reg .b16 h; not.b16 h, %a; mov.b32 %x, {%a, h}; neg.bf16x2 %d, %x; }", 4, negative_pair},
    {"{ .reg .b16 h; not.b16 h, %a; mov.b32 %x, {%a, h}; abs.bf16x2 %d, %x; }", 4, magnitude_pair},
};

static void fill_all(struct batch *batch)
{
    for (uint32_t i = 0; i < HALF_ALL; i++) {
        ((uint16_t *)batch->sources[0])[i] = (uint16_t)i;
    }
}

static void check_rows(const struct exact_row *rows, int count, const struct narrow *format)
{
    static const int bytes[BATCH_SOURCES] = {2};
    struct batch batch;

    half_use(format);
    exact_open(&batch, rows, count, bytes);
    fill_all(&batch);
    exact_check(&batch, rows, count, bytes, HALF_ALL);
    batch_close(&batch);
}

static void test_negation_and_magnitude_of_every_half_change_only_the_sign(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(f16_rows), &narrow_f16);
    check_rows(EXACT_ROWS(bf16_rows), &narrow_bf16);
}

/* ---- approximations: the manual's bounds ---- */

struct approximation {
    const char *code; /* from %a */
    const struct narrow *format;
    double (*exact)(double value);
    double relative, absolute; /* bounds: either */
    bool is_flushed;
};

static const struct approximation approximations[] = {
    {"ex2.approx.f16 %d, %a;", &narrow_f16, exp2, 0x1p-9 * 0.5358, 0, false},
    {"ex2.approx.ftz.bf16 %d, %a;", &narrow_bf16, exp2, 0x1p-7, 0, true},
    {"tanh.approx.f16 %d, %a;", &narrow_f16, tanh, 0, 0x1p-10 * 0.5045, false},
    {"tanh.approx.bf16 %d, %a;", &narrow_bf16, tanh, 0, 0x1p-8, false},
};

static void check_approximation(const struct approximation *row, uint64_t bits, uint64_t got)
{
    uint64_t operand = row->is_flushed ? half_flushed(bits) : bits;
    double exact = row->exact(half_value(operand));
    uint64_t nearest = half_round(exact);

    if (row->is_flushed) {
        nearest = half_flushed(nearest);
    }
    /* Where the exact result is a number of the format, or none, there is nothing to be off by. */
    bool is_special = exact != exact || isinf(exact) || half_value(nearest) == exact;
    double error = fabs(half_value(got) - exact);
    bool is_near = error <= fabs(exact) * row->relative || error <= row->absolute;
    if (got != nearest && (is_special || !is_near)) {
        fail_msg("%s of %#lx gave %#lx, not about %#lx", row->code, bits, got, nearest);
    }
}

static void test_approximations_of_every_half_keep_the_bounds_of_the_manual(void **state)
{
    static const int bytes[BATCH_SOURCES] = {2};

    (void)state;
    for (size_t k = 0; k < sizeof(approximations) / sizeof(*approximations); k++) {
        const struct approximation *row = &approximations[k];
        char pair[160];
        int operation = (int)strcspn(row->code, " ");
        (void)snprintf(pair, sizeof(pair),
                       "{ .reg .b16 h; not.b16 h, %%a; mov.b32 %%x, {%%a, h}; %.*sx2 %%d, %%x; }",
                       operation, row->code);
        struct batch_operation operations[2] = {{row->code, 2}, {pair, 4}};
        struct batch batch;
        half_use(row->format);
        batch_open(&batch, operations, 2, bytes);
        fill_all(&batch);
        batch_run(&batch, HALF_ALL);
        for (uint32_t i = 0; i < HALF_ALL; i++) {
            uint64_t two = batch_result(&batch, 1, i, 4);
            check_approximation(row, i, batch_result(&batch, 0, i, 2));
            check_approximation(row, i, two & 0xffff);
            check_approximation(row, ~i & 0xffff, two >> 16);
        }
        batch_close(&batch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_negation_and_magnitude_of_every_half_change_only_the_sign),
        cmocka_unit_test(test_approximations_of_every_half_keep_the_bounds_of_the_manual),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
