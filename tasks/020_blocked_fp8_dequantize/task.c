#include "tasks/declare.h"
#include "tasks/fill.h"
#include "tasks/oracle_round.h"

#include <math.h>

enum { M, N, Q, G, FMT };
enum { Y_T, S_T, Y_Q, S_Q };
enum { OUT };

static void derive(struct run *run)
{
    run->dim[G] = run->dim[M] * run->dim[N] / run->dim[Q];
}

static void declare(const struct run *run, int rank, struct plan *plan)
{
    int64_t working = run->dim[FMT] == 0 ? run->world : 0;
    int64_t coded = run->world - working;

    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "y_t", T, "[(fmt == 0)*W, M, N]", SHAPE(working, run->dim[M], run->dim[N]));
    plan_input(plan, "s_t", T, "[(fmt == 0)*W, g]", SHAPE(working, run->dim[G]));
    plan_input(plan, "y_q", DTYPE_E4M3, "[(fmt == 1)*W, M, N]",
               SHAPE(coded, run->dim[M], run->dim[N]));
    plan_input(plan, "s_q", DTYPE_FP32, "[(fmt == 1)*W, g]", SHAPE(coded, run->dim[G]));
    plan_output(plan, "out", DTYPE_FP32, "[W, M, N]", SHAPE(run->world, run->dim[M], run->dim[N]));
}

/* Uniform among the 254 codes that are numbers. */
static void fill_codes(const struct tensor *codes, uint64_t key)
{
    for (int64_t i = 0; i < codes->spec->elements; i++) {
        int64_t code = fill_integer((uint64_t)i, key, 0, 253);
        ((uint8_t *)codes->data)[i] = (uint8_t)(code + (code >= 127));
    }
}

/* 2^e (1 + f), e in [-12, -3], f in [0, 1). */
static void fill_scales(const struct tensor *scales, uint64_t key)
{
    uint64_t exponents = stream_inside(key, 1);

    for (int64_t i = 0; i < scales->spec->elements; i++) {
        int64_t exponent = fill_integer((uint64_t)i, exponents, -12, -3);
        double fraction = (double)fill_uniform((uint64_t)i, key);
        tensor_set(scales, i, ldexp(1 + fraction, (int)exponent));
    }
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        fill_tensor_normal(&in[rank][Y_T], trial_stream(trial, rank, Y_T), 1);
        fill_tensor_normal(&in[rank][S_T], trial_stream(trial, rank, S_T), 1);
        fill_codes(&in[rank][Y_Q], trial_stream(trial, rank, Y_Q));
        fill_scales(&in[rank][S_Q], trial_stream(trial, rank, S_Q));
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t block = run->dim[M] * run->dim[N];
    int y = run->dim[FMT] == 0 ? Y_T : Y_Q;
    int s = run->dim[FMT] == 0 ? S_T : S_Q;

    for (int64_t k = 0; k < (int64_t)run->world * run->world * block; k++) {
        int source = (int)(k / block) / run->world;
        int rank = (int)(k / block) % run->world;
        int64_t i = k % block;
        float value = (float)tensor_get(&in[source][y], rank * block + i);
        float scale = (float)tensor_get(&in[source][s], rank * run->dim[G] + i / run->dim[Q]);
        expect(&out[rank][OUT], source * block + i, (double)(value * scale), 0);
    }
}

static void work(const struct run *run, struct work *work)
{
    double elements = (double)(run->dim[M] * run->dim[N]);
    double scales = (double)run->dim[G];
    double bytes =
        run->dim[FMT] == 1 ? elements + 4 * scales : (elements + scales) * run_element_bytes(run);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * bytes,
        .nvlink_in = peers * bytes,
        .nvls_out = peers * bytes,
        .nvls_in = peers * bytes,
        .hbm_read = run->world * bytes,
        .hbm_write = run->world * 4 * elements,
        .flops_other = run->world * elements,
        .floor_in = peers * bytes,
    };
}

const struct task task_blocked_fp8_dequantize = {
    .number = 20,
    .name = "blocked_fp8_dequantize",
    .summary = "Exchange blocks of codes with scales, and multiply them out in fp32",
    .family = "quantization",
    .params = {[M] = {"M", PARAM_INT64, "rows of one block"},
               [N] = {"N", PARAM_INT64, "columns of one block"},
               [Q] = {"Q", PARAM_INT64, "scale group length over the flattened block"},
               [G] = {"g", PARAM_INT64, "scales per block"},
               [FMT] = {"fmt", PARAM_INT64, "0: y_t and s_t are used, 1: y_q and s_q"}},
    .cases = {{.name = "check", .dim = {[M] = 12, [N] = 96, [Q] = 128}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024, [Q] = 128}},
              {.name = "check/fp8", .dim = {[FMT] = 1}},
              {.name = "bench/fp8", .dim = {[FMT] = 1}}},
    .outputs = {[OUT] = {.name = "out", .ranks = RANKS_OWN}},
    .derive = derive,
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
