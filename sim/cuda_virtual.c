/* Virtual memory management of the driver API, and what it tells of a pointer. */
#include "sim/cuda_memory.h"
#include "sim/engine.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUresult check_location(const CUmemLocation *location)
{
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || location->id < 0 ||
        location->id >= link_hello()->devices) {
        return location->type > CU_MEM_LOCATION_TYPE_DEVICE
                   ? pkb_cuda_refuse("cuMemCreate of memory that is not a device's")
                   : CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult check_properties(const CUmemAllocationProp *properties)
{
    if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return check_location(&properties->location);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult result = link_open();

    (void)option;
    result = result ? result : check_properties(properties);
    if (!result) {
        *granularity = WIRE_GRANULARITY_BYTES;
    }
    return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size_bytes,
                     const CUmemAllocationProp *properties, unsigned long long flags)
{
    CUresult result = link_open();

    result = result ? result : check_properties(properties);
    if (result || flags) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    struct link_call call = {.request = {.op = WIRE_MEM_CREATE,
                                         .device = properties->location.id,
                                         .memory.size_bytes = size_bytes}};
    result = link_call(&call);
    if (!result) {
        *handle = call.reply.pointer.address;
    }
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    return link_send(&(struct wire_request){.op = WIRE_MEM_RELEASE, .memory.handle = handle});
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    struct link_call call = {.request = {.op = WIRE_MEM_EXPORT, .memory.handle = handle},
                             .takes_fd = true,
                             .taken_fd = -1};

    if (!shareable || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return type == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_SUPPORTED
                                                 : CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = link_call(&call);
    if (!result && call.taken_fd < 0) {
        result = CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (!result) {
        memcpy(shareable, &call.taken_fd, sizeof call.taken_fd);
    }
    return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type)
{
    struct link_call call = {.request = {.op = WIRE_MEM_IMPORT},
                             .give_fd = (int)(intptr_t)shareable};

    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || call.give_fd < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = link_call(&call);
    if (!result) {
        *handle = call.reply.pointer.address;
    }
    return result;
}

/* Room that is nobody else's, at `wanted` if that is free. */
static void *reserve(size_t size_bytes, size_t align_bytes, uint64_t wanted)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    if (wanted && wanted % align_bytes == 0) {
        void *place =
            mmap((void *)wanted, size_bytes, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (place != MAP_FAILED) {
            return place;
        }
    }
    char *place = mmap(NULL, size_bytes + align_bytes, PROT_NONE, flags, -1, 0);
    if (place == MAP_FAILED) {
        return NULL;
    }
    size_t before = -(uint64_t)place % align_bytes;
    if (before) {
        munmap(place, before);
    }
    munmap(place + before + size_bytes, align_bytes - before);
    return place + before;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size_bytes, size_t align_bytes,
                             CUdeviceptr wanted, unsigned long long flags)
{
    CUresult result = link_open();

    align_bytes = align_bytes < WIRE_GRANULARITY_BYTES ? WIRE_GRANULARITY_BYTES : align_bytes;
    if (result || !address || !size_bytes || size_bytes % WIRE_GRANULARITY_BYTES ||
        align_bytes & (align_bytes - 1) || size_bytes > 1ull << 46 || flags) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    void *place = reserve(size_bytes, align_bytes, wanted);
    if (!place) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!range_add(&(struct range){.address = (uint64_t)place,
                                   .size_bytes = size_bytes,
                                   .mapped = (uint64_t)place,
                                   .mapped_bytes = size_bytes,
                                   .kind = RANGE_RESERVED})) {
        munmap(place, size_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = (CUdeviceptr)place;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size_bytes)
{
    struct range range;

    if (!range_find(address, &range) || range.kind != RANGE_RESERVED || range.address != address ||
        range.size_bytes != size_bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    range_remove(address);
    munmap((void *)address, size_bytes);
    return CUDA_SUCCESS;
}

static bool is_reserved(CUdeviceptr address, size_t size_bytes)
{
    struct range range;

    return range_find(address, &range) && range.kind == RANGE_RESERVED &&
           size_bytes <= range.size_bytes - (address - range.address);
}

CUresult cuMemMap(CUdeviceptr address, size_t size_bytes, size_t offset_bytes,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    if (flags || !is_reserved(address, size_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return link_send(&(struct wire_request){.op = WIRE_MEM_MAP,
                                            .memory = {.address = address,
                                                       .size_bytes = size_bytes,
                                                       .offset_bytes = offset_bytes,
                                                       .handle = handle}});
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size_bytes)
{
    return link_send(&(struct wire_request){
        .op = WIRE_MEM_UNMAP, .memory = {.address = address, .size_bytes = size_bytes}});
}

/* A client is on one device as far as its page table goes: what any device may do, it may do. */
CUresult cuMemSetAccess(CUdeviceptr address, size_t size_bytes, const CUmemAccessDesc *access,
                        size_t count)
{
    uint32_t granted = 0;
    CUresult result = link_open();

    if (result || !access || !count) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        result = check_location(&access[i].location);
        if (result) {
            return result;
        }
        if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) {
            granted |= MAP_READ;
        } else if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            granted |= MAP_READ | MAP_WRITE;
        } else if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return link_send(&(struct wire_request){
        .op = WIRE_MEM_ACCESS,
        .memory = {.address = address, .size_bytes = size_bytes, .access = granted}});
}

/* ---- what is known of a pointer ---- */

static CUresult find_pointer(CUdeviceptr address, struct wire_pointer *pointer)
{
    struct link_call call = {.request = {.op = WIRE_POINTER, .memory.address = address}};
    CUresult result = link_call(&call);

    if (!result && call.reply.pointer.kind == WIRE_MEMORY_NONE) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (!result) {
        *pointer = call.reply.pointer;
    }
    return result;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size_bytes, CUdeviceptr address)
{
    struct wire_pointer pointer;
    CUresult result = find_pointer(address, &pointer);

    if (result) {
        return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_NOT_FOUND : result;
    }
    if (base) {
        *base = pointer.address;
    }
    if (size_bytes) {
        *size_bytes = pointer.size_bytes;
    }
    return CUDA_SUCCESS;
}

static bool is_managed(CUdeviceptr address)
{
    struct range range;

    return range_find(address, &range) && range.kind == RANGE_MANAGED;
}

/* Writes an attribute of the size that the caller expects for it. */
static CUresult give_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address,
                               const struct wire_pointer *pointer)
{
    bool is_host = pointer->kind == WIRE_MEMORY_HOST;
    CUcontext context = NULL;
    CUresult result = CUDA_SUCCESS;

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        result = cuDevicePrimaryCtxRetain(&context, is_host ? 0 : pointer->device);
        *(CUcontext *)data = context;
        return result;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)data = is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(CUdeviceptr *)data = is_host ? address : 0;
        return is_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)data = is_managed(address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned char *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = is_host ? 0 : pointer->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = pointer->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = pointer->size_bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = pointer->address;
        return CUDA_SUCCESS;
    default:
        return pkb_cuda_refuse("cuPointerGetAttribute of this attribute");
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct wire_pointer pointer;
    CUresult result = data ? find_pointer(address, &pointer) : CUDA_ERROR_INVALID_VALUE;

    return result ? result : give_attribute(data, attribute, address, &pointer);
}

/* As the real one: what is no pointer of CUDA has zeros, and no error. */
CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr address)
{
    struct wire_pointer pointer;
    CUresult result = find_pointer(address, &pointer);

    if (result && result != CUDA_ERROR_INVALID_VALUE) {
        return result;
    }
    for (unsigned int i = 0; i < count; i++) {
        if (result) {
            *(unsigned int *)data[i] = 0;
        } else {
            (void)give_attribute(data[i], attributes[i], address, &pointer);
        }
    }
    return CUDA_SUCCESS;
}

/* Managed memory is where it is: advice and prefetching change nothing. */
CUresult cuMemAdvise(CUdeviceptr address, size_t size_bytes, CUmem_advise advice,
                     CUmemLocation location)
{
    (void)size_bytes;
    (void)advice;
    (void)location;
    return is_managed(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t size_bytes, CUmemLocation location,
                            unsigned int flags, CUstream stream)
{
    uint64_t id = 0;
    CUresult result = stream_id(stream, &id);

    (void)size_bytes;
    (void)location;
    if (!result && (flags || !is_managed(address))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}
