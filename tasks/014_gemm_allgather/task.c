#include "tasks/oracle_gemm.h"

#include <math.h>

enum { M, N, K, NL };
enum { A, B };
enum { C };

static void derive(struct run *run)
{
    run->dim[NL] = run->dim[N] / run->world;
}

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "a", T, "[M, K]", SHAPE(run->dim[M], run->dim[K]));
    plan_input(plan, "b", T, "[K, nl]", SHAPE(run->dim[K], run->dim[NL]));
    plan_output(plan, "c", T, "[M, W*nl]", SHAPE(run->dim[M], run->world * run->dim[NL]));
}

/* The block of one rank, in its columns on every rank. */
static void expect_block_of(const struct run *run, int source, struct tensor *const *in,
                            struct expected *const *out)
{
    int64_t width = run->dim[NL];
    struct product product;
    struct matrix a;
    struct matrix b;

    product_open(&product, run->dim[M], width);
    matrix_open_rows(&a, &in[source][A], 0, run->dim[M], run->dim[K]);
    matrix_open_rows(&b, &in[source][B], 0, run->dim[K], width);
    product_add(&product, &a, &b);
    for (int64_t i = 0; i < run->dim[M] * width; i++) {
        int64_t at = i / width * run->world * width + source * width + i % width;
        double bound = product_bound_once(&product, i, run->dtype);
        for (int rank = 0; rank < run->world; rank++) {
            expect(&out[rank][C], at, product.value[i], bound);
        }
    }
    matrix_close(&a);
    matrix_close(&b);
    product_close(&product);
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int source = 0; source < run->world; source++) {
        expect_block_of(run, source, in, out);
    }
}

static void work(const struct run *run, struct work *work)
{
    double m = (double)run->dim[M];
    double k = (double)run->dim[K];
    double width = (double)run->dim[NL];
    double block = m * width * run_element_bytes(run);
    double peers = run->world - 1;
    double told = fmin(m * width, (m + width) * k); /* the product, or its factors */

    *work = (struct work){
        .nvlink_out = peers * block,
        .nvlink_in = peers * block,
        .nvls_out = fmin(peers, 1) * block,
        .nvls_in = peers * block,
        .hbm_read = (m + width) * k * run_element_bytes(run),
        .hbm_write = run->world * block,
        .flops_mma = 2 * m * width * k,
        .floor_in = peers * told * run_floor_bytes(run, C),
    };
}

const struct task task_gemm_allgather = {
    .number = 14,
    .name = "gemm_allgather",
    .summary = "Multiply each rank's own matrices and gather the products side by side",
    .family = "tensor-parallel",
    .params = {[M] = {"M", PARAM_INT64, "rows"},
               [N] = {"N", PARAM_INT64, "total columns"},
               [K] = {"K", PARAM_INT64, "inner length"},
               [NL] = {"nl", PARAM_INT64, "columns per rank"}},
    .cases = {{.name = "check", .dim = {[M] = 56, [N] = 197, [K] = 72}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024, [K] = 512}}},
    .outputs = {[C] = {.name = "c", .ranks = RANKS_SAME, .tolerance = &product_tolerance}},
    .derive = derive,
    .declare = declare,
    .fill = fill_normal_inputs,
    .oracle = oracle,
    .work = work,
};
