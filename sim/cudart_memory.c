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
    int device = 0;
    cudaError_t error = runtime_enter();

    if (error || !attributes) {
        return error ? error : runtime_end(CUDA_ERROR_INVALID_VALUE);
    }
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&type, &device};
    error = runtime_end(cuPointerGetAttributes(2, asked, answers, (CUdeviceptr)address));
    if (error) {
        return error;
    }
    bool is_host = type == CU_MEMORYTYPE_HOST;
    *attributes = (struct cudaPointerAttributes){
        .type = !type ? cudaMemoryTypeUnregistered
                      : (is_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice),
        .device = type ? device : cudaInvalidDeviceId,
        .devicePointer = type ? (void *)address : NULL,
        .hostPointer = !type || is_host ? (void *)address : NULL};
    return cudaSuccess;
}

/* ---- copies ---- */

static cudaError_t copy(void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind,
                        cudaStream_t stream)
{
    CUdeviceptr to_device = (CUdeviceptr)to, from_device = (CUdeviceptr)from;
    cudaError_t error = runtime_enter();

    if (error) {
        return error;
    }
    switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return runtime_end(cuMemcpyAsync(to_device, from_device, size_bytes, stream));
    case cudaMemcpyHostToDevice:
        return runtime_end(cuMemcpyHtoDAsync(to_device, from, size_bytes, stream));
    case cudaMemcpyDeviceToHost:
        return runtime_end(cuMemcpyDtoHAsync(to, from_device, size_bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return runtime_end(cuMemcpyDtoDAsync(to_device, from_device, size_bytes, stream));
    default:
        return runtime_end((CUresult)cudaErrorInvalidMemcpyDirection);
    }
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    return copy(to, from, size_bytes, kind, stream);
}

/* Done when it returns, but for copies between devices, which only keep their order. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind)
{
    CUdeviceptr to_device = (CUdeviceptr)to, from_device = (CUdeviceptr)from;
    cudaError_t error = runtime_enter();

    if (error) {
        return error;
    }
    switch (kind) {
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return runtime_end(cuMemcpy(to_device, from_device, size_bytes));
    case cudaMemcpyHostToDevice:
        return runtime_end(cuMemcpyHtoD(to_device, from, size_bytes));
    case cudaMemcpyDeviceToHost:
        return runtime_end(cuMemcpyDtoH(to, from_device, size_bytes));
    case cudaMemcpyDeviceToDevice:
        return runtime_end(cuMemcpyDtoD(to_device, from_device, size_bytes));
    default:
        return runtime_end((CUresult)cudaErrorInvalidMemcpyDirection);
    }
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                size_t size_bytes, cudaStream_t stream)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);

    if (!error &&
        (to_device < 0 || to_device >= count || from_device < 0 || from_device >= count)) {
        error = runtime_end(CUDA_ERROR_INVALID_DEVICE);
    }
    return error ? error : copy(to, from, size_bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                           size_t size_bytes)
{
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, size_bytes, NULL);
}

struct plane {
    void *to;
    const void *from;
    size_t to_pitch_bytes, from_pitch_bytes;
    size_t width_bytes, height;
    enum cudaMemcpyKind kind;
};

static cudaError_t copy_plane(const struct plane *plane, cudaStream_t stream, bool is_async)
{
    static const CUmemorytype from_types[] = {
        [cudaMemcpyHostToHost] = CU_MEMORYTYPE_HOST,
        [cudaMemcpyHostToDevice] = CU_MEMORYTYPE_HOST,
        [cudaMemcpyDeviceToHost] = CU_MEMORYTYPE_DEVICE,
        [cudaMemcpyDeviceToDevice] = CU_MEMORYTYPE_DEVICE,
        [cudaMemcpyDefault] = CU_MEMORYTYPE_UNIFIED,
    };
    static const CUmemorytype to_types[] = {
        [cudaMemcpyHostToHost] = CU_MEMORYTYPE_HOST,
        [cudaMemcpyHostToDevice] = CU_MEMORYTYPE_DEVICE,
        [cudaMemcpyDeviceToHost] = CU_MEMORYTYPE_HOST,
        [cudaMemcpyDeviceToDevice] = CU_MEMORYTYPE_DEVICE,
        [cudaMemcpyDefault] = CU_MEMORYTYPE_UNIFIED,
    };
    cudaError_t error = runtime_enter();

    if (error) {
        return error;
    }
    if (plane->kind > cudaMemcpyDefault) {
        return runtime_end((CUresult)cudaErrorInvalidMemcpyDirection);
    }
    if (plane->width_bytes > plane->to_pitch_bytes ||
        plane->width_bytes > plane->from_pitch_bytes) {
        return runtime_end((CUresult)cudaErrorInvalidPitchValue);
    }
    CUDA_MEMCPY2D copy_2d = {.srcMemoryType = from_types[plane->kind],
                             .srcHost = plane->from,
                             .srcDevice = (CUdeviceptr)plane->from,
                             .srcPitch = plane->from_pitch_bytes,
                             .dstMemoryType = to_types[plane->kind],
                             .dstHost = plane->to,
                             .dstDevice = (CUdeviceptr)plane->to,
                             .dstPitch = plane->to_pitch_bytes,
                             .WidthInBytes = plane->width_bytes,
                             .Height = plane->height};
    return runtime_end(is_async ? cuMemcpy2DAsync(&copy_2d, stream) : cuMemcpy2D(&copy_2d));
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch_bytes, const void *from, size_t from_pitch_bytes,
                         size_t width_bytes, size_t height, enum cudaMemcpyKind kind)
{
    return copy_plane(&(struct plane){.to = to,
                                      .to_pitch_bytes = to_pitch_bytes,
                                      .from = from,
                                      .from_pitch_bytes = from_pitch_bytes,
                                      .width_bytes = width_bytes,
                                      .height = height,
                                      .kind = kind},
                      NULL, false);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch_bytes, const void *from,
                              size_t from_pitch_bytes, size_t width_bytes, size_t height,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy_plane(&(struct plane){.to = to,
                                      .to_pitch_bytes = to_pitch_bytes,
                                      .from = from,
                                      .from_pitch_bytes = from_pitch_bytes,
                                      .width_bytes = width_bytes,
                                      .height = height,
                                      .kind = kind},
                      stream, true);
}

/* ---- variables ---- */

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol)
{
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(runtime_symbol(symbol, (CUdeviceptr *)address, NULL));
}

cudaError_t cudaGetSymbolSize(size_t *size_bytes, const void *symbol)
{
    CUdeviceptr address = 0;
    cudaError_t error = runtime_enter();

    return error ? error : runtime_end(runtime_symbol(symbol, &address, size_bytes));
}

/* Where the bytes of a copy to or from a variable lie, checked. */
static cudaError_t symbol_bytes(const void *symbol, size_t offset_bytes, size_t size_bytes,
                                char **place)
{
    CUdeviceptr address = 0;
    size_t whole_bytes = 0;
    cudaError_t error = runtime_enter();

    if (error) {
        return error;
    }
    CUresult result = runtime_symbol(symbol, &address, &whole_bytes);
    if (!result && (offset_bytes > whole_bytes || size_bytes > whole_bytes - offset_bytes)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    *place = (char *)address + offset_bytes;
    return runtime_end(result);
}

static bool is_direction(enum cudaMemcpyKind kind, enum cudaMemcpyKind host_kind)
{
    return kind == host_kind || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

/* A constant variable is read-only for kernels; the host writes it through simd all the same. */
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t size_bytes,
                                    size_t offset_bytes, enum cudaMemcpyKind kind,
                                    cudaStream_t stream)
{
    char *place = NULL;
    cudaError_t error = symbol_bytes(symbol, offset_bytes, size_bytes, &place);

    if (!error && !is_direction(kind, cudaMemcpyHostToDevice)) {
        error = runtime_end((CUresult)cudaErrorInvalidMemcpyDirection);
    }
    return error ? error : copy(place, from, size_bytes, kind, stream);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size_bytes,
                               size_t offset_bytes, enum cudaMemcpyKind kind)
{
    char *place = NULL;
    cudaError_t error = symbol_bytes(symbol, offset_bytes, size_bytes, &place);

    if (!error && !is_direction(kind, cudaMemcpyHostToDevice)) {
        error = runtime_end((CUresult)cudaErrorInvalidMemcpyDirection);
    }
    return error ? error : cudaMemcpy(place, from, size_bytes, kind);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t size_bytes,
                                      size_t offset_bytes, enum cudaMemcpyKind kind,
                                      cudaStream_t stream)
{
    char *place = NULL;
    cudaError_t error = symbol_bytes(symbol, offset_bytes, size_bytes, &place);

    if (!error && !is_direction(kind, cudaMemcpyDeviceToHost)) {
        error = runtime_end((CUresult)cudaErrorInvalidMemcpyDirection);
    }
    return error ? error : copy(to, place, size_bytes, kind, stream);
}

cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size_bytes,
                                 size_t offset_bytes, enum cudaMemcpyKind kind)
{
    char *place = NULL;
    cudaError_t error = symbol_bytes(symbol, offset_bytes, size_bytes, &place);

    if (!error && !is_direction(kind, cudaMemcpyDeviceToHost)) {
        error = runtime_end((CUresult)cudaErrorInvalidMemcpyDirection);
    }
    return error ? error : cudaMemcpy(to, place, size_bytes, kind);
}

/* ---- sets ---- */

cudaError_t cudaMemsetAsync(void *to, int value, size_t size_bytes, cudaStream_t stream)
{
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(
                       cuMemsetD8Async((CUdeviceptr)to, (unsigned char)value, size_bytes, stream));
}

cudaError_t cudaMemset(void *to, int value, size_t size_bytes)
{
    return cudaMemsetAsync(to, value, size_bytes, NULL);
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch_bytes, int value, size_t width_bytes,
                              size_t height, cudaStream_t stream)
{
    cudaError_t error = runtime_enter();

    return error ? error
                 : runtime_end(cuMemsetD2D8Async((CUdeviceptr)to, pitch_bytes, (unsigned char)value,
                                                 width_bytes, height, stream));
}

cudaError_t cudaMemset2D(void *to, size_t pitch_bytes, int value, size_t width_bytes, size_t height)
{
    return cudaMemset2DAsync(to, pitch_bytes, value, width_bytes, height, NULL);
}
