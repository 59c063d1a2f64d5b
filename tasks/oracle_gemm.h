/*
 * oracle_gemm.h — products of matrices in double, and how far a kernel's product may be off.
 *
 * A product is the sum of any number of parts: one for each rank, or for each block of the inner
 * length. Matrices are dense and row-major. Both are opened and closed by their holder.
 */
#pragma once

#include "tasks/declare.h"

struct matrix {
    int64_t rows, columns;
    double *value;
};

void matrix_open(struct matrix *matrix, int64_t rows, int64_t columns);
/* Rows [first, first + rows) of a tensor whose rows have `columns` elements. */
void matrix_open_rows(struct matrix *matrix, const struct tensor *from, int64_t first, int64_t rows,
                      int64_t columns);
void matrix_transpose(struct matrix *matrix);
void matrix_close(struct matrix *matrix);

struct product {
    int64_t rows, columns;
    double *value;
    double *partials;  /* the sum of the parts' magnitudes */
    double *magnitude; /* the sum of all terms' magnitudes */
    int vector_bytes;  /* at a time; tests choose less than the processor has */
};

void product_open(struct product *product, int64_t rows, int64_t columns); /* all zero */
/* Adds the terms of an element one after the other: the bits are the same on every processor. */
void product_add(struct product *product, const struct matrix *a, const struct matrix *b);
void product_close(struct product *product);

/* The squares of all elements: the product of two such matrices sums the squares of the terms. */
void matrix_open_squares(struct matrix *matrix, const struct matrix *from);

/* Accumulated in fp32 and rounded once: 1.02 u |ref| + 2^-20 of the terms' magnitudes. */
double product_bound_once(const struct product *product, int64_t index, enum dtype dtype);
/* Parts that are rounded and added with rounding, in any order: 1.05 parts u of their magnitudes
 * in place of the one rounding. */
double product_bound_chain(const struct product *product, int64_t index, enum dtype dtype,
                           int parts);

/* The pages' table for a product that is rounded once. */
extern const struct tolerance product_tolerance;
