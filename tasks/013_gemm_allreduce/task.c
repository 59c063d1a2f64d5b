#include "tasks/oracle_gemm.h"

#include <math.h>

enum { M, N, K };
enum { A, B };
enum { C };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "a", T, "[M, K]", SHAPE(run->dim[M], run->dim[K]));
    plan_input(plan, "b", T, "[K, N]", SHAPE(run->dim[K], run->dim[N]));
    plan_output(plan, "c", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    struct product product;

    product_open(&product, run->dim[M], run->dim[N]);
    for (int source = 0; source < run->world; source++) {
        struct matrix a;
        struct matrix b;
        matrix_open_rows(&a, &in[source][A], 0, run->dim[M], run->dim[K]);
        matrix_open_rows(&b, &in[source][B], 0, run->dim[K], run->dim[N]);
        product_add(&product, &a, &b);
        matrix_close(&a);
        matrix_close(&b);
    }
    for (int64_t i = 0; i < run->dim[M] * run->dim[N]; i++) {
        double bound = product_bound_chain(&product, i, run->dtype, run->world);
        for (int rank = 0; rank < run->world; rank++) {
            expect(&out[rank][C], i, product.value[i], bound);
        }
    }
    product_close(&product);
}

static void work(const struct run *run, struct work *work)
{
    double m = (double)run->dim[M];
    double n = (double)run->dim[N];
    double k = (double)run->dim[K];
    double bytes = m * n * run_element_bytes(run);
    double peers = run->world - 1;
    double told = fmin(m * n, (m + n) * k); /* the sum, or a peer's factors */

    *work = (struct work){
        .nvlink_out = 2 * peers / run->world * bytes,
        .nvlink_in = 2 * peers / run->world * bytes,
        .nvls_out = fmin(peers, 1) * bytes,
        .nvls_in = fmin(peers, 1) * bytes,
        .hbm_read = (m + n) * k * run_element_bytes(run),
        .hbm_write = bytes,
        .flops_mma = 2 * m * n * k,
        .flops_other = peers / run->world * m * n,
        .floor_in = fmin(peers, 1) * told * run_floor_bytes(run, C),
    };
}

static const struct tolerance tolerance = {
    .bf16 = {.a = 0.05, .r = 0.008, .rms = 0.008},
    .fp16 = {.a = 0.006, .r = 0.001, .rms = 0.001},
    .fp32 = {.a = 2e-5, .r = 1e-6, .rms = 5e-6},
};

const struct task task_gemm_allreduce = {
    .number = 13,
    .name = "gemm_allreduce",
    .summary = "Multiply each rank's own matrices and sum the products over all ranks",
    .family = "tensor-parallel",
    .params = {[M] = {"M", PARAM_INT64, "rows"},
               [N] = {"N", PARAM_INT64, "columns"},
               [K] = {"K", PARAM_INT64, "inner length per rank"}},
    .cases = {{.name = "check", .dim = {[M] = 56, [N] = 88, [K] = 72}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024, [K] = 512}}},
    .outputs = {[C] = {.name = "c", .ranks = RANKS_SAME, .tolerance = &tolerance}},
    .declare = declare,
    .fill = fill_normal_inputs,
    .oracle = oracle,
    .work = work,
};
