#include "tasks/oracle_gemm.h"

#include <math.h>

enum { M, N, K, KL, ML };
enum { A, B };
enum { C };

static void derive(struct run *run)
{
    run->dim[KL] = run->dim[K] / run->world;
    run->dim[ML] = run->dim[M] / run->world;
}

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "a", T, "[M, kl]", SHAPE(run->dim[M], run->dim[KL]));
    plan_input(plan, "b", T, "[kl, N]", SHAPE(run->dim[KL], run->dim[N]));
    plan_output(plan, "c", T, "[ml, N]", SHAPE(run->dim[ML], run->dim[N]));
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t block = run->dim[ML] * run->dim[N];
    struct product product;

    product_open(&product, run->dim[M], run->dim[N]);
    for (int source = 0; source < run->world; source++) {
        struct matrix a;
        struct matrix b;
        matrix_open_rows(&a, &in[source][A], 0, run->dim[M], run->dim[KL]);
        matrix_open_rows(&b, &in[source][B], 0, run->dim[KL], run->dim[N]);
        product_add(&product, &a, &b);
        matrix_close(&a);
        matrix_close(&b);
    }
    for (int64_t i = 0; i < run->world * block; i++) {
        expect(&out[i / block][C], i % block, product.value[i],
               product_bound_chain(&product, i, run->dtype, run->world));
    }
    product_close(&product);
}

/* The least of two schemes: to exchange products, or factors. */
static void work(const struct run *run, struct work *work)
{
    double m = (double)run->dim[M];
    double n = (double)run->dim[N];
    double kl = (double)run->dim[KL];
    double ml = (double)run->dim[ML];
    double size = run_element_bytes(run);
    double peers = run->world - 1;
    double factors = kl * (ml + n);

    *work = (struct work){
        .nvlink_out = peers * fmin(ml * n, factors) * size,
        .nvlink_in = peers * fmin(ml * n, factors) * size,
        .nvls_out = fmin(peers * ml * n, peers * kl * ml + kl * n) * size,
        .nvls_in = peers * fmin(ml * n, factors) * size,
        .hbm_read = (m + n) * kl * size,
        .hbm_write = ml * n * size,
        .flops_mma = 2 * m * n * kl,
        .flops_other = peers * ml * n,
        .floor_in = fmin(fmin(peers, 1) * ml * n, peers * factors) * run_floor_bytes(run, C),
    };
}

static const struct tolerance tolerance = {
    .bf16 = {.a = 0.05, .r = 0.008, .rms = 0.008},
    .fp16 = {.a = 0.006, .r = 0.001, .rms = 0.001},
    .fp32 = {.a = 5e-5, .r = 1e-6, .rms = 1e-5},
};

const struct task task_gemm_reducescatter = {
    .number = 16,
    .name = "gemm_reducescatter",
    .summary = "Multiply matrices split along K, and scatter the summed rows",
    .family = "tensor-parallel",
    .params = {[M] = {"M", PARAM_INT64, "rows of C (all ranks together)"},
               [N] = {"N", PARAM_INT64, "columns"},
               [K] = {"K", PARAM_INT64, "total inner length"},
               [KL] = {"kl", PARAM_INT64, "inner length per rank"},
               [ML] = {"ml", PARAM_INT64, "rows of C per rank"}},
    .cases = {{.name = "check", .dim = {[M] = 72, [N] = 88, [K] = 192}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024, [K] = 512}},
              {.name = "large", .dim = {[M] = 8192, [N] = 8192, [K] = 28672}}},
    .outputs = {[C] = {.name = "c", .ranks = RANKS_OWN, .tolerance = &tolerance}},
    .derive = derive,
    .declare = declare,
    .fill = fill_normal_inputs,
    .oracle = oracle,
    .work = work,
};
