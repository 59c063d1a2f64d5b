#include "tasks/oracle_gemm.h"

#include "common/mem.h"
#include "tasks/oracle_round.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE_ROWS = 4, TILE_COLUMNS_MAX = 8 };

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

void matrix_open_squares(struct matrix *matrix, const struct matrix *from)
{
    matrix_open(matrix, from->rows, from->columns);
    for (int64_t i = 0; i < from->rows * from->columns; i++) {
        matrix->value[i] = from->value[i] * from->value[i];
    }
}

void matrix_transpose(struct matrix *matrix)
{
    struct matrix from = *matrix;

    matrix_open(matrix, from.columns, from.rows);
    for (int64_t i = 0; i < from.rows; i++) {
        for (int64_t j = 0; j < from.columns; j++) {
            matrix->value[j * from.rows + i] = from.value[i * from.columns + j];
        }
    }
    matrix_close(&from);
}

void matrix_close(struct matrix *matrix)
{
    free(matrix->value);
    *matrix = (struct matrix){0};
}

/* The widest vectors of doubles for which there is a tile below. */
static int vector_bytes(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") ? 64 : __builtin_cpu_supports("avx2") ? 32 : 16;
#else
    return 16;
#endif
}

void product_open(struct product *product, int64_t rows, int64_t columns)
{
    *product = (struct product){.rows = rows,
                                .columns = columns,
                                .value = open_values(rows, columns),
                                .partials = open_values(rows, columns),
                                .magnitude = open_values(rows, columns),
                                .vector_bytes = vector_bytes()};
}

void product_close(struct product *product)
{
    free(product->value);
    free(product->partials);
    free(product->magnitude);
    *product = (struct product){0};
}

/* Some rows of a times as many columns of b as a vector has elements. */
struct tile {
    int64_t inner;
    const double *rows[TILE_ROWS];
    const double *panel; /* the columns, dense */
    double part[TILE_ROWS][TILE_COLUMNS_MAX];
    double magnitude[TILE_ROWS][TILE_COLUMNS_MAX]; /* goes on from what it is */
};

/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define VECTOR(type, bytes) type __attribute__((vector_size(bytes)))
#define LOAD_ROW(row, bytes)                                                                       \
    VECTOR(double, bytes) part##row = {0};                                                         \
    VECTOR(double, bytes) magnitude##row;                                                          \
    memcpy(&magnitude##row, tile->magnitude[row], bytes)
#define ADD_TERM(row, bytes)                                                                       \
    term = tile->rows[row][k] * values;                                                            \
    part##row += term;                                                                             \
    magnitude##row += (VECTOR(double, bytes))((VECTOR(int64_t, bytes))term & INT64_MAX)
#define STORE_ROW(row, bytes)                                                                      \
    memcpy(tile->part[row], &part##row, bytes);                                                    \
    memcpy(tile->magnitude[row], &magnitude##row, bytes)

/* All sums of a tile stay in registers. */
#define TILE(name, bytes, attribute)                                                               \
    attribute static void name(struct tile *tile)                                                  \
    {                                                                                              \
        VECTOR(double, bytes) values;                                                              \
        VECTOR(double, bytes) term;                                                                \
        LOAD_ROW(0, bytes);                                                                        \
        LOAD_ROW(1, bytes);                                                                        \
        LOAD_ROW(2, bytes);                                                                        \
        LOAD_ROW(3, bytes);                                                                        \
        for (int64_t k = 0; k < tile->inner; k++) {                                                \
            memcpy(&values, tile->panel + k * (bytes) / 8, bytes);                                 \
            ADD_TERM(0, bytes);                                                                    \
            ADD_TERM(1, bytes);                                                                    \
            ADD_TERM(2, bytes);                                                                    \
            ADD_TERM(3, bytes);                                                                    \
        }                                                                                          \
        STORE_ROW(0, bytes);                                                                       \
        STORE_ROW(1, bytes);                                                                       \
        STORE_ROW(2, bytes);                                                                       \
        STORE_ROW(3, bytes);                                                                       \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
TILE(add_tile_16, 16, )
#if defined(__x86_64__)
TILE(add_tile_32, 32, __attribute__((target("avx2"))))
TILE(add_tile_64, 64, __attribute__((target("avx512f"))))
#endif

static void add_tile(struct tile *tile, int bytes)
{
    switch (bytes) {
#if defined(__x86_64__)
    case 64:
        add_tile_64(tile);
        break;
    case 32:
        add_tile_32(tile);
        break;
#endif
    default:
        add_tile_16(tile);
        break;
    }
}

/* Columns [first, first + width) of b, and zeros beyond its end. */
static void pack(double *panel, const struct matrix *b, int64_t first, int64_t width)
{
    int64_t count = b->columns - first < width ? b->columns - first : width;

    for (int64_t k = 0; k < b->rows; k++) {
        const double *from = &b->value[k * b->columns + first];
        for (int64_t j = 0; j < width; j++) {
            panel[k * width + j] = j < count ? from[j] : 0;
        }
    }
}

/* The tile at a row and a column of the product, `width` columns wide. */
static void add_at(struct product *product, struct tile *tile, int64_t row, int64_t column,
                   int64_t width)
{
    int64_t rows = product->rows - row < TILE_ROWS ? product->rows - row : TILE_ROWS;
    int64_t columns = product->columns - column < width ? product->columns - column : width;

    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            tile->magnitude[i][j] = product->magnitude[(row + i) * product->columns + column + j];
        }
    }
    add_tile(tile, product->vector_bytes);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            int64_t index = (row + i) * product->columns + column + j;
            product->value[index] += tile->part[i][j];
            product->partials[index] += fabs(tile->part[i][j]);
            product->magnitude[index] = tile->magnitude[i][j];
        }
    }
}

void product_add(struct product *product, const struct matrix *a, const struct matrix *b)
{
    int64_t width = product->vector_bytes / (int64_t)sizeof(double);
    double *panel = open_values(b->rows, width);
    struct tile tile = {.inner = a->columns, .panel = panel};

    assert(a->columns == b->rows);
    assert(a->rows == product->rows);
    assert(b->columns == product->columns);
    for (int64_t column = 0; column < b->columns; column += width) {
        pack(panel, b, column, width);
        for (int64_t row = 0; row < a->rows; row += TILE_ROWS) {
            for (int64_t i = 0; i < TILE_ROWS; i++) {
                int64_t own = row + i < a->rows ? row + i : row; /* rows beyond are not kept */
                tile.rows[i] = &a->value[own * a->columns];
            }
            add_at(product, &tile, row, column, width);
        }
    }
    free(panel);
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
