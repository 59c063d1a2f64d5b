/*
 * exec_matrix.h — what products of matrices and the loads and stores of their fragments share.
 *
 * The fragments of mma lie as the PTX manual draws them. Those of wmma are opaque: element i of a
 * matrix, by rows, is element i / 32 of lane i % 32; f16 multiplicands, which have twice the room,
 * are held twice.
 */
#pragma once

#include "sim/exec.h"

#include <assert.h>

enum { SIDE_MAX = 32, AREA_MAX = 512 };

struct shape {
    uint8_t m, n, k;
};
extern const struct shape matrix_shapes[];

/* One matrix of an instruction in registers. */
struct fragment {
    enum code_fragment part;
    uint8_t type;
    int first, count; /* arguments */
    int rows, columns;
};

int matrix_bits(uint8_t type); /* of one element */

/* True: all lanes of the warp that live are here. False: they wait for each other. */
bool matrix_meets(struct warp *warp, uint32_t mask);

/* The first of the 32 elements of a wmma fragment that are at `index` of register `reg`. */
static inline int wmma_first(const struct fragment *fragment, int reg, int index)
{
    int each = matrix_bits(fragment->type) >= 32 ? 1 : 32 / matrix_bits(fragment->type);
    int size = fragment->rows * fragment->columns;

    assert(size >= WARP_LANES);
    return (reg * each + index) * WARP_LANES % size;
}
