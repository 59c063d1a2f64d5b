/* Requests about streams and events, and what is queued in them. */
#include "sim/request.h"

#include "common/mem.h"
#include "sim/report.h"
#include "sim/stream.h"
#include "sim/work.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

static void wait_for_stream(struct channel *channel, struct stream *stream, uint64_t sequence)
{
    channel->waiting =
        (struct waiting){.kind = WAIT_STREAM, .stream = stream, .sequence = sequence};
}

/* 0 where the rows do not fit the staging memory. */
static uint64_t staged_bytes(const struct wire_copy *copy)
{
    uint64_t size_bytes = 0;

    if (__builtin_mul_overflow(copy->width_bytes, copy->height, &size_bytes) ||
        size_bytes > WIRE_STAGING_BYTES) {
        return 0;
    }
    return size_bytes;
}

static int handle_copy(struct channel *channel, struct stream *stream)
{
    struct client *client = channel->client;
    struct wire_copy copy = channel->request.copy;
    bool is_staged = copy.kind != WIRE_COPY_MAPPED;
    uint64_t size_bytes = is_staged ? staged_bytes(&copy) : 0;

    if (copy.kind >= WIRE_COPY_KINDS || (is_staged && !size_bytes)) {
        return REQUEST_MALFORMED;
    }
    if (copy.kind == WIRE_COPY_STAGED_IN) {
        copy.from_pitch_bytes = copy.width_bytes;
    } else if (copy.kind == WIRE_COPY_STAGED_OUT) {
        copy.to_pitch_bytes = copy.width_bytes;
    }
    if (!work_copy_is_mapped(client, &copy)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct item *item = item_make(ITEM_COPY);
    item->copy = copy;
    item->channel = channel;
    if (copy.kind == WIRE_COPY_STAGED_IN && !copy.wait) {
        if (size_bytes > STREAM_QUEUED_BYTES_MAX - client->queued_bytes) {
            item_release(client, item);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        item->bytes = xmalloc(size_bytes);
        item->bytes_size = size_bytes;
        memcpy(item->bytes, channel->staging, size_bytes);
        client->queued_bytes += size_bytes;
    }
    bool waits = copy.wait || copy.kind == WIRE_COPY_STAGED_OUT;
    return request_push(channel, stream, item, waits);
}

static int handle_set(struct channel *channel, struct stream *stream)
{
    const struct wire_set *set = &channel->request.set;
    uint32_t element = set->element_bytes;

    if ((element != 1 && element != 2 && element != 4) || set->width_bytes % element) {
        return REQUEST_MALFORMED;
    }
    if (set->to % element || !work_set_is_mapped(channel->client, set)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct item *item = item_make(ITEM_SET);
    item->set = *set;
    return request_push(channel, stream, item, false);
}

static int handle_value(struct channel *channel, struct stream *stream)
{
    const struct wire_value *value = &channel->request.value;
    bool writes = channel->request.op == WIRE_WRITE_VALUE;

    if ((value->width_bytes != 4 && value->width_bytes != 8) || value->compare >= WIRE_COMPARES) {
        return REQUEST_MALFORMED;
    }
    if (value->address % value->width_bytes ||
        !work_word(channel->client, value, writes ? MAP_WRITE : MAP_READ)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct item *item = item_make(writes ? ITEM_WRITE_VALUE : ITEM_WAIT_VALUE);
    item->value = *value;
    return request_push(channel, stream, item, false);
}

static int handle_host_queue(struct channel *channel, struct stream *stream)
{
    struct item *item = item_make(ITEM_HOST);

    item->function = channel->request.host.function;
    return request_push(channel, stream, item, false);
}

/* The client has run the function that it was given. */
static int handle_host_done(struct channel *channel)
{
    struct item *item = stream_host_item(channel->client, HOST_RUNNING);

    if (!item || item->function != channel->request.host.function) {
        return REQUEST_MALFORMED;
    }
    item->host = HOST_ENDED;
    return CUDA_SUCCESS;
}

static int handle_stream(struct channel *channel, struct stream *stream)
{
    switch ((enum wire_op)channel->request.op) {
    case WIRE_STREAM_DESTROY:
        if (stream->is_legacy) {
            return CUDA_ERROR_INVALID_HANDLE;
        }
        stream_destroy(stream);
        return CUDA_SUCCESS;
    case WIRE_STREAM_SYNC:
        wait_for_stream(channel, stream, channel->client->sequence);
        return REQUEST_WAITS;
    case WIRE_STREAM_QUERY:
        channel->waiting = (struct waiting){.kind = POLL_STREAM, .stream = stream};
        return REQUEST_WAITS;
    case WIRE_COPY:
        return handle_copy(channel, stream);
    case WIRE_SET:
        return handle_set(channel, stream);
    case WIRE_HOST_QUEUE:
        return handle_host_queue(channel, stream);
    case WIRE_WRITE_VALUE:
    case WIRE_WAIT_VALUE:
        return handle_value(channel, stream);
    default:
        return REQUEST_MALFORMED;
    }
}

static int handle_event_create(struct channel *channel, struct wire_reply *reply)
{
    struct event *event = xcalloc(1, sizeof *event);

    *event = (struct event){.references = 1,
                            .device = -1,
                            .has_timing = !(channel->request.options.flags & WIRE_EVENT_NO_TIMING)};
    reply->id = handles_add(&channel->client->handles, HANDLE_EVENT, event);
    if (!reply->id) {
        event_release(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static int handle_elapsed(struct channel *channel, const struct event *from,
                          struct wire_reply *reply)
{
    const struct event *to =
        handles_find(&channel->client->handles, channel->request.event.event2, HANDLE_EVENT);

    if (!to || !from->has_timing || !to->has_timing || !from->recorded || !to->recorded) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (from->completed < from->recorded || to->completed < to->recorded) {
        return CUDA_ERROR_NOT_READY;
    }
    reply->id = (uint64_t)(to->time_ns - from->time_ns);
    return CUDA_SUCCESS;
}

static int queue_event(struct channel *channel, struct stream *stream, struct event *event,
                       enum item_kind kind)
{
    if (kind == ITEM_RECORD) {
        if (event->device >= 0 && event->device != stream->device) {
            return CUDA_ERROR_INVALID_HANDLE;
        }
        event->device = stream->device;
        event->recorded++;
    }
    struct item *item = item_make(kind);
    item->event = event;
    item->record = event->recorded;
    event->references++;
    return request_push(channel, stream, item, false);
}

static int handle_event(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    const struct wire_request *request = &channel->request;
    struct event *event = handles_find(&client->handles, request->event.event, HANDLE_EVENT);
    struct stream *stream = stream_find(client, request->stream, request->device);

    if (!event || !stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    switch ((enum wire_op)request->op) {
    case WIRE_EVENT_DESTROY:
        handles_remove(&client->handles, request->event.event);
        event_release(event);
        return CUDA_SUCCESS;
    case WIRE_EVENT_RECORD:
        return queue_event(channel, stream, event, ITEM_RECORD);
    case WIRE_STREAM_WAIT:
        return queue_event(channel, stream, event, ITEM_WAIT_EVENT);
    case WIRE_EVENT_ELAPSED:
        return handle_elapsed(channel, event, reply);
    case WIRE_EVENT_SYNC:
    case WIRE_EVENT_QUERY:
        event->references++;
        channel->waiting =
            (struct waiting){.kind = request->op == WIRE_EVENT_SYNC ? WAIT_EVENT : POLL_EVENT,
                             .event = event,
                             .sequence = event->recorded};
        return REQUEST_WAITS;
    default:
        return REQUEST_MALFORMED;
    }
}

/* What spoils a capture, by the CUresult. */
static const struct {
    int result;
    const char *error, *text;
} misuses[] = {
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported",
     "a call that waits for a stream or the device, asks whether they are done, or allocates "
     "memory "
     "was made"},
    {CUDA_ERROR_STREAM_CAPTURE_MERGE, "cudaErrorStreamCaptureMerge",
     "a stream waited for an event of another capture"},
    {CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched",
     "the capture was ended on another stream than the one that it began on"},
    {CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "cudaErrorStreamCaptureUnjoined",
     "a stream that the capture had forked was not joined before its end"},
    {CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "cudaErrorStreamCaptureIsolation",
     "a stream waited for an event that was recorded outside of the capture"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "cudaErrorStreamCaptureImplicit",
     "the legacy default stream was used, for which a blocking stream waits"},
    {CUDA_ERROR_CAPTURED_EVENT, "cudaErrorCapturedEvent",
     "the host waited for an event that the capture had recorded, or asked for it"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "cudaErrorStreamCaptureWrongThread",
     "the capture was ended by another thread than the one that began it"},
};

/* Each kind of misuse is told once. */
static int handle_spoilt(struct channel *channel)
{
    struct client *client = channel->client;
    const struct wire_request *request = &channel->request;
    const struct stream *stream = stream_find(client, request->stream, request->device);

    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        if (misuses[i].result != request->spoilt.result) {
            continue;
        }
        if (stream && !(client->misuses >> i & 1)) {
            client->misuses |= 1u << i;
            char *message =
                xasprintf("%s while stream %d of the process was captured: %s (pkb_run %u)",
                          misuses[i].text, stream->number, misuses[i].error, client->calls + 1);
            report_finding(client, "capture_misuse", message);
            free(message);
        }
        return CUDA_SUCCESS;
    }
    return CUDA_SUCCESS; /* it ran out of memory: no misuse */
}

int request_work(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    const struct wire_request *request = &channel->request;
    struct stream *stream = NULL;

    switch ((enum wire_op)request->op) {
    case WIRE_STREAM_CREATE:
        stream = stream_open(client, request->device, request->options.flags);
        reply->id = stream ? stream->id : 0;
        return stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    case WIRE_EVENT_CREATE:
        return handle_event_create(channel, reply);
    case WIRE_EVENT_DESTROY:
    case WIRE_EVENT_RECORD:
    case WIRE_EVENT_SYNC:
    case WIRE_EVENT_QUERY:
    case WIRE_EVENT_ELAPSED:
    case WIRE_STREAM_WAIT:
        return handle_event(channel, reply);
    case WIRE_HOST_NEXT:
        channel->waiting = (struct waiting){.kind = WAIT_HOST};
        return REQUEST_WAITS;
    case WIRE_HOST_DONE:
        return handle_host_done(channel);
    case WIRE_CAPTURE_SPOILT:
        return handle_spoilt(channel);
    case WIRE_DEVICE_SYNC:
        channel->waiting = (struct waiting){
            .kind = WAIT_DEVICE, .device = request->device, .sequence = client->sequence};
        return REQUEST_WAITS;
    default:
        break;
    }
    stream = stream_find(client, request->stream, request->device);
    return stream ? handle_stream(channel, stream) : CUDA_ERROR_INVALID_HANDLE;
}
