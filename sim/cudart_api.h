/*
 * cudart_api.h — the runtime API's declarations, visible to programs, and what its parts share.
 *
 * As the real one, our runtime is a thin layer over the driver API: it keeps each thread's last
 * error and what compiled programs register; numbers of errors are the driver's.
 */
#pragma once

#include "sim/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(default)
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

/* Of crt/host_runtime.h, which only nvcc can read. */
struct uint3;
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size_bytes, int constant, int global);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp_size);
char __cudaInitModule(void **handle);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                               size_t shared_bytes, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                    size_t shared_bytes, cudaStream_t stream);
cudaError_t cudaLaunchKernel_ptsz(const void *function, dim3 grid, dim3 block, void **args,
                                  size_t shared_bytes, cudaStream_t stream);
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *function,
                                     void **args);
cudaError_t cudaLaunchCooperativeKernel_ptsz(const void *function, dim3 grid, dim3 block,
                                             void **args, size_t shared_bytes, cudaStream_t stream);
#pragma GCC visibility pop

/* Initialises the driver, and gives the thread a context if it has none. Recorded on failure. */
cudaError_t runtime_enter(void);
/* Records what went wrong, if something did, as the thread's last error, and returns it. */
cudaError_t runtime_end(CUresult result);
/* For a call that is not simulated. */
cudaError_t runtime_refuse(const char *name);

/* The kernel that a program means by `function`: a registered host function or a handle. */
CUresult runtime_kernel(const void *function, CUkernel *kernel);
/* Where a registered variable lies on the current device. */
CUresult runtime_symbol(const void *symbol, CUdeviceptr *address, size_t *size_bytes);

/* Most calls are the driver's, once the thread has a context. (name, parameters, driver's call) */
#define DRIVER_CALL(name, parameters, call)                                                        \
    cudaError_t name parameters                                                                    \
    {                                                                                              \
        cudaError_t error = runtime_enter();                                                       \
        return error ? error : runtime_end(call);                                                  \
    }

/* The driver's form of a copy of planes. */
CUresult runtime_copy_3d(const struct cudaMemcpy3DParms *params, CUDA_MEMCPY3D *copy);
