/* Copies and sets of the driver API. */
#include "sim/cuda_graph.h"

#include <stdlib.h>
#include <string.h>

/* Between two addresses that the device sees. */
static CUresult copy_mapped(const struct copy *copy, int device)
{
    bool is_dense =
        copy->width_bytes == copy->to_pitch_bytes && copy->width_bytes == copy->from_pitch_bytes;
    bool is_between_devices =
        memory_kind(copy->to) == MEMORY_DEVICE && memory_kind(copy->from) == MEMORY_DEVICE;

    return link_send(&(struct wire_request){
        .op = WIRE_COPY,
        .device = device,
        .stream = copy->stream,
        .copy = {.to = (uint64_t)copy->to,
                 .from = (uint64_t)copy->from,
                 .to_pitch_bytes = copy->to_pitch_bytes,
                 .from_pitch_bytes = copy->from_pitch_bytes,
                 .width_bytes = is_dense ? copy->width_bytes * copy->height : copy->width_bytes,
                 .height = is_dense ? 1 : copy->height,
                 .kind = WIRE_COPY_MAPPED,
                 .wait = !copy->is_async && !is_between_devices}});
}

/* Some rows of a copy between pageable host memory and the device, through the staging memory. */
static CUresult copy_piece(const struct copy *piece, int device, bool to_device)
{
    uint8_t *staging = link_staging();
    struct wire_copy request = {.width_bytes = piece->width_bytes, .height = piece->height};

    if (!staging) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (to_device) {
        request.kind = WIRE_COPY_STAGED_IN;
        request.to = (uint64_t)piece->to;
        request.to_pitch_bytes = piece->to_pitch_bytes;
        request.wait = !piece->is_async;
        for (size_t row = 0; row < piece->height; row++) {
            memcpy(staging + row * piece->width_bytes,
                   (const char *)piece->from + row * piece->from_pitch_bytes, piece->width_bytes);
        }
    } else {
        request.kind = WIRE_COPY_STAGED_OUT;
        request.from = (uint64_t)piece->from;
        request.from_pitch_bytes = piece->from_pitch_bytes;
        request.wait = 1;
    }
    CUresult result = link_send(&(struct wire_request){
        .op = WIRE_COPY, .device = device, .stream = piece->stream, .copy = request});
    for (size_t row = 0; !result && !to_device && row < piece->height; row++) {
        memcpy((char *)piece->to + row * piece->to_pitch_bytes, staging + row * piece->width_bytes,
               piece->width_bytes);
    }
    return result;
}

/* Cuts a copy into pieces that fit the staging memory: whole rows, or parts of one. */
static CUresult copy_staged(const struct copy *copy, int device, bool to_device)
{
    size_t width_max =
        copy->width_bytes < WIRE_STAGING_BYTES ? copy->width_bytes : WIRE_STAGING_BYTES;
    size_t rows_max = WIRE_STAGING_BYTES / width_max;
    CUresult result = CUDA_SUCCESS;

    for (size_t row = 0; row < copy->height; row += rows_max) {
        for (size_t column = 0; column < copy->width_bytes; column += width_max) {
            struct copy piece = *copy;
            size_t columns = copy->width_bytes - column, rows = copy->height - row;
            piece.to = (char *)copy->to + row * copy->to_pitch_bytes + column;
            piece.from = (const char *)copy->from + row * copy->from_pitch_bytes + column;
            piece.width_bytes = columns < width_max ? columns : width_max;
            piece.height = rows < rows_max ? rows : rows_max;
            result = copy_piece(&piece, device, to_device);
            if (result) {
                return result;
            }
        }
    }
    return result;
}

/* The host copies by itself what only it sees, when the stream has got there. */
static CUresult copy_on_host(const struct copy *copy, int device)
{
    CUresult result = link_send(
        &(struct wire_request){.op = WIRE_STREAM_SYNC, .device = device, .stream = copy->stream});

    for (size_t row = 0; !result && row < copy->height; row++) {
        memmove((char *)copy->to + row * copy->to_pitch_bytes,
                (const char *)copy->from + row * copy->from_pitch_bytes, copy->width_bytes);
    }
    return result;
}

static CUresult copy_plane(const struct copy *given, int device)
{
    struct copy copy = *given;

    bool to_host = memory_kind(copy.to) == MEMORY_HOST;
    bool from_host = memory_kind(copy.from) == MEMORY_HOST;
    if (copy.width_bytes == copy.to_pitch_bytes && copy.width_bytes == copy.from_pitch_bytes) {
        copy.width_bytes *= copy.height;
        copy.to_pitch_bytes = copy.from_pitch_bytes = copy.width_bytes;
        copy.height = 1;
    }
    if (to_host && from_host) {
        return copy_on_host(&copy, device);
    }
    return to_host || from_host ? copy_staged(&copy, device, from_host)
                                : copy_mapped(&copy, device);
}

CUresult copy_run(const struct copy *copy)
{
    size_t planes = copy->depth ? copy->depth : 1;
    int device = 0;
    CUresult result = context_enter(&device);

    if (!copy->width_bytes || !copy->height) {
        return result;
    }
    for (size_t i = 0; !result && i < planes; i++) {
        struct copy plane = *copy;
        plane.to = (char *)copy->to + i * copy->to_plane_bytes;
        plane.from = (const char *)copy->from + i * copy->from_plane_bytes;
        result = copy_plane(&plane, device);
    }
    return result;
}

CUresult copy_queue(const struct copy *copy)
{
    int device = 0;
    CUresult result = context_enter(&device);

    if (!result && capture_is_on(copy->stream)) {
        return copy->is_async ? capture_copy(copy, device) : capture_forbids(copy->stream);
    }
    if (!result && !copy->is_async) {
        result = capture_forbids_unsafe();
    }
    if (!result && !copy->stream) {
        result = capture_forbids(WIRE_STREAM_LEGACY);
    }
    return result ? result : copy_run(copy);
}

/* One row on a stream; `stream` NULL and not async: the legacy stream. */
static CUresult copy_bytes(const void *to, const void *from, size_t size_bytes, CUstream stream,
                           bool is_async)
{
    struct copy copy = {.to = (void *)to,
                        .from = from,
                        .to_pitch_bytes = size_bytes,
                        .from_pitch_bytes = size_bytes,
                        .width_bytes = size_bytes,
                        .height = 1,
                        .is_async = is_async};
    CUresult result = stream_id(stream, &copy.stream);

    return result ? result : copy_queue(&copy);
}

/* What the name of a copy calls device memory must not be the host's alone. */
static bool is_host(CUdeviceptr address, size_t size_bytes)
{
    return size_bytes && memory_kind((const void *)address) == MEMORY_HOST;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size_bytes)
{
    return copy_bytes((void *)to, (void *)from, size_bytes, NULL, false);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size_bytes, CUstream stream)
{
    return copy_bytes((void *)to, (void *)from, size_bytes, stream, true);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t size_bytes)
{
    if (is_host(to, size_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return copy_bytes((void *)to, from, size_bytes, NULL, false);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size_bytes, CUstream stream)
{
    if (is_host(to, size_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return copy_bytes((void *)to, from, size_bytes, stream, true);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t size_bytes)
{
    if (is_host(from, size_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return copy_bytes(to, (void *)from, size_bytes, NULL, false);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size_bytes, CUstream stream)
{
    if (is_host(from, size_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return copy_bytes(to, (void *)from, size_bytes, stream, true);
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t size_bytes)
{
    if (is_host(to, size_bytes) || is_host(from, size_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return copy_bytes((void *)to, (void *)from, size_bytes, NULL, false);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size_bytes, CUstream stream)
{
    if (is_host(to, size_bytes) || is_host(from, size_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return copy_bytes((void *)to, (void *)from, size_bytes, stream, true);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t size_bytes)
{
    (void)to_context;
    (void)from_context;
    return copy_bytes((void *)to, (void *)from, size_bytes, NULL, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t size_bytes, CUstream stream)
{
    (void)to_context;
    (void)from_context;
    return copy_bytes((void *)to, (void *)from, size_bytes, stream, true);
}

/* One side of a copy as its parameters give it. */
struct side {
    CUmemorytype type;
    const void *host;
    CUdeviceptr device;
    size_t x_bytes, y, z, pitch_bytes, height;
};

/* Where its first byte lies; an error where that is in an array, or not on the device. */
static CUresult side_start(const struct side *side, char **start)
{
    if (side->type == CU_MEMORYTYPE_ARRAY) {
        return pkb_cuda_refuse("cuMemcpy of an array");
    }
    char *base = side->type == CU_MEMORYTYPE_HOST ? (char *)side->host : (char *)side->device;
    if (side->type == CU_MEMORYTYPE_DEVICE && is_host(side->device, 1)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *start = base + (side->z * side->height + side->y) * side->pitch_bytes + side->x_bytes;
    return CUDA_SUCCESS;
}

static CUresult copy_from_sides(const struct side *to, const struct side *from, struct copy *copy)
{
    char *to_start = NULL, *from_start = NULL;
    bool has_rows = copy->height > 1 || copy->depth > 1;
    CUresult result = side_start(to, &to_start);

    result = result ? result : side_start(from, &from_start);
    if (!result && has_rows &&
        (from->pitch_bytes < copy->width_bytes || to->pitch_bytes < copy->width_bytes)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    copy->to = to_start;
    copy->from = from_start;
    copy->to_pitch_bytes = has_rows ? to->pitch_bytes : copy->width_bytes;
    copy->from_pitch_bytes = has_rows ? from->pitch_bytes : copy->width_bytes;
    copy->to_plane_bytes = to->pitch_bytes * to->height;
    copy->from_plane_bytes = from->pitch_bytes * from->height;
    return result;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *given, CUstream stream, bool is_async)
{
    if (!given) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct side to = {given->dstMemoryType, given->dstHost, given->dstDevice,
                            given->dstXInBytes,   given->dstY,    0,
                            given->dstPitch,      given->Height};
    const struct side from = {given->srcMemoryType, given->srcHost, given->srcDevice,
                              given->srcXInBytes,   given->srcY,    0,
                              given->srcPitch,      given->Height};
    struct copy copy = {
        .width_bytes = given->WidthInBytes, .height = given->Height, .is_async = is_async};
    CUresult result = copy_from_sides(&to, &from, &copy);

    result = result ? result : stream_id(stream, &copy.stream);
    return result ? result : copy_queue(&copy);
}

CUresult copy_from_3d(const CUDA_MEMCPY3D *given, struct copy *copy)
{
    const struct side to = {given->dstMemoryType, given->dstHost,  given->dstDevice,
                            given->dstXInBytes,   given->dstY,     given->dstZ,
                            given->dstPitch,      given->dstHeight};
    const struct side from = {given->srcMemoryType, given->srcHost,  given->srcDevice,
                              given->srcXInBytes,   given->srcY,     given->srcZ,
                              given->srcPitch,      given->srcHeight};

    *copy = (struct copy){
        .width_bytes = given->WidthInBytes, .height = given->Height, .depth = given->Depth};
    return copy_from_sides(&to, &from, copy);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *given, CUstream stream, bool is_async)
{
    struct copy copy;
    CUresult result = given ? copy_from_3d(given, &copy) : CUDA_ERROR_INVALID_VALUE;

    result = result ? result : stream_id(stream, &copy.stream);
    if (result || !given->Depth) {
        return result;
    }
    copy.is_async = is_async;
    return copy_queue(&copy);
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D *copy)
{
    return copy_3d(copy, NULL, false);
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    return copy_3d(copy, stream, true);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *copy)
{
    return copy_2d(copy, NULL, false);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy)
{
    return copy_2d(copy, NULL, false);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    return copy_2d(copy, stream, true);
}

static CUresult set(const struct wire_set *given, CUstream stream)
{
    struct wire_request request = {.op = WIRE_SET, .set = *given};
    CUresult result = context_enter(&request.device);

    result = result ? result : stream_id(stream, &request.stream);
    if (result || !request.set.width_bytes || !request.set.height) {
        return result;
    }
    if (request.set.height == 1) {
        request.set.pitch_bytes = request.set.width_bytes;
    }
    if (capture_is_on(request.stream)) {
        return capture_request(CU_GRAPH_NODE_TYPE_MEMSET, &request);
    }
    result = request.stream ? CUDA_SUCCESS : capture_forbids(WIRE_STREAM_LEGACY);
    return result ? result : link_send(&request);
}

/* The sets of each width: of one row and of many, on the legacy stream and on another. */
#define DEFINE_SET(bits, type)                                                                     \
    CUresult cuMemsetD##bits(CUdeviceptr to, type value, size_t count)                             \
    {                                                                                              \
        return cuMemsetD##bits##Async(to, value, count, NULL);                                     \
    }                                                                                              \
    CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream)     \
    {                                                                                              \
        return set(&(struct wire_set){.to = to,                                                    \
                                      .width_bytes = count * sizeof(type),                         \
                                      .height = 1,                                                 \
                                      .value = value,                                              \
                                      .element_bytes = sizeof(type)},                              \
                   stream);                                                                        \
    }                                                                                              \
    CUresult cuMemsetD2D##bits(CUdeviceptr to, size_t pitch_bytes, type value, size_t width,       \
                               size_t height)                                                      \
    {                                                                                              \
        return cuMemsetD2D##bits##Async(to, pitch_bytes, value, width, height, NULL);              \
    }                                                                                              \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch_bytes, type value,              \
                                      size_t width, size_t height, CUstream stream)                \
    {                                                                                              \
        return set(&(struct wire_set){.to = to,                                                    \
                                      .pitch_bytes = pitch_bytes,                                  \
                                      .width_bytes = width * sizeof(type),                         \
                                      .height = height,                                            \
                                      .value = value,                                              \
                                      .element_bytes = sizeof(type)},                              \
                   stream);                                                                        \
    }

DEFINE_SET(8, unsigned char)
DEFINE_SET(16, unsigned short)
DEFINE_SET(32, unsigned int)
