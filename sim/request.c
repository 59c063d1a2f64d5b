#include "sim/request.h"

#include "common/log.h"
#include "sim/lanes.h"
#include "sim/report.h"
#include "sim/stream.h"

#include <cuda.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REFUSED_NAME_MAX = 256 };

static int handle_hello(struct channel *channel, struct wire_reply *reply)
{
    const struct client *client = channel->client;

    if (channel != &client->control || channel->request.version != WIRE_VERSION) {
        return REQUEST_MALFORMED;
    }
    reply->hello = (struct wire_hello){.client = client->index,
                                       .rank = client->rank,
                                       .devices = client->machine->options.devices,
                                       .model = (int32_t)client->machine->options.model};
    return CUDA_SUCCESS;
}

static bool is_socket(int fd, int wanted)
{
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;

    return fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) &&
           !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) && domain == AF_UNIX &&
           type == wanted;
}

static int handle_channel(struct channel *control, struct wire_reply *reply)
{
    int staging_fd = -1;

    if (control != &control->client->control || !is_socket(control->given_fd, SOCK_STREAM)) {
        return REQUEST_MALFORMED;
    }
    struct channel *made = channel_open(control->client, control->given_fd, &staging_fd);
    if (!made) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    control->given_fd = -1;
    channel_reply(control, reply, NULL, staging_fd);
    close(staging_fd);
    return REQUEST_ANSWERED;
}

/* A socket whose other end sends messages to this client. */
static int handle_await(struct channel *channel, struct wire_reply *reply)
{
    (void)reply;
    if (!is_socket(channel->given_fd, SOCK_SEQPACKET)) {
        return REQUEST_MALFORMED;
    }
    channel->is_readable = false;
    channel->waiting = (struct waiting){.kind = WAIT_SOCKET};
    return REQUEST_WAITS;
}

static int handle_refused(struct channel *channel, struct wire_reply *reply)
{
    (void)reply;
    if (channel->request.payload_bytes >= REFUSED_NAME_MAX) {
        return REQUEST_MALFORMED;
    }
    report_not_simulable(channel->client, (const char *)channel->payload, NULL);
    return CUDA_SUCCESS;
}

static int handle_output(struct channel *channel, struct wire_reply *reply)
{
    struct buffer *output = &channel->client->output;
    size_t size_bytes = output->size_bytes;

    if (size_bytes > WIRE_PAYLOAD_MAX) {
        size_bytes = WIRE_PAYLOAD_MAX;
    }
    if (!size_bytes) {
        return CUDA_SUCCESS;
    }
    char text[WIRE_PAYLOAD_MAX];
    memcpy(text, output->data, size_bytes);
    buffer_consume(output, size_bytes);
    reply->payload_bytes = (uint32_t)size_bytes;
    channel_reply(channel, reply, text, -1);
    return REQUEST_ANSWERED;
}

/* Every operation: who handles it, and whether it works after a fault. */
static const struct {
    int (*handle)(struct channel *channel, struct wire_reply *reply);
    bool works_after_fault;
} operations[WIRE_OP_COUNT] = {
    [WIRE_HELLO] = {handle_hello, true},
    [WIRE_CHANNEL] = {handle_channel, true},
    [WIRE_REFUSED] = {handle_refused, true},
    [WIRE_OUTPUT] = {handle_output, true},
    [WIRE_MALLOC] = {request_memory, false},
    [WIRE_FREE] = {request_memory, false},
    [WIRE_FREE_ASYNC] = {request_memory, false},
    [WIRE_HOST_ALLOC] = {request_memory, false},
    [WIRE_HOST_FREE] = {request_memory, false},
    [WIRE_MEMORY_INFO] = {request_memory, false},
    [WIRE_POINTER] = {request_memory, true},
    [WIRE_MEM_CREATE] = {request_memory, false},
    [WIRE_MEM_RELEASE] = {request_memory, false},
    [WIRE_MEM_EXPORT] = {request_memory, false},
    [WIRE_MEM_IMPORT] = {request_memory, false},
    [WIRE_MEM_MAP] = {request_memory, false},
    [WIRE_MEM_UNMAP] = {request_memory, false},
    [WIRE_MEM_ACCESS] = {request_memory, false},
    [WIRE_MEM_RETAIN] = {request_memory, false},
    [WIRE_MEM_PROPERTIES] = {request_memory, false},
    [WIRE_MULTICAST_CREATE] = {request_multicast, false},
    [WIRE_MULTICAST_ADD] = {request_multicast, false},
    [WIRE_MULTICAST_BIND] = {request_multicast, false},
    [WIRE_MULTICAST_UNBIND] = {request_multicast, false},
    [WIRE_IPC_EXPORT] = {request_ipc, false},
    [WIRE_IPC_OPEN] = {request_ipc, false},
    [WIRE_IPC_CLOSE] = {request_memory, false},
    [WIRE_EVENT_EXPORT] = {request_ipc, false},
    [WIRE_EVENT_OPEN] = {request_ipc, false},
    [WIRE_MODULE_LOAD] = {request_program, false},
    [WIRE_MODULE_UNLOAD] = {request_program, false},
    [WIRE_KERNEL] = {request_program, false},
    [WIRE_KERNEL_SET] = {request_program, false},
    [WIRE_SYMBOL] = {request_program, false},
    [WIRE_OCCUPANCY] = {request_program, false},
    [WIRE_LAUNCH] = {request_launch, false},
    [WIRE_COPY] = {request_work, false},
    [WIRE_SET] = {request_work, false},
    [WIRE_STREAM_CREATE] = {request_work, false},
    [WIRE_STREAM_DESTROY] = {request_work, false},
    [WIRE_STREAM_SYNC] = {request_work, false},
    [WIRE_STREAM_QUERY] = {request_work, false},
    [WIRE_STREAM_WAIT] = {request_work, false},
    [WIRE_DEVICE_SYNC] = {request_work, false},
    [WIRE_EVENT_CREATE] = {request_work, false},
    [WIRE_EVENT_DESTROY] = {request_work, false},
    [WIRE_EVENT_RECORD] = {request_work, false},
    [WIRE_EVENT_SYNC] = {request_work, false},
    [WIRE_EVENT_QUERY] = {request_work, false},
    [WIRE_EVENT_ELAPSED] = {request_work, false},
    [WIRE_AWAIT] = {handle_await, true},
    [WIRE_HOST_QUEUE] = {request_work, false},
    [WIRE_HOST_NEXT] = {request_work, false},
    [WIRE_HOST_DONE] = {request_work, false},
    [WIRE_WRITE_VALUE] = {request_work, false},
    [WIRE_WAIT_VALUE] = {request_work, false},
    [WIRE_CAPTURE_SPOILT] = {request_work, true},
};

static bool is_valid(const struct channel *channel)
{
    const struct wire_request *request = &channel->request;
    const struct client *client = channel->client;

    if (request->op >= WIRE_OP_COUNT || !operations[request->op].handle || request->device < 0 ||
        request->device >= client->machine->options.devices) {
        return false;
    }
    bool is_of_process = request->op == WIRE_HELLO || request->op == WIRE_CHANNEL;
    return is_of_process == (channel == &client->control);
}

/* True if it was active. */
static bool handle(struct channel *channel)
{
    struct client *client = channel->client;
    struct wire_reply reply = {0};

    if (!is_valid(channel)) {
        client_end(client, "it sent what the protocol does not allow");
        return true;
    }
    if (client->sticky && !operations[channel->request.op].works_after_fault) {
        channel_answer(channel, client->sticky);
        return true;
    }
    int result = operations[channel->request.op].handle(channel, &reply);
    if (result == REQUEST_MALFORMED) {
        client_end(client, "it sent what the protocol does not allow");
        return true;
    }
    if (result == REQUEST_WAITS) {
        enum wait_kind kind = channel->waiting.kind;
        if (kind == POLL_STREAM || kind == POLL_EVENT) {
            return false;
        }
        if (request_is_satisfied(channel)) {
            request_finish(channel);
        }
        return true;
    }
    if (result != REQUEST_ANSWERED) {
        reply.result = result;
        channel_reply(channel, &reply, NULL, -1);
    }
    return true;
}

/* Whether the request changes nothing and needs no wait, so that a client may poll by it. */
static bool only_looks(const struct channel *channel)
{
    const struct wire_request *request = &channel->request;
    const struct stream *stream = stream_find(channel->client, request->stream, request->device);

    switch ((enum wire_op)request->op) {
    case WIRE_COPY:
        return request->copy.kind == WIRE_COPY_STAGED_OUT;
    case WIRE_STREAM_SYNC:
        return stream && stream_is_done(stream);
    case WIRE_DEVICE_SYNC:
        return device_is_done_until(channel->client, request->device, UINT64_MAX);
    case WIRE_EVENT_SYNC:
    case WIRE_AWAIT:
    case WIRE_POINTER:
    case WIRE_MEMORY_INFO:
    case WIRE_OUTPUT:
        return true;
    default:
        return false;
    }
}

/* A client that has looked too often in a row waits for the next round, as one that polls. */
static bool waits_for_round(struct channel *channel)
{
    struct client *client = channel->client;

    if (channel->request.op == WIRE_STREAM_QUERY || channel->request.op == WIRE_EVENT_QUERY) {
        return false;
    }
    client->looks = only_looks(channel) ? client->looks + 1 : 0;
    if (client->looks <= MACHINE_LOOKS_MAX) {
        return false;
    }
    client->looks = MACHINE_LOOKS_MAX;
    channel->waiting = (struct waiting){.kind = POLL_REPEAT};
    return true;
}

bool request_handle(struct channel *channel)
{
    if (is_valid(channel) && !channel->client->sticky && waits_for_round(channel)) {
        return false;
    }
    return handle(channel);
}

int request_push(struct channel *channel, struct stream *stream, struct item *item, bool waits)
{
    item->is_nccl = channel->request.is_nccl;
    item->is_call_end = channel->request.is_call_end;
    item->launch.is_nccl = item->is_nccl;
    int result = stream_push(stream, item);
    bool is_deep = stream->item_count >= STREAM_DEPTH;

    if (result || (!waits && !is_deep)) {
        return result;
    }
    channel->waiting =
        (struct waiting){.kind = WAIT_STREAM,
                         .stream = stream,
                         .sequence = waits ? channel->client->sequence : stream->head->sequence};
    return REQUEST_WAITS;
}

bool request_is_satisfied(const struct channel *channel)
{
    const struct waiting *waiting = &channel->waiting;

    if (!channel->is_pending || waiting->kind == WAIT_NOTHING) {
        return false;
    }
    if (waiting->kind == WAIT_SOCKET) { /* whatever has become of the devices */
        return channel->is_readable;
    }
    if (channel->client->sticky) {
        return true;
    }
    switch (waiting->kind) {
    case WAIT_STREAM:
        return stream_is_done_until(waiting->stream, waiting->sequence);
    case WAIT_DEVICE:
        return device_is_done_until(channel->client, waiting->device, waiting->sequence);
    case WAIT_EVENT:
        return waiting->event->completed >= waiting->sequence;
    case WAIT_HOST:
        return stream_host_item(channel->client, HOST_DUE) &&
               !stream_host_item(channel->client, HOST_RUNNING);
    case WAIT_DEVICES:
        return !request_misses_devices(channel, waiting->multicast);
    default:
        return false;
    }
}

void request_finish(struct channel *channel)
{
    const struct waiting *waiting = &channel->waiting;
    struct error err = {0};
    int result = channel->client->sticky;
    bool is_ready = true;

    if (waiting->kind == POLL_REPEAT || (waiting->kind == WAIT_DEVICES && !result)) {
        channel->waiting = (struct waiting){.kind = WAIT_NOTHING};
        (void)handle(channel);
        return;
    }
    if (waiting->kind == WAIT_HOST && !result) {
        struct item *item = stream_host_item(channel->client, HOST_DUE);
        item->host = HOST_RUNNING;
        channel_reply(channel, &(struct wire_reply){.id = item->function}, NULL, -1);
        return;
    }
    if (waiting->kind == POLL_STREAM) {
        is_ready = stream_is_done(waiting->stream);
    } else if (waiting->kind == POLL_EVENT) {
        is_ready = waiting->event->completed >= waiting->event->recorded;
    }
    if (!result && !is_ready) {
        result = CUDA_ERROR_NOT_READY;
    }
    if (!result) {
        lanes_wait(channel);
    }
    if (!result && waiting->free_address &&
        region_remove(channel->client, waiting->free_address, &err)) {
        result = CUDA_ERROR_INVALID_VALUE; /* another thread freed it meanwhile */
    }
    channel_answer(channel, result);
}
