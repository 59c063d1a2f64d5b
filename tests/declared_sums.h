/*
 * declared_sums.h — task pages 016, 021 and 063, declared as their task.c will be: products and
 * their sums, norms, fp64 blocks.
 */
#pragma once

#include "tasks/declare.h"
#include "tasks/fill.h"
#include "tasks/oracle_round.h"

#include <math.h>
#include <stdlib.h>

/* ---- 016: a bound that is a sum, a limit on the norm ---- */

enum { GEMM_M, GEMM_N, GEMM_K, GEMM_KL, GEMM_ML };
enum { GEMM_A, GEMM_B };

static void gemm_derive(struct run *run)
{
    run->dim[GEMM_KL] = run->dim[GEMM_K] / run->world;
    run->dim[GEMM_ML] = run->dim[GEMM_M] / run->world;
}

static void gemm_declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "a", T, "[M, kl]", SHAPE(run->dim[GEMM_M], run->dim[GEMM_KL]));
    plan_input(plan, "b", T, "[kl, N]", SHAPE(run->dim[GEMM_KL], run->dim[GEMM_N]));
    plan_output(plan, "c", T, "[ml, N]", SHAPE(run->dim[GEMM_ML], run->dim[GEMM_N]));
}

static void gemm_fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        fill_tensor_normal(&in[rank][GEMM_A], trial_stream(trial, rank, GEMM_A), 1);
        fill_tensor_normal(&in[rank][GEMM_B], trial_stream(trial, rank, GEMM_B), 1);
    }
}

/* |C - ref| <= 1.05 W u sum_s |P_s| + 2^-20 sum |A B|. */
static void gemm_element(const struct run *run, struct tensor *const *in, int64_t m, int64_t n,
                         struct expected *out)
{
    double value = 0;
    double partials = 0;
    double magnitude = 0;

    for (int rank = 0; rank < run->world; rank++) {
        double partial = 0;
        for (int64_t k = 0; k < run->dim[GEMM_KL]; k++) {
            double product = tensor_get(&in[rank][GEMM_A], m * run->dim[GEMM_KL] + k) *
                             tensor_get(&in[rank][GEMM_B], k * run->dim[GEMM_N] + n);
            partial += product;
            magnitude += fabs(product);
        }
        value += partial;
        partials += fabs(partial);
    }
    expect(out, m % run->dim[GEMM_ML] * run->dim[GEMM_N] + n, value,
           1.05 * run->world * dtype_unit(run->dtype) * partials + 0x1p-20 * magnitude);
}

static void gemm_oracle(const struct run *run, struct tensor *const *in,
                        struct expected *const *out)
{
    for (int64_t m = 0; m < run->dim[GEMM_M]; m++) {
        for (int64_t n = 0; n < run->dim[GEMM_N]; n++) {
            gemm_element(run, in, m, n, &out[m / run->dim[GEMM_ML]][0]);
        }
    }
}

static const struct tolerance gemm_tolerance = {
    .bf16 = {.a = 0.05, .r = 0.008, .rms = 0.008},
    .fp16 = {.a = 0.006, .r = 0.001, .rms = 0.001},
    .fp32 = {.a = 5e-5, .r = 1e-6, .rms = 1e-5},
};

static const struct task declared_gemm_reducescatter = {
    .number = 16,
    .name = "gemm_reducescatter",
    .summary = "Multiply matrices split along K, and scatter the summed rows",
    .family = "tensor-parallel",
    .params = {[GEMM_M] = {"M", PARAM_INT64, "rows of C (all ranks together)"},
               [GEMM_N] = {"N", PARAM_INT64, "columns"},
               [GEMM_K] = {"K", PARAM_INT64, "total inner length"},
               [GEMM_KL] = {"kl", PARAM_INT64, "inner length per rank"},
               [GEMM_ML] = {"ml", PARAM_INT64, "rows of C per rank"}},
    .cases = {{.name = "check", .dim = {[GEMM_M] = 72, [GEMM_N] = 88, [GEMM_K] = 192}},
              {.name = "bench", .dim = {[GEMM_M] = 1024, [GEMM_N] = 1024, [GEMM_K] = 512}},
              {.name = "large", .dim = {[GEMM_M] = 8192, [GEMM_N] = 8192, [GEMM_K] = 28672}}},
    .outputs = {{.name = "c", .tolerance = &gemm_tolerance}},
    .derive = gemm_derive,
    .declare = gemm_declare,
    .fill = gemm_fill,
    .oracle = gemm_oracle,
};

/* ---- 021: fp32 parameters, a tensor that is absent, a changed zero ---- */

enum { CLIP_N0, CLIP_N1, CLIP_N2, CLIP_MAX_NORM, CLIP_P_NORM };

static void clip_declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank;
    plan_input(plan, "g0", T, "[n0]", SHAPE(run->dim[CLIP_N0]));
    plan_input(plan, "g1", T, "[n1]", SHAPE(run->dim[CLIP_N1]));
    plan_input(plan, "g2", T, "[n2]", SHAPE(run->dim[CLIP_N2]));
    plan_output(plan, "total_norm", DTYPE_FP32, "[1]", SHAPE(1));
    plan_output(plan, "g0_out", T, "[n0]", SHAPE(run->dim[CLIP_N0]));
    plan_output(plan, "g1_out", T, "[n1]", SHAPE(run->dim[CLIP_N1]));
    plan_output(plan, "g2_out", T, "[n2]", SHAPE(run->dim[CLIP_N2]));
}

static void clip_fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        for (int i = 0; i < 3; i++) {
            fill_tensor_normal(&in[rank][i], trial_stream(trial, rank, i), (1 + rank) << (2 * i));
        }
    }
}

static void clip_oracle(const struct run *run, struct tensor *const *in,
                        struct expected *const *out)
{
    double sum = 0;

    for (int i = 0; i < 3 * run->world; i++) {
        const struct tensor *g = &in[i / 3][i % 3];
        for (int64_t k = 0; k < g->spec->elements; k++) {
            sum += pow(fabs(tensor_get(g, k)), run->real[CLIP_P_NORM]);
        }
    }
    double norm = pow(sum, 1 / run->real[CLIP_P_NORM]);
    double scale = norm > run->real[CLIP_MAX_NORM] ? run->real[CLIP_MAX_NORM] / norm : 1;
    for (int i = 0; i < 3 * run->world; i++) {
        const struct tensor *g = &in[i / 3][i % 3];
        for (int64_t k = 0; k < g->spec->elements; k++) {
            expect_close(&out[i / 3][1 + i % 3], k, scale * tensor_get(g, k));
        }
        expect_close(&out[i / 3][0], 0, norm);
    }
}

static const struct tolerance norm_tolerance = SAME_TOLERANCE(.r = 1e-5);
static const struct tolerance clip_tolerance = {
    .bf16 = {.a = 1e-6, .r = 0.004},
    .fp16 = {.a = 0.005, .r = 5e-4},
    .fp32 = {.a = 1e-6, .r = 1e-5},
};

static const struct task declared_clip_grad_norm = {
    .number = 21,
    .name = "clip_grad_norm_no_ep",
    .summary = "Global gradient norm over sharded gradients, and clipping to a maximum",
    .family = "optimizer",
    .params = {[CLIP_N0] = {"n0", PARAM_INT64, "elements of gradient tensor 0"},
               [CLIP_N1] = {"n1", PARAM_INT64, "elements of gradient tensor 1"},
               [CLIP_N2] = {"n2", PARAM_INT64, "elements of gradient tensor 2"},
               [CLIP_MAX_NORM] = {"max_norm", PARAM_FP32, "clipping threshold"},
               [CLIP_P_NORM] = {"p_norm", PARAM_FP32, "norm order p, finite, > 0"}},
    .cases = {{.name = "check",
               .dim = {[CLIP_N0] = 37 * 129, [CLIP_N1] = 5, [CLIP_N2] = 3200},
               .real = {[CLIP_MAX_NORM] = 1, [CLIP_P_NORM] = 2}},
              {.name = "bench",
               .dim = {[CLIP_N0] = 1 << 20, [CLIP_N1] = 1 << 20, [CLIP_N2] = 1 << 20},
               .real = {[CLIP_MAX_NORM] = 1, [CLIP_P_NORM] = 2}},
              {.name = "large",
               .dim = {[CLIP_N0] = 1 << 26, [CLIP_N1] = 1 << 26, [CLIP_N2] = 1 << 26},
               .real = {[CLIP_MAX_NORM] = 1, [CLIP_P_NORM] = 2}},
              {.name = "check/no_clip", .real = {[CLIP_MAX_NORM] = 1e9}},
              {.name = "check/p1", .real = {[CLIP_P_NORM] = 1}},
              {.name = "check/p3", .real = {[CLIP_P_NORM] = 3}},
              {.name = "check/empty", .dim = {[CLIP_N1] = ZERO}}},
    .outputs = {{.name = "total_norm", .ranks = RANKS_SAME, .tolerance = &norm_tolerance},
                {.name = "g0_out", .tolerance = &clip_tolerance},
                {.name = "g1_out", .tolerance = &clip_tolerance},
                {.name = "g2_out", .tolerance = &clip_tolerance}},
    .declare = clip_declare,
    .fill = clip_fill,
    .oracle = clip_oracle,
};

/* ---- 063: fp64, arrays of both forms, shapes that differ by rank ---- */

enum { KF_NB, KF_BS, KF_NW, KF_NP, KF_LAM, KF_NUE };
enum { KF_H, KF_ERR, KF_W, KF_P };
enum { KF_W_ALL, KF_P_NEW, KF_LAM_NEW };

static void kalman_derive(struct run *run)
{
    static const int64_t sizes[] = {40, 24, 17};

    for (int s = 0; s < run->world; s++) {
        for (int i = 0; i < run->dim[KF_NB]; i++) {
            int64_t size = run_in_class(run, "check") ? sizes[i] : 1024;
            if (run_at(run, "check/uneven") && i == 0) {
                size += s;
            }
            run->grid[KF_BS][s][i] = size;
            run->list[KF_NW][s] += size;
            run->list[KF_NP][s] += size * size;
        }
    }
}

static int64_t kalman_weights(const struct run *run)
{
    int64_t sum = 0;

    for (int s = 0; s < run->world; s++) {
        sum += run->list[KF_NW][s];
    }
    return sum;
}

static void kalman_declare(const struct run *run, int rank, struct plan *plan)
{
    plan_input(plan, "h", DTYPE_FP64, "[nw[r]]", SHAPE(run->list[KF_NW][rank]));
    plan_input(plan, "err", DTYPE_FP64, "[1]", SHAPE(1));
    plan_input(plan, "w", DTYPE_FP64, "[nw[r]]", SHAPE(run->list[KF_NW][rank]));
    plan_input(plan, "p", DTYPE_FP64, "[np[r]]", SHAPE(run->list[KF_NP][rank]));
    plan_output(plan, "w_all", DTYPE_FP64, "[sum(nw)]", SHAPE(kalman_weights(run)));
    plan_output(plan, "p_new", DTYPE_FP64, "[np[r]]", SHAPE(run->list[KF_NP][rank]));
    plan_output(plan, "lam_new", DTYPE_FP64, "[1]", SHAPE(1));
}

/* P = I + A A^T / b with A ~ N(0, 1). */
static void kalman_covariance(double *p, int64_t b, uint64_t key)
{
    for (int64_t i = 0; i < b; i++) {
        for (int64_t j = 0; j < b; j++) {
            double sum = 0;
            for (int64_t k = 0; k < b; k++) {
                sum += (double)fill_normal((uint64_t)(i * b + k), key) *
                       fill_normal((uint64_t)(j * b + k), key);
            }
            p[i * b + j] = (i == j) + sum / (double)b;
        }
    }
}

static void kalman_fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        const struct tensor *tensors = in[rank];
        double *h = tensors[KF_H].data;
        double *p = tensors[KF_P].data;
        fill_tensor_normal(&tensors[KF_H], trial_stream(trial, rank, KF_H), 1);
        fill_tensor_normal(&tensors[KF_ERR], trial_stream(trial, rank, KF_ERR), 3);
        fill_tensor_normal(&tensors[KF_W], trial_stream(trial, rank, KF_W), 1);
        for (int i = 0; i < run->dim[KF_NB]; i++) {
            int64_t b = run->grid[KF_BS][rank][i];
            uint64_t key = stream_inside(trial_stream(trial, rank, KF_P), (uint64_t)i);
            for (int64_t k = 0; k < b; k++) {
                *h++ /= sqrt((double)b);
            }
            kalman_covariance(p, b, key);
            p += b * b;
        }
    }
}

/* k = P h of all blocks of a rank; returns the rank's t. */
static double kalman_gain(const struct run *run, int rank, const struct tensor *in, double *k)
{
    const double *h = in[KF_H].data;
    const double *p = in[KF_P].data;
    long double t = 0;

    for (int i = 0; i < run->dim[KF_NB]; i++) {
        int64_t b = run->grid[KF_BS][rank][i];
        t += (long double)run->real[KF_LAM];
        for (int64_t row = 0; row < b; row++) {
            long double sum = 0;
            for (int64_t column = 0; column < b; column++) {
                sum += (long double)p[row * b + column] * h[column];
            }
            k[row] = (double)sum;
            t += (long double)h[row] * sum;
        }
        h += b;
        k += b;
        p += b * b;
    }
    return (double)t;
}

static void kalman_update(const struct run *run, int rank, const double *k, double a,
                          const struct tensor *in, struct expected *out)
{
    const double *p = in[KF_P].data;
    int64_t at = 0;

    for (int i = 0; i < run->dim[KF_NB]; i++) {
        int64_t b = run->grid[KF_BS][rank][i];
        for (int64_t j = 0; j < b * b; j++) {
            expect_close(&out[KF_P_NEW], at + j,
                         (p[at + j] - a * k[j / b] * k[j % b]) / run->real[KF_LAM]);
        }
        at += b * b;
        k += b;
    }
    expect_close(&out[KF_LAM_NEW], 0,
                 run->real[KF_NUE] * run->real[KF_LAM] + 1 - run->real[KF_NUE]);
}

static void kalman_oracle(const struct run *run, struct tensor *const *in,
                          struct expected *const *out)
{
    double *k[RANKS_MAX];
    double t = 0;
    int64_t at = 0;

    for (int rank = 0; rank < run->world; rank++) {
        k[rank] = calloc((size_t)run->list[KF_NW][rank], sizeof(double));
        t += kalman_gain(run, rank, in[rank], k[rank]);
    }
    for (int rank = 0; rank < run->world; rank++) {
        double err = tensor_get(&in[rank][KF_ERR], 0);
        kalman_update(run, rank, k[rank], 1 / t, in[rank], out[rank]);
        for (int64_t i = 0; i < run->list[KF_NW][rank]; i++) {
            double w = tensor_get(&in[rank][KF_W], i) + err / t * k[rank][i];
            for (int reader = 0; reader < run->world; reader++) {
                expect_close(&out[reader][KF_W_ALL], at + i, w);
            }
        }
        at += run->list[KF_NW][rank];
        free(k[rank]);
    }
}

static const struct tolerance kalman_tolerance = SAME_TOLERANCE(.a = 1e-12, .r = 1e-12);
static const struct tolerance lam_tolerance = SAME_TOLERANCE(.r = 1e-15);

static const struct task declared_kalman = {
    .number = 63,
    .name = "deepmd_kalman_filter_optimizer",
    .summary = "One step of a layer-wise extended Kalman filter optimiser",
    .family = "optimizer",
    .params = {[KF_NB] = {"nb", PARAM_INT64, "blocks per rank"},
               [KF_BS] = {"bs", PARAM_GRID, "[W][nb]; bs[s][i]: size of block i of rank s"},
               [KF_NW] = {"nw", PARAM_LIST, "weights of rank s"},
               [KF_NP] = {"np", PARAM_LIST, "covariance elements of rank s"},
               [KF_LAM] = {"lam", PARAM_FP64, "forgetting factor"},
               [KF_NUE] = {"nue", PARAM_FP64, "its growth factor"}},
    .cases = {{.name = "check", .dim = {[KF_NB] = 3}, .real = {[KF_LAM] = 0.98, [KF_NUE] = 0.9987}},
              {.name = "bench", .dim = {[KF_NB] = 8}, .real = {[KF_LAM] = 0.98, [KF_NUE] = 0.9987}},
              {.name = "check/uneven"}},
    .outputs = {{.name = "w_all", .ranks = RANKS_SAME, .tolerance = &kalman_tolerance},
                {.name = "p_new", .tolerance = &kalman_tolerance},
                {.name = "lam_new", .ranks = RANKS_SAME, .tolerance = &lam_tolerance}},
    .derive = kalman_derive,
    .declare = kalman_declare,
    .fill = kalman_fill,
    .oracle = kalman_oracle,
};
