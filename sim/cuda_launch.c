/* Launches, and attributes and occupancy of kernels, of the driver API. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_SHARED_BYTES_MAX = 227 << 10 };

CUresult kernel_pack(const struct kernel_handle *kernel, void **params, void **extra,
                     uint8_t *packed)
{
    const struct wire_kernel_info *info = &kernel->info;

    if (params) {
        for (uint32_t i = 0; i < info->param_count; i++) {
            memcpy(packed + kernel->params[i].offset_bytes, params[i],
                   kernel->params[i].size_bytes);
        }
        return CUDA_SUCCESS;
    }
    if (!extra) {
        return info->param_count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    const void *buffer = NULL;
    size_t size_bytes = 0;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[i + 1];
        } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            size_bytes = *(const size_t *)extra[i + 1];
        } else {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (!buffer || size_bytes < info->param_bytes) {
        return info->param_bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    memcpy(packed, buffer, info->param_bytes);
    return CUDA_SUCCESS;
}

static CUresult capture_launch(const struct kernel_handle *kernel,
                               const struct wire_request *request, const void *packed)
{
    struct CUgraphNode_st *node = NULL;
    CUresult result = capture_add(request->stream, CU_GRAPH_NODE_TYPE_KERNEL, NODE_REQUEST, &node);

    return result ? result : node_set_launch(node, kernel, request, packed);
}

static CUresult launch(CUfunction function, const struct wire_launch *shape, CUstream stream,
                       void **params, void **extra)
{
    uint8_t packed[WIRE_PAYLOAD_MAX] = {0};
    struct link_call call = {.request = {.op = WIRE_LAUNCH, .launch = *shape}, .payload = packed};
    const struct kernel_handle *kernel = kernel_of(function);
    CUresult result = context_enter(&call.request.device);

    if (result || !kernel) {
        return result ? result : CUDA_ERROR_INVALID_HANDLE;
    }
    if (kernel->info.param_bytes > sizeof packed) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    result = stream_id(stream, &call.request.stream);
    result = result ? result : kernel_pack(kernel, params, extra, packed);
    if (result) {
        return result;
    }
    call.request.launch.kernel = kernel->info.kernel;
    call.request.payload_bytes = kernel->info.param_bytes;
    if (capture_is_on(call.request.stream)) {
        return capture_launch(kernel, &call.request, packed);
    }
    result = call.request.stream ? CUDA_SUCCESS : capture_forbids(WIRE_STREAM_LEGACY);
    return result ? result : link_call(&call);
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void **params, void **extra)
{
    return launch(function,
                  &(struct wire_launch){.grid = {grid_x, grid_y, grid_z},
                                        .block = {block_x, block_y, block_z},
                                        .dynamic_shared_bytes = shared_bytes},
                  stream, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void **params)
{
    return launch(function,
                  &(struct wire_launch){.grid = {grid_x, grid_y, grid_z},
                                        .block = {block_x, block_y, block_z},
                                        .dynamic_shared_bytes = shared_bytes,
                                        .cooperative = 1},
                  stream, params, NULL);
}

/* Reads one attribute of a launch; one that changes nothing here is passed over. */
static CUresult take_attribute(const CUlaunchAttribute *attribute, struct wire_launch *shape)
{
    const typeof(attribute->value.clusterDim) *cluster = &attribute->value.clusterDim;

    switch (attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        shape->cooperative = attribute->value.cooperative != 0;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        return cluster->x == 1 && cluster->y == 1 && cluster->z == 1
                   ? CUDA_SUCCESS
                   : pkb_cuda_refuse("cudaLaunchKernelEx with a cluster of several blocks");
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: /* in order is one of its orders */
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return CUDA_SUCCESS;
    default:
        return pkb_cuda_refuse("cudaLaunchKernelEx with this attribute");
    }
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra)
{
    struct wire_launch shape = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                                .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                                .dynamic_shared_bytes = config->sharedMemBytes};

    for (unsigned int i = 0; i < config->numAttrs; i++) {
        CUresult result = take_attribute(&config->attrs[i], &shape);
        if (result) {
            return result;
        }
    }
    return launch(function, &shape, config->hStream, params, extra);
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, const void *handle)
{
    const struct kernel_handle *kernel = kernel_of(handle);

    if (!kernel || !value) {
        return kernel ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    const struct wire_kernel_info *info = &kernel->info;
    const int values[CU_FUNC_ATTRIBUTE_MAX] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] =
            info->threads_max ? (int)info->threads_max : 1024,
        [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = (int)info->shared_bytes,
        [CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = (int)info->const_bytes,
        [CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = (int)info->local_bytes,
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = (int)info->registers,
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90,
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90,
        [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = kernel->dynamic_shared_max,
        [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1,
    };
    if ((int)attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *value = values[attribute];
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction_attribute attribute, int value, const void *handle)
{
    struct kernel_handle *kernel = kernel_of(handle);

    if (!kernel) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        return value < -1 || value > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        return attribute < CU_FUNC_ATTRIBUTE_MAX
                   ? pkb_cuda_refuse("cudaFuncSetAttribute of this attribute")
                   : CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result =
        link_send(&(struct wire_request){.op = WIRE_KERNEL_SET,
                                         .kernel = {.kernel = kernel->info.kernel,
                                                    .attribute = WIRE_KERNEL_DYNAMIC_SHARED_MAX,
                                                    .value = value}});
    if (!result) {
        kernel->dynamic_shared_max = value;
    }
    return result;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    return get_attribute(value, attribute, function);
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                              CUdevice device)
{
    (void)device;
    return get_attribute(value, attribute, kernel);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    return set_attribute(attribute, value, function);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                              CUdevice device)
{
    (void)device;
    return set_attribute(attribute, value, kernel);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    (void)config;
    return kernel_of(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    (void)config;
    (void)device;
    return kernel_of(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset_bytes,
                              size_t *size_bytes)
{
    const struct kernel_handle *kernel = kernel_of(handle);

    if (!kernel) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (index >= kernel->info.param_count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *offset_bytes = kernel->params[index].offset_bytes;
    if (size_bytes) {
        *size_bytes = kernel->params[index].size_bytes;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset_bytes,
                            size_t *size_bytes)
{
    return cuKernelGetParamInfo((CUkernel)function, index, offset_bytes, size_bytes);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes)
{
    const struct kernel_handle *kernel = kernel_of(function);

    if (!kernel || !blocks || threads <= 0) {
        return kernel ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    struct link_call call = {
        .request = {.op = WIRE_OCCUPANCY,
                    .kernel = {.kernel = kernel->info.kernel,
                               .threads = (uint32_t)threads,
                               .dynamic_shared_bytes =
                                   shared_bytes > INT32_MAX ? INT32_MAX : (uint32_t)shared_bytes}}};
    CUresult result = link_call(&call);
    if (!result) {
        *blocks = (int)call.reply.id;
    }
    return result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int threads, size_t shared_bytes,
                                                              unsigned int flags)
{
    (void)flags;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}

/* The most with which so many blocks still fit. */
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *shared_bytes, CUfunction function,
                                                 int blocks, int threads)
{
    int fits = 0;
    size_t low = 0;
    size_t high = BLOCK_SHARED_BYTES_MAX + 1;
    CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(&fits, function, threads, 0);

    if (!result && (!shared_bytes || blocks <= 0 || fits < blocks)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    while (!result && high - low > 1) {
        size_t middle = (low + high) / 2;
        result = cuOccupancyMaxActiveBlocksPerMultiprocessor(&fits, function, threads, middle);
        *(fits >= blocks ? &low : &high) = middle;
    }
    if (!result) {
        *shared_bytes = low;
    }
    return result;
}

/* Tries the block sizes from the largest down, as the occupancy calculator does. */
CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, size_t shared_bytes,
                                          int threads_limit)
{
    const struct kernel_handle *kernel = kernel_of(function);
    int best = 0;

    if (!kernel || !grid || !block) {
        return kernel ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    int threads = kernel->info.threads_max ? (int)kernel->info.threads_max : 1024;
    if (threads_limit > 0 && threads_limit < threads) {
        threads = threads_limit;
    }
    for (; threads > 0; threads = (threads - 1) / WIRE_WARP_THREADS * WIRE_WARP_THREADS) {
        int blocks = 0;
        CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, function, threads, shared_of ? shared_of(threads) : shared_bytes);
        if (result) {
            return result;
        }
        if (blocks * threads > best) {
            best = blocks * threads;
            *block = threads;
            *grid = blocks * 132;
        }
    }
    return CUDA_SUCCESS;
}
