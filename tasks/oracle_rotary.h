/*
 * oracle_rotary.h — rotary position embedding with rotated halves: x c + rot(x) t, where rot takes
 * the negated second half for the first, and the first for the second.
 */
#pragma once

#include "tasks/plan.h"

struct rotated {
    double value;
    double magnitude; /* |x c| + |rot(x) t| */
};

/* Element d of one head of `x` whose `width` elements start at `head`; its angle's numbers are in
 * `cosines` and `sines`, from `angle` on. */
struct rotary {
    const struct tensor *x, *cosines, *sines;
    int64_t head, angle, width;
};
struct rotated rotary_element(const struct rotary *rotary, int64_t d);

/* The same with each product and the sum rounded to the tensor's dtype. */
double rotary_element_rounded(const struct rotary *rotary, int64_t d);
