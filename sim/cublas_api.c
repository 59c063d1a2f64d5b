#include "sim/cublas_core.h"

#include <stdbool.h>
#include <stdlib.h>

struct cublasContext {
    cudaStream_t stream;
    cublasPointerMode_t pointer_mode;
    cublasMath_t math_mode;
    cublasAtomicsMode_t atomics_mode;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    if (handle == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *handle = calloc(1, sizeof **handle);
    return *handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    free(handle);
    return handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    (void)handle;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusString(status);
}

/* A setting of the handle: one setter and one getter. NOLINTBEGIN(bugprone-macro-parentheses) */
#define SETTING(setter, getter, type, member)                                                      \
    cublasStatus_t setter(cublasHandle_t handle, type value)                                       \
    {                                                                                              \
        if (handle == NULL) {                                                                      \
            return CUBLAS_STATUS_NOT_INITIALIZED;                                                  \
        }                                                                                          \
        handle->member = value;                                                                    \
        return CUBLAS_STATUS_SUCCESS;                                                              \
    }                                                                                              \
    cublasStatus_t getter(cublasHandle_t handle, type *value)                                      \
    {                                                                                              \
        if (handle == NULL) {                                                                      \
            return CUBLAS_STATUS_NOT_INITIALIZED;                                                  \
        }                                                                                          \
        *value = handle->member;                                                                   \
        return CUBLAS_STATUS_SUCCESS;                                                              \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
SETTING(cublasSetStream_v2, cublasGetStream_v2, cudaStream_t, stream)
SETTING(cublasSetPointerMode_v2, cublasGetPointerMode_v2, cublasPointerMode_t, pointer_mode)
SETTING(cublasSetMathMode, cublasGetMathMode, cublasMath_t, math_mode)
SETTING(cublasSetAtomicsMode, cublasGetAtomicsMode, cublasAtomicsMode_t, atomics_mode)

/* Our kernel needs no workspace. */
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t size_bytes)
{
    (void)workspace;
    (void)size_bytes;
    return handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

/* ---- products: column-major, as BLAS has it ---- */

struct operand {
    const void *data;
    cudaDataType dtype;
    int64_t leading, batch_stride;
    bool is_transposed, is_array;
};

static struct gemm_matrix matrix_of(const struct operand *operand)
{
    return (struct gemm_matrix){
        .data = (void *)(uintptr_t)operand->data,
        .dtype = operand->dtype,
        .row_stride = operand->is_transposed ? operand->leading : 1,
        .column_stride = operand->is_transposed ? 1 : operand->leading,
        .batch_stride = operand->batch_stride,
        .is_array = operand->is_array,
    };
}

struct product {
    int64_t m, n, k;
    int batches;
    struct operand a, b, c;
    const void *alpha, *beta;
    cublasComputeType_t compute;
};

static cublasStatus_t multiply(cublasHandle_t handle, const struct product *product)
{
    struct gemm_args args = {
        .m = product->m, .n = product->n, .k = product->k, .batches = product->batches};
    int64_t a_rows = product->a.is_transposed ? product->k : product->m;
    int64_t b_rows = product->b.is_transposed ? product->n : product->k;

    if (handle == NULL) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (product->m < 0 || product->n < 0 || product->k < 0 || product->batches < 0 ||
        product->a.leading < (a_rows > 1 ? a_rows : 1) ||
        product->b.leading < (b_rows > 1 ? b_rows : 1) ||
        product->c.leading < (product->m > 1 ? product->m : 1) || product->alpha == NULL ||
        product->beta == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (blas_compute_dtype(product->compute, &args.sum_dtype) != 0) {
        return blas_refuse("compute type %d", (int)product->compute);
    }
    bool is_half =
        product->compute == CUBLAS_COMPUTE_16F || product->compute == CUBLAS_COMPUTE_16F_PEDANTIC;
    bool is_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
    args.scalar_dtype = is_half ? CUDA_R_16F : args.sum_dtype;
    if (args.sum_dtype == CUDA_R_32I && product->c.dtype == CUDA_R_32F) {
        args.scalar_dtype = CUDA_R_32F;
    }
    args.alpha = blas_scalar(product->alpha, args.scalar_dtype, is_device);
    args.beta = blas_scalar(product->beta, args.scalar_dtype, is_device);
    args.a = matrix_of(&product->a);
    args.b = matrix_of(&product->b);
    args.c = matrix_of(&product->c);
    args.d = args.c;
    return blas_launch(&args, handle->stream);
}

/* NOLINTBEGIN(readability-function-size): the signatures are cuBLAS's. */

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t a_op,
                                          cublasOperation_t b_op, int m, int n, int k,
                                          const void *alpha, const void *a, cudaDataType a_dtype,
                                          int a_leading, long long a_stride, const void *b,
                                          cudaDataType b_dtype, int b_leading, long long b_stride,
                                          const void *beta, void *c, cudaDataType c_dtype,
                                          int c_leading, long long c_stride, int batches,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    struct product product = {.m = m,
                              .n = n,
                              .k = k,
                              .batches = batches,
                              .alpha = alpha,
                              .beta = beta,
                              .compute = compute,
                              .a = {a, a_dtype, a_leading, a_stride, a_op != CUBLAS_OP_N, false},
                              .b = {b, b_dtype, b_leading, b_stride, b_op != CUBLAS_OP_N, false},
                              .c = {c, c_dtype, c_leading, c_stride, false, false}};

    (void)algorithm;
    return multiply(handle, &product);
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t a_op,
                                   cublasOperation_t b_op, int m, int n, int k, const void *alpha,
                                   const void *const a[], cudaDataType a_dtype, int a_leading,
                                   const void *const b[], cudaDataType b_dtype, int b_leading,
                                   const void *beta, void *const c[], cudaDataType c_dtype,
                                   int c_leading, int batches, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm)
{
    struct product product = {
        .m = m,
        .n = n,
        .k = k,
        .batches = batches,
        .alpha = alpha,
        .beta = beta,
        .compute = compute,
        .a = {(const void *)a, a_dtype, a_leading, 0, a_op != CUBLAS_OP_N, true},
        .b = {(const void *)b, b_dtype, b_leading, 0, b_op != CUBLAS_OP_N, true},
        .c = {(const void *)c, c_dtype, c_leading, 0, false, true}};

    (void)algorithm;
    return multiply(handle, &product);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                            int m, int n, int k, const void *alpha, const void *a,
                            cudaDataType a_dtype, int a_leading, const void *b,
                            cudaDataType b_dtype, int b_leading, const void *beta, void *c,
                            cudaDataType c_dtype, int c_leading, cublasComputeType_t compute,
                            cublasGemmAlgo_t algorithm)
{
    return cublasGemmStridedBatchedEx(handle, a_op, b_op, m, n, k, alpha, a, a_dtype, a_leading, 0,
                                      b, b_dtype, b_leading, 0, beta, c, c_dtype, c_leading, 0, 1,
                                      compute, algorithm);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                              int m, int n, int k, const float *alpha, const float *a,
                              int a_leading, const float *b, int b_leading, const float *beta,
                              float *c, int c_leading)
{
    return cublasGemmEx(handle, a_op, b_op, m, n, k, alpha, a, CUDA_R_32F, a_leading, b, CUDA_R_32F,
                        b_leading, beta, c, CUDA_R_32F, c_leading, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                              int m, int n, int k, const double *alpha, const double *a,
                              int a_leading, const double *b, int b_leading, const double *beta,
                              double *c, int c_leading)
{
    return cublasGemmEx(handle, a_op, b_op, m, n, k, alpha, a, CUDA_R_64F, a_leading, b, CUDA_R_64F,
                        b_leading, beta, c, CUDA_R_64F, c_leading, CUBLAS_COMPUTE_64F,
                        CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t a_op,
                                         cublasOperation_t b_op, int m, int n, int k,
                                         const float *alpha, const float *a, int a_leading,
                                         long long a_stride, const float *b, int b_leading,
                                         long long b_stride, const float *beta, float *c,
                                         int c_leading, long long c_stride, int batches)
{
    return cublasGemmStridedBatchedEx(handle, a_op, b_op, m, n, k, alpha, a, CUDA_R_32F, a_leading,
                                      a_stride, b, CUDA_R_32F, b_leading, b_stride, beta, c,
                                      CUDA_R_32F, c_leading, c_stride, batches, CUBLAS_COMPUTE_32F,
                                      CUBLAS_GEMM_DEFAULT);
}

/* Declared in C++ only, with pointers to __half. */
cublasStatus_t cublasHgemm(cublasHandle_t handle, cublasOperation_t a_op, cublasOperation_t b_op,
                           int m, int n, int k, const void *alpha, const void *a, int a_leading,
                           const void *b, int b_leading, const void *beta, void *c, int c_leading)
{
    return cublasGemmEx(handle, a_op, b_op, m, n, k, alpha, a, CUDA_R_16F, a_leading, b, CUDA_R_16F,
                        b_leading, beta, c, CUDA_R_16F, c_leading, CUBLAS_COMPUTE_16F,
                        CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t a_op,
                                         cublasOperation_t b_op, int m, int n, int k,
                                         const void *alpha, const void *a, int a_leading,
                                         long long a_stride, const void *b, int b_leading,
                                         long long b_stride, const void *beta, void *c,
                                         int c_leading, long long c_stride, int batches)
{
    return cublasGemmStridedBatchedEx(handle, a_op, b_op, m, n, k, alpha, a, CUDA_R_16F, a_leading,
                                      a_stride, b, CUDA_R_16F, b_leading, b_stride, beta, c,
                                      CUDA_R_16F, c_leading, c_stride, batches, CUBLAS_COMPUTE_16F,
                                      CUBLAS_GEMM_DEFAULT);
}
/* NOLINTEND(readability-function-size) */
