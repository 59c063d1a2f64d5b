#include "tasks/oracle_gemm.h"

#include "common/mem.h"
#include "tasks/oracle_round.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static double *open_values(int64_t rows, int64_t columns)
{
    return xcalloc((size_t)(rows * columns), sizeof(double));
}

void matrix_open(struct matrix *matrix, int64_t rows, int64_t columns)
{
    *matrix = (struct matrix){rows, columns, open_values(rows, columns)};
}

void matrix_open_rows(struct matrix *matrix, const struct tensor *from, int64_t first, int64_t rows,
                      int64_t columns)
{
    assert((first + rows) * columns <= from->spec->elements);
    matrix_open(matrix, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        matrix->value[i] = tensor_get(from, first * columns + i);
    }
}

void matrix_close(struct matrix *matrix)
{
    free(matrix->value);
    *matrix = (struct matrix){0};
}

void product_open(struct product *product, int64_t rows, int64_t columns)
{
    *product = (struct product){.rows = rows,
                                .columns = columns,
                                .value = open_values(rows, columns),
                                .partials = open_values(rows, columns),
                                .magnitude = open_values(rows, columns),
                                .squares = open_values(rows, columns)};
}

void product_close(struct product *product)
{
    free(product->value);
    free(product->partials);
    free(product->magnitude);
    free(product->squares);
    *product = (struct product){0};
}

/* Row `row` of the part. */
static void add_row(struct product *product, int64_t row, const struct matrix *a,
                    const struct matrix *b, double *part)
{
    double *magnitude = &product->magnitude[row * product->columns];
    double *squares = &product->squares[row * product->columns];

    for (int64_t j = 0; j < b->columns; j++) {
        part[j] = 0;
    }
    for (int64_t k = 0; k < a->columns; k++) {
        double factor = a->value[row * a->columns + k];
        const double *values = &b->value[k * b->columns];
        for (int64_t j = 0; factor != 0 && j < b->columns; j++) {
            double term = factor * values[j];
            part[j] += term;
            magnitude[j] += fabs(term);
            squares[j] += term * term;
        }
    }
    for (int64_t j = 0; j < b->columns; j++) {
        product->value[row * product->columns + j] += part[j];
        product->partials[row * product->columns + j] += fabs(part[j]);
    }
}

void product_add(struct product *product, const struct matrix *a, const struct matrix *b)
{
    double *part = open_values(1, b->columns);

    assert(a->columns == b->rows);
    assert(a->rows == product->rows);
    assert(b->columns == product->columns);
    for (int64_t row = 0; row < a->rows; row++) {
        add_row(product, row, a, b, part);
    }
    free(part);
}

double product_bound_once(const struct product *product, int64_t index, enum dtype dtype)
{
    return 1.02 * dtype_unit(dtype) * fabs(product->value[index]) +
           0x1p-20 * product->magnitude[index];
}

double product_bound_chain(const struct product *product, int64_t index, enum dtype dtype,
                           int parts)
{
    return 1.05 * parts * dtype_unit(dtype) * product->partials[index] +
           0x1p-20 * product->magnitude[index];
}

const struct tolerance product_tolerance = {
    .bf16 = {.a = 2e-4, .r = 0.004},
    .fp16 = {.a = 2e-4, .r = 5e-4},
    .fp32 = {.a = 2e-5, .r = 2e-6},
};
