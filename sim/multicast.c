/* The part of object.h about multicast objects, and the requests about them. */
#include "common/mem.h"
#include "sim/report.h"
#include "sim/request.h"

#include <cuda.h>

struct object *object_open_multicast(struct client *client, uint64_t size_bytes, int device_count)
{
    struct object *object = xcalloc(1, sizeof *object);

    *object = (struct object){.machine = client->machine,
                              .payer = client,
                              .next = client->machine->objects,
                              .size_bytes = size_bytes,
                              .memory_fd = -1,
                              .device = -1,
                              .references = 1,
                              .token_fd = -1,
                              .allocation = (uint32_t)client->index << 24 | client->allocations++,
                              .is_multicast = true,
                              .device_count = device_count};
    client->machine->objects = object;
    return object;
}

static void remap(const struct object *multicast)
{
    struct machine *machine = multicast->machine;

    for (int i = 0; i < machine->client_count; i++) {
        if (machine->clients[i].is_open) {
            regions_remap(&machine->clients[i], multicast);
        }
    }
}

enum status object_bind(struct object *multicast, const struct member *member, struct error *err)
{
    const struct object *object = member->object;
    bool fits = member->size_bytes && member->size_bytes <= multicast->size_bytes &&
                member->at_bytes <= multicast->size_bytes - member->size_bytes &&
                member->size_bytes <= object->size_bytes &&
                member->offset_bytes <= object->size_bytes - member->size_bytes;

    if (!fits || object->is_multicast || object->device < 0 ||
        !(multicast->devices_added >> object->device & 1) ||
        multicast->members[object->device].object) {
        return error_set(err, ERR_INVALID, "this memory cannot be bound here");
    }
    multicast->members[object->device] = *member;
    member->object->references++;
    remap(multicast);
    return OK;
}

enum status object_unbind(struct object *multicast, int device, const struct member *range,
                          struct error *err)
{
    const struct member *member = &multicast->members[device];
    struct object *object = member->object;

    if (!object || range->at_bytes != member->at_bytes || range->size_bytes != member->size_bytes) {
        return error_set(err, ERR_INVALID, "this is not bound on device %d", device);
    }
    multicast->members[device] = (struct member){0};
    remap(multicast);
    object_release(object);
    return OK;
}

static int handle_create(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    const struct wire_multicast *request = &channel->request.multicast;
    uint32_t device_count = request->device_count;

    if (!request->size_bytes || request->size_bytes % WIRE_GRANULARITY_BYTES || device_count < 1 ||
        device_count > (uint32_t)client->machine->options.devices) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct object *object = object_open_multicast(client, request->size_bytes, (int)device_count);
    reply->pointer.address = handles_add(&client->handles, HANDLE_MEMORY, object);
    if (!reply->pointer.address) {
        object_release(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

bool request_misses_devices(const struct channel *channel, uint64_t handle)
{
    const struct object *object = handles_find(&channel->client->handles, handle, HANDLE_MEMORY);

    return object && object->is_multicast &&
           __builtin_popcount(object->devices_added) < object->device_count;
}

/* Whether the device has something bound already, elsewhere in the object. */
static bool is_another_piece(const struct object *multicast, const struct member *member)
{
    int device = member->object->device;
    const struct member *bound = device < 0 ? NULL : &multicast->members[device];

    return bound && bound->object &&
           (bound->at_bytes + bound->size_bytes <= member->at_bytes ||
            member->at_bytes + member->size_bytes <= bound->at_bytes);
}

/* The memory to bind, given by handle or by an address in a whole mapping. */
static int handle_bind(struct channel *channel, struct object *multicast)
{
    struct client *client = channel->client;
    const struct wire_multicast *request = &channel->request.multicast;
    struct error err = {0};
    struct member member = {.at_bytes = request->offset_bytes,
                            .size_bytes = request->size_bytes,
                            .offset_bytes = request->memory_offset_bytes};

    if (request->memory) {
        member.object = handles_find(&client->handles, request->memory, HANDLE_MEMORY);
    } else {
        const struct region *region = region_find(client, request->address);
        if (region && region->kind == REGION_VIRTUAL) {
            member.object = region->object;
            member.offset_bytes = region->offset_bytes + (request->address - region->address);
        }
    }
    if (!member.object || request->offset_bytes % WIRE_GRANULARITY_BYTES ||
        request->size_bytes % WIRE_GRANULARITY_BYTES ||
        member.offset_bytes % WIRE_GRANULARITY_BYTES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (request_misses_devices(channel, request->handle)) {
        channel->waiting = (struct waiting){.kind = WAIT_DEVICES, .multicast = request->handle};
        return REQUEST_WAITS;
    }
    if (is_another_piece(multicast, &member)) {
        report_not_simulable(client, "cuMulticastBindMem of a second piece of a device", NULL);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return object_bind(multicast, &member, &err) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

int request_multicast(struct channel *channel, struct wire_reply *reply)
{
    const struct wire_request *request = &channel->request;
    struct member range = {0};
    struct error err = {0};

    if (request->op == WIRE_MULTICAST_CREATE) {
        return handle_create(channel, reply);
    }
    struct object *multicast =
        handles_find(&channel->client->handles, request->multicast.handle, HANDLE_MEMORY);
    if (!multicast || !multicast->is_multicast) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch ((enum wire_op)request->op) {
    case WIRE_MULTICAST_ADD:
        if (multicast->devices_added >> request->device & 1 ||
            __builtin_popcount(multicast->devices_added) == multicast->device_count) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        multicast->devices_added |= 1u << request->device;
        return CUDA_SUCCESS;
    case WIRE_MULTICAST_BIND:
        return handle_bind(channel, multicast);
    case WIRE_MULTICAST_UNBIND:
        range = (struct member){.at_bytes = request->multicast.offset_bytes,
                                .size_bytes = request->multicast.size_bytes};
        return object_unbind(multicast, request->device, &range, &err) ? CUDA_ERROR_INVALID_VALUE
                                                                       : CUDA_SUCCESS;
    default:
        return REQUEST_MALFORMED;
    }
}
