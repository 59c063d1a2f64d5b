/* Memory pools and memory of other processes, of the runtime API. */
#include "sim/cudart_api.h"

#include <string.h>

DRIVER_CALL(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
            cuDeviceGetDefaultMemPool(pool, device))

DRIVER_CALL(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device),
            cuDeviceGetMemPool(pool, device))

DRIVER_CALL(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
            cuDeviceSetMemPool(device, pool))

DRIVER_CALL(cudaMemPoolDestroy, (cudaMemPool_t pool), cuMemPoolDestroy(pool))

DRIVER_CALL(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), cuMemPoolTrimTo(pool, bytes))

DRIVER_CALL(cudaMemPoolSetAttribute,
            (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
            cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value))

DRIVER_CALL(cudaMemPoolGetAttribute,
            (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value),
            cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value))

DRIVER_CALL(cudaMemPoolSetAccess,
            (cudaMemPool_t pool, const struct cudaMemAccessDesc *access, size_t count),
            cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)access, count))

DRIVER_CALL(cudaMemPoolGetAccess,
            (enum cudaMemAccessFlags * flags, cudaMemPool_t pool, struct cudaMemLocation *location),
            cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)location))

cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties)
{
    cudaError_t error = runtime_enter();

    if (error || !properties) {
        return error ? error : runtime_end(CUDA_ERROR_INVALID_VALUE);
    }
    CUmemPoolProps same = {.allocType = (CUmemAllocationType)properties->allocType,
                           .handleTypes = (CUmemAllocationHandleType)properties->handleTypes,
                           .location = {.type = (CUmemLocationType)properties->location.type,
                                        .id = properties->location.id}};
    return runtime_end(cuMemPoolCreate(pool, &same));
}

DRIVER_CALL(cudaMallocFromPoolAsync,
            (void **address, size_t size_bytes, cudaMemPool_t pool, cudaStream_t stream),
            cuMemAllocFromPoolAsync((CUdeviceptr *)address, size_bytes, pool, stream))

/* ---- other processes ---- */

_Static_assert(sizeof(CUipcMemHandle) == sizeof(cudaIpcMemHandle_t), "one layout");
_Static_assert(sizeof(CUipcEventHandle) == sizeof(cudaIpcEventHandle_t), "one layout");

DRIVER_CALL(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *address),
            cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)address))

cudaError_t cudaIpcOpenMemHandle(void **address, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle same;
    cudaError_t error = runtime_enter();

    memcpy(&same, &handle, sizeof same);
    return error ? error : runtime_end(cuIpcOpenMemHandle((CUdeviceptr *)address, same, flags));
}

DRIVER_CALL(cudaIpcCloseMemHandle, (void *address), cuIpcCloseMemHandle((CUdeviceptr)address))

DRIVER_CALL(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event),
            cuIpcGetEventHandle((CUipcEventHandle *)handle, event))

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle same;
    cudaError_t error = runtime_enter();

    memcpy(&same, &handle, sizeof same);
    return error ? error : runtime_end(cuIpcOpenEventHandle(event, same));
}
