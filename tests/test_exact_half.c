/*
 * f16 and bf16: every value, a grid of 64 edge values against each other, and ten million random
 * pairs; each result is the exact one, rounded once.
 */
#include "tests/exact_half.h"

enum { EDGES = 64, RANDOM = 10000000 };

#define EXPECT(name, expression)                                                                   \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        double x = half_value(a);                                                                  \
        double y = half_value(b);                                                                  \
        double z = half_value(c);                                                                  \
        (void)x;                                                                                   \
        (void)y;                                                                                   \
        (void)z;                                                                                   \
        return (uint64_t)(expression);                                                             \
    }

EXPECT(sum, half_round(half_sum(x, y)))
EXPECT(difference, half_round(half_sum(x, -y)))
EXPECT(product, half_round(x *y))
EXPECT(fused, half_round(half_sum(x *y, z)))
EXPECT(fused_same, half_round(half_sum(x *y, x)))
EXPECT(fused_relu, x *y + z != x * y + z     ? HALF_NAN
                   : half_sum(x * y, z) <= 0 ? 0
                                             : half_round(half_sum(x * y, z)))
EXPECT(sum_clamped, half_saturated(half_sum(x, y)))
EXPECT(difference_clamped, half_saturated(half_sum(x, -y)))
EXPECT(product_clamped, half_saturated(x *y))
EXPECT(fused_clamped, half_saturated(half_sum(x *y, z)))

/* With subnormal operands and results flushed. */
#define FLUSH(name, of)                                                                            \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        return half_flushed(of(half_flushed(a), half_flushed(b), half_flushed(c)));                \
    }
FLUSH(sum_flushed, sum)
FLUSH(difference_flushed, difference)
FLUSH(product_flushed, product)
FLUSH(fused_flushed, fused)
FLUSH(fused_relu_flushed, fused_relu)

/* -0 is less than +0. */
static bool is_less(uint64_t a, uint64_t b)
{
    double x = half_value(a);
    double y = half_value(b);

    return x < y || (x == y && (a & HALF_SIGN) && !(b & HALF_SIGN));
}

EXPECT(least, x != x && y != y ? HALF_NAN : x != x ? b : y != y ? a : is_less(a, b) ? a : b)
EXPECT(most, x != x && y != y ? HALF_NAN : x != x ? b : y != y ? a : is_less(a, b) ? b : a)
EXPECT(least_nan, x != x || y != y ? HALF_NAN : is_less(a, b) ? a : b)
EXPECT(most_nan, x != x || y != y ? HALF_NAN : is_less(a, b) ? b : a)
/* The extreme of the magnitudes, with the sign that the product would have. */
#define NO_SIGN(bits) ((bits) & ~(uint64_t)HALF_SIGN)
#define SIGNED_LIKE_PRODUCT(name, of)                                                              \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        uint64_t found = of(NO_SIGN(a), NO_SIGN(b), c);                                            \
        return found == HALF_NAN ? found : found | ((a ^ b) & HALF_SIGN);                          \
    }
SIGNED_LIKE_PRODUCT(least_signed, least)
SIGNED_LIKE_PRODUCT(most_signed, most)
SIGNED_LIKE_PRODUCT(most_signed_nan, most_nan)
FLUSH(least_flushed, least)
FLUSH(most_nan_flushed, most_nan)

/* Relations: which of less, equal, more and unordered make it true. */
enum { LESS = 1, EQUAL = 2, MORE = 4, UNORDERED = 8 };
static uint64_t relation(double x, double y)
{
    return x < y ? LESS : x == y ? EQUAL : x > y ? MORE : UNORDERED;
}
#define RELATION(name, set) EXPECT(name, (relation(x, y) & (set)) != 0)
RELATION(is_eq, EQUAL)
RELATION(is_ne, LESS | MORE)
RELATION(is_lt, LESS)
RELATION(is_le, LESS | EQUAL)
RELATION(is_gt, MORE)
RELATION(is_ge, MORE | EQUAL)
RELATION(is_equ, EQUAL | UNORDERED)
RELATION(is_neu, LESS | MORE | UNORDERED)
RELATION(is_ltu, LESS | UNORDERED)
RELATION(is_leu, LESS | EQUAL | UNORDERED)
RELATION(is_gtu, MORE | UNORDERED)
RELATION(is_geu, MORE | EQUAL | UNORDERED)
RELATION(is_num, LESS | EQUAL | MORE)
RELATION(is_nan, UNORDERED)
EXPECT(mask_lt, x < y ? 0xffff : 0)
EXPECT(mask_wide_geu, x >= y || x != x || y != y ? 0xffffffff : 0)
EXPECT(one_le, x <= y ? half_round(1) : 0)
EXPECT(is_eq_flushed, is_eq(half_flushed(a), half_flushed(b), 0))

/* Pairs: {a, b} with {b, a}, and {c, c}. */
#define PAIRED(name, of)                                                                           \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        return of(a, b, c) | of(b, a, c) << 16;                                                    \
    }
PAIRED(pair_sum, sum)
PAIRED(pair_difference, difference)
PAIRED(pair_product, product)
PAIRED(pair_fused, fused)
PAIRED(pair_fused_relu, fused_relu)
PAIRED(pair_least, least)
PAIRED(pair_most_nan, most_nan)
PAIRED(pair_sum_clamped, sum_clamped)
PAIRED(pair_sum_flushed, sum_flushed)
PAIRED(pair_fused_flushed, fused_flushed)
PAIRED(pair_one_le, one_le)
EXPECT(pair_lt, (x < y) | (y < x) << 1)

/* ---- rows; TYPE stands for the type ---- */

#define SETP(name) "setp." name ".TYPE %p, %a, %b; selp.b16 %d, 1, 0, %p;"
#define PAIRS(name) "mov.b32 %x, {%a, %b}; mov.b32 %y, {%b, %a}; " name
#define C "mov.b32 %t, {%c, %c}; "

static const struct exact_row base_rows[] = {
    {"add.rn.TYPE %d, %a, %b;", 2, sum},
    {"sub.TYPE %d, %a, %b;", 2, difference},
    {"mul.TYPE %d, %a, %b;", 2, product},
    {"fma.rn.TYPE %d, %a, %b, %a;", 2, fused_same},
    {"min.TYPE %d, %a, %b;", 2, least},
    {"max.TYPE %d, %a, %b;", 2, most},
    {SETP("lt"), 2, is_lt},
    {SETP("neu"), 2, is_neu},
};
static const struct exact_row rows[] = {
    {"fma.rn.TYPE %d, %a, %b, %c;", 2, fused},
    {"fma.rn.relu.TYPE %d, %a, %b, %c;", 2, fused_relu},
    {"min.NaN.TYPE %d, %a, %b;", 2, least_nan},
    {"max.NaN.TYPE %d, %a, %b;", 2, most_nan},
    {"min.xorsign.abs.TYPE %d, %a, %b;", 2, least_signed},
    {"max.xorsign.abs.TYPE %d, %a, %b;", 2, most_signed},
    {"max.NaN.xorsign.abs.TYPE %d, %a, %b;", 2, most_signed_nan},
    {SETP("eq"), 2, is_eq},
    {SETP("ne"), 2, is_ne},
    {SETP("le"), 2, is_le},
    {SETP("gt"), 2, is_gt},
    {SETP("ge"), 2, is_ge},
    {SETP("equ"), 2, is_equ},
    {SETP("ltu"), 2, is_ltu},
    {SETP("leu"), 2, is_leu},
    {SETP("gtu"), 2, is_gtu},
    {SETP("geu"), 2, is_geu},
    {SETP("num"), 2, is_num},
    {SETP("nan"), 2, is_nan},
    {"set.lt.u16.TYPE %d, %a, %b;", 2, mask_lt},
    {"set.geu.u32.TYPE %d, %a, %b;", 4, mask_wide_geu},
    {"set.le.TYPE.TYPE %d, %a, %b;", 2, one_le},
    {PAIRS("add.TYPEx2 %d, %x, %y;"), 4, pair_sum},
    {PAIRS("sub.rn.TYPEx2 %d, %x, %y;"), 4, pair_difference},
    {PAIRS("mul.TYPEx2 %d, %x, %y;"), 4, pair_product},
    {PAIRS(C "fma.rn.TYPEx2 %d, %x, %y, %t;"), 4, pair_fused},
    {PAIRS(C "fma.rn.relu.TYPEx2 %d, %x, %y, %t;"), 4, pair_fused_relu},
    {PAIRS("min.TYPEx2 %d, %x, %y;"), 4, pair_least},
    {PAIRS("max.NaN.TYPEx2 %d, %x, %y;"), 4, pair_most_nan},
    {PAIRS("set.le.TYPEx2.TYPEx2 %d, %x, %y;"), 4, pair_one_le},
    {PAIRS("setp.lt.TYPEx2 %p|%q, %x, %y; selp.b32 %x, 1, 0, %p; selp.b32 %y, 2, 0, %q;"
           " or.b32 %d, %x, %y;"),
     4, pair_lt},
};
static const struct exact_row f16_rows[] = {
    {"add.ftz.f16 %d, %a, %b;", 2, sum_flushed},
    {"sub.ftz.f16 %d, %a, %b;", 2, difference_flushed},
    {"mul.ftz.f16 %d, %a, %b;", 2, product_flushed},
    {"fma.rn.ftz.f16 %d, %a, %b, %c;", 2, fused_flushed},
    {"fma.rn.ftz.relu.f16 %d, %a, %b, %c;", 2, fused_relu_flushed},
    {"add.sat.f16 %d, %a, %b;", 2, sum_clamped},
    {"sub.sat.f16 %d, %a, %b;", 2, difference_clamped},
    {"mul.sat.f16 %d, %a, %b;", 2, product_clamped},
    {"fma.rn.sat.f16 %d, %a, %b, %c;", 2, fused_clamped},
    {"min.ftz.f16 %d, %a, %b;", 2, least_flushed},
    {"max.ftz.NaN.f16 %d, %a, %b;", 2, most_nan_flushed},
    {"setp.eq.ftz.f16 %p, %a, %b; selp.b16 %d, 1, 0, %p;", 2, is_eq_flushed},
    {PAIRS("add.sat.f16x2 %d, %x, %y;"), 4, pair_sum_clamped},
    {PAIRS("add.ftz.f16x2 %d, %x, %y;"), 4, pair_sum_flushed},
    {PAIRS(C "fma.rn.ftz.f16x2 %d, %x, %y, %t;"), 4, pair_fused_flushed},
};

/* ---- */

static const int sources[BATCH_SOURCES] = {2, 2, 2};

/* The rows with the type's name in them; the caller frees nothing: they stay. */
static void name_type(struct exact_row *to, const struct exact_row *from, int count,
                      const char *type)
{
    static char text[BATCH_OPERATIONS][256];

    for (int i = 0; i < count; i++) {
        const char *at = from[i].code;
        text[i][0] = 0;
        for (const char *next = strstr(at, "TYPE"); next; next = strstr(at, "TYPE")) {
            size_t length = strlen(text[i]);
            (void)snprintf(text[i] + length, sizeof(text[i]) - length, "%.*s%s", (int)(next - at),
                           at, type);
            at = next + 4;
        }
        size_t length = strlen(text[i]);
        (void)snprintf(text[i] + length, sizeof(text[i]) - length, "%s", at);
        to[i] = from[i];
        to[i].code = text[i];
    }
}

/* Values where something changes, and their neighbours. */
static uint16_t edge(uint32_t index)
{
    int fraction = half_format->fraction_bits;
    uint32_t one = ((1u << (half_format->exponent_bits - 1)) - 1) << fraction;
    uint32_t infinity = ((1u << half_format->exponent_bits) - 1) << fraction;
    uint32_t centres[EDGES / 8] = {
        1,        1u << fraction, one - (1u << fraction), one, one + (1u << fraction) * 3, one / 2,
        infinity, 0x7ffd};

    return (uint16_t)((centres[index / 8] + index % 4 - 1) | (index & 4 ? HALF_SIGN : 0));
}

/* Random; one half of them near one, where sums and products of both meet. */
static void fill_random(struct batch *batch, uint64_t *random)
{
    uint32_t one = ((1u << (half_format->exponent_bits - 1)) - 1) << half_format->fraction_bits;

    for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
        uint64_t bits = batch_random(random);
        uint32_t low = half_format->fraction_bits == 10 ? 0x1fff : 0x03ff;
        uint32_t kept = i % 2 ? 0xffff : 0x8000 | low;
        uint32_t base = i % 2 ? 0 : one - (low + 1) / 2;
        ((uint16_t *)batch->sources[0])[i] = (uint16_t)(base + (bits & kept));
        ((uint16_t *)batch->sources[1])[i] = (uint16_t)(base + (bits >> 16 & kept));
        ((uint16_t *)batch->sources[2])[i] = (uint16_t)(base + (bits >> 32 & kept));
    }
}

static void check_rows(const struct exact_row *given, int count, const char *type,
                       uint32_t random_count)
{
    struct exact_row named[BATCH_OPERATIONS];
    uint64_t random = 88172645463325252u;
    struct batch batch;

    half_use(strcmp(type, "f16") == 0 ? &narrow_f16 : &narrow_bf16);
    name_type(named, given, count, type);
    exact_open(&batch, named, count, sources);
    for (uint32_t i = 0; i < EDGES * EDGES * 4; i++) {
        uint32_t pair = i % (EDGES * EDGES);
        ((uint16_t *)batch.sources[0])[i] = edge(pair / EDGES);
        ((uint16_t *)batch.sources[1])[i] = edge(pair % EDGES);
        ((uint16_t *)batch.sources[2])[i] =
            edge((pair * 7 + pair / EDGES * 5 + i / 4096 * 19) % EDGES);
    }
    exact_check(&batch, named, count, sources, EDGES * EDGES * 4);
    for (uint32_t done = 0; done < random_count; done += BATCH_ELEMENTS) {
        fill_random(&batch, &random);
        exact_check(&batch, named, count, sources, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}

static void test_ten_million_pairs_of_f16_are_rounded_once(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(base_rows), "f16", RANDOM);
}

static void test_ten_million_pairs_of_bf16_are_rounded_once(void **state)
{
    (void)state;
    check_rows(EXACT_ROWS(base_rows), "bf16", RANDOM);
}

static void test_fma_pairs_relations_and_modifiers_of_halves_are_exact(void **state)
{
    uint32_t random_count = batch_count(BATCH_ELEMENTS * 4, RANDOM);

    (void)state;
    check_rows(EXACT_ROWS(rows), "f16", random_count);
    check_rows(EXACT_ROWS(rows), "bf16", random_count);
    check_rows(EXACT_ROWS(f16_rows), "f16", random_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_million_pairs_of_f16_are_rounded_once),
        cmocka_unit_test(test_ten_million_pairs_of_bf16_are_rounded_once),
        cmocka_unit_test(test_fma_pairs_relations_and_modifiers_of_halves_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
