#include "tasks/declare.h"
#include "tasks/fill.h"
#include "tasks/oracle_quant.h"
#include "tasks/oracle_round.h"

#include <math.h>

enum { M, N, Q };
enum { X };
enum { Y, SCALE };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    int64_t rows = run->world * run->dim[M];

    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "x", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
    plan_output(plan, "y", DTYPE_E4M3, "[W*M, N]", SHAPE(rows, run->dim[N]));
    plan_output(plan, "scale", DTYPE_FP32, "[W*M, N/Q]", SHAPE(rows, run->dim[N] / run->dim[Q]));
}

/* Blocks that normal numbers never make: zeros of both signs, one element alone, one that is large
 * beside all others. */
static void set_special_blocks(const struct run *run, const struct tensor *x)
{
    int64_t width = run->dim[N];
    int64_t length = run->dim[Q];

    for (int64_t k = 0; k < length; k++) {
        tensor_set(x, length + k, 0);
        if (k != length / 3) {
            tensor_set(x, width + k, 0);
        }
        double value = tensor_get(x, width + length + k) * 1e-4 * 0x1p5; /* row 1 is 2^-5 */
        tensor_set(x, width + length + k, k == length / 2 ? 1 : value);
        tensor_set(x, 2 * width + k, -0.0);
    }
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    int64_t width = run->dim[N];

    for (int rank = 0; rank < run->world; rank++) {
        const struct tensor *x = &in[rank][X];
        uint64_t key = trial_stream(trial, rank, X);
        for (int64_t i = 0; i < x->spec->elements; i++) {
            int exponent = (int)(7 * (i / width) % 25) - 12;
            tensor_set(x, i, ldexp((double)fill_normal((uint64_t)i, key), exponent));
        }
        if (run_in_class(run, "check")) {
            set_special_blocks(run, x);
        }
    }
}

/* One block of a rank, on all ranks. */
static void expect_block_of(const struct run *run, int source, int64_t block,
                            struct tensor *const *in, struct expected *const *out)
{
    int64_t length = run->dim[Q];
    int64_t blocks = run->dim[M] * run->dim[N] / length;
    const struct tensor *x = &in[source][X];
    float scale = quant_scale(x, block * length, length);

    for (int rank = 0; rank < run->world; rank++) {
        expect(&out[rank][SCALE], source * blocks + block, (double)scale, 0);
    }
    for (int64_t i = block * length; i < (block + 1) * length; i++) {
        uint8_t code = quant_code((float)tensor_get(x, i), scale);
        double value = scalar_get(DTYPE_E4M3, &code, 0);
        for (int rank = 0; rank < run->world; rank++) {
            expect(&out[rank][Y], source * x->spec->elements + i, value, 0);
        }
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int source = 0; source < run->world; source++) {
        for (int64_t block = 0; block < run->dim[M] * run->dim[N] / run->dim[Q]; block++) {
            expect_block_of(run, source, block, in, out);
        }
    }
}

static void work(const struct run *run, struct work *work)
{
    double elements = (double)(run->dim[M] * run->dim[N]);
    double bytes = elements + 4 * elements / (double)run->dim[Q];
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * bytes,
        .nvlink_in = peers * bytes,
        .nvls_out = fmin(peers, 1) * bytes,
        .nvls_in = peers * bytes,
        .hbm_read = elements * run_element_bytes(run),
        .hbm_write = run->world * bytes,
        .flops_other = 2 * elements,
        .floor_in = peers * bytes,
    };
}

const struct task task_blocked_fp8_quantize = {
    .number = 19,
    .name = "blocked_fp8_quantize",
    .summary = "Quantise to e4m3 with a scale per block, and gather codes and scales",
    .family = "quantization",
    .params = {[M] = {"M", PARAM_INT64, "rows per rank"},
               [N] = {"N", PARAM_INT64, "columns"},
               [Q] = {"Q", PARAM_INT64, "block length along the last axis"}},
    .cases = {{.name = "check", .dim = {[M] = 13, [N] = 384, [Q] = 128}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024, [Q] = 128}}},
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_SAME},
                [SCALE] = {.name = "scale", .ranks = RANKS_SAME}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
