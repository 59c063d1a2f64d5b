/* Memory pools of the driver API. Memory is never kept, so a pool is its attributes. */
#include "sim/cuda_memory.h"

#include <stdlib.h>

enum { REUSES = 3 };

struct CUmemPoolHandle_st {
    int device;
    bool is_default;
    uint64_t release_threshold_bytes;
    int reuses[REUSES]; /* what memory may be used again behind; in the order of the attributes */
};

static struct CUmemPoolHandle_st defaults[WORLD_MAX];
static CUmemoryPool current[WORLD_MAX]; /* NULL: the default */

static CUresult check_device(CUdevice device)
{
    CUresult result = link_open();

    return !result && (device < 0 || device >= link_hello()->devices) ? CUDA_ERROR_INVALID_DEVICE
                                                                      : result;
}

static void init(struct CUmemPoolHandle_st *pool, int device)
{
    pool->device = device;
    for (int i = 0; i < REUSES; i++) {
        pool->reuses[i] = 1;
    }
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult result = check_device(device);

    if (result || !pool) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (!defaults[device].is_default) {
        init(&defaults[device], device);
        defaults[device].is_default = true;
    }
    *pool = &defaults[device];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult result = cuDeviceGetDefaultMemPool(pool, device);

    if (!result && current[device]) {
        *pool = current[device];
    }
    return result;
}

CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    CUresult result = check_device(device);

    if (!result && (!pool || pool->device != device)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (!result) {
        current[device] = pool;
    }
    return result;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    if (!pool || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (properties->handleTypes) {
        return pkb_cuda_refuse("cudaMemPoolCreate with handles");
    }
    CUresult result = check_device(properties->location.id);
    struct CUmemPoolHandle_st *made = result ? NULL : calloc(1, sizeof *made);
    if (!made) {
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    init(made, properties->location.id);
    *pool = made;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    if (!pool || pool->is_default) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (current[pool->device] == pool) {
        current[pool->device] = NULL;
    }
    free(pool);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes)
{
    (void)bytes;
    return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The place of an attribute that says where memory may be used again, or NULL. */
static int *reuse_of(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    int index = (int)attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;

    return index >= 0 && index < REUSES ? &pool->reuses[index] : NULL;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!pool || !value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int *reuse = reuse_of(pool, attribute);
    if (reuse) {
        *reuse = *(int *)value;
        return CUDA_SUCCESS;
    }
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->release_threshold_bytes = *(uint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return CUDA_SUCCESS; /* no high mark is kept that this could reset */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    if (!pool || !value) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const int *reuse = reuse_of(pool, attribute);
    if (reuse) {
        *(int *)value = *reuse;
        return CUDA_SUCCESS;
    }
    if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        return pkb_cuda_refuse("cudaMemPoolGetAttribute of the memory in use");
    }
    *(uint64_t *)value = pool->release_threshold_bytes;
    return CUDA_SUCCESS;
}

/* All devices see each other's memory. */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
    return pool && (access || !count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    if (!flags || !pool || !location) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size_bytes, CUmemoryPool pool,
                                 CUstream stream)
{
    int device = 0;
    CUresult result = pool ? context_enter(&device) : CUDA_ERROR_INVALID_VALUE;

    if (!result && pool->device != device) {
        return pkb_cuda_refuse("cudaMallocFromPoolAsync of another device's pool");
    }
    return result ? result : cuMemAllocAsync(address, size_bytes, stream);
}
