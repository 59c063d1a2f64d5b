#include "tasks/oracle_norm.h"

#include "tasks/oracle_round.h"

#include <assert.h>
#include <math.h>

static void add_column(struct layernorm_column *column, int64_t j, const struct tensor *xhat,
                       const struct tensor *dy)
{
    int64_t columns = dy->spec->shape[1];
    double beta = 0;
    double gamma = 0;

    for (int64_t i = 0; i < dy->spec->shape[0]; i++) {
        double term = tensor_get(dy, i * columns + j);
        double p = term * tensor_get(xhat, i * columns + j);
        beta += term;
        gamma += p;
        column->beta_magnitude += fabs(term);
        column->gamma_magnitude += fabs(p);
        column->gamma_squares += p * p;
    }
    column->beta += beta;
    column->gamma += gamma;
    column->beta_partials += fabs(beta);
    column->gamma_partials += fabs(gamma);
}

void layernorm_add(struct layernorm_column *columns, const struct tensor *xhat,
                   const struct tensor *dy)
{
    assert(xhat->spec->elements == dy->spec->elements);
    for (int64_t j = 0; j < dy->spec->shape[1]; j++) {
        add_column(&columns[j], j, xhat, dy);
    }
}

double layernorm_beta_bound(const struct layernorm_column *column, const struct run *run)
{
    return 1.05 * run->world * dtype_unit(run->dtype) * column->beta_partials +
           0x1p-20 * column->beta_magnitude;
}

double layernorm_gamma_bound(const struct layernorm_column *column, const struct run *run)
{
    double unit = dtype_unit(run->dtype);

    return 1.05 * run->world * unit * column->gamma_partials +
           4 * unit * sqrt(column->gamma_squares) + 0x1p-20 * column->gamma_magnitude;
}

double power_sum(const struct tensor *tensor, int64_t first, int64_t count, double p)
{
    double sum = 0;

    for (int64_t i = first; i < first + count; i++) {
        double x = fabs(tensor_get(tensor, i));
        sum += p == 2 ? x * x : p == 1 ? x : pow(x, p);
    }
    return sum;
}

struct clipping clip_at(double norm, double max_norm)
{
    return (struct clipping){norm, norm > max_norm ? max_norm / norm : 1};
}

void expect_clipped(struct expected *out, const struct clipping *clipping,
                    const struct tensor *gradient, double divisor)
{
    enum dtype dtype = gradient->spec->dtype;

    for (int64_t i = 0; i < gradient->spec->elements; i++) {
        double value = dtype_round(dtype, tensor_get(gradient, i) / divisor) * clipping->scale;
        double bound = 1.02 * dtype_unit(dtype) * fabs(value) + dtype_smallest(dtype);
        expect(out, i, value, dtype == DTYPE_FP32 ? INFINITY : bound);
    }
}

const struct tolerance norm_tolerance = SAME_TOLERANCE(.r = 1e-5);
const struct tolerance clipped_tolerance = {
    .bf16 = {.a = 1e-6, .r = 0.004},
    .fp16 = {.a = 0.005, .r = 5e-4, .absolute = 0x1p-24}, /* clipped, most are subnormal */
    .fp32 = {.a = 1e-6, .r = 1e-5},
};
