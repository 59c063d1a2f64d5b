#include "tasks/declare.h"
#include "tasks/oracle_norm.h"
#include "tasks/oracle_round.h"

#include <math.h>

enum { N0, N1, E0, E1, MAX_NORM, P_NORM, EP };
enum { G0, G1, H0, H1, TENSORS };
enum { TOTAL_NORM, FIRST };

static void derive(struct run *run)
{
    if (run->dim[EP] == 0) {
        run->dim[EP] = run->world > 1 ? run->world / 2 : 1;
    }
}

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "g0", T, "[n0]", SHAPE(run->dim[N0]));
    plan_input(plan, "g1", T, "[n1]", SHAPE(run->dim[N1]));
    plan_input(plan, "h0", T, "[e0]", SHAPE(run->dim[E0]));
    plan_input(plan, "h1", T, "[e1]", SHAPE(run->dim[E1]));
    plan_output(plan, "total_norm", DTYPE_FP32, "[1]", SHAPE(1));
    plan_output(plan, "g0_out", T, "[n0]", SHAPE(run->dim[N0]));
    plan_output(plan, "g1_out", T, "[n1]", SHAPE(run->dim[N1]));
    plan_output(plan, "h0_out", T, "[e0]", SHAPE(run->dim[E0]));
    plan_output(plan, "h1_out", T, "[e1]", SHAPE(run->dim[E1]));
}

/* Scales that differ by rank, so that every term and every group counts. */
static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        for (int i = 0; i < TENSORS; i++) {
            double scale = i < H0 ? 1 + rank : (double)(run->dim[EP] * (2 * run->world - rank));
            fill_tensor_normal(&in[rank][i], trial_stream(trial, rank, i), scale);
        }
    }
}

/* The sum of |T(x / divisor)|^p. */
static double averaged_power_sum(const struct tensor *tensor, double divisor, double p)
{
    double sum = 0;

    for (int64_t i = 0; i < tensor->spec->elements; i++) {
        double x = dtype_round(tensor->spec->dtype, tensor_get(tensor, i) / divisor);
        sum += pow(fabs(x), p);
    }
    return sum;
}

static double divisor_of(const struct run *run, int tensor)
{
    return tensor < H0 ? 1 : (double)run->dim[EP];
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    double p = run->real[P_NORM];
    double sum = 0;

    for (int i = 0; i < TENSORS * run->world; i++) {
        sum += averaged_power_sum(&in[i / TENSORS][i % TENSORS], divisor_of(run, i % TENSORS), p);
    }
    struct clipping clipping = clip_at(pow(sum, 1 / p), run->real[MAX_NORM]);
    for (int rank = 0; rank < run->world; rank++) {
        expect_close(&out[rank][TOTAL_NORM], 0, clipping.norm);
        for (int i = 0; i < TENSORS; i++) {
            expect_clipped(&out[rank][FIRST + i], &clipping, &in[rank][i], divisor_of(run, i));
        }
    }
}

static void work(const struct run *run, struct work *work)
{
    double plain = (double)(run->dim[N0] + run->dim[N1]);
    double averaged = (double)(run->dim[E0] + run->dim[E1]);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * 4,
        .nvlink_in = peers * 4,
        .nvls_out = fmin(peers, 1) * 4,
        .nvls_in = fmin(peers, 1) * 4,
        .hbm_read = (plain + averaged) * run_element_bytes(run),
        .hbm_write = (plain + averaged) * run_element_bytes(run),
        .flops_other = 3 * plain + 4 * averaged,
        .floor_in = fmin(peers, 1) * run_floor_bytes(run, TOTAL_NORM),
    };
}

const struct task task_clip_grad_norm_ep = {
    .number = 22,
    .name = "clip_grad_norm_ep",
    .summary = "Global gradient norm and clipping where some gradients are averaged over experts",
    .family = "optimizer",
    .params = {[N0] = {"n0", PARAM_INT64, "elements of non-EP gradient 0"},
               [N1] = {"n1", PARAM_INT64, "elements of non-EP gradient 1"},
               [E0] = {"e0", PARAM_INT64, "elements of EP gradient 0"},
               [E1] = {"e1", PARAM_INT64, "elements of EP gradient 1"},
               [MAX_NORM] = {"max_norm", PARAM_FP32, "clipping threshold"},
               [P_NORM] = {"p_norm", PARAM_FP32, "norm order p, finite, > 0"},
               [EP] = {"ep", PARAM_INT64, "EP group size"}},
    .cases = {{.name = "check",
               .dim = {[N0] = INT64_C(37) * 129, [N1] = 5, [E0] = INT64_C(61) * 40, [E1] = 300},
               .real = {[MAX_NORM] = 1, [P_NORM] = 2}},
              {.name = "bench",
               .dim = {[N0] = 1 << 20, [E0] = 1 << 20},
               .real = {[MAX_NORM] = 1, [P_NORM] = 2}},
              {.name = "large",
               .dim = {[N0] = 1 << 26, [E0] = 1 << 27},
               .real = {[MAX_NORM] = 1, [P_NORM] = 2}},
              {.name = "check/no_clip", .real = {[MAX_NORM] = 1e9}},
              {.name = "check/p1", .real = {[P_NORM] = 1}},
              {.name = "check/ep2", .worlds = SET_OF(8), .dim = {[EP] = 2}}},
    .outputs = {{.name = "total_norm", .ranks = RANKS_SAME, .tolerance = &norm_tolerance},
                {.name = "g0_out", .tolerance = &clipped_tolerance},
                {.name = "g1_out", .tolerance = &clipped_tolerance},
                {.name = "h0_out", .tolerance = &clipped_tolerance},
                {.name = "h1_out", .tolerance = &clipped_tolerance}},
    .derive = derive,
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
