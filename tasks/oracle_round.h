/*
 * oracle_round.h — the element types as numbers: reading, and writing with one rounding.
 *
 * Rounding is to nearest, ties to even, straight from double, subnormals kept. Beyond the largest
 * value bf16, fp16, fp32 and e5m2 become infinite; e4m3, which has no infinity, saturates at 448.
 * Integers must fit: what does not is a bug of the caller. A complex64 is two scalars.
 */
#pragma once

#include "common/dtype.h"
#include "tasks/plan.h"

#include <stdbool.h>
#include <stdint.h>

/* How many scalars an element has, 2 for complex64, and the bytes of one. */
int dtype_scalars(enum dtype dtype);
size_t dtype_scalar_bytes(enum dtype dtype);
bool dtype_is_integer(enum dtype dtype);

/* The scalar at `index` of an array; integers beyond 2^53 need the second form. */
double scalar_get(enum dtype dtype, const void *data, int64_t index);
int64_t scalar_get_integer(enum dtype dtype, const void *data, int64_t index);
void scalar_set(enum dtype dtype, void *data, int64_t index, double value);
void scalar_set_integer(enum dtype dtype, void *data, int64_t index, int64_t value);

/* `value` as it is after one rounding to a floating dtype. */
double dtype_round(enum dtype dtype, double value);

/* Half the distance from 1 to the next number above: 2^-8 for bf16. The u of the task pages. */
double dtype_unit(enum dtype dtype);

/* The smallest positive number, a subnormal: 2^-133 for bf16. */
double dtype_smallest(enum dtype dtype);

/* The same for tensors, by scalar index. */
double tensor_get(const struct tensor *tensor, int64_t index);
int64_t tensor_get_integer(const struct tensor *tensor, int64_t index);
void tensor_set(const struct tensor *tensor, int64_t index, double value);
void tensor_set_integer(const struct tensor *tensor, int64_t index, int64_t value);
int64_t tensor_scalars(const struct tensor_spec *spec);
