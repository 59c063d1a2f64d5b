#include "tasks/declare.h"
#include "tasks/fill.h"
#include "tasks/oracle_norm.h"
#include "tasks/oracle_round.h"

#include "common/mem.h"

#include <math.h>
#include <stdlib.h>

enum { N, H };
enum { XHAT, DY };
enum { GAMMA, BETA };
enum { CENTRED, OFFSET };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "xhat", T, "[n, H]", SHAPE(run->dim[N], run->dim[H]));
    plan_input(plan, "dy", T, "[n, H]", SHAPE(run->dim[N], run->dim[H]));
    plan_output(plan, "d_gamma", T, "[H]", SHAPE(run->dim[H]));
    plan_output(plan, "d_beta", T, "[H]", SHAPE(run->dim[H]));
}

/* Rows of length 1: normal numbers, divided by their rounded length. */
static void normalise_rows(const struct tensor *xhat)
{
    int64_t columns = xhat->spec->shape[1];

    for (int64_t i = 0; i < xhat->spec->shape[0]; i++) {
        float squares = 0;
        for (int64_t j = 0; j < columns; j++) {
            float z = (float)tensor_get(xhat, i * columns + j);
            squares += z * z;
        }
        double length = dtype_round(xhat->spec->dtype, sqrtf(squares));
        double divisor = dtype_round(xhat->spec->dtype, length + 1e-5);
        for (int64_t j = 0; j < columns; j++) {
            tensor_set(xhat, i * columns + j, tensor_get(xhat, i * columns + j) / divisor);
        }
    }
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        const struct tensor *dy = &in[rank][DY];
        uint64_t key = trial_stream(trial, rank, DY);
        float offset = run->variant == OFFSET ? 0.1F * (float)(rank + 1) : 0;
        fill_tensor_normal(&in[rank][XHAT], trial_stream(trial, rank, XHAT), 1);
        normalise_rows(&in[rank][XHAT]);
        for (int64_t i = 0; i < dy->spec->elements; i++) {
            tensor_set(dy, i, fill_normal((uint64_t)i, key) + offset);
        }
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    struct layernorm_column *columns = xcalloc((size_t)run->dim[H], sizeof(*columns));

    for (int rank = 0; rank < run->world; rank++) {
        layernorm_add(columns, &in[rank][XHAT], &in[rank][DY]);
    }
    for (int64_t j = 0; j < run->dim[H]; j++) {
        double beta_bound = layernorm_beta_bound(&columns[j], run);
        double gamma_bound = layernorm_gamma_bound(&columns[j], run);
        for (int rank = 0; rank < run->world; rank++) {
            expect(&out[rank][GAMMA], j, columns[j].gamma, gamma_bound);
            expect(&out[rank][BETA], j, columns[j].beta, beta_bound);
        }
    }
    free(columns);
}

static void work(const struct run *run, struct work *work)
{
    double columns = (double)run->dim[H];
    double elements = (double)run->dim[N] * columns;
    double bytes = 2 * columns * run_element_bytes(run);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = 2 * peers / run->world * bytes,
        .nvlink_in = 2 * peers / run->world * bytes,
        .nvls_out = fmin(peers, 1) * bytes,
        .nvls_in = fmin(peers, 1) * bytes,
        .hbm_read = 2 * elements * run_element_bytes(run),
        .hbm_write = bytes,
        .flops_other = 3 * elements,
        .floor_in = fmin(peers, 1) * 2 * columns * run_floor_bytes(run, GAMMA),
    };
}

static const struct tolerance tolerance = {
    .bf16 = {.a = 0.05, .r = 0.008},
    .fp16 = {.a = 0.006, .r = 0.001},
    .fp32 = {.a = 5e-5, .r = 1e-6},
};

const struct task task_layernorm_backward = {
    .number = 9,
    .name = "layernorm_backward",
    .summary = "Gradients of LayerNorm's scale and shift, summed over rows and ranks",
    .family = "collectives",
    .params =
        {[N] = {"n", PARAM_INT64, "batch rows per rank"}, [H] = {"H", PARAM_INT64, "hidden size"}},
    .cases = {{.name = "check", .dim = {[N] = 75, [H] = 130}},
              {.name = "bench", .dim = {[N] = 1024, [H] = 1024}},
              {.name = "large", .dim = {[N] = 16384, [H] = 8192}}},
    .variants = {[CENTRED] = {"centred", AT_ALL}, [OFFSET] = {"offset", AT_CHECK}},
    .outputs = {[GAMMA] = {.name = "d_gamma", .ranks = RANKS_SAME, .tolerance = &tolerance},
                [BETA] = {.name = "d_beta", .ranks = RANKS_SAME, .tolerance = &tolerance}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
