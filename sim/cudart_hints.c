/* Calls of the runtime API that only advise. */
#include "sim/cudart_api.h"

DRIVER_CALL(cudaStreamSetAttribute,
            (cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue *value),
            cuStreamSetAttribute(stream, (CUstreamAttrID)attribute,
                                 (const CUstreamAttrValue *)value))

DRIVER_CALL(cudaStreamGetAttribute,
            (cudaStream_t stream, cudaStreamAttrID attribute, cudaStreamAttrValue *value),
            cuStreamGetAttribute(stream, (CUstreamAttrID)attribute, (CUstreamAttrValue *)value))

DRIVER_CALL(cudaStreamCopyAttributes, (cudaStream_t to, cudaStream_t from),
            cuStreamCopyAttributes(to, from))

DRIVER_CALL(cudaStreamAttachMemAsync,
            (cudaStream_t stream, void *address, size_t size_bytes, unsigned int flags),
            cuStreamAttachMemAsync(stream, (CUdeviceptr)address, size_bytes, flags))

/* Banks of shared memory are 4 bytes wide, whatever was asked for. */
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    (void)config;
    return runtime_enter();
}

cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *config)
{
    cudaError_t error = runtime_enter();

    if (!error && !config) {
        return runtime_end(CUDA_ERROR_INVALID_VALUE);
    }
    if (!error) {
        *config = cudaSharedMemBankSizeFourByte;
    }
    return error;
}

cudaError_t cudaFuncSetSharedMemConfig(const void *function, enum cudaSharedMemConfig config)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_enter();

    (void)config;
    return error ? error : runtime_end(runtime_kernel(function, &kernel));
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared_bytes, const void *function,
                                                      int blocks, int threads)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(runtime_kernel(function, &kernel));
    return error ? error
                 : runtime_end(cuOccupancyAvailableDynamicSMemPerBlock(
                       shared_bytes, (CUfunction)kernel, blocks, threads));
}
