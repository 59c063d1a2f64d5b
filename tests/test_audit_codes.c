/* Tasks 019 and 020: the traps of their pages are refused. */
#include "tests/answers.h"

#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_quant.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* ---- 019 ---- */

enum { M, N, Q, G, FMT };

enum division { OF_FP32, BY_RECIPROCAL, BY_FACTOR };

struct quant_way {
    enum division division;
    bool scales_rows;
    bool truncates, loses_sign_of_zero, scales_zero_by_one;
};

static float scale_of(const struct audit *audit, int rank, int64_t block,
                      const struct quant_way *way)
{
    int64_t length = audit->run->dim[Q];
    int64_t row = audit->run->dim[N];
    int64_t first = way->scales_rows ? block * length / row * row : block * length;
    int64_t count = way->scales_rows ? row : length;

    return quant_scale(&audit->in[rank][0], first, count);
}

static uint8_t code_of(float x, float scale, const struct quant_way *way)
{
    float divisor = scale == 0 ? 1 : scale;
    double quotient = (double)(x / divisor);
    uint8_t code = 0;

    switch (way->division) {
    case OF_FP32:
        break;
    case BY_RECIPROCAL:
        quotient = (double)(x * (1.0F / divisor));
        break;
    case BY_FACTOR:
        quotient = (double)(x * (448.0F / (divisor * 448.0F)));
        break;
    }
    if (way->truncates) {
        quotient *= 1 - 0x1p-5;
    }
    scalar_set(DTYPE_E4M3, &code, 0, quotient);
    return way->loses_sign_of_zero && code == 0x80 ? 0 : code;
}

static void quantise(struct audit *audit, const struct quant_way *way)
{
    int64_t length = audit->run->dim[Q];
    int64_t elements = audit->in[0][0].spec->elements;

    for (int64_t i = 0; i < audit->run->world * elements; i++) {
        int source = (int)(i / elements);
        int64_t block = i % elements / length;
        float scale = scale_of(audit, source, block, way);
        float x = (float)tensor_get(&audit->in[source][0], i % elements);
        ((uint8_t *)audit->out[0][0].data)[i] = code_of(x, scale, way);
        scale = way->scales_zero_by_one && scale == 0 ? 1 : scale;
        tensor_set(&audit->out[0][1], i / length, (double)scale);
    }
    for (int rank = 1; rank < audit->run->world; rank++) {
        for (int i = 0; i < 2; i++) {
            memcpy(audit->out[rank][i].data, audit->out[0][i].data,
                   audit->out[0][i].spec->size_bytes);
        }
    }
}

static void scale_rows(struct audit *audit)
{
    quantise(audit, &(struct quant_way){.scales_rows = true});
}

static void round_toward_zero(struct audit *audit)
{
    quantise(audit, &(struct quant_way){.truncates = true});
}

static void lose_the_sign_of_zero(struct audit *audit)
{
    quantise(audit, &(struct quant_way){.loses_sign_of_zero = true});
}

static void scale_zero_by_one(struct audit *audit)
{
    quantise(audit, &(struct quant_way){.scales_zero_by_one = true});
}

static void multiply_by_reciprocal(struct audit *audit)
{
    quantise(audit, &(struct quant_way){.division = BY_RECIPROCAL});
}

static void multiply_by_factor(struct audit *audit)
{
    quantise(audit, &(struct quant_way){.division = BY_FACTOR});
}

static void change_a_scale_by_one_unit(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        *(char *)audit->out[rank][1].data ^= 1;
    }
}

/* The rows of the ranks in reverse. */
static void reverse_ranks(struct audit *audit)
{
    int world = audit->run->world;
    uint8_t *first = audit->out[0][0].data;
    size_t bytes = (size_t)audit->in[0][0].spec->elements;

    for (size_t i = 0; i < bytes; i++) {
        uint8_t kept = first[i];
        first[i] = first[(size_t)(world - 1) * bytes + i];
        first[(size_t)(world - 1) * bytes + i] = kept;
    }
    for (int rank = 1; rank < world; rank++) {
        memcpy(audit->out[rank][0].data, first, audit->out[0][0].spec->size_bytes);
    }
}

/* ---- 020 ---- */

struct dequant_way {
    bool restarts_in_rows, takes_own_scales, takes_magnitudes, rounds_products, gives_back;
};

/* Element i of the block from `source` for `rank`. */
static float product_of(const struct audit *audit, int source, int rank, int64_t i,
                        const struct dequant_way *way)
{
    const int64_t *dim = audit->run->dim;
    const struct tensor *y = &audit->in[source][dim[FMT] == 0 ? 0 : 2];
    const struct tensor *s =
        &audit->in[way->takes_own_scales ? rank : source][dim[FMT] == 0 ? 1 : 3];
    int64_t group =
        way->restarts_in_rows ? (i / dim[N] + i % dim[N] / dim[Q]) % dim[G] : i / dim[Q];
    float scale = (float)tensor_get(s, rank * dim[G] + group);
    float value = (float)tensor_get(y, rank * dim[M] * dim[N] + i);

    value *= way->takes_magnitudes ? fabsf(scale) : scale;
    return way->rounds_products ? (float)dtype_round(audit->run->dtype, value) : value;
}

static void dequantise(struct audit *audit, const struct dequant_way *way)
{
    int64_t block = audit->run->dim[M] * audit->run->dim[N];

    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int64_t i = 0; i < audit->run->world * block; i++) {
            int source = (int)(i / block);
            float value = way->gives_back ? product_of(audit, rank, source, i % block, way)
                                          : product_of(audit, source, rank, i % block, way);
            tensor_set(&audit->out[rank][0], i, (double)value);
        }
    }
}

static void restart_scales_in_rows(struct audit *audit)
{
    dequantise(audit, &(struct dequant_way){.restarts_in_rows = true});
}

static void take_own_scales(struct audit *audit)
{
    dequantise(audit, &(struct dequant_way){.takes_own_scales = true});
}

static void take_magnitudes_of_scales(struct audit *audit)
{
    dequantise(audit, &(struct dequant_way){.takes_magnitudes = true});
}

static void round_products(struct audit *audit)
{
    dequantise(audit, &(struct dequant_way){.rounds_products = true});
}

static void keep_blocks_where_they_are(struct audit *audit)
{
    dequantise(audit, &(struct dequant_way){.gives_back = true});
}

/* Products and codes in fp32 as they should be: the same bits. */
static void dequantise_as_asked(struct audit *audit)
{
    dequantise(audit, &(struct dequant_way){0});
}

static void quantise_as_asked(struct audit *audit)
{
    quantise(audit, &(struct quant_way){0});
}

static const struct answer traps[] = {
    {"blocked_fp8_quantize", "a scale for each row", scale_rows, 1, NULL},
    {"blocked_fp8_quantize", "rounded toward zero", round_toward_zero, 1, NULL},
    {"blocked_fp8_quantize", "-0 becomes 0", lose_the_sign_of_zero, 1, NULL},
    {"blocked_fp8_quantize", "scale 1 for zeros", scale_zero_by_one, 1, NULL},
    {"blocked_fp8_quantize", "multiplied by a reciprocal", multiply_by_reciprocal, 1, NULL},
    {"blocked_fp8_quantize", "multiplied by 448 / a", multiply_by_factor, 1, NULL},
    {"blocked_fp8_quantize", "a scale off by one unit", change_a_scale_by_one_unit, 1, NULL},
    {"blocked_fp8_quantize", "ranks reversed", reverse_ranks, 2, NULL},
    {"blocked_fp8_quantize", "last element unwritten", leave_last_element, 1, NULL},
    {"blocked_fp8_dequantize", "scales restart in rows", restart_scales_in_rows, 1, NULL},
    {"blocked_fp8_dequantize", "the receiver's scales", take_own_scales, 2, NULL},
    {"blocked_fp8_dequantize", "magnitudes of scales", take_magnitudes_of_scales, 1, NULL},
    {"blocked_fp8_dequantize", "products in T", round_products, 1, NULL},
    {"blocked_fp8_dequantize", "not exchanged", keep_blocks_where_they_are, 2, NULL},
    {"blocked_fp8_dequantize", "last element unwritten", leave_last_element, 1, NULL},
};

static const struct answer honest[] = {
    {"blocked_fp8_quantize", "fp32", quantise_as_asked, 1, NULL},
    {"blocked_fp8_dequantize", "fp32", dequantise_as_asked, 1, NULL},
};

static void test_the_traps_of_the_pages_are_refused(void **state)
{
    (void)state;
    refuse_everywhere(traps, sizeof(traps) / sizeof(traps[0]));
}

static void test_honest_ways_to_compute_are_accepted(void **state)
{
    (void)state;
    accept_everywhere(honest, sizeof(honest) / sizeof(honest[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_traps_of_the_pages_are_refused),
        cmocka_unit_test(test_honest_ways_to_compute_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
