/*
 * Tasks 011 to 015: the traps of their pages are refused, and the ways in which an honest kernel
 * may multiply and add are accepted.
 */
#include "tests/answers.h"

#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_gemm.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- products as kernels make them ---- */

struct way {
    bool is_blocked;                 /* eight partial sums, not one */
    bool rounds_parts, rounds_chain; /* to T */
    bool is_tf32;                    /* factors of 11 bits */
    bool reverses, scrambles;
    bool ignores_tail; /* the last inner elements */
    int first, ranks;  /* 013: 0 ranks: all, from rank `first` on */
    int factor_shift;  /* whose b, counted from the own rank */
    bool takes_factor_of_rank_0;
};

static float narrowed(double value, const struct way *way)
{
    float x = (float)value;
    uint32_t bits;

    if (way->is_tf32) {
        memcpy(&bits, &x, sizeof(bits));
        bits = (bits + 0x1000) & 0xffffe000;
        memcpy(&x, &bits, sizeof(x));
    }
    return x;
}

/* Row i of a times column j of b, in fp32. */
static float dot(const struct matrix *a, int64_t i, const struct matrix *b, int64_t j,
                 const struct way *way)
{
    int64_t length = way->ignores_tail ? a->columns / 16 * 16 : a->columns;
    float lanes[8] = {0};

    for (int64_t k = 0; k < length; k++) {
        lanes[way->is_blocked ? k % 8 : 0] += narrowed(a->value[i * a->columns + k], way) *
                                              narrowed(b->value[k * b->columns + j], way);
    }
    for (int lane = 1; lane < 8; lane++) {
        lanes[0] += lanes[lane];
    }
    return lanes[0];
}

/* Adds a part to the sums. */
static void add_part(float *sums, const struct matrix *a, const struct matrix *b,
                     const struct way *way, enum dtype dtype)
{
    for (int64_t i = 0; i < a->rows * b->columns; i++) {
        float part = dot(a, i / b->columns, b, i % b->columns, way);
        part = way->rounds_parts ? (float)dtype_round(dtype, part) : part;
        sums[i] += part;
        sums[i] = way->rounds_chain ? (float)dtype_round(dtype, sums[i]) : sums[i];
    }
}

/* ---- 011, 012: gathered columns of A ---- */

/* The shard of `source`; where gathered shards are taken for rows, what stands in its place. */
static void open_shard(const struct audit *audit, int source, const struct way *way,
                       struct matrix *shard)
{
    int world = audit->run->world;
    int64_t rows = audit->in[0][0].spec->shape[0];
    int64_t width = audit->in[0][0].spec->shape[1];

    matrix_open_rows(shard, &audit->in[way->reverses ? world - 1 - source : source][0], 0, rows,
                     width);
    for (int64_t i = 0; way->scrambles && i < rows * width; i++) {
        int64_t at = i / width * world * width + source * width + i % width;
        shard->value[i] = tensor_get(&audit->in[at / (rows * width)][0], at % (rows * width));
    }
}

static void multiply_gathered(struct audit *audit, int rank, const struct way *way)
{
    int world = audit->run->world;
    const struct tensor *out = &audit->out[rank][0];
    int factor = way->takes_factor_of_rank_0 ? 0 : (rank + way->factor_shift) % world;
    const struct tensor *b = &audit->in[factor][1];
    int64_t width = audit->in[0][0].spec->shape[1];
    float *sums = calloc((size_t)out->spec->elements, sizeof(*sums));
    int64_t rows = audit->in[0][0].spec->shape[0];
    int64_t columns = b->spec->shape[1];

    for (int source = 0; source < world; source++) {
        struct matrix shard;
        struct matrix block;
        open_shard(audit, source, way, &shard);
        matrix_open_rows(&block, b, source * width, width, columns);
        add_part(sums, &shard, &block, way, audit->run->dtype);
        matrix_close(&shard);
        matrix_close(&block);
    }
    for (int64_t i = 0; i < rows * columns; i++) {
        bool is_transposed = audit->run->task->number == 11;
        tensor_set(out, is_transposed ? i % columns * rows + i / columns : i, sums[i]);
    }
    free(sums);
}

static void multiply_all_gathered(struct audit *audit, const struct way *way)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        multiply_gathered(audit, rank, way);
    }
}

static void gather_in_sequence(struct audit *audit)
{
    multiply_all_gathered(audit, &(struct way){0});
}

static void gather_in_blocks(struct audit *audit)
{
    multiply_all_gathered(audit, &(struct way){.is_blocked = true});
}

static void gather_and_add_in_t(struct audit *audit)
{
    if (audit->run->dtype != DTYPE_FP32) { /* there it is honest */
        multiply_all_gathered(
            audit, &(struct way){.is_blocked = true, .rounds_parts = true, .rounds_chain = true});
    }
}

static void gather_in_tf32(struct audit *audit)
{
    if (audit->run->dtype == DTYPE_FP32) {
        multiply_all_gathered(audit, &(struct way){.is_blocked = true, .is_tf32 = true});
    }
}

static void gather_with_the_next_ranks_factor(struct audit *audit)
{
    multiply_all_gathered(audit, &(struct way){.factor_shift = 1});
}

static void gather_with_one_factor_for_all(struct audit *audit)
{
    multiply_all_gathered(audit, &(struct way){.takes_factor_of_rank_0 = true});
}

static void gather_in_reverse(struct audit *audit)
{
    multiply_all_gathered(audit, &(struct way){.reverses = true});
}

static void gather_along_rows(struct audit *audit)
{
    multiply_all_gathered(audit, &(struct way){.scrambles = true});
}

static void gather_without_the_tail(struct audit *audit)
{
    if (audit->in[0][0].spec->shape[1] % 16 != 0) { /* else there is none */
        multiply_all_gathered(audit, &(struct way){.ignores_tail = true});
    }
}

/* The shard of the last rank is that of the call before, on rank 0. */
static void gather_a_stale_shard(struct audit *audit)
{
    struct audit before;
    struct tensor kept = audit->in[audit->run->world - 1][0];

    audit_open(&before, audit->run, audit->seed, audit->call - 1);
    audit->in[audit->run->world - 1][0] = before.in[audit->run->world - 1][0];
    multiply_gathered(audit, 0, &(struct way){0});
    audit->in[audit->run->world - 1][0] = kept;
    audit_close(&before);
}

/* ---- 013: a sum of products ---- */

static void sum_products(struct audit *audit, const struct way *way, int rank, float *sums)
{
    int ranks = way->ranks > 0 ? way->ranks : audit->run->world;
    const struct tensor *out = &audit->out[rank][0];

    memset(sums, 0, (size_t)out->spec->elements * sizeof(*sums));
    for (int k = 0; k < ranks; k++) {
        const struct tensor *in = audit->in[(way->first + k) % audit->run->world];
        struct matrix a;
        struct matrix b;
        matrix_open_rows(&a, &in[0], 0, in[0].spec->shape[0], in[0].spec->shape[1]);
        matrix_open_rows(&b, &in[1], 0, in[1].spec->shape[0], in[1].spec->shape[1]);
        add_part(sums, &a, &b, way, audit->run->dtype);
        matrix_close(&a);
        matrix_close(&b);
    }
    for (int64_t i = 0; i < out->spec->elements; i++) {
        tensor_set(out, i, sums[i]);
    }
}

static void sum_on_all_ranks(struct audit *audit, const struct way *way)
{
    const struct tensor *first = &audit->out[0][0];
    float *sums = calloc((size_t)first->spec->elements, sizeof(*sums));

    sum_products(audit, way, 0, sums);
    for (int rank = 1; rank < audit->run->world; rank++) {
        memcpy(audit->out[rank][0].data, first->data, first->spec->size_bytes);
    }
    free(sums);
}

static void sum_in_fp32(struct audit *audit)
{
    sum_on_all_ranks(audit, &(struct way){.is_blocked = true});
}

static void sum_parts_in_t(struct audit *audit)
{
    sum_on_all_ranks(audit, &(struct way){.is_blocked = true, .rounds_parts = true});
}

static void sum_in_a_chain(struct audit *audit)
{
    sum_on_all_ranks(audit,
                     &(struct way){.is_blocked = true, .rounds_parts = true, .rounds_chain = true});
}

static void sum_in_another_chain(struct audit *audit)
{
    sum_on_all_ranks(
        audit,
        &(struct way){.is_blocked = true, .rounds_parts = true, .rounds_chain = true, .first = 1});
}

static void sum_from_the_own_rank_on(struct audit *audit)
{
    float *sums = calloc((size_t)audit->out[0][0].spec->elements, sizeof(*sums));

    for (int rank = 0; rank < audit->run->world; rank++) {
        sum_products(audit,
                     &(struct way){.rounds_parts = true, .rounds_chain = true, .first = rank}, rank,
                     sums);
    }
    free(sums);
}

static void leave_out_the_last_rank(struct audit *audit)
{
    sum_on_all_ranks(audit, &(struct way){.ranks = audit->run->world - 1});
}

static void count_rank_0_twice(struct audit *audit)
{
    sum_on_all_ranks(audit, &(struct way){.ranks = audit->run->world + 1});
}

static void sum_without_the_tail(struct audit *audit)
{
    sum_on_all_ranks(audit, &(struct way){.ignores_tail = true});
}

static void sum_in_tf32(struct audit *audit)
{
    if (audit->run->dtype == DTYPE_FP32) {
        sum_on_all_ranks(audit, &(struct way){.is_blocked = true, .is_tf32 = true});
    }
}

/* ---- 014: products side by side ---- */

/* The block that rank `source` holds the right factor of, into `columns` of a rank's output. */
static void place_block(struct audit *audit, int rank, int left, int right, const struct way *way)
{
    const struct tensor *a_in = &audit->in[left][0];
    const struct tensor *b_in = &audit->in[right][1];
    int64_t width = b_in->spec->shape[1];
    int64_t stride = audit->run->world * width;
    float *sums = calloc((size_t)(a_in->spec->shape[0] * width), sizeof(*sums));
    struct matrix a;
    struct matrix b;

    matrix_open_rows(&a, a_in, 0, a_in->spec->shape[0], a_in->spec->shape[1]);
    matrix_open_rows(&b, b_in, 0, b_in->spec->shape[0], width);
    add_part(sums, &a, &b, way, audit->run->dtype);
    for (int64_t i = 0; i < a.rows * width; i++) {
        tensor_set(&audit->out[rank][0], i / width * stride + right * width + i % width, sums[i]);
    }
    matrix_close(&a);
    matrix_close(&b);
    free(sums);
}

static void place_on_all_ranks(struct audit *audit, const struct way *way)
{
    for (int source = 0; source < audit->run->world; source++) {
        place_block(audit, 0, source, source, way);
    }
    for (int rank = 1; rank < audit->run->world; rank++) {
        memcpy(audit->out[rank][0].data, audit->out[0][0].data, audit->out[0][0].spec->size_bytes);
    }
}

static void place_in_sequence(struct audit *audit)
{
    place_on_all_ranks(audit, &(struct way){0});
}

static void place_in_blocks(struct audit *audit)
{
    place_on_all_ranks(audit, &(struct way){.is_blocked = true});
}

static void place_without_the_tail(struct audit *audit)
{
    place_on_all_ranks(audit, &(struct way){.ignores_tail = true});
}

static void place_in_tf32(struct audit *audit)
{
    if (audit->run->dtype == DTYPE_FP32) {
        place_on_all_ranks(audit, &(struct way){.is_blocked = true, .is_tf32 = true});
    }
}

/* B is gathered, and multiplied by the own A. */
static void place_with_the_own_a(struct audit *audit)
{
    for (int source = 0; source < audit->run->world; source++) {
        place_block(audit, audit->run->world - 1, audit->run->world - 1, source, &(struct way){0});
    }
}

/* Element i of the right answer moves to `to(i)`, on every rank. */
static void move_elements(struct audit *audit, int64_t (*to)(const struct audit *audit, int64_t i))
{
    const struct tensor *out = &audit->out[0][0];
    size_t size_bytes = dtype_size_bytes(out->spec->dtype);
    char *right = malloc(out->spec->size_bytes);

    memcpy(right, out->data, out->spec->size_bytes);
    for (int64_t i = 0; i < out->spec->elements; i++) {
        int64_t at = to(audit, i);
        if (at >= 0 && at < out->spec->elements) {
            memcpy((char *)out->data + (size_t)at * size_bytes, right + (size_t)i * size_bytes,
                   size_bytes);
        }
    }
    for (int rank = 1; rank < audit->run->world; rank++) {
        memcpy(audit->out[rank][0].data, out->data, out->spec->size_bytes);
    }
    free(right);
}

static int64_t stacked(const struct audit *audit, int64_t i)
{
    int64_t columns = audit->out[0][0].spec->shape[1];
    int64_t rows = audit->out[0][0].spec->shape[0];
    int64_t width = columns / audit->run->world;

    return i % columns / width * rows * width + i / columns * width + i % width;
}

/* Rows that start where those of N columns would. */
static int64_t padded(const struct audit *audit, int64_t i)
{
    int64_t columns = audit->out[0][0].spec->shape[1];

    return i / columns * audit->run->dim[1] + i % columns;
}

static int64_t in_reverse(const struct audit *audit, int64_t i)
{
    int64_t columns = audit->out[0][0].spec->shape[1];
    int64_t width = columns / audit->run->world;
    int64_t block = i % columns / width;

    return i + (audit->run->world - 1 - 2 * block) * width;
}

static void stack_blocks(struct audit *audit)
{
    move_elements(audit, stacked);
}

static void pad_columns(struct audit *audit)
{
    move_elements(audit, padded);
}

static void reverse_blocks(struct audit *audit)
{
    move_elements(audit, in_reverse);
}

static const struct answer traps[] = {
    {"allgather_gemm_AT", "the next rank's B", gather_with_the_next_ranks_factor, 2, NULL},
    {"allgather_gemm_AT", "one B for all", gather_with_one_factor_for_all, 2, NULL},
    {"allgather_gemm_AT", "shards reversed", gather_in_reverse, 2, NULL},
    {"allgather_gemm_AT", "parts added in T", gather_and_add_in_t, 2, NULL},
    {"allgather_gemm_AT", "TF32", gather_in_tf32, 1, NULL},
    {"allgather_gemm_AT", "no tail of K", gather_without_the_tail, 2, NULL},
    {"allgather_gemm_AT", "a stale shard", gather_a_stale_shard, 1, NULL},
    {"allgather_gemm_AT", "not transposed", swap_rows_and_columns, 1, NULL},
    {"allgather_gemm_AT", "last element unwritten", leave_last_element, 1, NULL},
    {"allgather_gemm", "the next rank's B", gather_with_the_next_ranks_factor, 2, NULL},
    {"allgather_gemm", "one B for all", gather_with_one_factor_for_all, 2, NULL},
    {"allgather_gemm", "shards reversed", gather_in_reverse, 2, NULL},
    {"allgather_gemm", "gathered along rows", gather_along_rows, 2, NULL},
    {"allgather_gemm", "parts added in T", gather_and_add_in_t, 2, NULL},
    {"allgather_gemm", "TF32", gather_in_tf32, 1, NULL},
    {"allgather_gemm", "no tail of K", gather_without_the_tail, 2, NULL},
    {"allgather_gemm", "a stale shard", gather_a_stale_shard, 1, NULL},
    {"allgather_gemm", "transposed", swap_rows_and_columns, 1, NULL},
    {"allgather_gemm", "last element unwritten", leave_last_element, 1, NULL},
    {"gemm_allreduce", "no last rank", leave_out_the_last_rank, 2, NULL},
    {"gemm_allreduce", "rank 0 twice", count_rank_0_twice, 1, NULL},
    {"gemm_allreduce", "sum from the own rank on", sum_from_the_own_rank_on, 4, NULL},
    {"gemm_allreduce", "TF32", sum_in_tf32, 1, NULL},
    {"gemm_allreduce", "no tail of K", sum_without_the_tail, 1, NULL},
    {"gemm_allreduce", "transposed", swap_rows_and_columns, 1, NULL},
    {"gemm_allreduce", "last element unwritten", leave_last_element, 1, NULL},
    {"gemm_allgather", "the own A for all blocks", place_with_the_own_a, 2, NULL},
    {"gemm_allgather", "blocks stacked", stack_blocks, 2, NULL},
    {"gemm_allgather", "columns padded", pad_columns, 2, NULL},
    {"gemm_allgather", "blocks reversed", reverse_blocks, 2, NULL},
    {"gemm_allgather", "TF32", place_in_tf32, 1, NULL},
    {"gemm_allgather", "no tail of K", place_without_the_tail, 1, NULL},
    {"gemm_allgather", "last element unwritten", leave_last_element, 1, NULL},
};

static const struct answer honest[] = {
    {"allgather_gemm_AT", "fp32 in sequence", gather_in_sequence, 1, NULL},
    {"allgather_gemm_AT", "fp32 in blocks", gather_in_blocks, 1, NULL},
    {"allgather_gemm", "fp32 in sequence", gather_in_sequence, 1, NULL},
    {"allgather_gemm", "fp32 in blocks", gather_in_blocks, 1, NULL},
    {"gemm_allreduce", "fp32 to the end", sum_in_fp32, 1, NULL},
    {"gemm_allreduce", "products in T, sums in fp32", sum_parts_in_t, 1, NULL},
    {"gemm_allreduce", "chain in T, from rank 0 on", sum_in_a_chain, 1, NULL},
    {"gemm_allreduce", "chain in T, from rank 1 on", sum_in_another_chain, 1, NULL},
    {"gemm_allgather", "fp32 in sequence", place_in_sequence, 1, NULL},
    {"gemm_allgather", "fp32 in blocks", place_in_blocks, 1, NULL},
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
