/* Errors and initialisation of the runtime API. */
#include "sim/cuda_errors.h"
#include "sim/cudart_api.h"

#include <pthread.h>

static _Thread_local cudaError_t last_error;
static _Thread_local int thread_device; /* until the thread has a context */

static pthread_once_t init_once = PTHREAD_ONCE_INIT;
static CUresult init_result;

static const struct {
    int number;
    const char *name, *text;
} errors[] = {
#define X(number, runtime_name, driver_name, text) {number, runtime_name, text},
    CUDA_ERRORS(X)
#undef X
};
static const char unknown[] = "unrecognized error code";

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].number == (int)error) {
            return errors[i].name;
        }
    }
    return unknown;
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].number == (int)error) {
            return errors[i].text;
        }
    }
    return unknown;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;

    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t runtime_end(CUresult result)
{
    /* A query that is not ready is no error to remember. */
    if (result && result != CUDA_ERROR_NOT_READY) {
        last_error = (cudaError_t)result;
    }
    return (cudaError_t)result;
}

cudaError_t runtime_refuse(const char *name)
{
    return runtime_end(pkb_cuda_refuse(name));
}

static void init(void)
{
    init_result = cuInit(0);
}

cudaError_t runtime_enter(void)
{
    CUcontext context = NULL;

    pthread_once(&init_once, init);
    CUresult result = init_result ? init_result : cuCtxGetCurrent(&context);
    if (!result && !context) {
        result = cuDevicePrimaryCtxRetain(&context, thread_device);
        result = result ? result : cuCtxSetCurrent(context);
    }
    return runtime_end(result);
}

cudaError_t cudaSetDevice(int device)
{
    CUcontext context = NULL;
    int count = 0;

    pthread_once(&init_once, init);
    CUresult result = init_result ? init_result : cuDeviceGetCount(&count);
    if (!result && (device < 0 || device >= count)) {
        result = CUDA_ERROR_INVALID_DEVICE;
    }
    result = result ? result : cuDevicePrimaryCtxRetain(&context, device);
    result = result ? result : cuCtxSetCurrent(context);
    if (!result) {
        thread_device = device;
    }
    return runtime_end(result);
}

cudaError_t cudaInitDevice(int device, unsigned int flags, unsigned int device_flags)
{
    (void)flags;
    (void)device_flags;
    return cudaSetDevice(device);
}

cudaError_t cudaGetDevice(int *device)
{
    CUcontext context = NULL;
    CUdevice current = 0;

    pthread_once(&init_once, init);
    CUresult result = init_result ? init_result : cuCtxGetCurrent(&context);
    if (!result && context) {
        result = cuCtxGetDevice(&current);
    }
    if (!result) {
        *device = context ? current : thread_device;
    }
    return runtime_end(result);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    pthread_once(&init_once, init);
    return runtime_end(init_result ? init_result : cuDeviceGetCount(count));
}
