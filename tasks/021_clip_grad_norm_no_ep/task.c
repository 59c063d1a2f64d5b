#include "tasks/declare.h"
#include "tasks/oracle_norm.h"

#include <math.h>

enum { N0, N1, N2, MAX_NORM, P_NORM };
enum { TENSORS = 3 };
enum { TOTAL_NORM, FIRST };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "g0", T, "[n0]", SHAPE(run->dim[N0]));
    plan_input(plan, "g1", T, "[n1]", SHAPE(run->dim[N1]));
    plan_input(plan, "g2", T, "[n2]", SHAPE(run->dim[N2]));
    plan_output(plan, "total_norm", DTYPE_FP32, "[1]", SHAPE(1));
    plan_output(plan, "g0_out", T, "[n0]", SHAPE(run->dim[N0]));
    plan_output(plan, "g1_out", T, "[n1]", SHAPE(run->dim[N1]));
    plan_output(plan, "g2_out", T, "[n2]", SHAPE(run->dim[N2]));
}

/* Scales that differ by rank and tensor, so that each counts. */
static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        for (int i = 0; i < TENSORS; i++) {
            fill_tensor_normal(&in[rank][i], trial_stream(trial, rank, i), (1 + rank) << (2 * i));
        }
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    double p = run->real[P_NORM];
    double sum = 0;

    for (int i = 0; i < TENSORS * run->world; i++) {
        const struct tensor *g = &in[i / TENSORS][i % TENSORS];
        sum += power_sum(g, 0, g->spec->elements, p);
    }
    struct clipping clipping = clip_at(pow(sum, 1 / p), run->real[MAX_NORM]);
    for (int rank = 0; rank < run->world; rank++) {
        expect_close(&out[rank][TOTAL_NORM], 0, clipping.norm);
        for (int i = 0; i < TENSORS; i++) {
            expect_clipped(&out[rank][FIRST + i], &clipping, &in[rank][i], 1);
        }
    }
}

static void work(const struct run *run, struct work *work)
{
    double elements = (double)(run->dim[N0] + run->dim[N1] + run->dim[N2]);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * 4,
        .nvlink_in = peers * 4,
        .nvls_out = fmin(peers, 1) * 4,
        .nvls_in = fmin(peers, 1) * 4,
        .hbm_read = elements * run_element_bytes(run),
        .hbm_write = elements * run_element_bytes(run),
        .flops_other = 3 * elements,
        .floor_in = fmin(peers, 1) * run_floor_bytes(run, TOTAL_NORM),
    };
}

const struct task task_clip_grad_norm_no_ep = {
    .number = 21,
    .name = "clip_grad_norm_no_ep",
    .summary = "Global gradient norm over sharded gradients, and clipping to a maximum",
    .family = "optimizer",
    .params = {[N0] = {"n0", PARAM_INT64, "elements of gradient tensor 0"},
               [N1] = {"n1", PARAM_INT64, "elements of gradient tensor 1"},
               [N2] = {"n2", PARAM_INT64, "elements of gradient tensor 2"},
               [MAX_NORM] = {"max_norm", PARAM_FP32, "clipping threshold"},
               [P_NORM] = {"p_norm", PARAM_FP32, "norm order p, finite, > 0"}},
    .cases = {{.name = "check",
               .dim = {[N0] = INT64_C(37) * 129, [N1] = 5, [N2] = 3200},
               .real = {[MAX_NORM] = 1, [P_NORM] = 2}},
              {.name = "bench",
               .dim = {[N0] = 1 << 20, [N1] = 1 << 20, [N2] = 1 << 20},
               .real = {[MAX_NORM] = 1, [P_NORM] = 2}},
              {.name = "large",
               .dim = {[N0] = 1 << 26, [N1] = 1 << 26, [N2] = 1 << 26},
               .real = {[MAX_NORM] = 1, [P_NORM] = 2}},
              {.name = "check/no_clip", .real = {[MAX_NORM] = 1e9}},
              {.name = "check/p1", .real = {[P_NORM] = 1}},
              {.name = "check/p3", .real = {[P_NORM] = 3}},
              {.name = "check/empty", .dim = {[N1] = ZERO}}},
    .outputs = {{.name = "total_norm", .ranks = RANKS_SAME, .tolerance = &norm_tolerance},
                {.name = "g0_out", .tolerance = &clipped_tolerance},
                {.name = "g1_out", .tolerance = &clipped_tolerance},
                {.name = "g2_out", .tolerance = &clipped_tolerance}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
