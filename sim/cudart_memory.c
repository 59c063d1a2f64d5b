/* Memory of the runtime API. */
#include "sim/cudart_api.h"

#include <string.h>

cudaError_t cudaMalloc(void **address, size_t size_bytes)
{
    cudaError_t error = runtime_enter();

    if (!error && address && !size_bytes) {
        *address = NULL;
        return cudaSuccess;
    }
    return error ? error : runtime_end(cuMemAlloc((CUdeviceptr *)address, size_bytes));
}

cudaError_t cudaMallocAsync(void **address, size_t size_bytes, cudaStream_t stream)
{
    cudaError_t error = runtime_enter();

    if (!error && address && !size_bytes) {
        *address = NULL;
        return cudaSuccess;
    }
    return error ? error : runtime_end(cuMemAllocAsync((CUdeviceptr *)address, size_bytes, stream));
}

cudaError_t cudaMallocPitch(void **address, size_t *pitch_bytes, size_t width_bytes, size_t height)
{
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(cuMemAllocPitch((CUdeviceptr *)address, pitch_bytes, width_bytes,
                                               height, 4));
}

cudaError_t cudaFree(void *address)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuMemFree((CUdeviceptr)address));
}

cudaError_t cudaFreeAsync(void *address, cudaStream_t stream)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuMemFreeAsync((CUdeviceptr)address, stream));
}

cudaError_t cudaMallocHost(void **address, size_t size_bytes)
{
    return cudaHostAlloc(address, size_bytes, 0);
}

cudaError_t cudaHostAlloc(void **address, size_t size_bytes, unsigned int flags)
{
    cudaError_t error = runtime_enter();

    if (!error && address && !size_bytes) {
        *address = NULL;
        return cudaSuccess;
    }
    return error ? error : runtime_end(cuMemHostAlloc(address, size_bytes, flags));
}

cudaError_t cudaFreeHost(void *address)
{
    cudaError_t error = runtime_enter();

    return error || !address ? error : runtime_end(cuMemFreeHost(address));
}

cudaError_t cudaHostRegister(void *address, size_t size_bytes, unsigned int flags)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuMemHostRegister(address, size_bytes, flags));
}

cudaError_t cudaHostUnregister(void *address)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuMemHostUnregister(address));
}

cudaError_t cudaHostGetDevicePointer(void **device_address, void *address, unsigned int flags)
{
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(
                       cuMemHostGetDevicePointer((CUdeviceptr *)device_address, address, flags));
}

cudaError_t cudaHostGetFlags(unsigned int *flags, void *address)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuMemHostGetFlags(flags, address));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuMemGetInfo(free_bytes, total_bytes));
}

/* What is no memory of CUDA is unregistered host memory, and no error. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *address)
{
    unsigned int type = 0;
    unsigned int managed = 0;
    int device = 0;
    cudaError_t error = runtime_enter();

    if (error || !attributes) {
        return error ? error : runtime_end(CUDA_ERROR_INVALID_VALUE);
    }
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *answers[] = {&type, &device, &managed};
    error = runtime_end(cuPointerGetAttributes(3, asked, answers, (CUdeviceptr)address));
    if (error) {
        return error;
    }
    bool is_host = type == CU_MEMORYTYPE_HOST;
    *attributes = (struct cudaPointerAttributes){
        .type = !type     ? cudaMemoryTypeUnregistered
                : managed ? cudaMemoryTypeManaged
                          : (is_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice),
        .device = type ? device : cudaInvalidDeviceId,
        .devicePointer = type ? (void *)address : NULL,
        .hostPointer = !type || is_host ? (void *)address : NULL};
    return cudaSuccess;
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitched, struct cudaExtent extent)
{
    void *address = NULL;
    size_t pitch_bytes = 0;
    cudaError_t error =
        cudaMallocPitch(&address, &pitch_bytes, extent.width, extent.height * extent.depth);

    if (!error) {
        *pitched = (struct cudaPitchedPtr){address, pitch_bytes, extent.width, extent.height};
    }
    return error;
}

cudaError_t cudaMallocManaged(void **address, size_t size_bytes, unsigned int flags)
{
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(cuMemAllocManaged((CUdeviceptr *)address, size_bytes, flags));
}

_Static_assert(sizeof(CUmemLocation) == sizeof(struct cudaMemLocation), "one layout");

cudaError_t cudaMemAdvise(const void *address, size_t size_bytes, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    CUmemLocation same = {.type = (CUmemLocationType)location.type, .id = location.id};
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(
                       cuMemAdvise((CUdeviceptr)address, size_bytes, (CUmem_advise)advice, same));
}

cudaError_t cudaMemPrefetchAsync(const void *address, size_t size_bytes,
                                 struct cudaMemLocation location, unsigned int flags,
                                 cudaStream_t stream)
{
    CUmemLocation same = {.type = (CUmemLocationType)location.type, .id = location.id};
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(
                       cuMemPrefetchAsync((CUdeviceptr)address, size_bytes, same, flags, stream));
}
