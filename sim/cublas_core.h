/* cublas_core.h — what cublas and cublasLt share: types, scalars, refusals. */
#pragma once

#include "sim/cublas_gemm.h"

#include <cublasLt.h>
#include <cublas_api.h>

/* Says on stderr what this library does not have, and returns CUBLAS_STATUS_NOT_SUPPORTED. */
cublasStatus_t blas_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For calls that this library lacks (sim/stubs.sh): names the call to the simulator as well. */
cublasStatus_t blas_refuse_call(const char *name);

/* What sums and scalars of a compute type are: 0, or -1 where we do not have it. */
int blas_compute_dtype(cublasComputeType_t compute, cudaDataType *sum_dtype);

/* A scalar from host memory, or the device's address. */
struct gemm_scalar blas_scalar(const void *value, cudaDataType dtype, int is_device);

/* Launches, and says why where the types do not fit. */
cublasStatus_t blas_launch(const struct gemm_args *args, cudaStream_t stream);
