#include "tasks/declare.h"
#include "tasks/fill.h"
#include "tasks/oracle_round.h"

#include <math.h>

enum { HAS_GS };
enum { LOSS, N_LOCAL, N_GLOBAL, G_NORM, G_SUM };
enum { NORMALIZED_LOSS, LOSS_SUM, GRAD_LOSS };
enum { PLAIN, NOT_A_NUMBER, PLUS_INFINITY, MINUS_INFINITY };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)run;
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "loss", DTYPE_FP32, "[1]", SHAPE(1));
    plan_input(plan, "n_local", DTYPE_INT64, "[1]", SHAPE(1));
    plan_input(plan, "n_global", DTYPE_INT64, "[1]", SHAPE(1));
    plan_input(plan, "g_norm", DTYPE_FP32, "[1]", SHAPE(1));
    plan_input(plan, "g_sum", DTYPE_FP32, "[1]", SHAPE(1));
    plan_output(plan, "normalized_loss", DTYPE_FP32, "[1]", SHAPE(1));
    plan_output(plan, "loss_sum", DTYPE_FP32, "[1]", SHAPE(1));
    plan_output(plan, "grad_loss", DTYPE_FP32, "[1]", SHAPE(1));
}

static int64_t tokens_of(const struct run *run, int rank)
{
    if (!run_in_class(run, "check")) {
        return INT64_C(1) << 20;
    }
    return run->world > 1 && rank == run->world - 1 ? 0 : 1000 + 37 * rank;
}

/* What a rank adds: nothing where it has no tokens, whatever its loss. */
static double share_of(double loss, int64_t tokens)
{
    return tokens == 0 ? 0 : loss * (double)tokens;
}

static void draw_losses(const struct run *run, const struct trial *trial, int attempt,
                        struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        uint64_t key = trial_stream(trial, rank, LOSS);
        tensor_set(&in[rank][LOSS], 0, (double)fill_normal((uint64_t)attempt, key));
    }
}

/* Whether a sum is at least a tenth of what its terms' magnitudes sum to. */
static bool is_far_from_zero(double sum, double magnitude)
{
    return fabs(sum) >= 0.1 * magnitude;
}

/* Redrawn until the sum does not cancel. */
static void fill_losses(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    double sum = 0;
    double magnitude = 1;

    for (int attempt = 0; !is_far_from_zero(sum, magnitude); attempt++) {
        draw_losses(run, trial, attempt, in);
        sum = 0;
        magnitude = 0;
        for (int rank = 0; rank < run->world; rank++) {
            double share = share_of(tensor_get(&in[rank][LOSS], 0), tokens_of(run, rank));
            sum += share;
            magnitude += fabs(share);
        }
    }
}

/* Redrawn until the rank's two terms do not cancel. */
static void fill_gradients(int64_t all, uint64_t key, const struct tensor *in)
{
    double norm = 1;
    double sum = -1;

    for (uint64_t attempt = 0; !is_far_from_zero(norm + sum, fabs(norm) + fabs(sum)); attempt++) {
        tensor_set(&in[G_NORM], 0, (double)fill_normal(2 * attempt, key));
        tensor_set(&in[G_SUM], 0, (double)fill_normal(2 * attempt + 1, key) / (double)all);
        norm = tensor_get(&in[G_NORM], 0) / (double)all;
        sum = tensor_get(&in[G_SUM], 0);
    }
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    static const float special[] = {0, NAN, INFINITY, -INFINITY};
    int64_t all = 0;

    for (int rank = 0; rank < run->world; rank++) {
        all += tokens_of(run, rank);
    }
    fill_losses(run, trial, in);
    for (int rank = 0; rank < run->world; rank++) {
        tensor_set_integer(&in[rank][N_LOCAL], 0, tokens_of(run, rank));
        tensor_set_integer(&in[rank][N_GLOBAL], 0, all);
        fill_gradients(all, trial_stream(trial, rank, G_NORM), in[rank]);
        if (run->variant != PLAIN && tokens_of(run, rank) == 0) {
            tensor_set(&in[rank][LOSS], 0, (double)special[run->variant]);
        }
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    double sum = 0;

    for (int rank = 0; rank < run->world; rank++) {
        sum += share_of(tensor_get(&in[rank][LOSS], 0), tensor_get_integer(&in[rank][N_LOCAL], 0));
    }
    for (int rank = 0; rank < run->world; rank++) {
        double tokens = (double)tensor_get_integer(&in[rank][N_LOCAL], 0);
        double all = (double)tensor_get_integer(&in[rank][N_GLOBAL], 0);
        double grad = tensor_get(&in[rank][G_NORM], 0) * tokens / all;
        if (run->dim[HAS_GS] == 1) {
            grad += tensor_get(&in[rank][G_SUM], 0) * tokens;
        }
        expect_close(&out[rank][NORMALIZED_LOSS], 0, sum / all);
        expect_close(&out[rank][LOSS_SUM], 0, sum);
        expect_close(&out[rank][GRAD_LOSS], 0, grad);
    }
}

static void work(const struct run *run, struct work *work)
{
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * 4,
        .nvlink_in = peers * 4,
        .nvls_out = fmin(peers, 1) * 4,
        .nvls_in = fmin(peers, 1) * 4,
        .hbm_read = 28,
        .hbm_write = 12,
        .flops_other = 8,
        .floor_in = fmin(peers, 1) * run_floor_bytes(run, LOSS_SUM),
    };
}

static const struct tolerance tolerance = SAME_TOLERANCE(.r = 1e-5);

const struct task task_grad_acc_loss = {
    .number = 23,
    .name = "grad_acc_loss",
    .summary = "Sum a loss over ranks, weighted by tokens, and its gradient",
    .family = "loss",
    .params = {[HAS_GS] = {"has_gs", PARAM_INT64, "1: g_sum counts, 0: it does not"}},
    .cases = {{.name = "check", .dim = {[HAS_GS] = 1}},
              {.name = "bench", .dim = {[HAS_GS] = 1}},
              {.name = "check/no_gs", .dim = {[HAS_GS] = ZERO}}},
    .variants = {[PLAIN] = {"plain", AT_CHECK | AT_BENCH},
                 [NOT_A_NUMBER] = {"nan", AT_CHECK},
                 [PLUS_INFINITY] = {"pinf", AT_CHECK},
                 [MINUS_INFINITY] = {"ninf", AT_CHECK}},
    .outputs = {[NORMALIZED_LOSS] = {.name = "normalized_loss",
                                     .ranks = RANKS_SAME,
                                     .tolerance = &tolerance},
                [LOSS_SUM] = {.name = "loss_sum", .ranks = RANKS_SAME, .tolerance = &tolerance},
                [GRAD_LOSS] = {.name = "grad_loss", .tolerance = &tolerance}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
