/* Task 023: the traps of its page are refused, and sums in fp32 are accepted. */
#include "tests/answers.h"

#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

enum { LOSS, N_LOCAL, N_GLOBAL, G_NORM, G_SUM };

struct way {
    bool keeps_nan, ignores_tokens, takes_equal_gradients, rounds_counts, ignores_has_gs;
};

static float count_of(const struct audit *audit, int rank, int input, const struct way *way)
{
    double count = (double)tensor_get_integer(&audit->in[rank][input], 0);
    return (float)(way->rounds_counts ? dtype_round(DTYPE_BF16, count) : count);
}

static void reduce(struct audit *audit, const struct way *way)
{
    int world = audit->run->world;
    float sum = 0;

    for (int rank = 0; rank < world; rank++) {
        float loss = (float)tensor_get(&audit->in[rank][LOSS], 0);
        float tokens = count_of(audit, rank, N_LOCAL, way);
        float all = count_of(audit, rank, N_GLOBAL, way);
        if (way->ignores_tokens) {
            sum += loss * all / (float)world;
        } else {
            sum += tokens == 0 && !way->keeps_nan ? 0 : loss * tokens;
        }
    }
    for (int rank = 0; rank < world; rank++) {
        float tokens = count_of(audit, rank, N_LOCAL, way);
        float all = count_of(audit, rank, N_GLOBAL, way);
        float grad = (float)tensor_get(&audit->in[rank][G_NORM], 0) * tokens / all;
        if (audit->run->dim[0] == 1 || way->ignores_has_gs) {
            grad += (float)tensor_get(&audit->in[rank][G_SUM], 0) * tokens;
        }
        tensor_set(&audit->out[rank][0], 0, (double)(sum / all));
        tensor_set(&audit->out[rank][1], 0, (double)sum);
        tensor_set(&audit->out[rank][2], 0,
                   way->takes_equal_gradients ? 1.0 / world : (double)grad);
    }
}

static void reduce_in_fp32(struct audit *audit)
{
    reduce(audit, &(struct way){0});
}

static void keep_nan(struct audit *audit)
{
    if (audit->run->variant != 0) {
        reduce(audit, &(struct way){.keeps_nan = true});
    }
}

static void ignore_tokens(struct audit *audit)
{
    reduce(audit, &(struct way){.ignores_tokens = true});
}

static void take_equal_gradients(struct audit *audit)
{
    reduce(audit, &(struct way){.takes_equal_gradients = true});
}

static void round_counts(struct audit *audit)
{
    reduce(audit, &(struct way){.rounds_counts = true});
}

static void ignore_has_gs(struct audit *audit)
{
    if (audit->run->dim[0] == 0) {
        reduce(audit, &(struct way){.ignores_has_gs = true});
    }
}

static void change_the_last_bit_on_one_rank(struct audit *audit)
{
    *(char *)audit->out[0][1].data ^= 1;
}

static const struct answer traps[] = {
    {"grad_acc_loss", "0 times NaN", keep_nan, 2, NULL},
    {"grad_acc_loss", "a plain mean", ignore_tokens, 2, NULL},
    {"grad_acc_loss", "gradient 1 / W", take_equal_gradients, 1, NULL},
    {"grad_acc_loss", "counts in bf16", round_counts, 2, NULL},
    {"grad_acc_loss", "g_sum where there is none", ignore_has_gs, 1, NULL},
    {"grad_acc_loss", "a bit that differs", change_the_last_bit_on_one_rank, 2, NULL},
};

static const struct answer honest[] = {
    {"grad_acc_loss", "fp32", reduce_in_fp32, 1, NULL},
};

static void test_the_traps_of_the_page_are_refused(void **state)
{
    (void)state;
    refuse_everywhere(traps, sizeof(traps) / sizeof(traps[0]));
}

static void test_sums_in_fp32_are_accepted(void **state)
{
    (void)state;
    accept_everywhere(honest, sizeof(honest) / sizeof(honest[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_traps_of_the_page_are_refused),
        cmocka_unit_test(test_sums_in_fp32_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
