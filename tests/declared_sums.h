/*
 * declared_sums.h — task page 063, declared as its task.c will be: fp64 blocks.
 */
#pragma once

#include "tasks/declare.h"
#include "tasks/fill.h"
#include "tasks/oracle_round.h"

#include <math.h>
#include <stdlib.h>

extern const struct task task_gemm_reducescatter, task_clip_grad_norm_no_ep;

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
