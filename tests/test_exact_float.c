/*
 * f32: arithmetic in every rounding, flushed and saturated, against results in double that were
 * rounded to odd; extremes, signs, classes and comparisons against the bits.
 */
#include "tests/exact_half.h"

enum { EDGES = 64, ROUNDS = 4, MODES = 16, NAN_BITS = 0x7fffffff };
#define SIGN 0x80000000u

static const struct narrow narrow_f32 = {8, 23, true};

static double value_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;

    memcpy(&value, &low, sizeof(value));
    return value;
}

static uint64_t flushed(uint64_t bits)
{
    return bits & 0x7f800000 ? bits : bits & SIGN;
}

/* ---- arithmetic: exact but for the last bit of a double, which then is odd ---- */

/* `error` has the sign of the exact value less `value`. */
static double to_odd(double value, double error)
{
    uint64_t bits = double_bits(value);

    if (isfinite(value) && error != 0 && error == error && !(bits & 1)) {
        bits += (error > 0) == (value > 0) ? 1 : -(uint64_t)1;
        memcpy(&value, &bits, sizeof(value));
    }
    return value;
}

static double sum(double x, double y, double z)
{
    (void)z;
    return half_sum(x, y);
}
static double difference(double x, double y, double z)
{
    (void)z;
    return half_sum(x, -y);
}
static double product(double x, double y, double z)
{
    (void)z;
    return x * y;
}
static double fused(double x, double y, double z)
{
    return half_sum(x * y, z);
}
static double quotient(double x, double y, double z)
{
    double value = x / y;

    (void)z;
    return to_odd(value, -fma(value, y, -x) * (y < 0 ? -1 : 1));
}
static double reciprocal(double x, double y, double z)
{
    return quotient(1, x, y + z);
}
static double root(double x, double y, double z)
{
    double value = sqrt(x);

    (void)y;
    (void)z;
    return to_odd(value, -fma(value, value, -x));
}

static const struct arithmetic {
    const char *name, *operands;
    double (*exact)(double x, double y, double z);
    bool has_sat;
    bool is_zero_signed_by_mode; /* x - x is -0 where numbers are rounded down */
} arithmetics[] = {
    {"add", "%d, %a, %b", sum, true, true},       {"sub", "%d, %a, %b", difference, true, true},
    {"mul", "%d, %a, %b", product, true, false},  {"fma", "%d, %a, %b, %c", fused, true, true},
    {"mad", "%d, %a, %b, %c", fused, true, true}, {"div", "%d, %a, %b", quotient, false, false},
    {"rcp", "%d, %a", reciprocal, false, false},  {"sqrt", "%d, %a", root, false, false},
};
static const struct {
    const char *name;
    enum direction direction;
} roundings[] = {{".rn", TO_NEAREST}, {".rz", TO_ZERO}, {".rm", TO_MINUS}, {".rp", TO_PLUS}};

static bool is_right(const struct arithmetic *row, int mode, const uint64_t given[3], uint64_t got)
{
    bool flushes = mode & 4;
    double value[3];

    for (int i = 0; i < 3; i++) {
        value[i] = value_of(flushes ? flushed(given[i]) : given[i]);
    }
    enum direction direction = roundings[mode & 3].direction;
    double exact = row->exact(value[0], value[1], value[2]);
    uint64_t code = narrow_code(&narrow_f32, exact, direction, false);
    if (exact == 0 && row->is_zero_signed_by_mode && direction == TO_MINUS && !(mode & 8)) {
        return (got & ~SIGN) == 0; /* which zero depends on whether both were zeros */
    }
    if (mode & 8) {
        double clamped = exact > 0 ? (exact < 1 ? exact : 1) : 0;
        code = narrow_code(&narrow_f32, clamped, direction, false);
    }
    /* What rounds up to the smallest normal number is flushed or not: both are right. */
    bool is_at_border = flushes && (code & ~SIGN) <= 0x00800000 && (got & ~SIGN) == 0;
    return got == (flushes ? flushed(code) : code) || is_at_border;
}

static uint32_t edge(uint32_t index)
{
    static const uint32_t centres[EDGES / 8] = {0x00000001, 0x00800000, 0x3f000000, 0x3f800000,
                                                0x4b7fffff, 0x7f000000, 0x7f7fffff, 0x7fc00000};

    return (centres[index / 8] + index % 4 - 1) | (index & 4 ? SIGN : 0);
}

static void fill_edges(struct batch *batch)
{
    for (uint32_t i = 0; i < EDGES * EDGES * ROUNDS; i++) {
        uint32_t pair = i % (EDGES * EDGES);
        ((uint32_t *)batch->sources[0])[i] = edge(pair / EDGES);
        ((uint32_t *)batch->sources[1])[i] = edge(pair % EDGES);
        ((uint32_t *)batch->sources[2])[i] =
            edge((pair * 7 + pair / EDGES * 5 + i / (EDGES * EDGES) * 23) % EDGES);
    }
}

/* Any bits, or exponents so near to each other that sums round, with few bits set in between. */
static void fill_random(struct batch *batch, uint64_t *random)
{
    for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
        uint32_t near = 0x3f800000 + ((uint32_t)(batch_random(random) >> 40) % 30 << 23);
        for (int k = 0; k < BATCH_SOURCES; k++) {
            uint32_t bits = (uint32_t)(batch_random(random) >> 16);
            uint32_t kept = i % 4 == 1 ? 0x83ff0fff : 0x83ffffff;
            ((uint32_t *)batch->sources[k])[i] = i % 4 == 0 ? bits : near ^ (bits & kept);
        }
    }
}

static void check_elements(struct batch *batch, const struct arithmetic *row, int modes,
                           uint32_t elements)
{
    batch_run(batch, elements);
    for (int mode = 0; mode < modes; mode++) {
        for (uint32_t i = 0; i < elements; i++) {
            uint64_t given[3] = {exact_source(batch, 0, i, 4), exact_source(batch, 1, i, 4),
                                 exact_source(batch, 2, i, 4)};
            uint64_t got = batch_result(batch, mode, i, 4);
            if (!is_right(row, mode, given, got)) {
                fail_msg("%s%s%s%s %#lx, %#lx, %#lx gave %#lx", row->name, roundings[mode & 3].name,
                         mode & 4 ? ".ftz" : "", mode & 8 ? ".sat" : "", given[0], given[1],
                         given[2], got);
            }
        }
    }
}

static void check_arithmetic(const struct arithmetic *row)
{
    static const int bytes[BATCH_SOURCES] = {4, 4, 4};
    uint32_t random_count = batch_count(BATCH_ELEMENTS, BATCH_ELEMENTS * 32);
    struct batch_operation operations[MODES];
    char codes[MODES][64];
    uint64_t random = 88172645463325252u;
    struct batch batch;
    int modes = row->has_sat ? MODES : MODES / 2;

    for (int mode = 0; mode < modes; mode++) {
        (void)snprintf(codes[mode], sizeof(codes[mode]), "%s%s%s%s.f32 %s;", row->name,
                       roundings[mode & 3].name, mode & 4 ? ".ftz" : "", mode & 8 ? ".sat" : "",
                       row->operands);
        operations[mode] = (struct batch_operation){codes[mode], 4};
    }
    batch_open(&batch, operations, modes, bytes);
    fill_edges(&batch);
    check_elements(&batch, row, modes, EDGES * EDGES * ROUNDS);
    for (uint32_t done = 0; done < random_count; done += BATCH_ELEMENTS) {
        fill_random(&batch, &random);
        check_elements(&batch, row, modes, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}

static void test_f32_arithmetic_is_rounded_once_flushed_and_saturated(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(arithmetics) / sizeof(*arithmetics); i++) {
        check_arithmetic(&arithmetics[i]);
    }
}

/* ---- what looks at the bits ---- */

#define EXPECT(name, expression)                                                                   \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        double x = value_of(a);                                                                    \
        double y = value_of(b);                                                                    \
        (void)x;                                                                                   \
        (void)y;                                                                                   \
        (void)c;                                                                                   \
        return (uint64_t)(expression);                                                             \
    }
#define FLUSH(name, of)                                                                            \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        return of(flushed(a), flushed(b), c);                                                      \
    }
/* The extreme of the magnitudes, with the sign that the product would have. */
#define SIGNED_LIKE_PRODUCT(name, of)                                                              \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        uint64_t found = of(a & ~(uint64_t)SIGN, b & ~(uint64_t)SIGN, c);                          \
        return found == NAN_BITS ? found : found | ((a ^ b) & SIGN);                               \
    }

static bool is_less(uint64_t a, uint64_t b)
{
    double x = value_of(a);
    double y = value_of(b);

    return x < y || (x == y && (a & SIGN) && !(b & SIGN));
}

EXPECT(least, x != x && y != y ? NAN_BITS : x != x ? b : y != y ? a : is_less(a, b) ? a : b)
EXPECT(most, x != x && y != y ? NAN_BITS : x != x ? b : y != y ? a : is_less(a, b) ? b : a)
EXPECT(least_nan, x != x || y != y ? NAN_BITS : is_less(a, b) ? a : b)
EXPECT(most_nan, x != x || y != y ? NAN_BITS : is_less(a, b) ? b : a)
SIGNED_LIKE_PRODUCT(least_signed, least)
SIGNED_LIKE_PRODUCT(most_signed, most)
SIGNED_LIKE_PRODUCT(least_signed_nan, least_nan)
FLUSH(least_flushed, least)
FLUSH(most_nan_flushed, most_nan)
FLUSH(most_signed_flushed, most_signed)
EXPECT(negative, a ^ SIGN)
EXPECT(magnitude, a & ~(uint64_t)SIGN)
EXPECT(negative_flushed, flushed(a) ^ SIGN)
EXPECT(magnitude_flushed, flushed(a) & ~(uint64_t)SIGN)
EXPECT(with_sign, (a & SIGN) | (b & ~(uint64_t)SIGN))
EXPECT(is_finite, isfinite(x) != 0)
EXPECT(is_infinite, isinf(x) != 0)
EXPECT(number, x == x)
EXPECT(not_a_number, x != x)
EXPECT(normal, isfinite(x) && fabs(x) >= 0x1p-126)
EXPECT(subnormal, x != 0 && fabs(x) < 0x1p-126)

enum { LESS = 1, EQUAL = 2, MORE = 4, UNORDERED = 8 };
#define RELATION(name, set)                                                                        \
    EXPECT(name, ((set) & (x < y ? LESS : x == y ? EQUAL : x > y ? MORE : UNORDERED)) != 0)
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
FLUSH(is_lt_flushed, is_lt)
FLUSH(is_equ_flushed, is_equ)
EXPECT(mask_ge, x >= y ? UINT32_MAX : 0)
EXPECT(one_neu, x == y ? 0 : 0x3f800000)
EXPECT(by_sign, value_of(c) >= 0 ? a : b)
EXPECT(by_flushed_sign, value_of(flushed(c)) >= 0 ? a : b)

#define SETP(name) "setp." name " %p, %a, %b; selp.b32 %d, 1, 0, %p;"
#define TESTP(name) "testp." name ".f32 %p, %a; selp.b32 %d, 1, 0, %p;"
static const struct exact_row bit_rows[] = {
    {"min.f32 %d, %a, %b;", 4, least},
    {"max.f32 %d, %a, %b;", 4, most},
    {"min.NaN.f32 %d, %a, %b;", 4, least_nan},
    {"max.NaN.f32 %d, %a, %b;", 4, most_nan},
    {"min.xorsign.abs.f32 %d, %a, %b;", 4, least_signed},
    {"max.xorsign.abs.f32 %d, %a, %b;", 4, most_signed},
    {"min.NaN.xorsign.abs.f32 %d, %a, %b;", 4, least_signed_nan},
    {"min.ftz.f32 %d, %a, %b;", 4, least_flushed},
    {"max.ftz.NaN.f32 %d, %a, %b;", 4, most_nan_flushed},
    {"max.ftz.xorsign.abs.f32 %d, %a, %b;", 4, most_signed_flushed},
    {"neg.f32 %d, %a;", 4, negative},
    {"abs.f32 %d, %a;", 4, magnitude},
    {"neg.ftz.f32 %d, %a;", 4, negative_flushed},
    {"abs.ftz.f32 %d, %a;", 4, magnitude_flushed},
    {"copysign.f32 %d, %a, %b;", 4, with_sign},
    {TESTP("finite"), 4, is_finite},
    {TESTP("infinite"), 4, is_infinite},
    {TESTP("number"), 4, number},
    {TESTP("notanumber"), 4, not_a_number},
    {TESTP("normal"), 4, normal},
    {TESTP("subnormal"), 4, subnormal},
    {SETP("eq.f32"), 4, is_eq},
    {SETP("ne.f32"), 4, is_ne},
    {SETP("lt.f32"), 4, is_lt},
    {SETP("le.f32"), 4, is_le},
    {SETP("gt.f32"), 4, is_gt},
    {SETP("ge.f32"), 4, is_ge},
    {SETP("equ.f32"), 4, is_equ},
    {SETP("neu.f32"), 4, is_neu},
    {SETP("ltu.f32"), 4, is_ltu},
    {SETP("leu.f32"), 4, is_leu},
    {SETP("gtu.f32"), 4, is_gtu},
    {SETP("geu.f32"), 4, is_geu},
    {SETP("num.f32"), 4, is_num},
    {SETP("nan.f32"), 4, is_nan},
    {SETP("lt.ftz.f32"), 4, is_lt_flushed},
    {SETP("equ.ftz.f32"), 4, is_equ_flushed},
    {"set.ge.u32.f32 %d, %a, %b;", 4, mask_ge},
    {"set.neu.f32.f32 %d, %a, %b;", 4, one_neu},
    {"slct.f32.f32 %d, %a, %b, %c;", 4, by_sign},
    {"slct.ftz.b32.f32 %d, %a, %b, %c;", 4, by_flushed_sign},
};

static void test_extremes_signs_classes_and_comparisons_of_f32_are_exact(void **state)
{
    static const int bytes[BATCH_SOURCES] = {4, 4, 4};
    uint64_t random = 88172645463325252u;
    struct batch batch;

    (void)state;
    exact_open(&batch, EXACT_ROWS(bit_rows), bytes);
    fill_edges(&batch);
    exact_check(&batch, EXACT_ROWS(bit_rows), bytes, EDGES * EDGES * ROUNDS);
    for (uint32_t done = 0; done < batch_count(2, 64); done++) {
        fill_random(&batch, &random);
        exact_check(&batch, EXACT_ROWS(bit_rows), bytes, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_arithmetic_is_rounded_once_flushed_and_saturated),
        cmocka_unit_test(test_extremes_signs_classes_and_comparisons_of_f32_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
