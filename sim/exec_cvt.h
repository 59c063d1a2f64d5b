/*
 * exec_cvt.h — what conversions from and to integers share with those between floating-point types.
 */
#pragma once

#include "sim/exec.h"

/* Source `source` as doubles; `shift` chooses the upper half of a pair or the upper code. */
void cvt_read_real(struct warp *warp, const struct insn *insn, int source, int shift,
                   double value[WARP_LANES]);
/* To an integer as .rni and its like say; any other rounding changes nothing. */
double cvt_to_whole(double value, enum code_round round);
/* One number in the format of the instruction's result, rounded once; `residue` as in half.h. */
uint32_t cvt_narrowed(const struct insn *insn, double value, int residue);

insn_exec *find_cvt_real(const struct insn *insn);
