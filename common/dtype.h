/*
 * dtype.h — the element types of tensors: names as in JSON and on task pages, sizes in bytes.
 *
 * bool8 is one byte, 0 or 1; complex64 is two fp32, real part first; e4m3 is e4m3fn.
 */
#pragma once

#include <stddef.h>

enum dtype {
    DTYPE_BF16,
    DTYPE_FP16,
    DTYPE_FP32,
    DTYPE_FP64,
    DTYPE_E4M3,
    DTYPE_E5M2,
    DTYPE_INT8,
    DTYPE_UINT8,
    DTYPE_INT32,
    DTYPE_INT64,
    DTYPE_COMPLEX64,
    DTYPE_BOOL8,
    DTYPE_COUNT,
};

const char *dtype_name(enum dtype dtype);
size_t dtype_size_bytes(enum dtype dtype);

/* The dtype called `name`, or -1. */
int dtype_find(const char *name);
