#include "tasks/declare.h"
#include "tasks/fill.h"
#include "tasks/oracle_norm.h"
#include "tasks/oracle_round.h"

#include <math.h>

enum { N, HL, EPS };
enum { X, W };
enum { Y };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "x", T, "[n, hl]", SHAPE(run->dim[N], run->dim[HL]));
    plan_input(plan, "w", T, "[hl]", SHAPE(run->dim[HL]));
    plan_output(plan, "y", T, "[n, hl]", SHAPE(run->dim[N], run->dim[HL]));
}

/* Scales that differ by rank and row, so that every rank's share and eps count; row 1 is zero. */
static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    int64_t width = run->dim[HL];

    for (int rank = 0; rank < run->world; rank++) {
        const struct tensor *x = &in[rank][X];
        uint64_t key = trial_stream(trial, rank, X);
        for (int64_t i = 0; i < x->spec->elements; i++) {
            double scale = i / width == 1 ? 0 : ldexp(1 + rank, -(int)(i / width % 12));
            tensor_set(x, i, (double)fill_normal((uint64_t)i, key) * scale);
        }
        fill_tensor_normal(&in[rank][W], trial_stream(trial, rank, W), 1);
    }
}

/* Two roundings, or one, of what may be subnormal. */
static double bound_of(enum dtype dtype, double ref, double weight)
{
    double fp32_slack = dtype == DTYPE_FP32 ? 0x1p-20 : 0;

    return (2.05 * dtype_unit(dtype) + fp32_slack) * fabs(ref) +
           (1 + fabs(weight)) * dtype_smallest(dtype);
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t width = run->dim[HL];

    for (int64_t i = 0; i < run->dim[N]; i++) {
        double squares = 0;
        for (int rank = 0; rank < run->world; rank++) {
            squares += power_sum(&in[rank][X], i * width, width, 2);
        }
        double factor = 1 / sqrt(squares / (double)(run->world * width) + run->real[EPS]);
        for (int64_t j = 0; j < run->world * width; j++) {
            int rank = (int)(j / width);
            int64_t at = i * width + j % width;
            double weight = tensor_get(&in[rank][W], j % width);
            double ref = weight * tensor_get(&in[rank][X], at) * factor;
            expect(&out[rank][Y], at, ref, bound_of(run->dtype, ref, weight));
        }
    }
}

static void work(const struct run *run, struct work *work)
{
    double rows = (double)run->dim[N];
    double elements = rows * (double)run->dim[HL];
    double size = run_element_bytes(run);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = 2 * peers / run->world * 4 * rows,
        .nvlink_in = 2 * peers / run->world * 4 * rows,
        .nvls_out = fmin(peers, 1) * 4 * rows,
        .nvls_in = fmin(peers, 1) * 4 * rows,
        .hbm_read = (elements + (double)run->dim[HL]) * size,
        .hbm_write = elements * size,
        .flops_other = 4 * elements,
        .floor_in = fmin(peers, 1) * rows * run_floor_bytes(run, Y),
    };
}

static const struct tolerance tolerance = {
    .bf16 = {.a = 1e-6, .r = 0.0081},
    .fp16 = {.a = 1e-6, .r = 0.00101},
    .fp32 = {.a = 1e-6, .r = 2e-6},
};

const struct task task_tp_rms_norm = {
    .number = 18,
    .name = "tp_rms_norm",
    .summary = "RMS normalisation over a hidden dimension that is sharded over the ranks",
    .family = "tensor-parallel",
    .params = {[N] = {"n", PARAM_INT64, "rows (tokens)"},
               [HL] = {"hl", PARAM_INT64, "local hidden width"},
               [EPS] = {"eps", PARAM_FP32, "added to the mean square"}},
    .cases = {{.name = "check", .dim = {[N] = 37, [HL] = 138}, .real = {[EPS] = 1e-5}},
              {.name = "bench", .dim = {[N] = 1024, [HL] = 1024}, .real = {[EPS] = 1e-5}},
              {.name = "large", .dim = {[N] = 16384, [HL] = 2048}, .real = {[EPS] = 1e-5}}},
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_OWN, .tolerance = &tolerance}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
