/* Devices and contexts. All contexts of a device share what it has. */
#include "sim/cuda_device.h"
#include "sim/cuda_graph.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT_STACK_MAX = 64 };

struct CUctx_st {
    struct CUctx_st *next; /* of those that were made */
    int device;
    unsigned int flags;
    int retained;
};

static struct CUctx_st contexts[WORLD_MAX]; /* the primary ones */
static struct CUctx_st *made_contexts;
static pthread_mutex_t made_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local CUcontext stack[CONTEXT_STACK_MAX]; /* the last one is current */
static _Thread_local int stack_count;
static bool is_initialised;

static bool is_made(const struct CUctx_st *context)
{
    pthread_mutex_lock(&made_lock);
    const struct CUctx_st *made = made_contexts;
    while (made && made != context) {
        made = made->next;
    }
    pthread_mutex_unlock(&made_lock);
    return made != NULL;
}

bool context_is(CUcontext context)
{
    bool is_primary = context >= contexts && context < contexts + link_hello()->devices;

    return is_primary || is_made(context);
}

CUresult context_check_device(CUdevice device)
{
    if (!is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    return device < 0 || device >= link_hello()->devices ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

int context_device_of(CUcontext context)
{
    return context->device;
}

int context_device(void)
{
    CUcontext current = stack_count ? stack[stack_count - 1] : NULL;

    return current ? current->device : -1;
}

CUresult context_enter(int *device)
{
    if (!is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    *device = context_device();
    return *device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = link_open();
    is_initialised |= !result;
    return result;
}

CUresult cuDriverGetVersion(int *version)
{
    if (!version) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = DEVICE_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = context_check_device(ordinal);

    if (!result) {
        *device = ordinal;
    }
    return result;
}

CUresult cuDeviceGetCount(int *count)
{
    if (!is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    *count = link_hello()->devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    CUresult result = context_check_device(device);

    if (!result) {
        (void)snprintf(name, (size_t)length, "%s", device_name(link_hello()->model));
    }
    return result;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    CUresult result = context_check_device(device);

    if (!result) {
        *uuid = (CUuuid){.bytes = "pkb-simd GPU"};
        uuid->bytes[15] = (char)device;
    }
    return result;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    CUresult result = context_check_device(device);

    if (!result) {
        *bytes = device_memory_bytes(link_hello()->model);
    }
    return result;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult result = context_check_device(device);

    if (!result && !device_attribute(link_hello()->model, (int)attribute, device, value)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    CUresult result = context_check_device(device);

    if (!result && snprintf(text, (size_t)length, "0000:%02x:00.0", device + 1) >= length) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    unsigned int bus = 0;

    if (!text || sscanf(text, "%*x:%x:", &bus) != 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = context_check_device((CUdevice)bus - 1);
    if (!result) {
        *device = (CUdevice)bus - 1;
    }
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUresult result = context_check_device(device);

    if (!result) {
        *context = &contexts[device];
        contexts[device].device = device;
        contexts[device].retained++;
    }
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult result = context_check_device(device);

    if (!result && !contexts[device].retained) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    contexts[device].retained -= !result;
    return result;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return context_check_device(device);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    CUresult result = context_check_device(device);

    if (!result) {
        contexts[device].flags = flags;
    }
    return result;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    CUresult result = context_check_device(device);

    if (!result) {
        *flags = contexts[device].flags;
        *active = contexts[device].retained > 0;
    }
    return result;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    if (!is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    *context = stack_count ? stack[stack_count - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    if (!is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (context && !context_is(context)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!context) {
        stack_count -= stack_count > 0;
        return CUDA_SUCCESS;
    }
    stack_count += !stack_count;
    stack[stack_count - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    if (!is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (!context_is(context) || stack_count == CONTEXT_STACK_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    stack[stack_count++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    if (!is_initialised) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (!stack_count) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stack_count--;
    if (context) {
        *context = stack[stack_count];
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *context, CUctxCreateParams *params, unsigned int flags,
                     CUdevice device)
{
    CUresult result = context_check_device(device);

    if (result || !context || (params && params->numExecAffinityParams)) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    struct CUctx_st *made = calloc(1, sizeof *made);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&made_lock);
    *made = (struct CUctx_st){.next = made_contexts, .device = device, .flags = flags};
    made_contexts = made;
    pthread_mutex_unlock(&made_lock);
    *context = made;
    return cuCtxPushCurrent(made);
}

CUresult cuCtxDestroy(CUcontext context)
{
    struct CUctx_st **link = &made_contexts;

    if (!context || !is_made(context)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (stack_count && stack[stack_count - 1] == context) {
        stack_count--;
    }
    pthread_mutex_lock(&made_lock);
    while (*link != context) {
        link = &(*link)->next;
    }
    *link = context->next;
    pthread_mutex_unlock(&made_lock);
    free(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    return context_enter(device);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (!result) {
        *flags = contexts[device].flags;
    }
    return result;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    if (context && !context_is(context)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    int device = 0;
    CUresult result = context ? CUDA_SUCCESS : context_enter(&device);

    if (context && !context_is(context)) {
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (!result) {
        *id = (unsigned long long)(context ? context->device : device) + 1;
    }
    return result;
}

CUresult cuCtxSynchronize(void)
{
    struct wire_request request = {.op = WIRE_DEVICE_SYNC};
    CUresult result = context_enter(&request.device);

    result = result ? result : capture_forbids_unsafe();
    return result ? result : link_send(&request);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (!result && least) {
        *least = 0;
    }
    if (!result && greatest) {
        *greatest = -5;
    }
    return result;
}

/* What an H200 starts with; a limit that is set is not kept, since none bounds the simulator. */
static const size_t limits[CU_LIMIT_MAX] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 8650752,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
    [CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 11796480,
};

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (result || (int)limit < 0 || limit >= CU_LIMIT_MAX) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) {
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    *value = limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    int device = 0;
    CUresult result = context_enter(&device);

    (void)value;
    if (!result && ((int)limit < 0 || limit >= CU_LIMIT_MAX)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (!result) {
        *config = CU_FUNC_CACHE_PREFER_NONE;
    }
    return result;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    int device = 0;

    (void)config;
    return context_enter(&device);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    int device = 0;

    return context_enter(&device);
}

CUresult cuProfilerStart(void)
{
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    return CUDA_SUCCESS;
}
