/*
 * cuda_api.h — the driver API's declarations, visible to programs; all else in our libcuda is not.
 */
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>

/* For our libcudart: the call `name` is not simulated. Says so on stderr, once, and to pkb-simd. */
CUresult pkb_cuda_refuse(const char *name);
#pragma GCC visibility pop
