/* Conversions of f32 and f64: what rounding has to tell apart, and strides through all values. */
#include "tests/exact_cvt.h"

/* Two f32 side by side: the first is the upper one. */
static void test_pairs_of_floats_are_narrowed_each_for_itself(void **state)
{
    static const struct {
        int to;
        const char *code;
        enum direction direction;
        bool is_finite, is_relu;
    } rows[] = {{F16, "cvt.rn.f16x2.f32", TO_NEAREST, false, false},
                {F16, "cvt.rz.f16x2.f32", TO_ZERO, false, false},
                {F16, "cvt.rn.relu.satfinite.f16x2.f32", TO_NEAREST, true, true},
                {BF16, "cvt.rn.bf16x2.f32", TO_NEAREST, false, false},
                {BF16, "cvt.rz.relu.bf16x2.f32", TO_ZERO, false, true},
                {BF16, "cvt.rn.satfinite.bf16x2.f32", TO_NEAREST, true, false},
                {E4M3, "cvt.rn.satfinite.e4m3x2.f32", TO_NEAREST, true, false},
                {E4M3, "cvt.rn.satfinite.relu.e4m3x2.f32", TO_NEAREST, true, true},
                {E5M2, "cvt.rn.satfinite.e5m2x2.f32", TO_NEAREST, true, false},
                {E5M2, "cvt.rn.satfinite.relu.e5m2x2.f32", TO_NEAREST, true, true}};
    enum { ROWS = sizeof(rows) / sizeof(*rows) };
    static const int bytes[BATCH_SOURCES] = {4, 4};
    struct batch_operation operations[ROWS];
    char codes[ROWS][CODE_TEXT];
    uint64_t random = 88172645463325252u;
    struct batch batch;

    (void)state;
    for (int k = 0; k < ROWS; k++) {
        (void)snprintf(codes[k], sizeof(codes[k]), "%s %%d, %%a, %%b;", rows[k].code);
        operations[k] = (struct batch_operation){codes[k], types[rows[k].to].bytes * 2};
    }
    batch_open(&batch, operations, ROWS, bytes);
    uint32_t *a = batch.sources[0];
    uint32_t *b = batch.sources[1];
    for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
        uint32_t exponent = 127 - 30 + i % 64;
        uint32_t half = i % 3 ? 0x80000u >> (i % 16) : (uint32_t)batch_random(&random) & 0x7fffff;
        a[i] = i % 8 ? (i << 31 | exponent << 23 | half) : (uint32_t)batch_random(&random);
        b[i] = a[i] * 5;
    }
    batch_run(&batch, BATCH_ELEMENTS);
    for (int k = 0; k < ROWS; k++) {
        struct conversion conversion = {.to = rows[k].to,
                                        .from = F32,
                                        .direction = rows[k].direction,
                                        .is_finite = rows[k].is_finite,
                                        .is_relu = rows[k].is_relu};
        int width = types[rows[k].to].bytes * 8;
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            uint64_t wanted =
                expected_of(&conversion, a[i]) << width | expected_of(&conversion, b[i]);
            assert_int_equal(batch_result(&batch, k, i, width / 4), wanted);
        }
    }
    batch_close(&batch);
}

static void add_narrowings(struct list *list)
{
    for (int i = 0; i < 4; i++) {
        struct conversion conversion = {.from = F32, .direction = roundings[i].direction};
        for (conversion.to = F16; conversion.to <= BF16; conversion.to++) {
            add(list, conversion, roundings[i].name);
        }
    }
    struct conversion clamped = {.to = F16, .from = F32, .saturates = true};
    add(list, clamped, ".rn");
    clamped.is_flushed = true;
    add(list, clamped, ".rn.ftz");
    for (int to = F16; to <= BF16; to++) {
        add(list, (struct conversion){.to = to, .from = F32, .is_relu = true}, ".rn.relu");
        add(list, (struct conversion){.to = to, .from = F32, .is_finite = true}, ".rn.satfinite");
        add(list,
            (struct conversion){
                .to = to, .from = F32, .direction = TO_ZERO, .is_relu = true, .is_finite = true},
            ".rz.relu.satfinite");
    }
    add(list, (struct conversion){.to = TF32, .from = F32, .direction = TO_NEAREST_AWAY}, ".rna");
    add(list, (struct conversion){.to = TF32, .from = F32}, ".rn");
    add(list, (struct conversion){.to = TF32, .from = F32, .direction = TO_ZERO, .is_relu = true},
        ".rz.relu");
    for (int i = 0; i < 4; i++) {
        struct conversion whole = {.to = F32, .from = F32, .round = whole_roundings[i].round};
        add(list, whole, whole_roundings[i].name);
        whole.saturates = true;
        add(list, whole, whole_roundings[i].name);
    }
    add(list, (struct conversion){.to = F32, .from = F32, .saturates = true}, "");
    add(list, (struct conversion){.to = F64, .from = F32}, "");
    add(list, (struct conversion){.to = F64, .from = F32, .is_flushed = true}, ".ftz");
}

/* Through all 2^32 patterns, each run from where the last one ended; the ends of ranges first. */
static void check_floats(const struct list *list)
{
    uint32_t patterns = batch_count(BATCH_ELEMENTS * 4, 1 << 24);
    uint32_t stride = (uint32_t)(((uint64_t)1 << 32) / patterns) - 3;
    uint32_t bits = 0;
    struct batch batch;

    open_list(&batch, list);
    uint32_t *from = batch.sources[0];
    for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) { /* powers of two and half-way points */
        uint32_t exponent = i % 256;
        uint32_t kind = i / 256 % 64;
        uint32_t at = kind < 23   ? (uint32_t)1 << kind
                      : kind < 46 ? (uint32_t)0x7fffff >> (kind - 23)
                                  : (kind - 46) << 19 | 0x40000;
        from[i] =
            (i / 16384 % 2 ? 0x80000000 : 0) | exponent << 23 | ((at + i / 32768 - 1) & 0x7fffff);
    }
    check_list(&batch, list, BATCH_ELEMENTS);
    for (uint32_t done = 0; done < patterns; done += BATCH_ELEMENTS) {
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            from[i] = bits;
            bits += stride;
        }
        check_list(&batch, list, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}

static void test_floats_are_narrowed_and_made_whole_with_one_rounding(void **state)
{
    struct list list = {.count = 0};

    (void)state;
    add_narrowings(&list);
    check_floats(&list);
}

static void test_floats_become_integers_in_every_rounding(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        struct list list = {.count = 0};
        for (int i = half * 2; i < half * 2 + 2; i++) {
            for (int to = U8; to <= S64; to++) {
                struct conversion conversion = {
                    .to = to, .from = F32, .round = whole_roundings[i].round};
                add(&list, conversion, whole_roundings[i].name);
            }
        }
        check_floats(&list);
    }
}

static void test_doubles_become_every_type(void **state)
{
    uint64_t random = 88172645463325252u;
    struct list list = {.count = 0};
    struct batch batch;

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct conversion conversion = {.from = F64, .direction = roundings[i].direction};
        for (conversion.to = F16; conversion.to <= F32; conversion.to++) {
            add(&list, conversion, roundings[i].name);
        }
        conversion = (struct conversion){.from = F64, .round = whole_roundings[i].round};
        for (conversion.to = U8; conversion.to <= S64; conversion.to++) {
            add(&list, conversion, whole_roundings[i].name);
        }
    }
    open_list(&batch, &list);
    uint64_t *from = batch.sources[0];
    for (uint32_t done = 0; done < batch_count(2, 64); done++) {
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            uint64_t bits = batch_random(&random);
            uint64_t exponent = 1023 - 40 + (bits >> 52 & 2047) % 110;
            uint64_t kept = ~(uint64_t)0 << (bits & 31) * 2;
            from[i] = i % 4 == 0 ? bits : (bits & kept & ~((uint64_t)0x7ff << 52)) | exponent << 52;
        }
        check_list(&batch, &list, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs_of_floats_are_narrowed_each_for_itself),
        cmocka_unit_test(test_floats_are_narrowed_and_made_whole_with_one_rounding),
        cmocka_unit_test(test_floats_become_integers_in_every_rounding),
        cmocka_unit_test(test_doubles_become_every_type),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
