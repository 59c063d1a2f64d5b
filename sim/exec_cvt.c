/*
 * exec_cvt.c — conversions between floating-point formats, by way of double, which holds every
 * narrower number, with one rounding at the end; short cuts for the commonest.
 */
#include "sim/exec_cvt.h"
#include "sim/half.h"

#include <math.h>

/* ---- floating point ---- */

static void flush(float value[WARP_LANES])
{
    EACH_LANE
    {
        uint32_t bits = bits_of_float(value[lane]);
        value[lane] = float_of_bits(bits & 0x7f800000 ? bits : bits & 0x80000000);
    }
}

/* Source `source` as doubles; `shift` chooses the upper half of a pair or the upper code. */
void cvt_read_real(struct warp *warp, const struct insn *insn, int source, int shift,
                   double value[WARP_LANES])
{
    const uint32_t *bits = SOURCE(uint32_t, source);
    float narrow[WARP_LANES];

    if (insn->type2 == TYPE_F64) {
        memcpy(value, SOURCE(double, source), WARP_LANES * sizeof(double));
        return;
    }
    EACH_LANE
    {
        uint32_t x = bits[lane] >> shift;
        switch (insn->type2) {
        case TYPE_F16:
        case TYPE_F16X2:
            narrow[lane] = float_of_f16((uint16_t)x);
            break;
        case TYPE_BF16:
        case TYPE_BF16X2:
            narrow[lane] = float_of_bf16((uint16_t)x);
            break;
        case TYPE_E4M3X2:
            narrow[lane] = float_of_e4m3((uint8_t)x);
            break;
        case TYPE_E5M2X2:
            narrow[lane] = float_of_e5m2((uint8_t)x);
            break;
        default:
            narrow[lane] = float_of_bits(x);
            break;
        }
    }
    if (insn->type2 == TYPE_F32 && insn->flags & FLAG_FTZ) {
        flush(narrow);
    }
    EACH_LANE
    {
        value[lane] = narrow[lane];
    }
}

double cvt_to_whole(double value, enum code_round round)
{
    switch (round) {
    case ROUND_RNI:
        return nearbyint(value);
    case ROUND_RMI:
        return floor(value);
    case ROUND_RPI:
        return ceil(value);
    case ROUND_RZI:
        return trunc(value);
    default:
        return value;
    }
}

static const struct format *format_of(uint8_t type)
{
    switch (type) {
    case TYPE_F16:
    case TYPE_F16X2:
        return &format_f16;
    case TYPE_BF16:
    case TYPE_BF16X2:
        return &format_bf16;
    case TYPE_TF32:
        return &format_tf32;
    case TYPE_E4M3X2:
        return &format_e4m3;
    case TYPE_E5M2X2:
        return &format_e5m2;
    default:
        return &format_f32;
    }
}

/* One number in the format of the instruction's result. */
uint32_t cvt_narrowed(const struct insn *insn, double value, int residue)
{
    const struct format *format = format_of(insn->type);
    bool is_whole = insn->round >= ROUND_RNI;
    struct rounding rounding = {is_whole || insn->round == ROUND_NONE ? ROUND_RN : insn->round,
                                insn->flags & FLAG_SATFINITE};

    if (insn->flags & FLAG_SAT) {
        value = value > 0 ? (value < 1 ? value : 1) : 0;
    }
    if (insn->flags & FLAG_RELU && (value < 0 || (value == 0 && signbit(value)))) {
        return 0;
    }
    uint32_t bits = format_round(format, value, residue, &rounding);
    if (insn->type == TYPE_F32 && insn->flags & FLAG_FTZ && !(bits & 0x7f800000)) {
        bits &= 0x80000000;
    }
    /* A tf32 is an f32 whose low bits are zero. */
    return insn->type == TYPE_TF32 ? (value == value ? bits << 13 : 0x7fffffff) : bits;
}

static void cvt_real(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    double value[WARP_LANES];
    uint32_t *d = DESTINATION(uint32_t, 0);

    cvt_read_real(warp, insn, 0, 0, value);
    FOR_LANES(uint32_t, result = cvt_narrowed(insn, cvt_to_whole(value[lane], insn->round), 0))
}

static void cvt_real_f64(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    double value[WARP_LANES];
    double *d = DESTINATION(double, 0);

    cvt_read_real(warp, insn, 0, 0, value);
    FOR_LANES(double, double x = cvt_to_whole(value[lane], insn->round);
              result = insn->flags & FLAG_SAT ? (x > 0 ? (x < 1 ? x : 1) : 0) : x)
}

/* Two numbers in one register: from two operands, the first is the upper one, or from a pair. */
static void cvt_pair(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    bool is_code = insn->type == TYPE_E4M3X2 || insn->type == TYPE_E5M2X2;
    bool is_from_code = insn->type2 == TYPE_E4M3X2 || insn->type2 == TYPE_E5M2X2;
    int width = is_code ? 8 : 16;
    double high[WARP_LANES];
    double low[WARP_LANES];
    uint32_t *d = DESTINATION(uint32_t, 0);

    if (insn->src_count == 2) {
        cvt_read_real(warp, insn, 0, 0, high);
        cvt_read_real(warp, insn, 1, 0, low);
    } else {
        cvt_read_real(warp, insn, 0, is_from_code ? 8 : 16, high);
        cvt_read_real(warp, insn, 0, 0, low);
    }
    FOR_LANES(uint32_t, result = cvt_narrowed(insn, high[lane], 0) << width |
                                 cvt_narrowed(insn, low[lane], 0))
}

/* ---- short cuts ---- */

static void f64_f32(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    double *d = DESTINATION(double, 0);
    const float *a = SOURCE(float, 0);

    FOR_LANES(double, result = a[lane])
}

static void f32_f64(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    float *d = DESTINATION(float, 0);
    const double *a = SOURCE(double, 0);

    FOR_LANES(float, float x = (float)a[lane]; result = x == x ? x : float_of_bits(0x7fffffff))
}

static void f32_f16(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    float *d = DESTINATION(float, 0);
    const uint32_t *a = SOURCE(uint32_t, 0);
    float value[WARP_LANES];

    for (int lane = 0; lane < WARP_LANES; lane += 8) {
        __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)&a[lane]);
        words = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
        __m128i halves =
            _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm256_storeu_ps(&value[lane], _mm256_cvtph_ps(halves));
    }
    FOR_LANES(float, float x = value[lane]; result = x == x ? x : float_of_bits(0x7fffffff))
}

/* NaN keeps its payload, unlike from f16: seen on an H200. */
static void f32_bf16(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t *d = DESTINATION(uint32_t, 0);
    const uint32_t *a = SOURCE(uint32_t, 0);

    FOR_LANES(uint32_t, result = a[lane] << 16)
}

/* f32 to f16 bits, to nearest. */
static void halves_of(uint32_t to[WARP_LANES], const float *from)
{
    for (int lane = 0; lane < WARP_LANES; lane += 8) {
        __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(&from[lane]), 0);
        _mm256_storeu_si256((__m256i *)(void *)&to[lane], _mm256_cvtepu16_epi32(half));
    }
    EACH_LANE
    {
        to[lane] = from[lane] == from[lane] ? to[lane] : 0x7fff;
    }
}

static void bfloats_of(uint32_t to[WARP_LANES], const float *from)
{
    EACH_LANE
    {
        uint32_t bits = bits_of_float(from[lane]);
        uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        to[lane] = from[lane] == from[lane] ? rounded : 0x7fff;
    }
}

#define NARROW(name, convert)                                                                      \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        uint32_t *d = DESTINATION(uint32_t, 0);                                                    \
        uint32_t value[WARP_LANES];                                                                \
        convert(value, SOURCE(float, 0));                                                          \
        FOR_LANES(uint32_t, result = value[lane])                                                  \
    }                                                                                              \
    static void name##x2(struct warp *warp, const struct insn *insn, uint32_t mask)                \
    {                                                                                              \
        uint32_t *d = DESTINATION(uint32_t, 0);                                                    \
        uint32_t high[WARP_LANES];                                                                 \
        uint32_t low[WARP_LANES];                                                                  \
        convert(high, SOURCE(float, 0));                                                           \
        convert(low, SOURCE(float, 1));                                                            \
        FOR_LANES(uint32_t, result = high[lane] << 16 | low[lane])                                 \
    }
NARROW(f16_f32, halves_of)
NARROW(bf16_f32, bfloats_of)

/* ---- finding ---- */

/* clang-format off */
/* Without modifiers, or to nearest. */
static insn_exec *const short_cuts[TYPES][TYPES] = {
    [TYPE_F64] = {[TYPE_F32] = f64_f32},
    [TYPE_F32] = {[TYPE_F64] = f32_f64, [TYPE_F16] = f32_f16, [TYPE_BF16] = f32_bf16},
    [TYPE_F16] = {[TYPE_F32] = f16_f32},
    [TYPE_BF16] = {[TYPE_F32] = bf16_f32},
    [TYPE_F16X2] = {[TYPE_F32] = f16_f32x2},
    [TYPE_BF16X2] = {[TYPE_F32] = bf16_f32x2},
};
/* clang-format on */

static bool is_real(uint8_t type)
{
    return type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F32 || type == TYPE_F64;
}

static bool is_pair(uint8_t type)
{
    return type == TYPE_F16X2 || type == TYPE_BF16X2 || type == TYPE_E4M3X2 || type == TYPE_E5M2X2;
}

insn_exec *find_cvt_real(const struct insn *insn)
{
    uint32_t allowed = FLAG_FTZ | FLAG_SAT | FLAG_SATFINITE | FLAG_RELU;
    bool is_nearest = insn->round == ROUND_NONE || insn->round == ROUND_RN;
    bool is_from_pair = is_pair(insn->type2) && insn->src_count == 1;

    if (!has_flags_only(insn, allowed)) {
        return NULL;
    }
    if (insn->flags == 0 && is_nearest && short_cuts[insn->type][insn->type2]) {
        return short_cuts[insn->type][insn->type2];
    }
    if (is_pair(insn->type)) {
        return is_from_pair || (insn->type2 == TYPE_F32 && insn->src_count == 2) ? cvt_pair : NULL;
    }
    if (!is_real(insn->type2) || insn->src_count != 1) {
        return NULL;
    }
    if (insn->type == TYPE_F64) {
        return cvt_real_f64;
    }
    return is_real(insn->type) || insn->type == TYPE_TF32 ? cvt_real : NULL;
}
