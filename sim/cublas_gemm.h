/*
 * cublas_gemm.h — the one kernel of the simulator's cuBLAS: D = epilogue(alpha * A * B + beta * C).
 *
 * Every matrix has a stride for its rows and one for its columns, so that transposed operands and
 * both orders of storage are the same case. Products of integers are summed in int32, of doubles in
 * fp64, of everything else in fp32; the result is rounded once.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gemm_matrix {
    void *data; /* or an array of pointers, in device memory: `is_array` */
    cudaDataType dtype;
    int64_t row_stride, column_stride, batch_stride; /* elements */
    int is_array;
};

enum gemm_activation { GEMM_LINEAR, GEMM_RELU, GEMM_GELU };

struct gemm_scalar {
    const void *device; /* where it lies, or NULL: `value` */
    double value;
};

struct gemm_args {
    int64_t m, n, k;
    int batches;
    struct gemm_matrix a, b, c, d; /* c.data may be NULL: beta is 0 */
    struct gemm_scalar alpha, beta;
    cudaDataType scalar_dtype; /* of alpha and beta in device memory */
    cudaDataType sum_dtype;    /* CUDA_R_32F, CUDA_R_64F or CUDA_R_32I */
    enum gemm_activation activation;
    const void *bias; /* one element a row of D, or NULL */
    cudaDataType bias_dtype;
    int64_t bias_batch_stride;
    const float *scale_a, *scale_b, *scale_d; /* device memory, or NULL: 1 */
};

/* cudaErrorNotSupported: a combination of types that the kernel does not have. */
cudaError_t gemm_launch(const struct gemm_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
