#include "worker/arena.h"

#include "common/job.h"
#include "worker/layout.h"

#include <assert.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <unistd.h>

enum { DEVICES_ACCESS_MAX = 8 };

enum status arena_failed(struct error *err, int result, const char *call)
{
    const char *name = NULL;

    if (cuGetErrorName((CUresult)result, &name) != CUDA_SUCCESS || name == NULL) {
        name = "an unknown error";
    }
    return error_set(err, result == CUDA_ERROR_OUT_OF_MEMORY ? ERR_LIMIT : ERR_IO, "%s: %s", call,
                     name);
}

static int visible_devices(void)
{
    int count = 0;

    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? count : 1;
}

int arena_device(int rank)
{
    return rank % visible_devices();
}

int arena_device_count(int world)
{
    int count = visible_devices();

    return world < count ? world : count;
}

static CUmemAllocationProp properties(int device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

enum status arena_round(uint64_t *size_bytes, int device, struct error *err)
{
    CUmemAllocationProp made = properties(device);
    size_t granule = 0;
    CUresult result =
        cuMemGetAllocationGranularity(&granule, &made, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

    if (result != CUDA_SUCCESS) {
        return arena_failed(err, result, "cuMemGetAllocationGranularity");
    }
    *size_bytes = (*size_bytes + granule - 1) / granule * granule;
    return OK;
}

/*
 * Takes the windows of all ranks and that of multicast memory, once for the life of the process. A
 * driver only heeds the wanted address of a large range: one as small as an arena it puts where it
 * likes.
 */
static enum status reserve_windows(struct error *err)
{
    static bool is_reserved;
    CUdeviceptr address = 0;

    if (is_reserved) {
        return OK;
    }
    CUresult result =
        cuMemAddressReserve(&address, WINDOW_COUNT * WINDOW_STRIDE, 0, WINDOW_BASE, 0);
    if (result != CUDA_SUCCESS) {
        return arena_failed(err, result, "cuMemAddressReserve");
    }
    if (address != WINDOW_BASE) {
        cuMemAddressFree(address, WINDOW_COUNT * WINDOW_STRIDE);
        return error_set(err, ERR_UNAVAILABLE, "the address range at %#llx is taken",
                         (unsigned long long)WINDOW_BASE);
    }
    is_reserved = true;
    return OK;
}

/* Maps `arena->handle`, which is released where this fails. */
static enum status map(struct arena *arena, const struct arena_place *place, struct error *err)
{
    CUmemAccessDesc access[DEVICES_ACCESS_MAX] = {0};
    const char *call = "cuMemMap";

    assert(place->device_count <= DEVICES_ACCESS_MAX);
    for (int i = 0; i < place->device_count; i++) {
        access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[i].location.id = place->first_device + i;
        access[i].flags = place->is_read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                              : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    enum status status = reserve_windows(err);
    if (status != OK) {
        cuMemRelease(arena->handle);
        return status;
    }
    CUresult result = cuMemMap(place->address, place->size_bytes, 0, arena->handle, 0);
    if (result == CUDA_SUCCESS) {
        call = "cuMemSetAccess";
        result =
            cuMemSetAccess(place->address, place->size_bytes, access, (size_t)place->device_count);
        if (result != CUDA_SUCCESS) {
            cuMemUnmap(place->address, place->size_bytes);
        }
    }
    if (result != CUDA_SUCCESS) {
        cuMemRelease(arena->handle);
        return arena_failed(err, result, call);
    }
    arena->address = place->address;
    arena->size_bytes = place->size_bytes;
    arena->is_open = true;
    return OK;
}

enum status arena_make(struct arena *arena, int device, const struct arena_place *place,
                       struct error *err)
{
    CUmemAllocationProp made = properties(device);
    struct arena opened = {.fd = -1};
    CUmemGenericAllocationHandle handle = 0;

    CUresult result = cuMemCreate(&handle, place->size_bytes, &made, 0);
    if (result != CUDA_SUCCESS) {
        return arena_failed(err, result, "cuMemCreate");
    }
    opened.handle = handle;
    enum status status = map(&opened, place, err);
    if (status != OK) {
        return status;
    }
    result = cuMemExportToShareableHandle(&opened.fd, handle,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result != CUDA_SUCCESS) {
        opened.fd = -1;
        arena_release(&opened);
        return arena_failed(err, result, "cuMemExportToShareableHandle");
    }
    *arena = opened;
    return OK;
}

enum status arena_import(struct arena *arena, int fd, const struct arena_place *place,
                         struct error *err)
{
    struct arena opened = {.fd = -1};
    CUmemGenericAllocationHandle handle = 0;

    CUresult result = cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)fd,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result != CUDA_SUCCESS) {
        return arena_failed(err, result, "cuMemImportFromShareableHandle");
    }
    opened.handle = handle;
    enum status status = map(&opened, place, err);
    if (status == OK) {
        *arena = opened;
    }
    return status;
}

void arena_release(struct arena *arena)
{
    if (!arena->is_open) {
        return;
    }
    cuMemUnmap(arena->address, arena->size_bytes);
    cuMemRelease(arena->handle);
    if (arena->fd >= 0) {
        close(arena->fd);
    }
    *arena = (struct arena){0};
}
