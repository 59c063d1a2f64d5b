/* Conversions of every value of 8 and 16 bits to every type in every rounding. */
#include "tests/exact_cvt.h"

static void check_all_short(const struct list *list)
{
    struct batch batch;
    int bytes = types[list->conversions[0].from].bytes;
    uint32_t count = bytes == 1 ? 256 : 65536;

    open_list(&batch, list);
    for (uint32_t i = 0; i < count; i++) {
        if (bytes == 1) {
            ((uint8_t *)batch.sources[0])[i] = (uint8_t)i;
        } else {
            ((uint16_t *)batch.sources[0])[i] = (uint16_t)i;
        }
    }
    check_list(&batch, list, count);
    batch_close(&batch);
}

/* ---- every value of 8 and 16 bits ---- */

static void test_every_short_integer_converts_to_every_type(void **state)
{
    (void)state;
    for (int from = U8; from <= S16; from++) {
        struct list list = {.count = 0};
        for (int to = U8; to <= S64; to++) {
            add(&list, (struct conversion){.to = to, .from = from}, "");
            if (from != to) {
                add(&list, (struct conversion){.to = to, .from = from, .saturates = true}, "");
            }
        }
        check_all_short(&list);
        list.count = 0;
        for (int i = 0; i < 4; i++) {
            enum direction direction = roundings[i].direction;
            for (int to = F16; to <= F64; to++) {
                struct conversion conversion = {.to = to, .from = from, .direction = direction};
                if (to == BF16 && types[from].bytes == 1) {
                    continue;
                }
                add(&list, conversion, roundings[i].name);
                conversion.saturates = true;
                if (to != BF16) {
                    add(&list, conversion, roundings[i].name);
                }
            }
        }
        check_all_short(&list);
    }
}

static void test_every_half_converts_to_every_integer_in_every_rounding(void **state)
{
    (void)state;
    for (int from = F16; from <= BF16; from++) {
        struct list list = {.count = 0};
        for (int i = 0; i < 4; i++) {
            for (int to = from == F16 ? U8 : U16; to <= S64; to++) {
                struct conversion conversion = {
                    .to = to, .from = from, .round = whole_roundings[i].round};
                add(&list, conversion, whole_roundings[i].name);
                conversion.saturates = from == F16;
                if (from == F16) {
                    add(&list, conversion, whole_roundings[i].name);
                }
            }
        }
        check_all_short(&list);
    }
}

static void test_every_half_converts_to_every_real(void **state)
{
    (void)state;
    for (int from = F16; from <= BF16; from++) {
        struct list list = {.count = 0};
        int other = from == F16 ? BF16 : F16;
        for (int saturates = 0; saturates < (from == F16 ? 2 : 1); saturates++) {
            add(&list, (struct conversion){.to = F32, .from = from, .saturates = saturates}, "");
            add(&list, (struct conversion){.to = F64, .from = from, .saturates = saturates}, "");
            for (int i = 0; i < 4; i++) {
                struct conversion whole = {.to = from,
                                           .from = from,
                                           .round = whole_roundings[i].round,
                                           .saturates = saturates};
                add(&list, whole, whole_roundings[i].name);
            }
        }
        for (int i = 0; i < 4; i++) {
            enum direction direction = roundings[i].direction;
            add(&list, (struct conversion){.to = other, .from = from, .direction = direction},
                roundings[i].name);
        }
        check_all_short(&list);
    }
}

/* ---- pairs of codes of 8 bits ---- */

static void check_pairs(int code, bool is_relu)
{
    static uint32_t halves[65536];
    struct batch batch;
    struct conversion narrowing = {.to = code, .from = F16, .is_finite = true, .is_relu = is_relu};
    struct conversion widening = {.to = F16, .from = code, .is_relu = is_relu};
    struct batch_operation operations[2];
    int bytes[BATCH_SOURCES] = {2};
    char down[CODE_TEXT];
    char up[CODE_TEXT];

    (void)snprintf(down, sizeof(down),
                   "xor.b16 %%d, %%a, 0x8000; mov.b32 %%x, {%%a, %%d};"
                   " cvt.rn.satfinite%s.%sx2.f16x2 %%d, %%x;",
                   is_relu ? ".relu" : "", types[code].name);
    (void)snprintf(up, sizeof(up), "cvt.rn%s.f16x2.%sx2 %%d, %%a;", is_relu ? ".relu" : "",
                   types[code].name);
    operations[0] = (struct batch_operation){down, 2};
    operations[1] = (struct batch_operation){up, 4};
    batch_open(&batch, operations, 2, bytes);
    for (uint32_t i = 0; i < 65536; i++) {
        ((uint16_t *)batch.sources[0])[i] = (uint16_t)i;
        halves[i] = i;
    }
    batch_run(&batch, 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        uint64_t low = expected_of(&narrowing, halves[i]);
        uint64_t high = expected_of(&narrowing, halves[i] ^ 0x8000);
        assert_int_equal(batch_result(&batch, 0, i, 2), high << 8 | low);
        low = expected_of(&widening, i & 255);
        high = expected_of(&widening, i >> 8);
        assert_int_equal(batch_result(&batch, 1, i, 4), high << 16 | low);
    }
    batch_close(&batch);
}

static void test_every_pair_of_8_bit_codes_and_every_half_convert_to_each_other(void **state)
{
    (void)state;
    for (int is_relu = 0; is_relu < 2; is_relu++) {
        check_pairs(E4M3, is_relu);
        check_pairs(E5M2, is_relu);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_short_integer_converts_to_every_type),
        cmocka_unit_test(test_every_half_converts_to_every_integer_in_every_rounding),
        cmocka_unit_test(test_every_half_converts_to_every_real),
        cmocka_unit_test(test_every_pair_of_8_bit_codes_and_every_half_convert_to_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
