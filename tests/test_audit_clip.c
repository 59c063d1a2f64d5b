/*
 * Tasks 018, 021 and 022: the traps of their pages are refused, and the ways in which an honest
 * kernel may compute are accepted.
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

/* ---- 018: rows normalised over all ranks ---- */

enum { N, HL, EPS };

struct rms_way {
    bool rounds_inside, squares_in_t;
    bool has_own_squares_only, divides_by_local_width;
    bool forgets_eps, adds_eps_outside;
    bool takes_weights_of_rank_0;
};

static float squares_of(const struct audit *audit, int rank, int64_t row, const struct rms_way *way)
{
    int64_t width = audit->run->dim[HL];
    float sum = 0;

    for (int64_t j = 0; j < width; j++) {
        float x = (float)tensor_get(&audit->in[rank][0], row * width + j);
        sum += x * x;
        sum = way->squares_in_t ? (float)dtype_round(audit->run->dtype, sum) : sum;
    }
    return sum;
}

static float factor_of(const struct audit *audit, int rank, int64_t row, const struct rms_way *way)
{
    int world = audit->run->world;
    float width = (float)(audit->run->dim[HL] * (way->divides_by_local_width ? 1 : world));
    float eps = (float)audit->run->real[EPS];
    float sum = 0;

    for (int source = 0; source < world; source++) {
        bool counts = !way->has_own_squares_only || source == rank;
        sum += counts ? squares_of(audit, source, row, way) : 0;
    }
    sum *= way->has_own_squares_only ? (float)world : 1;
    if (way->forgets_eps) {
        return sum > 0 ? 1 / sqrtf(sum / width) : 0;
    }
    return way->adds_eps_outside ? 1 / (sqrtf(sum / width) + eps) : 1 / sqrtf(sum / width + eps);
}

static void normalise(struct audit *audit, const struct rms_way *way)
{
    int64_t width = audit->run->dim[HL];
    enum dtype dtype = audit->run->dtype;

    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct tensor *w = &audit->in[way->takes_weights_of_rank_0 ? 0 : rank][1];
        for (int64_t row = 0; row < audit->run->dim[N]; row++) {
            float factor = factor_of(audit, rank, row, way);
            for (int64_t j = 0; j < width; j++) {
                float x = (float)tensor_get(&audit->in[rank][0], row * width + j) * factor;
                x = way->rounds_inside ? (float)dtype_round(dtype, x) : x;
                tensor_set(&audit->out[rank][0], row * width + j, x * (float)tensor_get(w, j));
            }
        }
    }
}

static void round_twice(struct audit *audit)
{
    normalise(audit, &(struct rms_way){.rounds_inside = true});
}

static void round_once(struct audit *audit)
{
    normalise(audit, &(struct rms_way){0});
}

static void square_in_t(struct audit *audit)
{
    if (audit->run->dtype != DTYPE_FP32) {
        normalise(audit, &(struct rms_way){.squares_in_t = true});
    }
}

static void skip_the_exchange(struct audit *audit)
{
    normalise(audit, &(struct rms_way){.has_own_squares_only = true});
}

static void divide_by_local_width(struct audit *audit)
{
    normalise(audit, &(struct rms_way){.divides_by_local_width = true});
}

static void forget_eps(struct audit *audit)
{
    normalise(audit, &(struct rms_way){.forgets_eps = true});
}

static void add_eps_outside(struct audit *audit)
{
    normalise(audit, &(struct rms_way){.adds_eps_outside = true});
}

static void take_weights_of_rank_0(struct audit *audit)
{
    normalise(audit, &(struct rms_way){.takes_weights_of_rank_0 = true});
}

/* ---- 021, 022: a norm over all ranks, and clipping ---- */

struct clip_way {
    bool has_own_share_only; /* times the world */
    bool leaves_out_last_tensor, leaves_out_last_rank;
    bool skips_clipping, clips_twice, rounds_scale;
    bool keeps_sum; /* no root */
    bool forgets_average, averages_only_where_clipped;
};

static int tensors_of(const struct audit *audit)
{
    return run_plan(audit->run, 0)->input_count;
}

static double param(const struct audit *audit, const char *name)
{
    for (int i = 0; i < PARAMS_MAX; i++) {
        const struct param *row = &audit->run->task->params[i];
        if (row->name != NULL && strcmp(row->name, name) == 0) {
            return row->type == PARAM_INT64 ? (double)audit->run->dim[i] : audit->run->real[i];
        }
    }
    return 1;
}

/* An EP gradient is divided by ep. */
static float gradient(const struct audit *audit, int rank, int tensor, int64_t i,
                      const struct clip_way *way)
{
    bool is_averaged = audit->run->task->number == 22 && tensor >= 2 && !way->forgets_average;
    float x = (float)tensor_get(&audit->in[rank][tensor], i);

    return is_averaged ? (float)dtype_round(audit->run->dtype, x / (float)param(audit, "ep")) : x;
}

/* In blocks, in fp32. */
static float share_of(const struct audit *audit, int rank, const struct clip_way *way)
{
    float p = (float)param(audit, "p_norm");
    float lanes[64] = {0};

    for (int t = 0; t < tensors_of(audit) - way->leaves_out_last_tensor; t++) {
        for (int64_t i = 0; i < audit->in[rank][t].spec->elements; i++) {
            float x = fabsf(gradient(audit, rank, t, i, way));
            lanes[i % 64] += p == 2 ? x * x : powf(x, p);
        }
    }
    for (int lane = 1; lane < 64; lane++) {
        lanes[0] += lanes[lane];
    }
    return lanes[0];
}

static void clip_rank(struct audit *audit, int rank, float norm, const struct clip_way *way)
{
    float max_norm = (float)param(audit, "max_norm");
    bool clips = norm > max_norm && !way->skips_clipping;
    float scale = clips ? max_norm / norm : 1;

    scale = way->rounds_scale ? (float)dtype_round(audit->run->dtype, scale) : scale;
    scale = way->clips_twice ? scale * scale : scale;
    tensor_set(&audit->out[rank][0], 0, norm);
    for (int t = 0; t < tensors_of(audit); t++) {
        for (int64_t i = 0; i < audit->in[rank][t].spec->elements; i++) {
            bool is_raw = way->averages_only_where_clipped && !clips;
            float x = is_raw ? (float)tensor_get(&audit->in[rank][t], i)
                             : gradient(audit, rank, t, i, way);
            tensor_set(&audit->out[rank][1 + t], i, x * scale);
        }
    }
}

static void clip(struct audit *audit, const struct clip_way *way)
{
    int world = audit->run->world;
    float p = (float)param(audit, "p_norm");
    float shares[RANKS_MAX];
    float sum = 0;

    for (int rank = 0; rank < world; rank++) {
        shares[rank] = share_of(audit, rank, way);
        sum += way->leaves_out_last_rank && rank == world - 1 ? 0 : shares[rank];
    }
    for (int rank = 0; rank < world; rank++) {
        float total = way->has_own_share_only ? (float)world * shares[rank] : sum;
        clip_rank(audit, rank, way->keeps_sum ? total : powf(total, 1 / p), way);
    }
}

static void clip_as_asked(struct audit *audit)
{
    clip(audit, &(struct clip_way){0});
}

static void take_the_own_share(struct audit *audit)
{
    clip(audit, &(struct clip_way){.has_own_share_only = true});
}

static void leave_out_a_tensor(struct audit *audit)
{
    clip(audit, &(struct clip_way){.leaves_out_last_tensor = true});
}

static void leave_out_a_rank(struct audit *audit)
{
    clip(audit, &(struct clip_way){.leaves_out_last_rank = true});
}

static void skip_clipping(struct audit *audit)
{
    if (param(audit, "max_norm") == 1) {
        clip(audit, &(struct clip_way){.skips_clipping = true});
    }
}

static void clip_twice(struct audit *audit)
{
    if (param(audit, "max_norm") == 1) {
        clip(audit, &(struct clip_way){.clips_twice = true});
    }
}

/* As the source does. Where the scale happens to have few digits, or to be near a number that has,
 * nobody can see it: so at one case only. */
static void round_the_scale(struct audit *audit)
{
    double scale = param(audit, "max_norm") / tensor_get(&audit->out[0][0], 0);
    double rounded = dtype_round(audit->run->dtype, scale);

    if (audit->run->dtype == DTYPE_BF16 && run_at(audit->run, "check") &&
        fabs(rounded / scale - 1) > 0x1p-11) {
        clip(audit, &(struct clip_way){.rounds_scale = true});
    }
}

static void take_no_root(struct audit *audit)
{
    if (param(audit, "p_norm") != 1) {
        clip(audit, &(struct clip_way){.keeps_sum = true});
    }
}

static void forget_the_average(struct audit *audit)
{
    if (param(audit, "ep") > 1) {
        clip(audit, &(struct clip_way){.forgets_average = true});
    }
}

static void average_only_where_clipped(struct audit *audit)
{
    if (param(audit, "ep") > 1 && param(audit, "max_norm") > 1) {
        clip(audit, &(struct clip_way){.averages_only_where_clipped = true});
    }
}

/* The norm that normal numbers of one variance would have, whatever they are. */
static void return_a_constant(struct audit *audit)
{
    int64_t elements = 0;

    for (int t = 0; t < tensors_of(audit); t++) {
        elements += audit->in[0][t].spec->elements;
    }
    for (int rank = 0; rank < audit->run->world; rank++) {
        tensor_set(&audit->out[rank][0], 0, sqrt((double)(audit->run->world * elements)));
    }
}

static void change_the_last_bit_of_the_norm(struct audit *audit)
{
    *(char *)audit->out[0][0].data ^= 1;
}

static const struct answer traps[] = {
    {"tp_rms_norm", "squares summed in T", square_in_t, 1, NULL},
    {"tp_rms_norm", "no exchange", skip_the_exchange, 2, NULL},
    {"tp_rms_norm", "divided by the local width", divide_by_local_width, 2, NULL},
    {"tp_rms_norm", "no eps", forget_eps, 1, NULL},
    {"tp_rms_norm", "eps outside of the root", add_eps_outside, 1, NULL},
    {"tp_rms_norm", "weights of rank 0", take_weights_of_rank_0, 2, NULL},
    {"tp_rms_norm", "last element unwritten", leave_last_element, 1, NULL},
    {"clip_grad_norm_no_ep", "own share only", take_the_own_share, 2, NULL},
    {"clip_grad_norm_no_ep", "no last tensor", leave_out_a_tensor, 1, NULL},
    {"clip_grad_norm_no_ep", "no last rank", leave_out_a_rank, 2, NULL},
    {"clip_grad_norm_no_ep", "not clipped", skip_clipping, 1, NULL},
    {"clip_grad_norm_no_ep", "clipped twice", clip_twice, 1, NULL},
    {"clip_grad_norm_no_ep", "the scale in T", round_the_scale, 1, NULL},
    {"clip_grad_norm_no_ep", "no root", take_no_root, 1, NULL},
    {"clip_grad_norm_no_ep", "a constant", return_a_constant, 1, NULL},
    {"clip_grad_norm_no_ep", "a bit that differs", change_the_last_bit_of_the_norm, 2, NULL},
    {"clip_grad_norm_ep", "own share only", take_the_own_share, 2, NULL},
    {"clip_grad_norm_ep", "no last tensor", leave_out_a_tensor, 1, NULL},
    {"clip_grad_norm_ep", "no last rank", leave_out_a_rank, 2, NULL},
    {"clip_grad_norm_ep", "not clipped", skip_clipping, 1, NULL},
    {"clip_grad_norm_ep", "clipped twice", clip_twice, 1, NULL},
    {"clip_grad_norm_ep", "the scale in T", round_the_scale, 1, NULL},
    {"clip_grad_norm_ep", "no root", take_no_root, 1, NULL},
    {"clip_grad_norm_ep", "a constant", return_a_constant, 1, NULL},
    {"clip_grad_norm_ep", "not averaged", forget_the_average, 4, NULL},
    {"clip_grad_norm_ep", "averaged only where clipped", average_only_where_clipped, 4, NULL},
    {"clip_grad_norm_ep", "a bit that differs", change_the_last_bit_of_the_norm, 2, NULL},
};

static const struct answer honest[] = {
    {"tp_rms_norm", "two roundings", round_twice, 1, NULL},
    {"tp_rms_norm", "one rounding", round_once, 1, NULL},
    {"clip_grad_norm_no_ep", "fp32", clip_as_asked, 1, NULL},
    {"clip_grad_norm_ep", "fp32", clip_as_asked, 1, NULL},
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
