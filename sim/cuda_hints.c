/* Calls of the driver API that only advise: they are checked, and change nothing here. */
#include "sim/cuda_memory.h"
#include "sim/cuda_module.h"

CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute,
                              const CUstreamAttrValue *value)
{
    (void)stream;
    switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    if (!value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) {
        return cuStreamGetPriority(stream, &value->priority);
    }
    return pkb_cuda_refuse("cuStreamGetAttribute of what is not a priority");
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    (void)to;
    (void)from;
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t size_bytes,
                                unsigned int flags)
{
    unsigned int is_managed = 0;
    CUresult result = cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);

    (void)stream;
    (void)size_bytes;
    (void)flags;
    return result ? result : is_managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address)
{
    unsigned int type = 0;

    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
}

/* A kernel is loaded with its module. */
CUresult cuFuncLoad(CUfunction function)
{
    return kernel_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    if (!state || !kernel_of(function)) {
        return state ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    }
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

/* Banks of shared memory are 4 bytes wide, whatever was asked for. */
CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    (void)config;
    return kernel_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    (void)config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    if (!config) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}
