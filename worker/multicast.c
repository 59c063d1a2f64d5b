#include "worker/multicast.h"

#include <cuda.h>
#include <unistd.h>

/* What a person can do about it: a GPU may say that it can, and its switch cannot. */
static enum status failed(struct error *err, CUresult result, const char *call)
{
    struct error reason = {0};
    enum status status = arena_failed(&reason, result, call);

    return error_set(err, status, "%s; --no-multicast does without it", reason.message);
}

bool multicast_is_possible(int world)
{
    if (world < 2 || arena_device_count(world) < world) {
        return false;
    }
    for (int rank = 0; rank < world; rank++) {
        int is_supported = 0;
        CUdevice device = 0;
        if (cuDeviceGet(&device, arena_device(rank)) != CUDA_SUCCESS ||
            cuDeviceGetAttribute(&is_supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) !=
                CUDA_SUCCESS ||
            is_supported == 0) {
            return false;
        }
    }
    return true;
}

static CUmulticastObjectProp properties(int world, uint64_t size_bytes)
{
    return (CUmulticastObjectProp){.numDevices = (unsigned)world,
                                   .size = size_bytes,
                                   .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

enum status multicast_round(uint64_t *bytes, int world, struct error *err)
{
    CUmulticastObjectProp wanted = properties(world, *bytes);
    size_t granule = 0;
    CUresult result =
        cuMulticastGetGranularity(&granule, &wanted, CU_MULTICAST_GRANULARITY_MINIMUM);

    if (result != CUDA_SUCCESS) {
        return failed(err, result, "cuMulticastGetGranularity");
    }
    *bytes = (*bytes + granule - 1) / granule * granule;
    return OK;
}

/* All devices take part before anything is bound. */
static enum status bind(const struct multicast *multicast, const struct arena *arenas,
                        struct error *err)
{
    for (int rank = 0; rank < multicast->world; rank++) {
        CUdevice device = 0;
        CUresult result = cuDeviceGet(&device, arena_device(rank));
        if (result == CUDA_SUCCESS) {
            result = cuMulticastAddDevice(multicast->handle, device);
        }
        if (result != CUDA_SUCCESS) {
            return failed(err, result, "cuMulticastAddDevice");
        }
    }
    for (int rank = 0; rank < multicast->world; rank++) {
        CUresult result = cuMulticastBindMem(multicast->handle, 0, arenas[rank].handle, 0,
                                             multicast->size_bytes, 0);
        if (result != CUDA_SUCCESS) {
            return failed(err, result, "cuMulticastBindMem");
        }
    }
    return OK;
}

enum status multicast_make(struct multicast *multicast, const struct arena *arenas, int world,
                           struct error *err)
{
    struct multicast made = {.size_bytes = arenas[0].size_bytes, .world = world, .fd = -1};
    CUmulticastObjectProp wanted = properties(world, made.size_bytes);
    CUmemGenericAllocationHandle handle = 0;

    CUresult result = cuMulticastCreate(&handle, &wanted);
    if (result != CUDA_SUCCESS) {
        return failed(err, result, "cuMulticastCreate");
    }
    made.handle = handle;
    made.is_open = true;
    enum status status = bind(&made, arenas, err);
    if (status == OK) {
        result = cuMemExportToShareableHandle(&made.fd, handle,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        if (result != CUDA_SUCCESS) {
            made.fd = -1;
            status = failed(err, result, "cuMemExportToShareableHandle");
        }
    }
    if (status != OK) {
        multicast_release(&made);
        return status;
    }
    *multicast = made;
    return OK;
}

void multicast_release(struct multicast *multicast)
{
    if (!multicast->is_open) {
        return;
    }
    for (int rank = 0; rank < multicast->world; rank++) {
        CUdevice device = 0;
        if (cuDeviceGet(&device, arena_device(rank)) == CUDA_SUCCESS) {
            /* Nothing is bound where making it has failed. */
            (void)cuMulticastUnbind(multicast->handle, device, 0, multicast->size_bytes);
        }
    }
    cuMemRelease(multicast->handle);
    if (multicast->fd >= 0) {
        close(multicast->fd);
    }
    *multicast = (struct multicast){0};
}
