/*
 * Task 015: the traps of its page are refused, and the ways in which an honest kernel may round are
 * accepted.
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

enum { M, H, F, MW, ML, HW, HL };

struct way {
    bool rounds_hidden, rounds_activation;
    bool is_tf32, is_relu;
    bool zeros_padding; /* rows of X beyond M */
    bool has_own_columns_only;
    bool takes_weights_of_rank_0;
    bool sums_over_ranks;
};

static float factor(double value, const struct way *way)
{
    return way->is_tf32 ? (float)dtype_round(DTYPE_FP16, value) : (float)value; /* 11 bits, too */
}

/* Element (row, k) of X. */
static double input(const struct audit *audit, int rank, int64_t row, int64_t k,
                    const struct way *way)
{
    int64_t width = audit->run->dim[HL];
    int source = (int)(k / width);

    if ((way->zeros_padding && row >= audit->run->dim[M]) ||
        (way->has_own_columns_only && source != rank)) {
        return 0;
    }
    return tensor_get(&audit->in[source][0], row * width + k % width);
}

/* Row `row` of X times the first weights of rank `weights`, through the activation. */
static void activate(const struct audit *audit, int rank, int weights, int64_t row,
                     const struct way *way, float *activation)
{
    int64_t hidden = audit->run->dim[F];
    enum dtype dtype = audit->run->dtype;

    for (int64_t f = 0; f < hidden; f++) {
        float h = 0;
        for (int64_t k = 0; k < audit->run->dim[HW]; k++) {
            h += factor(input(audit, rank, row, k, way), way) *
                 factor(tensor_get(&audit->in[weights][1], k * hidden + f), way);
        }
        h = way->rounds_hidden ? (float)dtype_round(dtype, h) : h;
        float a = way->is_relu ? fmaxf(h, 0) : h / (1 + expf(-h));
        activation[f] = way->rounds_activation ? (float)dtype_round(dtype, a) : a;
    }
}

/* Output row i of a rank, which adds what is made with the weights of one rank. */
static void add_row(const struct audit *audit, int rank, int weights, int64_t i,
                    const struct way *way, float *sums)
{
    int64_t width = audit->run->dim[HW];
    float activation[128];

    activate(audit, rank, weights, rank * audit->run->dim[ML] + i, way, activation);
    for (int64_t j = 0; j < width; j++) {
        float sum = 0;
        for (int64_t f = 0; f < audit->run->dim[F]; f++) {
            sum += factor(activation[f], way) *
                   factor(tensor_get(&audit->in[weights][2], f * width + j), way);
        }
        sums[j] += sum;
    }
}

static void compute(struct audit *audit, const struct way *way)
{
    int64_t width = audit->run->dim[HW];

    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int64_t i = 0; i < audit->run->dim[ML]; i++) {
            float sums[256] = {0};
            for (int weights = 0; weights < audit->run->world; weights++) {
                int own = way->takes_weights_of_rank_0 ? 0 : rank;
                if (weights == own || way->sums_over_ranks) {
                    add_row(audit, rank, weights, i, way, sums);
                }
            }
            for (int64_t j = 0; j < width; j++) {
                tensor_set(&audit->out[rank][0], i * width + j, sums[j]);
            }
        }
    }
}

static void keep_fp32(struct audit *audit)
{
    compute(audit, &(struct way){0});
}

static void round_hidden(struct audit *audit)
{
    compute(audit, &(struct way){.rounds_hidden = true});
}

static void round_both(struct audit *audit)
{
    compute(audit, &(struct way){.rounds_hidden = true, .rounds_activation = true});
}

static void use_relu(struct audit *audit)
{
    compute(audit, &(struct way){.is_relu = true});
}

static void use_weights_of_rank_0(struct audit *audit)
{
    compute(audit, &(struct way){.takes_weights_of_rank_0 = true});
}

static void sum_over_ranks(struct audit *audit)
{
    compute(audit, &(struct way){.sums_over_ranks = true});
}

static void use_own_columns_only(struct audit *audit)
{
    compute(audit, &(struct way){.has_own_columns_only = true});
}

static void use_zeros_for_padding(struct audit *audit)
{
    if (audit->run->dim[MW] > audit->run->dim[M]) {
        compute(audit, &(struct way){.zeros_padding = true});
    }
}

static void use_tf32(struct audit *audit)
{
    if (audit->run->dtype == DTYPE_FP32) {
        compute(audit, &(struct way){.is_tf32 = true});
    }
}

static const struct answer traps[] = {
    {"combined_sharded_gemms", "ReLU", use_relu, 1, NULL},
    {"combined_sharded_gemms", "one rank's weights for all", use_weights_of_rank_0, 2, NULL},
    {"combined_sharded_gemms", "summed over ranks", sum_over_ranks, 2, NULL},
    {"combined_sharded_gemms", "own columns only", use_own_columns_only, 2, NULL},
    {"combined_sharded_gemms", "padding of zeros", use_zeros_for_padding, 4, NULL},
    {"combined_sharded_gemms", "TF32", use_tf32, 1, NULL},
    {"combined_sharded_gemms", "the next rank's rows", take_the_next_ranks_answer, 2, NULL},
    {"combined_sharded_gemms", "last element unwritten", leave_last_element, 1, NULL},
};

static const struct answer honest[] = {
    {"combined_sharded_gemms", "fp32 in between", keep_fp32, 1, NULL},
    {"combined_sharded_gemms", "h in T", round_hidden, 1, NULL},
    {"combined_sharded_gemms", "h and a in T", round_both, 1, NULL},
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
