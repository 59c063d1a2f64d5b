/*
 * print.h — what kernels print: printf and assert, formatted as the CUDA runtime does.
 */
#pragma once

#include "sim/core.h"

/* Appends one line of printf to the grid's output. The number of arguments, -1 on a bad format
 * address, as vprintf returns them. */
int print_line(struct warp *warp, int lane, uint64_t format, uint64_t arguments);

/* "file:line: function: block: [0,0,0], thread: [0,0,0] Assertion `x` failed."; the caller frees.
 */
char *print_assertion(struct warp *warp, const struct insn *insn, int lane);
