/* Devices of the runtime API, and how to find calls by name. */
#include "sim/cudart_api.h"

#include <dlfcn.h>
#include <string.h>

cudaError_t cudaDriverGetVersion(int *version)
{
    return runtime_end(cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version) {
        return runtime_end(CUDA_ERROR_INVALID_VALUE);
    }
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

/* An attribute of a device that is there. */
static int attribute(enum cudaDeviceAttr which, int device)
{
    int value = 0;

    (void)cuDeviceGetAttribute(&value, (CUdevice_attribute)which, device);
    return value;
}

static void fill_limits(struct cudaDeviceProp *properties, int device)
{
    properties->sharedMemPerBlock = (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlock, device);
    properties->sharedMemPerBlockOptin =
        (size_t)attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    properties->sharedMemPerMultiprocessor =
        (size_t)attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    properties->reservedSharedMemPerBlock =
        (size_t)attribute(cudaDevAttrReservedSharedMemoryPerBlock, device);
    properties->regsPerBlock = attribute(cudaDevAttrMaxRegistersPerBlock, device);
    properties->regsPerMultiprocessor = attribute(cudaDevAttrMaxRegistersPerMultiprocessor, device);
    properties->warpSize = attribute(cudaDevAttrWarpSize, device);
    properties->memPitch = (size_t)attribute(cudaDevAttrMaxPitch, device);
    properties->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock, device);
    properties->maxThreadsPerMultiProcessor =
        attribute(cudaDevAttrMaxThreadsPerMultiProcessor, device);
    properties->maxBlocksPerMultiProcessor =
        attribute(cudaDevAttrMaxBlocksPerMultiprocessor, device);
    for (int i = 0; i < 3; i++) {
        properties->maxThreadsDim[i] =
            attribute((enum cudaDeviceAttr)(cudaDevAttrMaxBlockDimX + i), device);
        properties->maxGridSize[i] =
            attribute((enum cudaDeviceAttr)(cudaDevAttrMaxGridDimX + i), device);
    }
    properties->totalConstMem = (size_t)attribute(cudaDevAttrTotalConstantMemory, device);
    properties->l2CacheSize = attribute(cudaDevAttrL2CacheSize, device);
    properties->persistingL2CacheMaxSize = attribute(cudaDevAttrMaxPersistingL2CacheSize, device);
    properties->accessPolicyMaxWindowSize = attribute(cudaDevAttrMaxAccessPolicyWindowSize, device);
    properties->memoryBusWidth = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
    properties->textureAlignment = (size_t)attribute(cudaDevAttrTextureAlignment, device);
    properties->texturePitchAlignment = (size_t)attribute(cudaDevAttrTexturePitchAlignment, device);
    properties->surfaceAlignment = (size_t)attribute(cudaDevAttrSurfaceAlignment, device);
}

static void fill_abilities(struct cudaDeviceProp *properties, int device)
{
    properties->major = attribute(cudaDevAttrComputeCapabilityMajor, device);
    properties->minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
    properties->multiProcessorCount = attribute(cudaDevAttrMultiProcessorCount, device);
    properties->asyncEngineCount = attribute(cudaDevAttrAsyncEngineCount, device);
    properties->pciBusID = attribute(cudaDevAttrPciBusId, device);
    properties->canMapHostMemory = attribute(cudaDevAttrCanMapHostMemory, device);
    properties->concurrentKernels = attribute(cudaDevAttrConcurrentKernels, device);
    properties->ECCEnabled = attribute(cudaDevAttrEccEnabled, device);
    properties->unifiedAddressing = attribute(cudaDevAttrUnifiedAddressing, device);
    properties->streamPrioritiesSupported = attribute(cudaDevAttrStreamPrioritiesSupported, device);
    properties->globalL1CacheSupported = attribute(cudaDevAttrGlobalL1CacheSupported, device);
    properties->localL1CacheSupported = attribute(cudaDevAttrLocalL1CacheSupported, device);
    properties->computePreemptionSupported =
        attribute(cudaDevAttrComputePreemptionSupported, device);
    properties->canUseHostPointerForRegisteredMem =
        attribute(cudaDevAttrCanUseHostPointerForRegisteredMem, device);
    properties->cooperativeLaunch = attribute(cudaDevAttrCooperativeLaunch, device);
    properties->hostRegisterSupported = attribute(cudaDevAttrHostRegisterSupported, device);
    properties->memoryPoolsSupported = attribute(cudaDevAttrMemoryPoolsSupported, device);
    properties->memoryPoolSupportedHandleTypes =
        (unsigned int)attribute(cudaDevAttrMemoryPoolSupportedHandleTypes, device);
    properties->ipcEventSupported = attribute(cudaDevAttrIpcEventSupport, device);
    properties->managedMemory = attribute(cudaDevAttrManagedMemory, device);
    properties->concurrentManagedAccess = attribute(cudaDevAttrConcurrentManagedAccess, device);
    properties->unifiedFunctionPointers =
        attribute((enum cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, device);
    properties->deviceNumaId = -1;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    struct cudaDeviceProp filled = {0};
    CUuuid uuid;
    cudaError_t error = runtime_enter();

    if (error) {
        return error;
    }
    CUresult result = cuDeviceGetName(filled.name, sizeof filled.name, device);
    result = result ? result : cuDeviceGetUuid(&uuid, device);
    result = result ? result : cuDeviceTotalMem(&filled.totalGlobalMem, device);
    if (!result) {
        memcpy(&filled.uuid, &uuid, sizeof uuid);
        fill_limits(&filled, device);
        fill_abilities(&filled, device);
        *properties = filled;
    }
    return runtime_end(result);
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuDeviceGetPCIBusId(text, length, device));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuDeviceGetByPCIBusId(device, text));
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr which, int device,
                                      int peer)
{
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(
                       cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)which, device, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext context = NULL;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(cuDevicePrimaryCtxRetain(&context, peer));
    return error ? error : runtime_end(cuCtxEnablePeerAccess(context, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext context = NULL;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(cuDevicePrimaryCtxRetain(&context, peer));
    return error ? error : runtime_end(cuCtxDisablePeerAccess(context));
}

cudaError_t cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuCtxGetLimit(value, (CUlimit)limit));
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *config)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuCtxGetCacheConfig((CUfunc_cache *)config));
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuCtxSetCacheConfig((CUfunc_cache)config));
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuCtxResetPersistingL2Cache());
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(cuCtxGetFlags(flags));
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);

    return error ? error : runtime_end(cuDevicePrimaryCtxSetFlags(device, flags));
}

/* Work is waited for; what was made stays, and goes with the process. */
cudaError_t cudaDeviceReset(void)
{
    return cudaDeviceSynchronize();
}

cudaError_t cudaProfilerStart(void)
{
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    cudaError_t error = runtime_enter();

    if (error) {
        return error;
    }
    CUresult result = cuGetProcAddress(name, function, (int)version, flags, &found);
    if (status) {
        *status = (enum cudaDriverEntryPointQueryResult)found;
    }
    /* With a status to tell it, a call that is not there is no error. */
    return result == CUDA_ERROR_NOT_FOUND && status ? cudaSuccess : runtime_end(result);
}

cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, status);
}
