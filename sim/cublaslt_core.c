#include "sim/cublas_core.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

cublasStatus_t blas_refuse(const char *format, ...)
{
    char message[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    (void)fprintf(stderr, "cublas: not simulated: %s\n", message);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t blas_refuse_call(const char *name)
{
    int (*refuse)(const char *) = NULL;

    *(void **)&refuse = dlsym(RTLD_DEFAULT, "pkb_cuda_refuse");
    if (refuse != NULL) {
        (void)refuse(name);
    }
    return blas_refuse("%s", name);
}

int blas_compute_dtype(cublasComputeType_t compute, cudaDataType *sum_dtype)
{
    switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        *sum_dtype = CUDA_R_32F;
        return 0;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
        *sum_dtype = CUDA_R_64F;
        return 0;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
        *sum_dtype = CUDA_R_32I;
        return 0;
    default:
        return -1;
    }
}

/* Half to double: exact. */
static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = 0;

    if (exponent == 0) {
        value = fraction * 0x1p-24;
    } else if (exponent == 31) {
        value = fraction != 0 ? __builtin_nan("") : __builtin_inf();
    } else {
        value = (1024 + fraction) * 0x1p-25 * (double)(1ull << exponent);
    }
    return bits >> 15 ? -value : value;
}

struct gemm_scalar blas_scalar(const void *value, cudaDataType dtype, int is_device)
{
    struct gemm_scalar scalar = {0};

    if (value == NULL || is_device) {
        scalar.device = value;
        return scalar;
    }
    switch (dtype) {
    case CUDA_R_64F:
        memcpy(&scalar.value, value, sizeof scalar.value);
        break;
    case CUDA_R_32I:
        scalar.value = *(const int32_t *)value;
        break;
    case CUDA_R_16F:
        scalar.value = half_value(*(const uint16_t *)value);
        break;
    default:
        scalar.value = (double)*(const float *)value;
        break;
    }
    return scalar;
}

cublasStatus_t blas_launch(const struct gemm_args *args, cudaStream_t stream)
{
    cudaError_t code = gemm_launch(args, stream);

    if (code == cudaErrorNotSupported) {
        return blas_refuse("a product of types %d and %d into %d, summed in %d", (int)args->a.dtype,
                           (int)args->b.dtype, (int)args->d.dtype, (int)args->sum_dtype);
    }
    return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} statuses[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "no handle"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "out of memory"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "a wrong argument"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the kernel failed"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "internal error"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "not in this library"},
};

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        if (statuses[i].status == status) {
            return statuses[i].name;
        }
    }
    return "unknown status";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        if (statuses[i].status == status) {
            return statuses[i].text;
        }
    }
    return "unknown status";
}
