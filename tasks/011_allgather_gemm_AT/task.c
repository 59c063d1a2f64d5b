#include "tasks/oracle_gemm.h"

#include <math.h>

enum { M, N, K };
enum { A, B };
enum { C };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "a", T, "[M, K/W]", SHAPE(run->dim[M], run->dim[K] / run->world));
    plan_input(plan, "b", T, "[K, N]", SHAPE(run->dim[K], run->dim[N]));
    plan_output(plan, "ct", T, "[N, M]", SHAPE(run->dim[N], run->dim[M]));
}

/* The rank's own factor times the gathered columns, both transposed, as ct is: a part for each
 * shard. */
static void expect_rank(const struct run *run, int rank, struct tensor *const *in,
                        struct expected *out)
{
    int64_t width = run->dim[K] / run->world;
    struct product product;

    product_open(&product, run->dim[N], run->dim[M]);
    for (int source = 0; source < run->world; source++) {
        struct matrix a;
        struct matrix b;
        matrix_open_rows(&a, &in[source][A], 0, run->dim[M], width);
        matrix_open_rows(&b, &in[rank][B], source * width, width, run->dim[N]);
        matrix_transpose(&a);
        matrix_transpose(&b);
        product_add(&product, &b, &a);
        matrix_close(&a);
        matrix_close(&b);
    }
    for (int64_t i = 0; i < run->dim[M] * run->dim[N]; i++) {
        expect(out, i, product.value[i], product_bound_once(&product, i, run->dtype));
    }
    product_close(&product);
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int rank = 0; rank < run->world; rank++) {
        expect_rank(run, rank, in, &out[rank][C]);
    }
}

static void work(const struct run *run, struct work *work)
{
    double m = (double)run->dim[M];
    double n = (double)run->dim[N];
    double k = (double)run->dim[K];
    double size = run_element_bytes(run);
    double shard = m * k / run->world;
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * shard * size,
        .nvlink_in = peers * shard * size,
        .nvls_out = fmin(peers, 1) * shard * size,
        .nvls_in = peers * shard * size,
        .hbm_read = (shard + k * n) * size,
        .hbm_write = m * n * size,
        .flops_mma = 2 * m * n * k,
        .floor_in = fmin(peers * shard, fmin(peers, 1) * m * n) * run_floor_bytes(run, C),
    };
}

const struct task task_allgather_gemm_AT = {
    .number = 11,
    .name = "allgather_gemm_AT",
    .summary = "Gather the columns of A, multiply by the own B, and store the product transposed",
    .family = "tensor-parallel",
    .params = {[M] = {"M", PARAM_INT64, "rows of A and C"},
               [N] = {"N", PARAM_INT64, "columns of B and C"},
               [K] = {"K", PARAM_INT64, "inner length, of all ranks together"}},
    .cases = {{.name = "check", .dim = {[M] = 72, [N] = 104, [K] = 192}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024, [K] = 512}},
              {.name = "large", .dim = {[M] = 8192, [N] = 8192, [K] = 8192}},
              {.name = "check/unaligned", .dim = {[M] = 77, [N] = 50, [K] = 120}}},
    .outputs = {[C] = {.name = "ct", .ranks = RANKS_OWN, .tolerance = &product_tolerance}},
    .declare = declare,
    .fill = fill_normal_inputs,
    .oracle = oracle,
    .work = work,
};
