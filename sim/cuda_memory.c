/* Memory of the driver API: private, pinned, and what is known of an address. */
#include "sim/cuda_memory.h"

#include "sim/cuda_graph.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, PITCH_ALIGN = 512 };

static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges;
static size_t range_count, range_capacity;

bool range_add(const struct range *range)
{
    bool added = false;

    pthread_mutex_lock(&ranges_lock);
    if (range_count == range_capacity) {
        size_t capacity = range_capacity ? range_capacity * 2 : 32;
        struct range *grown = realloc(ranges, capacity * sizeof *grown);
        if (!grown) {
            goto out;
        }
        ranges = grown;
        range_capacity = capacity;
    }
    ranges[range_count++] = *range;
    added = true;
out:
    pthread_mutex_unlock(&ranges_lock);
    return added;
}

bool range_find(uint64_t address, struct range *range)
{
    bool found = false;

    pthread_mutex_lock(&ranges_lock);
    for (size_t i = 0; !found && i < range_count; i++) {
        if (address >= ranges[i].address && address - ranges[i].address < ranges[i].size_bytes) {
            *range = ranges[i];
            found = true;
        }
    }
    pthread_mutex_unlock(&ranges_lock);
    return found;
}

void range_remove(uint64_t address)
{
    pthread_mutex_lock(&ranges_lock);
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].address == address) {
            ranges[i] = ranges[--range_count];
            break;
        }
    }
    pthread_mutex_unlock(&ranges_lock);
}

enum memory_kind memory_kind(const void *address)
{
    uint64_t value = (uint64_t)address;
    struct range range;

    if (value >= WIRE_RANK_BASE && value < WIRE_PRIVATE_BASE + (1ull << 44)) {
        return MEMORY_DEVICE;
    }
    if (!range_find(value, &range)) {
        return MEMORY_HOST;
    }
    return range.kind == RANGE_RESERVED ? MEMORY_DEVICE : MEMORY_PINNED;
}

static CUresult allocate(CUdeviceptr *address, size_t size_bytes)
{
    struct link_call call = {.request = {.op = WIRE_MALLOC, .memory.size_bytes = size_bytes}};
    CUresult result = context_enter(&call.request.device);

    if (result || !address || !size_bytes) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    result = link_call(&call);
    if (!result) {
        *address = call.reply.pointer.address;
    }
    return result;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t size_bytes)
{
    CUresult result = capture_forbids_unsafe();

    return result ? result : allocate(address, size_bytes);
}

/* Memory is there at once: nothing of before can have it, since addresses are never used twice. */
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size_bytes, CUstream stream)
{
    uint64_t id = 0;
    CUresult result = stream_id(stream, &id);

    return result ? result : allocate(address, size_bytes);
}

CUresult cuMemAllocPitch(CUdeviceptr *address, size_t *pitch_bytes, size_t width_bytes,
                         size_t height, unsigned int element_bytes)
{
    size_t pitch = (width_bytes + PITCH_ALIGN - 1) / PITCH_ALIGN * PITCH_ALIGN;
    size_t size_bytes = 0;

    if (!pitch_bytes || (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) ||
        __builtin_mul_overflow(pitch, height, &size_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = cuMemAlloc(address, size_bytes);
    if (!result) {
        *pitch_bytes = pitch;
    }
    return result;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    struct wire_request request = {.op = WIRE_FREE_ASYNC, .memory.address = address};
    CUresult result = context_enter(&request.device);

    result = result ? result : stream_id(stream, &request.stream);
    if (!result && capture_is_on(request.stream)) {
        return CUDA_SUCCESS; /* a graph keeps its memory for its next launch */
    }
    return result || !address ? result : link_send(&request);
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    struct link_call call = {.request = {.op = WIRE_MEMORY_INFO}};
    CUresult result = context_enter(&call.request.device);

    result = result ? result : link_call(&call);
    if (!result) {
        *free_bytes = call.reply.info.free_bytes;
        *total_bytes = call.reply.info.total_bytes;
    }
    return result;
}

/* ---- pinned host memory ---- */

/* simd makes the pages of `range`; their descriptor is the caller's. */
static CUresult pages_open(const struct range *range, int *fd)
{
    struct link_call call = {
        .request = {.op = WIRE_HOST_ALLOC,
                    .memory = {.address = range->address,
                               .size_bytes = range->size_bytes,
                               .offset_bytes = range->address - range->mapped}},
        .takes_fd = true,
        .taken_fd = -1};
    CUresult result = context_enter(&call.request.device);

    result = result ? result : link_call(&call);
    if (!result && call.taken_fd < 0) {
        result = CUDA_ERROR_OPERATING_SYSTEM;
    }
    *fd = call.taken_fd;
    return result;
}

static CUresult pages_close(const struct range *range)
{
    struct wire_request request = {.op = WIRE_HOST_FREE, .memory.address = range->address};
    CUresult result = context_enter(&request.device);

    return result ? result : link_send(&request);
}

static uint64_t page_up(uint64_t value)
{
    return (value + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

static CUresult allocate_host(void **address, size_t size_bytes, enum range_kind kind,
                              unsigned int flags)
{
    CUresult result = capture_forbids_unsafe();
    int fd = -1;

    result = result ? result : link_open();
    if (result || !address || !size_bytes || size_bytes > 1ull << 46) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    size_t mapped_bytes = page_up(size_bytes);
    void *place =
        mmap(NULL, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct range range = {.address = (uint64_t)place,
                          .size_bytes = size_bytes,
                          .mapped = (uint64_t)place,
                          .mapped_bytes = mapped_bytes,
                          .kind = kind,
                          .flags = flags};
    result = pages_open(&range, &fd);
    if (!result && (mmap(place, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                         0) == MAP_FAILED ||
                    !range_add(&range))) {
        (void)pages_close(&range);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (result) {
        munmap(place, mapped_bytes);
        return result;
    }
    *address = place;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **address, size_t size_bytes, unsigned int flags)
{
    return flags & ~7u ? CUDA_ERROR_INVALID_VALUE
                       : allocate_host(address, size_bytes, RANGE_PINNED, flags);
}

/* Managed memory lies with the host, and every device reaches it. */
CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size_bytes, unsigned int flags)
{
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return allocate_host((void **)address, size_bytes, RANGE_MANAGED, 0);
}

CUresult cuMemAllocHost(void **address, size_t size_bytes)
{
    return cuMemHostAlloc(address, size_bytes, 0);
}

static CUresult free_host(const struct range *range)
{
    CUresult result = pages_close(range);

    if (!result) {
        range_remove(range->address);
        munmap((void *)range->mapped, range->mapped_bytes);
    }
    return result;
}

static bool is_start(uint64_t address, enum range_kind kind, struct range *range)
{
    return range_find(address, range) && range->address == address && range->kind == kind;
}

CUresult cuMemFreeHost(void *address)
{
    struct range range;

    return is_start((uint64_t)address, RANGE_PINNED, &range) ? free_host(&range)
                                                             : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree(CUdeviceptr address)
{
    struct wire_request request = {.op = address ? WIRE_FREE : WIRE_MEMORY_INFO,
                                   .memory.address = address};
    CUresult result = context_enter(&request.device);

    struct range range;

    result = result ? result : capture_forbids_unsafe();
    if (!result && address && is_start(address, RANGE_MANAGED, &range)) {
        return free_host(&range);
    }

    return result ? result : link_send(&request); /* of nothing: only an earlier fault */
}

/* Puts other pages with the same bytes in place: those of `fd`, or anonymous ones. */
static bool replace_pages(const struct range *range, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *pages = mmap(NULL, range->mapped_bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (pages == MAP_FAILED) {
        return false;
    }
    memcpy(pages, (const void *)range->mapped, range->mapped_bytes);
    if (mremap(pages, range->mapped_bytes, range->mapped_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
               (void *)range->mapped) == MAP_FAILED) {
        munmap(pages, range->mapped_bytes);
        return false;
    }
    return true;
}

/* Whether some of the pages are shared with another process, so that ours cannot take their place,
 * or are none. */
static bool is_private_memory(const struct range *range)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uint64_t next = range->mapped, end = range->mapped + range->mapped_bytes;
    char line[512];

    while (maps && next < end && fgets(line, sizeof line, maps)) {
        uint64_t from = 0, to = 0;
        char access[5] = "";
        if (sscanf(line, "%lx-%lx %4s", &from, &to, access) == 3 && next >= from && next < to &&
            access[0] == 'r' && access[1] == 'w' && access[3] == 'p') {
            next = to;
        }
    }
    if (maps) {
        (void)fclose(maps);
    }
    return maps && next >= end;
}

static bool shares_a_page(const struct range *range)
{
    bool shares = false;

    pthread_mutex_lock(&ranges_lock);
    for (size_t i = 0; i < range_count; i++) {
        shares |= ranges[i].mapped < range->mapped + range->mapped_bytes &&
                  range->mapped < ranges[i].mapped + ranges[i].mapped_bytes;
    }
    pthread_mutex_unlock(&ranges_lock);
    return shares;
}

CUresult cuMemHostRegister(void *address, size_t size_bytes, unsigned int flags)
{
    uint64_t start = (uint64_t)address;
    struct range range, other;
    int fd = -1;

    if (!address || !size_bytes || size_bytes > 1ull << 46) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    range = (struct range){.address = start,
                           .size_bytes = size_bytes,
                           .mapped = start & ~(uint64_t)(PAGE_BYTES - 1),
                           .kind = RANGE_REGISTERED,
                           .flags = flags};
    range.mapped_bytes = page_up(start + size_bytes) - range.mapped;
    if (range_find(start, &other) || range_find(start + size_bytes - 1, &other)) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (shares_a_page(&range)) {
        return pkb_cuda_refuse("cudaHostRegister of a page that is registered in part");
    }
    if (!is_private_memory(&range)) {
        return pkb_cuda_refuse("cudaHostRegister of shared or read-only memory");
    }
    CUresult result = pages_open(&range, &fd);
    if (!result && (!range_add(&range) || !replace_pages(&range, fd))) {
        range_remove(range.address);
        (void)pages_close(&range);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (fd >= 0) {
        close(fd);
    }
    return result;
}

CUresult cuMemHostUnregister(void *address)
{
    struct range range;

    if (!range_find((uint64_t)address, &range) || range.address != (uint64_t)address ||
        range.kind != RANGE_REGISTERED) {
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    CUresult result = pages_close(&range);
    if (!result) {
        range_remove(range.address);
        result = replace_pages(&range, -1) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *device_address, void *address, unsigned int flags)
{
    struct range range;

    if (flags || !range_find((uint64_t)address, &range) || range.kind == RANGE_RESERVED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *device_address = (CUdeviceptr)address;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *address)
{
    struct range range;

    if (!range_find((uint64_t)address, &range) || range.kind == RANGE_RESERVED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = range.flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}
