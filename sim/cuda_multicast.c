/* Multicast objects of the driver API, and questions about handles of memory. */
#include "sim/cuda_link.h"
#include "sim/engine.h"

static CUresult check(const CUmulticastObjectProp *properties)
{
    if (!properties || properties->flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (properties->handleTypes & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return link_open();
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *properties,
                                   CUmulticastGranularity_flags option)
{
    CUresult result = check(properties);

    (void)option;
    if (!result) {
        *granularity = WIRE_GRANULARITY_BYTES;
    }
    return result;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
                           const CUmulticastObjectProp *properties)
{
    CUresult result = check(properties);

    if (result) {
        return result;
    }
    struct link_call call = {.request = {.op = WIRE_MULTICAST_CREATE,
                                         .multicast = {.size_bytes = properties->size,
                                                       .device_count = properties->numDevices}}};
    result = link_call(&call);
    if (!result) {
        *handle = call.reply.pointer.address;
    }
    return result;
}

static CUresult check_device(CUdevice device)
{
    CUresult result = link_open();

    return !result && (device < 0 || device >= link_hello()->devices) ? CUDA_ERROR_INVALID_DEVICE
                                                                      : result;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    CUresult result = check_device(device);

    return result ? result
                  : link_send(&(struct wire_request){
                        .op = WIRE_MULTICAST_ADD, .device = device, .multicast.handle = handle});
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset_bytes,
                            CUmemGenericAllocationHandle memory, size_t memory_offset_bytes,
                            size_t size_bytes, unsigned long long flags)
{
    if (flags || !memory) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return link_send(
        &(struct wire_request){.op = WIRE_MULTICAST_BIND,
                               .multicast = {.handle = handle,
                                             .offset_bytes = offset_bytes,
                                             .memory = memory,
                                             .memory_offset_bytes = memory_offset_bytes,
                                             .size_bytes = size_bytes}});
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset_bytes,
                             CUdeviceptr address, size_t size_bytes, unsigned long long flags)
{
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return link_send(&(struct wire_request){.op = WIRE_MULTICAST_BIND,
                                            .multicast = {.handle = handle,
                                                          .offset_bytes = offset_bytes,
                                                          .address = address,
                                                          .size_bytes = size_bytes}});
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device,
                           size_t offset_bytes, size_t size_bytes)
{
    CUresult result = check_device(device);

    return result ? result
                  : link_send(&(struct wire_request){.op = WIRE_MULTICAST_UNBIND,
                                                     .device = device,
                                                     .multicast = {.handle = handle,
                                                                   .offset_bytes = offset_bytes,
                                                                   .size_bytes = size_bytes}});
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    struct link_call call = {
        .request = {.op = WIRE_MEM_RETAIN, .memory.address = (uint64_t)address}};
    CUresult result = link_call(&call);

    if (!result) {
        *handle = call.reply.pointer.address;
    }
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                CUmemGenericAllocationHandle handle)
{
    struct link_call call = {.request = {.op = WIRE_MEM_PROPERTIES, .memory.handle = handle}};
    CUresult result = link_call(&call);

    if (!result) {
        *properties = (CUmemAllocationProp){
            .type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = call.reply.pointer.device}};
    }
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    struct link_call call = {.request = {.op = WIRE_POINTER, .memory.address = address}};
    CUresult result = location && flags ? link_call(&call) : CUDA_ERROR_INVALID_VALUE;

    if (result || call.reply.pointer.kind != WIRE_MEMORY_DEVICE) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    *flags = call.reply.pointer.access & MAP_WRITE  ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : call.reply.pointer.access & MAP_READ ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}
