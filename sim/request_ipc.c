/* Memory and events that other processes open by a key. */
#include "sim/request.h"

#include "sim/stream.h"

#include <cuda.h>
#include <string.h>

static int export_memory(struct channel *channel, struct wire_reply *reply)
{
    struct region *region = region_find(channel->client, channel->request.ipc.address);
    struct wire_key none = {0};
    struct error err = {0};

    if (!region || region->kind != REGION_PRIVATE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct object *object = region->object;
    if (memcmp(&object->key, &none, sizeof none) == 0 && key_make(&object->key, &err)) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    object->is_shared = true;
    reply->key = object->key;
    return CUDA_SUCCESS;
}

/* The process that made it cannot open it again. */
static int open_memory(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    struct error err = {0};
    struct object *object = object_find_key(client->machine, &channel->request.ipc.key);

    if (!object) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    enum status status =
        object->payer == client
            ? error_set(&err, ERR_CONFLICT, "it is this client's own")
            : region_add_private(client, object, REGION_IPC, &reply->pointer.address, &err);
    reply->pointer.size_bytes = object->size_bytes;
    object_release(object);
    if (status == ERR_CONFLICT) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return status ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static int export_event(struct channel *channel, struct wire_reply *reply)
{
    struct event *event =
        handles_find(&channel->client->handles, channel->request.ipc.event, HANDLE_EVENT);
    struct wire_key none = {0};
    struct error err = {0};

    if (!event || event->has_timing) {
        return event ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    if (memcmp(&event->key, &none, sizeof none) == 0 && key_make(&event->key, &err)) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    reply->key = event->key;
    return CUDA_SUCCESS;
}

static struct event *find_event(struct machine *machine, const struct wire_key *key)
{
    for (int i = 0; i < machine->client_count; i++) {
        const struct handles *handles = &machine->clients[i].handles;
        for (size_t j = 0; j < handles->count; j++) {
            struct event *event = handles->rows[j].thing;
            if (handles->rows[j].kind == HANDLE_EVENT && key_is(&event->key, key)) {
                return event;
            }
        }
    }
    return NULL;
}

static int open_event(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    struct event *event = find_event(client->machine, &channel->request.ipc.key);

    if (!event) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    reply->id = handles_add(&client->handles, HANDLE_EVENT, event);
    if (!reply->id) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->references++;
    return CUDA_SUCCESS;
}

int request_ipc(struct channel *channel, struct wire_reply *reply)
{
    switch ((enum wire_op)channel->request.op) {
    case WIRE_IPC_EXPORT:
        return export_memory(channel, reply);
    case WIRE_IPC_OPEN:
        return open_memory(channel, reply);
    case WIRE_EVENT_EXPORT:
        return export_event(channel, reply);
    case WIRE_EVENT_OPEN:
        return open_event(channel, reply);
    default:
        return REQUEST_MALFORMED;
    }
}
