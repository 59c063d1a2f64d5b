/*
 * Task 009: the traps of its page are refused, and the ways in which an honest kernel may sum are
 * accepted.
 */
#include "tests/answers.h"

#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

/* ---- 009: sums over rows and ranks ---- */

enum { GAMMA, BETA };

/* How a kernel sums: how many of a rank's rows, with which roundings. */
struct way {
    bool rounds_products, rounds_partials, rounds_chain;
    bool is_blocked;
    int64_t rows;     /* 0: all */
    int first, ranks; /* 0: all, from rank `first` on */
};

/* One rank's sum of a column in fp32. */
static float partial(const struct audit *audit, const struct way *way, int rank, int output,
                     int64_t j)
{
    const struct tensor *in = audit->in[rank % audit->run->world];
    int64_t columns = in[0].spec->shape[1];
    int64_t rows = way->rows > 0 ? way->rows : in[0].spec->shape[0];
    float lanes[8] = {0};

    for (int64_t i = 0; i < rows; i++) {
        float term = (float)tensor_get(&in[1], i * columns + j);
        if (output == GAMMA) {
            term *= (float)tensor_get(&in[0], i * columns + j);
            term = way->rounds_products ? (float)dtype_round(audit->run->dtype, term) : term;
        }
        lanes[way->is_blocked ? i % 8 : 0] += term;
    }
    for (int lane = 1; lane < 8; lane++) {
        lanes[0] += lanes[lane];
    }
    return way->rounds_partials ? (float)dtype_round(audit->run->dtype, lanes[0]) : lanes[0];
}

static void sum_columns(struct audit *audit, const struct way *way)
{
    int ranks = way->ranks > 0 ? way->ranks : audit->run->world;

    for (int64_t i = 0; i < 2 * audit->out[0][0].spec->elements; i++) {
        int output = (int)(i % 2);
        float sum = 0;
        for (int k = 0; k < ranks; k++) {
            sum += partial(audit, way, way->first + k, output, i / 2);
            sum = way->rounds_chain ? (float)dtype_round(audit->run->dtype, sum) : sum;
        }
        for (int rank = 0; rank < audit->run->world; rank++) {
            tensor_set(&audit->out[rank][output], i / 2, sum);
        }
    }
}

static void sum_in_fp32(struct audit *audit)
{
    sum_columns(audit, &(struct way){.is_blocked = true});
}

static void sum_in_sequence(struct audit *audit)
{
    sum_columns(audit, &(struct way){0});
}

static void sum_rounded_partials(struct audit *audit)
{
    sum_columns(audit, &(struct way){.is_blocked = true, .rounds_partials = true});
}

static void sum_as_the_source_does(struct audit *audit)
{
    sum_columns(audit, &(struct way){.is_blocked = true,
                                     .rounds_products = true,
                                     .rounds_partials = true,
                                     .rounds_chain = true});
}

static void sum_as_the_source_does_in_a_ring(struct audit *audit)
{
    sum_columns(audit, &(struct way){.is_blocked = true,
                                     .rounds_products = true,
                                     .rounds_partials = true,
                                     .rounds_chain = true,
                                     .first = 1});
}

/* The last rows are no full tile. */
static void leave_out_the_tail(struct audit *audit)
{
    sum_columns(audit, &(struct way){.rows = audit->in[0][0].spec->shape[0] / 8 * 8});
}

static void leave_out_the_last_rank(struct audit *audit)
{
    sum_columns(audit, &(struct way){.ranks = audit->run->world - 1});
}

static void count_rank_0_twice(struct audit *audit)
{
    sum_columns(audit, &(struct way){.ranks = audit->run->world + 1});
}

static void swap_outputs(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int64_t j = 0; j < audit->out[0][0].spec->elements; j++) {
            double gamma = tensor_get(&audit->out[rank][GAMMA], j);
            tensor_set(&audit->out[rank][GAMMA], j, tensor_get(&audit->out[rank][BETA], j));
            tensor_set(&audit->out[rank][BETA], j, gamma);
        }
    }
}

/* A wrong d_gamma beside a right d_beta, whose norm is 16 times as large. */
static void forget_gamma(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int64_t j = 0; j < audit->out[0][0].spec->elements; j++) {
            tensor_set(&audit->out[rank][GAMMA], j, 0);
        }
    }
}

/* Atomics: the last bit of one element of one rank. */
static void change_the_last_bit_on_one_rank(struct audit *audit)
{
    *(char *)audit->out[0][BETA].data ^= 1;
}

static const struct answer traps[] = {
    {"layernorm_backward", "outputs swapped", swap_outputs, 1, NULL},
    {"layernorm_backward", "d_gamma forgotten", forget_gamma, 1, NULL},
    {"layernorm_backward", "no tail of rows", leave_out_the_tail, 1, NULL},
    {"layernorm_backward", "no last rank", leave_out_the_last_rank, 2, NULL},
    {"layernorm_backward", "rank 0 twice", count_rank_0_twice, 1, NULL},
    {"layernorm_backward", "a bit that differs", change_the_last_bit_on_one_rank, 2, NULL},
    {"layernorm_backward", "last element unwritten", leave_last_element, 1, NULL},
    {"layernorm_backward", "two elements swapped", swap_two_elements, 1, NULL},
};

static const struct answer honest[] = {
    {"layernorm_backward", "fp32 to the end, in blocks", sum_in_fp32, 1, NULL},
    {"layernorm_backward", "fp32 to the end, in sequence", sum_in_sequence, 1, NULL},
    {"layernorm_backward", "ranks' sums in T", sum_rounded_partials, 1, NULL},
    {"layernorm_backward", "products, sums and chain in T", sum_as_the_source_does, 1, NULL},
    {"layernorm_backward", "the same, from rank 1 on", sum_as_the_source_does_in_a_ring, 1, NULL},
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
