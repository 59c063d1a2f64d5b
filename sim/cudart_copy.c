/* Copies and sets of the runtime API. */
#include "sim/cudart_api.h"

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

struct plane {
    void *to;
    const void *from;
    size_t to_pitch_bytes, from_pitch_bytes;
    size_t width_bytes, height;
    enum cudaMemcpyKind kind;
};

static cudaError_t copy_plane(const struct plane *plane, cudaStream_t stream, bool is_async)
{
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

/* ---- copies of planes ---- */

CUresult runtime_copy_3d(const struct cudaMemcpy3DParms *params, CUDA_MEMCPY3D *copy)
{
    if (!params || params->srcArray || params->dstArray) {
        return params ? pkb_cuda_refuse("cudaMemcpy3D of an array") : CUDA_ERROR_INVALID_VALUE;
    }
    if (params->kind > cudaMemcpyDefault) {
        return (CUresult)cudaErrorInvalidMemcpyDirection;
    }
    *copy = (CUDA_MEMCPY3D){.srcMemoryType = from_types[params->kind],
                            .srcHost = params->srcPtr.ptr,
                            .srcDevice = (CUdeviceptr)params->srcPtr.ptr,
                            .srcXInBytes = params->srcPos.x,
                            .srcY = params->srcPos.y,
                            .srcZ = params->srcPos.z,
                            .srcPitch = params->srcPtr.pitch,
                            .srcHeight = params->srcPtr.ysize,
                            .dstMemoryType = to_types[params->kind],
                            .dstHost = params->dstPtr.ptr,
                            .dstDevice = (CUdeviceptr)params->dstPtr.ptr,
                            .dstXInBytes = params->dstPos.x,
                            .dstY = params->dstPos.y,
                            .dstZ = params->dstPos.z,
                            .dstPitch = params->dstPtr.pitch,
                            .dstHeight = params->dstPtr.ysize,
                            .WidthInBytes = params->extent.width,
                            .Height = params->extent.height,
                            .Depth = params->extent.depth};
    return CUDA_SUCCESS;
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *params, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy_3d;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(runtime_copy_3d(params, &copy_3d));
    return error ? error : runtime_end(cuMemcpy3DAsync(&copy_3d, stream));
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *params)
{
    CUDA_MEMCPY3D copy_3d;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(runtime_copy_3d(params, &copy_3d));
    return error ? error : runtime_end(cuMemcpy3D(&copy_3d));
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *params, cudaStream_t stream)
{
    const struct cudaMemcpy3DParms same = {.srcArray = params->srcArray,
                                           .srcPos = params->srcPos,
                                           .srcPtr = params->srcPtr,
                                           .dstArray = params->dstArray,
                                           .dstPos = params->dstPos,
                                           .dstPtr = params->dstPtr,
                                           .extent = params->extent,
                                           .kind = cudaMemcpyDefault};

    return cudaMemcpy3DAsync(&same, stream);
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *params)
{
    return cudaMemcpy3DPeerAsync(params, NULL);
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

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr to, int value, struct cudaExtent extent,
                              cudaStream_t stream)
{
    cudaError_t error = runtime_enter();

    for (size_t plane = 0; !error && plane < extent.depth; plane++) {
        char *start = (char *)to.ptr + plane * to.pitch * to.ysize;
        error = cudaMemset2DAsync(start, to.pitch, value, extent.width, extent.height, stream);
    }
    return error;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr to, int value, struct cudaExtent extent)
{
    return cudaMemset3DAsync(to, value, extent, NULL);
}
