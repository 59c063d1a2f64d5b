/*
 * oracle_quant.h — e4m3 codes with one fp32 scale for a block of elements, computed in fp32 with
 * correctly rounded divisions, as the pages demand.
 */
#pragma once

#include "tasks/plan.h"

/* The largest magnitude of `count` elements from `first`, divided by 448; 0 where all are zero. */
float quant_scale(const struct tensor *tensor, int64_t first, int64_t count);

/* The code of x / scale (of x where the scale is 0), nearest even, saturating; -0 keeps its sign.
 */
uint8_t quant_code(float x, float scale);
