/* Requests about memory: private, pinned, and shared through handles. */
#include "sim/request.h"

#include "sim/stream.h"

#include <cuda.h>
#include <unistd.h>

static const uint64_t page_bytes = 4096;

/* cuda.h: the limit of memory is that of the device. */
static int result_of(enum status status)
{
    switch (status) {
    case OK:
        return CUDA_SUCCESS;
    case ERR_LIMIT:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static uint64_t round_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

static int handle_malloc(struct channel *channel, struct wire_reply *reply)
{
    struct object_request request = {.payer = channel->client,
                                     .size_bytes = channel->request.memory.size_bytes,
                                     .device = channel->request.device};
    struct object *object = NULL;
    struct error err = {0};

    enum status status = object_open(&object, &request, &err);
    if (status) {
        return result_of(status);
    }
    object->starts_undefined = true;
    status =
        region_add_private(channel->client, object, REGION_PRIVATE, &reply->pointer.address, &err);
    object_release(object);
    return result_of(status);
}

/* The region that a free names by its exact start, or NULL. */
static struct region *region_to_free(struct channel *channel, enum region_kind kind)
{
    uint64_t address = channel->request.memory.address;
    struct region *region = region_find(channel->client, address);

    return region && region->address == address && region->kind == kind ? region : NULL;
}

/* A free waits for the device, as the real one does. */
static int handle_free(struct channel *channel, enum region_kind kind)
{
    const struct region *region = region_to_free(channel, kind);

    if (!region) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int device = region->object->device;
    channel->waiting = (struct waiting){.kind = WAIT_DEVICE,
                                        .device = device < 0 ? channel->request.device : device,
                                        .sequence = channel->client->sequence,
                                        .free_address = region->address};
    return REQUEST_WAITS;
}

static int handle_free_async(struct channel *channel)
{
    const struct wire_request *request = &channel->request;
    struct stream *stream = stream_find(channel->client, request->stream, request->device);

    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!region_to_free(channel, REGION_PRIVATE)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct item *item = item_make(ITEM_FREE);
    item->address = request->memory.address;
    return request_push(channel, stream, item, false);
}

static int handle_host_alloc(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    const struct wire_memory *memory = &channel->request.memory;
    struct object *object = NULL;
    struct error err = {0};

    /* What is aligned for the client is aligned here. */
    if (memory->offset_bytes != memory->address % page_bytes ||
        memory->size_bytes > UINT64_MAX - 2 * page_bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t pages_bytes = round_up(memory->offset_bytes + memory->size_bytes, page_bytes);
    enum status status = object_open(
        &object, &(struct object_request){.payer = client, .size_bytes = pages_bytes, .device = -1},
        &err);
    if (status) {
        return result_of(status);
    }
    status = region_add(client,
                        (struct region){.address = memory->address,
                                        .size_bytes = memory->size_bytes,
                                        .offset_bytes = memory->offset_bytes,
                                        .object = object,
                                        .kind = REGION_HOST,
                                        .access = MAP_READ | MAP_WRITE},
                        &err);
    if (!status) {
        channel_reply(channel, reply, NULL, object->memory_fd);
    }
    object_release(object);
    return status ? result_of(status) : REQUEST_ANSWERED;
}

static int handle_pointer(struct channel *channel, struct wire_reply *reply)
{
    const struct region *region = region_find(channel->client, channel->request.memory.address);

    if (region) {
        reply->pointer = (struct wire_pointer){
            .address = region->address,
            .size_bytes = region->size_bytes,
            .device = region->object->device,
            .access = (uint32_t)region->access,
            .kind = region->kind == REGION_HOST ? WIRE_MEMORY_HOST : WIRE_MEMORY_DEVICE};
    }
    return CUDA_SUCCESS;
}

static int handle_create(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    uint64_t size_bytes = channel->request.memory.size_bytes;
    struct object *object = NULL;
    struct error err = {0};

    if (!size_bytes || size_bytes % WIRE_GRANULARITY_BYTES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    enum status status = object_open(&object,
                                     &(struct object_request){.payer = client,
                                                              .size_bytes = size_bytes,
                                                              .device = channel->request.device},
                                     &err);
    if (status) {
        return result_of(status);
    }
    reply->pointer =
        (struct wire_pointer){.address = handles_add(&client->handles, HANDLE_MEMORY, object),
                              .size_bytes = object->size_bytes,
                              .device = object->device};
    if (!reply->pointer.address) {
        object_release(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static int handle_import(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;

    if (channel->given_fd < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct object *object = object_import(client->machine, channel->given_fd);
    if (!object) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    reply->pointer =
        (struct wire_pointer){.address = handles_add(&client->handles, HANDLE_MEMORY, object),
                              .size_bytes = object->size_bytes,
                              .device = object->device};
    if (!reply->pointer.address) {
        object_release(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

/* Another handle of the memory that is mapped at an address. */
static int handle_retain(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    const struct region *region = region_find(client, channel->request.memory.address);

    if (!region || region->kind != REGION_VIRTUAL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    reply->pointer.address = handles_add(&client->handles, HANDLE_MEMORY, region->object);
    if (!reply->pointer.address) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    region->object->references++;
    return CUDA_SUCCESS;
}

/* Operations on the handle that the request names. */
static int handle_of_handle(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    const struct wire_memory *memory = &channel->request.memory;
    struct object *object = handles_find(&client->handles, memory->handle, HANDLE_MEMORY);
    struct error err = {0};
    int token_fd = -1;

    if (!object) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (channel->request.op == WIRE_MEM_RELEASE) {
        handles_remove(&client->handles, memory->handle);
        object_release(object);
        return CUDA_SUCCESS;
    }
    if (channel->request.op == WIRE_MEM_PROPERTIES) {
        reply->pointer.device = object->device;
        reply->pointer.size_bytes = object->size_bytes;
        return CUDA_SUCCESS;
    }
    if (channel->request.op == WIRE_MEM_EXPORT) {
        if (object_export(object, &token_fd, &err)) {
            return CUDA_ERROR_OPERATING_SYSTEM;
        }
        channel_reply(channel, reply, NULL, token_fd);
        return REQUEST_ANSWERED;
    }
    if (memory->offset_bytes % WIRE_GRANULARITY_BYTES ||
        memory->size_bytes % WIRE_GRANULARITY_BYTES || memory->address % WIRE_GRANULARITY_BYTES ||
        memory->size_bytes > object->size_bytes ||
        memory->offset_bytes > object->size_bytes - memory->size_bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (request_misses_devices(channel, memory->handle)) {
        channel->waiting = (struct waiting){.kind = WAIT_DEVICES, .multicast = memory->handle};
        return REQUEST_WAITS;
    }
    return result_of(region_add(client,
                                (struct region){.address = memory->address,
                                                .size_bytes = memory->size_bytes,
                                                .offset_bytes = memory->offset_bytes,
                                                .object = object,
                                                .kind = REGION_VIRTUAL},
                                &err));
}

/* Whether the range consists of whole mappings, without gaps. */
static bool is_whole_mappings(const struct client *client, const struct wire_memory *memory)
{
    uint64_t end = 0, address = memory->address;

    if (!memory->size_bytes || __builtin_add_overflow(address, memory->size_bytes, &end)) {
        return false;
    }
    while (address < end) {
        const struct region *region = region_find(client, address);
        if (!region || region->address != address || region->kind != REGION_VIRTUAL) {
            return false;
        }
        address += region->size_bytes;
    }
    return address == end;
}

static int handle_range(struct channel *channel)
{
    struct client *client = channel->client;
    const struct wire_memory *memory = &channel->request.memory;
    int access = (int)memory->access & (MAP_READ | MAP_WRITE);
    struct error err = {0};
    enum status status = OK;
    uint64_t size_bytes = 0;

    if (!is_whole_mappings(client, memory)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (uint64_t at = 0; !status && at < memory->size_bytes; at += size_bytes) {
        struct region *region = region_find(client, memory->address + at);
        size_bytes = region->size_bytes;
        status = channel->request.op == WIRE_MEM_UNMAP
                     ? region_remove(client, region->address, &err)
                     : region_set_access(client, region, access, &err);
    }
    return result_of(status);
}

int request_memory(struct channel *channel, struct wire_reply *reply)
{
    const struct client *client = channel->client;

    switch ((enum wire_op)channel->request.op) {
    case WIRE_MALLOC:
        return handle_malloc(channel, reply);
    case WIRE_FREE:
        return handle_free(channel, REGION_PRIVATE);
    case WIRE_HOST_FREE:
        return handle_free(channel, REGION_HOST);
    case WIRE_IPC_CLOSE:
        return handle_free(channel, REGION_IPC);
    case WIRE_FREE_ASYNC:
        return handle_free_async(channel);
    case WIRE_HOST_ALLOC:
        return handle_host_alloc(channel, reply);
    case WIRE_MEMORY_INFO:
        reply->info =
            (struct wire_memory_info){.free_bytes = client->memory_max_bytes - client->memory_bytes,
                                      .total_bytes = client->memory_max_bytes};
        return CUDA_SUCCESS;
    case WIRE_POINTER:
        return handle_pointer(channel, reply);
    case WIRE_MEM_CREATE:
        return handle_create(channel, reply);
    case WIRE_MEM_IMPORT:
        return handle_import(channel, reply);
    case WIRE_MEM_RETAIN:
        return handle_retain(channel, reply);
    case WIRE_MEM_PROPERTIES:
    case WIRE_MEM_RELEASE:
    case WIRE_MEM_EXPORT:
    case WIRE_MEM_MAP:
        return handle_of_handle(channel, reply);
    case WIRE_MEM_UNMAP:
    case WIRE_MEM_ACCESS:
        return handle_range(channel);
    default:
        return REQUEST_MALFORMED;
    }
}
