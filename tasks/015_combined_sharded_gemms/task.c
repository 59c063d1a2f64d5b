#include "tasks/oracle_gemm.h"
#include "tasks/oracle_round.h"

#include <math.h>

enum { M, H, F, MW, ML, HW, HL };
enum { X, W1, W2 };
enum { Y };
enum { PLAIN, SMALL };

static int64_t divide_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by;
}

static void derive(struct run *run)
{
    run->dim[ML] = divide_up(run->dim[M], run->world);
    run->dim[MW] = run->world * run->dim[ML];
    run->dim[HL] = divide_up(run->dim[H], run->world);
    run->dim[HW] = run->world * run->dim[HL];
}

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "x", T, "[mw, hl]", SHAPE(run->dim[MW], run->dim[HL]));
    plan_input(plan, "w1", T, "[hw, F]", SHAPE(run->dim[HW], run->dim[F]));
    plan_input(plan, "w2", T, "[F, hw]", SHAPE(run->dim[F], run->dim[HW]));
    plan_output(plan, "y", T, "[ml, hw]", SHAPE(run->dim[ML], run->dim[HW]));
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    double scale = run->variant == SMALL ? 1 / sqrt((double)run->dim[H]) : 1;

    for (int rank = 0; rank < run->world; rank++) {
        fill_tensor_normal(&in[rank][X], trial_stream(trial, rank, X), 1);
        fill_tensor_normal(&in[rank][W1], trial_stream(trial, rank, W1), scale);
        fill_tensor_normal(&in[rank][W2], trial_stream(trial, rank, W2), 1);
    }
}

/* SiLU of the rank's rows of X times its first weights. */
static void activate(const struct run *run, int rank, struct tensor *const *in,
                     struct matrix *activation)
{
    int64_t rows = run->dim[ML];
    int64_t width = run->dim[HL];
    struct product product;

    product_open(&product, rows, run->dim[F]);
    for (int source = 0; source < run->world; source++) {
        struct matrix x;
        struct matrix w;
        matrix_open_rows(&x, &in[source][X], rank * rows, rows, width);
        matrix_open_rows(&w, &in[rank][W1], source * width, width, run->dim[F]);
        product_add(&product, &x, &w);
        matrix_close(&x);
        matrix_close(&w);
    }
    matrix_open(activation, rows, run->dim[F]);
    for (int64_t i = 0; i < rows * run->dim[F]; i++) {
        activation->value[i] = product.value[i] / (1 + exp(-product.value[i]));
    }
    product_close(&product);
}

/* The second product, and the sums of the squares of its terms. */
static void project(const struct run *run, int rank, struct tensor *const *in,
                    struct product *product, struct product *squares)
{
    struct matrix activation;
    struct matrix weights;
    struct matrix squared_activation;
    struct matrix squared_weights;

    activate(run, rank, in, &activation);
    matrix_open_rows(&weights, &in[rank][W2], 0, run->dim[F], run->dim[HW]);
    matrix_open_squares(&squared_activation, &activation);
    matrix_open_squares(&squared_weights, &weights);
    product_open(product, run->dim[ML], run->dim[HW]);
    product_open(squares, run->dim[ML], run->dim[HW]);
    product_add(product, &activation, &weights);
    product_add(squares, &squared_activation, &squared_weights);
    matrix_close(&squared_weights);
    matrix_close(&squared_activation);
    matrix_close(&weights);
    matrix_close(&activation);
}

/* The bound admits that h1 and a are rounded: 4 u of the root of the terms' squares. */
static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int rank = 0; rank < run->world; rank++) {
        struct product product;
        struct product squares;
        project(run, rank, in, &product, &squares);
        for (int64_t i = 0; i < run->dim[ML] * run->dim[HW]; i++) {
            expect(&out[rank][Y], i, product.value[i],
                   product_bound_once(&product, i, run->dtype) +
                       4 * dtype_unit(run->dtype) * sqrt(squares.value[i]));
        }
        product_close(&squares);
        product_close(&product);
    }
}

static void work(const struct run *run, struct work *work)
{
    double size = run_element_bytes(run);
    double block = (double)(run->dim[ML] * run->dim[HL]);
    double weights = 2 * (double)(run->dim[HW] * run->dim[F]);
    double result = (double)(run->dim[ML] * run->dim[HW]);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * block * size,
        .nvlink_in = peers * block * size,
        .nvls_out = peers * block * size,
        .nvls_in = peers * block * size,
        .hbm_read = (double)(run->dim[MW] * run->dim[HL]) * size + weights * size,
        .hbm_write = result * size,
        .flops_mma = 2 * weights * (double)run->dim[ML],
        .flops_other = 4 * (double)(run->dim[ML] * run->dim[F]),
        .floor_in = peers * block * run_floor_bytes(run, Y),
    };
}

/* `a` is 7 u: rows differ so much in variant small that 4 u refuses 1 of 20 honest jobs. */
static const struct tolerance tolerance = {
    .bf16 = {.a = 0.0275, .r = 0.004, .rms = 0.004},
    .fp16 = {.a = 0.0035, .r = 5e-4, .rms = 5e-4},
    .fp32 = {.a = 5e-5, .r = 1e-6, .rms = 5e-6},
};

const struct task task_combined_sharded_gemms = {
    .number = 15,
    .name = "combined_sharded_gemms",
    .summary = "Two-layer MLP with SiLU: columns of the input sharded, rows of the output",
    .family = "tensor-parallel",
    .params = {[M] = {"M", PARAM_INT64, "nominal rows"},
               [H] = {"H", PARAM_INT64, "nominal model width"},
               [F] = {"F", PARAM_INT64, "hidden width of the MLP"},
               [MW] = {"mw", PARAM_INT64, "rows"},
               [ML] = {"ml", PARAM_INT64, "rows per rank"},
               [HW] = {"hw", PARAM_INT64, "model width"},
               [HL] = {"hl", PARAM_INT64, "columns per rank"}},
    .cases = {{.name = "check", .dim = {[M] = 70, [H] = 188, [F] = 80}},
              {.name = "bench", .dim = {[M] = 1024, [H] = 256, [F] = 512}},
              {.name = "large", .dim = {[M] = 8192, [H] = 4096, [F] = 14336}}},
    .variants = {[PLAIN] = {"plain", AT_ALL}, [SMALL] = {"small", AT_CHECK}},
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_OWN, .tolerance = &tolerance}},
    .derive = derive,
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
