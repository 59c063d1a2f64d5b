/*
 * Task 016: the traps of its page are refused, and the ways in which an honest kernel may multiply
 * and add are accepted.
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
#include <stdlib.h>
#include <string.h>

struct way {
    bool is_blocked; /* eight partial sums, not one */
    bool rounds_parts, rounds_chain;
    bool ignores_tail; /* rows of C that are no full tile */
    int first, ranks;  /* 0 ranks: all, from rank `first` on */
};

static float dot(const struct matrix *a, int64_t i, const struct matrix *b, int64_t j,
                 const struct way *way)
{
    float lanes[8] = {0};

    for (int64_t k = 0; k < a->columns; k++) {
        lanes[way->is_blocked ? k % 8 : 0] +=
            (float)a->value[i * a->columns + k] * (float)b->value[k * b->columns + j];
    }
    for (int lane = 1; lane < 8; lane++) {
        lanes[0] += lanes[lane];
    }
    return lanes[0];
}

/* Adds the product of one rank to the sums of all rows. */
static void add_rank(const struct audit *audit, int rank, const struct way *way, float *sums)
{
    const struct tensor *in = audit->in[rank];
    enum dtype dtype = audit->run->dtype;
    struct matrix a;
    struct matrix b;

    matrix_open_rows(&a, &in[0], 0, in[0].spec->shape[0], in[0].spec->shape[1]);
    matrix_open_rows(&b, &in[1], 0, in[1].spec->shape[0], in[1].spec->shape[1]);
    for (int64_t i = 0; i < a.rows * b.columns; i++) {
        float part = dot(&a, i / b.columns, &b, i % b.columns, way);
        part = way->rounds_parts ? (float)dtype_round(dtype, part) : part;
        sums[i] += part;
        sums[i] = way->rounds_chain ? (float)dtype_round(dtype, sums[i]) : sums[i];
    }
    matrix_close(&a);
    matrix_close(&b);
}

static void scatter(struct audit *audit, const struct way *way)
{
    int world = audit->run->world;
    int64_t block = audit->out[0][0].spec->elements;
    int64_t columns = audit->out[0][0].spec->shape[1];
    float *sums = calloc((size_t)(world * block), sizeof(*sums));

    for (int k = 0; k < (way->ranks > 0 ? way->ranks : world); k++) {
        add_rank(audit, (way->first + k) % world, way, sums);
    }
    for (int64_t i = 0; i < world * block; i++) {
        bool is_tail = way->ignores_tail && i % block / columns >= block / columns / 4 * 4;
        tensor_set(&audit->out[i / block][0], i % block, is_tail ? 0 : sums[i]);
    }
    free(sums);
}

static void scatter_in_fp32(struct audit *audit)
{
    scatter(audit, &(struct way){.is_blocked = true});
}

static void scatter_parts_in_t(struct audit *audit)
{
    scatter(audit, &(struct way){.is_blocked = true, .rounds_parts = true});
}

static void scatter_in_a_chain(struct audit *audit)
{
    scatter(audit, &(struct way){.is_blocked = true, .rounds_parts = true, .rounds_chain = true});
}

static void scatter_in_another_chain(struct audit *audit)
{
    scatter(audit, &(struct way){
                       .is_blocked = true, .rounds_parts = true, .rounds_chain = true, .first = 1});
}

static void leave_out_the_last_rank(struct audit *audit)
{
    scatter(audit, &(struct way){.ranks = audit->run->world - 1});
}

static void count_rank_0_twice(struct audit *audit)
{
    scatter(audit, &(struct way){.ranks = audit->run->world + 1});
}

static void leave_out_the_tail(struct audit *audit)
{
    scatter(audit, &(struct way){.ignores_tail = true});
}

static const struct answer traps[] = {
    {"gemm_reducescatter", "no last rank", leave_out_the_last_rank, 2, NULL},
    {"gemm_reducescatter", "rank 0 twice", count_rank_0_twice, 1, NULL},
    {"gemm_reducescatter", "no tail of rows", leave_out_the_tail, 4, NULL},
    {"gemm_reducescatter", "the next rank's block", take_the_next_ranks_answer, 2, NULL},
    {"gemm_reducescatter", "last element unwritten", leave_last_element, 1, NULL},
    {"gemm_reducescatter", "two elements swapped", swap_two_elements, 1, NULL},
};

static const struct answer honest[] = {
    {"gemm_reducescatter", "fp32 to the end", scatter_in_fp32, 1, NULL},
    {"gemm_reducescatter", "products in T, sums in fp32", scatter_parts_in_t, 1, NULL},
    {"gemm_reducescatter", "chain in T, from rank 0 on", scatter_in_a_chain, 1, NULL},
    {"gemm_reducescatter", "chain in T, from rank 1 on", scatter_in_another_chain, 1, NULL},
};

static void test_the_traps_of_the_page_are_refused(void **state)
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
        cmocka_unit_test(test_the_traps_of_the_page_are_refused),
        cmocka_unit_test(test_honest_ways_to_compute_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
