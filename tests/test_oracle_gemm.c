/* Products against sums written out here, and their bounds against roundings that kernels make. */
#include "tasks/oracle_gemm.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

static const struct tensor_spec spec = {
    .name = "a", .dtype = DTYPE_FP32, .dims = 2, .shape = {4, 3}, .elements = 12, .size_bytes = 48};

static void test_rows_of_a_tensor_become_a_matrix(void **state)
{
    float data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    struct tensor tensor = {&spec, data};
    struct matrix matrix;

    (void)state;
    matrix_open_rows(&matrix, &tensor, 1, 2, 3);
    assert_int_equal(matrix.rows, 2);
    assert_int_equal(matrix.columns, 3);
    for (int i = 0; i < 6; i++) {
        assert_true(matrix.value[i] == i + 3);
    }
    matrix_transpose(&matrix);
    assert_int_equal(matrix.rows, 3);
    assert_int_equal(matrix.columns, 2);
    for (int i = 0; i < 6; i++) {
        int64_t wanted = i / 2 + i % 2 * 3 + 3;
        assert_true(matrix.value[i] == (double)wanted);
    }
    matrix_close(&matrix);
    assert_null(matrix.value);
}

/* [1 -2] and [3 0] times [4 5 6; 7 8 9]. */
static void test_a_product_counts_its_terms_and_its_parts(void **state)
{
    static const double values[] = {1, -2, 3, 0};
    static const double others[] = {4, 5, 6, 7, 8, 9};
    struct matrix a;
    struct matrix b;
    struct product product;

    (void)state;
    matrix_open(&a, 2, 2);
    matrix_open(&b, 2, 3);
    for (int i = 0; i < 4; i++) {
        a.value[i] = values[i];
    }
    for (int i = 0; i < 6; i++) {
        b.value[i] = others[i];
    }
    product_open(&product, 2, 3);
    product_add(&product, &a, &b);
    assert_true(product.value[0] == 4 - 14 && product.value[5] == 18);
    assert_true(product.partials[0] == 10 && product.magnitude[0] == 18);
    a.value[0] = -1;
    a.value[1] = 2;
    product_add(&product, &a, &b);
    assert_true(product.value[0] == 0 && product.partials[0] == 20 && product.magnitude[0] == 36);
    assert_true(product_bound_once(&product, 0, DTYPE_BF16) == 36 * 0x1p-20);
    assert_true(product_bound_chain(&product, 0, DTYPE_BF16, 2) ==
                1.05 * 2 * 0x1p-8 * 20 + 36 * 0x1p-20);
    assert_true(product_bound_once(&product, 5, DTYPE_FP16) == 1.02 * 0x1p-11 * 36 + 36 * 0x1p-20);
    product_close(&product);
    matrix_close(&a);
    matrix_close(&b);
}

static void test_squares_of_a_matrix_are_those_of_its_elements(void **state)
{
    struct matrix matrix;
    struct matrix squares;

    (void)state;
    matrix_open(&matrix, 1, 3);
    matrix.value[1] = -3;
    matrix.value[2] = 0.5;
    matrix_open_squares(&squares, &matrix);
    assert_int_equal(squares.rows, 1);
    assert_int_equal(squares.columns, 3);
    assert_true(squares.value[0] == 0 && squares.value[1] == 9 && squares.value[2] == 0.25);
    matrix_close(&squares);
    matrix_close(&matrix);
}

/* A number in (-1, 1) that looks like nothing. */
static double scramble(int i)
{
    return sin(i * 12.9898) * 0.999;
}

enum { ROWS = 5, INNER = 77, COLUMNS = 6, PARTS = 4 };

/* Adds part p to the product, and what a kernel would add, rounded at each step, to chain. */
static void add_part(struct product *product, int p, enum dtype dtype, double *chain)
{
    struct matrix a;
    struct matrix b;

    matrix_open(&a, ROWS, INNER);
    matrix_open(&b, INNER, COLUMNS);
    for (int i = 0; i < ROWS * INNER; i++) {
        a.value[i] = dtype_round(dtype, scramble(i + 1000 * p));
    }
    for (int i = 0; i < INNER * COLUMNS; i++) {
        b.value[i] = dtype_round(dtype, scramble(i + 7777 + 1000 * p));
    }
    product_add(product, &a, &b);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        float part = 0;
        for (int k = 0; k < INNER; k++) {
            part += (float)(a.value[i / COLUMNS * INNER + k] * b.value[k * COLUMNS + i % COLUMNS]);
        }
        chain[i] = dtype_round(dtype, chain[i] + dtype_round(dtype, part));
    }
    matrix_close(&a);
    matrix_close(&b);
}

static void
test_a_chain_of_rounded_parts_is_within_its_bound_and_not_within_one_rounding(void **state)
{
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16};

    (void)state;
    for (int d = 0; d < 2; d++) {
        double chain[ROWS * COLUMNS] = {0};
        struct product product;
        int beyond = 0;
        product_open(&product, ROWS, COLUMNS);
        for (int p = 0; p < PARTS; p++) {
            add_part(&product, p, dtypes[d], chain);
        }
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            double error = fabs(chain[i] - product.value[i]);
            double once = dtype_round(dtypes[d], product.value[i]);
            assert_true(error <= product_bound_chain(&product, i, dtypes[d], PARTS));
            assert_true(fabs(once - product.value[i]) <=
                        product_bound_once(&product, i, dtypes[d]));
            beyond += error > product_bound_once(&product, i, dtypes[d]);
        }
        assert_true(beyond > 0);
        product_close(&product);
    }
}

/* Numbers whose products are not exact, of many magnitudes. */
static void open_scrambled(struct matrix *matrix, int64_t rows, int64_t columns, int seed)
{
    matrix_open(matrix, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        matrix->value[i] = ldexp(scramble((int)i + seed), (int)i % 40 - 20);
    }
}

/* What product_add does, written out: term after term. */
static void add_term_by_term(struct product *product, const struct matrix *a,
                             const struct matrix *b)
{
    for (int64_t i = 0; i < product->rows * product->columns; i++) {
        double part = 0;
        for (int64_t k = 0; k < a->columns; k++) {
            double term = a->value[i / product->columns * a->columns + k] *
                          b->value[k * b->columns + i % product->columns];
            part += term;
            product->magnitude[i] += fabs(term);
        }
        product->value[i] += part;
        product->partials[i] += fabs(part);
    }
}

/* Two parts, in vectors of so many bytes. */
static void compare_with_sums(int64_t rows, int64_t inner, int64_t columns, int vector_bytes)
{
    struct product product;
    struct product wanted;

    product_open(&product, rows, columns);
    product_open(&wanted, rows, columns);
    product.vector_bytes = vector_bytes;
    for (int part = 0; part < 2; part++) {
        struct matrix a;
        struct matrix b;
        open_scrambled(&a, rows, inner, part * 99);
        open_scrambled(&b, inner, columns, part * 77 + 5);
        product_add(&product, &a, &b);
        add_term_by_term(&wanted, &a, &b);
        matrix_close(&a);
        matrix_close(&b);
    }
    size_t size_bytes = (size_t)(rows * columns) * sizeof(double);
    assert_memory_equal(product.value, wanted.value, size_bytes);
    assert_memory_equal(product.partials, wanted.partials, size_bytes);
    assert_memory_equal(product.magnitude, wanted.magnitude, size_bytes);
    product_close(&product);
    product_close(&wanted);
}

static void test_tiles_of_every_width_give_the_bits_of_sums_term_by_term(void **state)
{
    struct product product;

    (void)state;
    product_open(&product, 1, 1);
    int widest = product.vector_bytes;
    product_close(&product);
    for (int bytes = 16; bytes <= widest; bytes *= 2) {
        for (int64_t rows = 1; rows <= 9; rows++) {
            for (int64_t columns = 1; columns <= 18; columns++) {
                compare_with_sums(rows, 1 + rows * columns, columns, bytes);
            }
        }
        compare_with_sums(70, 188, 81, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_a_tensor_become_a_matrix),
        cmocka_unit_test(test_a_product_counts_its_terms_and_its_parts),
        cmocka_unit_test(test_squares_of_a_matrix_are_those_of_its_elements),
        cmocka_unit_test(test_tiles_of_every_width_give_the_bits_of_sums_term_by_term),
        cmocka_unit_test(
            test_a_chain_of_rounded_parts_is_within_its_bound_and_not_within_one_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
