/* Launches, attributes and occupancy of the runtime API. */
#include "sim/cudart_api.h"

#include <limits.h>
#include <string.h>

#define PER_THREAD_STREAM ((cudaStream_t)2)

struct shape {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
    bool is_cooperative, is_per_thread;
};

static cudaError_t launch(const void *function, void **args, struct shape shape)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_enter();

    if (error) {
        return error;
    }
    CUresult result = runtime_kernel(function, &kernel);
    if (!result && shape.shared_bytes > UINT_MAX) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result) {
        return runtime_end(result);
    }
    if (shape.is_per_thread && !shape.stream) {
        shape.stream = PER_THREAD_STREAM;
    }
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = {.gridDimX = shape.grid.x,
                             .gridDimY = shape.grid.y,
                             .gridDimZ = shape.grid.z,
                             .blockDimX = shape.block.x,
                             .blockDimY = shape.block.y,
                             .blockDimZ = shape.block.z,
                             .sharedMemBytes = (unsigned int)shape.shared_bytes,
                             .hStream = shape.stream,
                             .attrs = &cooperative,
                             .numAttrs = shape.is_cooperative};
    return runtime_end(cuLaunchKernelEx(&config, (CUfunction)kernel, args, NULL));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream)
{
    return launch(
        kernel, args,
        (struct shape){
            .grid = grid, .block = block, .shared_bytes = shared_bytes, .stream = stream});
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                    size_t shared_bytes, cudaStream_t stream)
{
    return launch(kernel, args,
                  (struct shape){.grid = grid,
                                 .block = block,
                                 .shared_bytes = shared_bytes,
                                 .stream = stream,
                                 .is_per_thread = true});
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args,
                             size_t shared_bytes, cudaStream_t stream)
{
    return launch(
        function, args,
        (struct shape){
            .grid = grid, .block = block, .shared_bytes = shared_bytes, .stream = stream});
}

cudaError_t cudaLaunchKernel_ptsz(const void *function, dim3 grid, dim3 block, void **args,
                                  size_t shared_bytes, cudaStream_t stream)
{
    return launch(function, args,
                  (struct shape){.grid = grid,
                                 .block = block,
                                 .shared_bytes = shared_bytes,
                                 .stream = stream,
                                 .is_per_thread = true});
}

cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args,
                                        size_t shared_bytes, cudaStream_t stream)
{
    return launch(function, args,
                  (struct shape){.grid = grid,
                                 .block = block,
                                 .shared_bytes = shared_bytes,
                                 .stream = stream,
                                 .is_cooperative = true});
}

cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *function, dim3 grid, dim3 block,
                                             void **args, size_t shared_bytes, cudaStream_t stream)
{
    return launch(function, args,
                  (struct shape){.grid = grid,
                                 .block = block,
                                 .shared_bytes = shared_bytes,
                                 .stream = stream,
                                 .is_cooperative = true,
                                 .is_per_thread = true});
}

/* The records of both APIs are laid out alike. */
static cudaError_t launch_config(const cudaLaunchConfig_t *config, const void *function,
                                 void **args, bool is_per_thread)
{
    CUkernel kernel = NULL;
    cudaError_t error = runtime_enter();

    if (error) {
        return error;
    }
    CUresult result = config ? runtime_kernel(function, &kernel) : CUDA_ERROR_INVALID_VALUE;
    if (!result && config->dynamicSmemBytes > UINT_MAX) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result) {
        return runtime_end(result);
    }
    _Static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute), "one layout");
    CUlaunchConfig same = {.gridDimX = config->gridDim.x,
                           .gridDimY = config->gridDim.y,
                           .gridDimZ = config->gridDim.z,
                           .blockDimX = config->blockDim.x,
                           .blockDimY = config->blockDim.y,
                           .blockDimZ = config->blockDim.z,
                           .sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
                           .hStream = is_per_thread && !config->stream ? PER_THREAD_STREAM
                                                                       : config->stream,
                           .attrs = (CUlaunchAttribute *)config->attrs,
                           .numAttrs = config->numAttrs};
    return runtime_end(cuLaunchKernelEx(&same, (CUfunction)kernel, args, NULL));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    return launch_config(config, function, args, false);
}

cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *function,
                                     void **args)
{
    return launch_config(config, function, args, true);
}

/* ---- attributes ---- */

/* The kernel that `function` names, in a call that needs one. */
static cudaError_t enter_with(const void *function, CUfunction *kernel)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(runtime_kernel(function, (CUkernel *)kernel));
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    static const CUfunction_attribute asked[] = {
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        CU_FUNC_ATTRIBUTE_NUM_REGS,
        CU_FUNC_ATTRIBUTE_PTX_VERSION,
        CU_FUNC_ATTRIBUTE_BINARY_VERSION,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    };
    enum { COUNT = sizeof asked / sizeof *asked };
    int values[COUNT] = {0};
    CUfunction kernel = NULL;
    cudaError_t error = enter_with(function, &kernel);

    for (int i = 0; !error && i < COUNT; i++) {
        error = runtime_end(cuFuncGetAttribute(&values[i], asked[i], kernel));
    }
    if (!error) {
        *attributes = (struct cudaFuncAttributes){.sharedSizeBytes = (size_t)values[0],
                                                  .constSizeBytes = (size_t)values[1],
                                                  .localSizeBytes = (size_t)values[2],
                                                  .maxThreadsPerBlock = values[3],
                                                  .numRegs = values[4],
                                                  .ptxVersion = values[5],
                                                  .binaryVersion = values[6],
                                                  .maxDynamicSharedSizeBytes = values[7],
                                                  .preferredShmemCarveout = values[8]};
    }
    return error;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    CUfunction kernel = NULL;
    cudaError_t error = enter_with(function, &kernel);

    return error ? error
                 : runtime_end(cuFuncSetAttribute(kernel, (CUfunction_attribute)attribute, value));
}

cudaError_t cudaFuncSetCacheConfig(const void *function, enum cudaFuncCache config)
{
    CUfunction kernel = NULL;
    cudaError_t error = enter_with(function, &kernel);

    return error ? error : runtime_end(cuFuncSetCacheConfig(kernel, (CUfunc_cache)config));
}

cudaError_t cudaFuncGetName(const char **name, const void *function)
{
    CUfunction kernel = NULL;
    cudaError_t error = enter_with(function, &kernel);

    return error ? error : runtime_end(cuFuncGetName(name, kernel));
}

cudaError_t cudaFuncGetParamInfo(const void *function, size_t index, size_t *offset_bytes,
                                 size_t *size_bytes)
{
    CUfunction kernel = NULL;
    cudaError_t error = enter_with(function, &kernel);

    return error ? error : runtime_end(cuFuncGetParamInfo(kernel, index, offset_bytes, size_bytes));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared_bytes)
{
    CUfunction kernel = NULL;
    cudaError_t error = enter_with(function, &kernel);

    return error ? error
                 : runtime_end(cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads,
                                                                           shared_bytes));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks,
                                                                   const void *function,
                                                                   int threads, size_t shared_bytes,
                                                                   unsigned int flags)
{
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
}
