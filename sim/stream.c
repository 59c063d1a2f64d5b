#include "sim/stream.h"

#include "common/mem.h"
#include "sim/client.h"
#include "sim/lanes.h"
#include "sim/machine.h"
#include "sim/report.h"
#include "sim/work.h"

#include <assert.h>
#include <cuda.h>
#include <stdlib.h>

struct stream *stream_open(struct client *client, int device, uint32_t flags)
{
    struct stream **link = &client->streams;
    int count = 0;

    while (*link) {
        link = &(*link)->next;
        count++;
    }
    if (count >= STREAMS_MAX) {
        return NULL;
    }
    bool is_legacy = count < client->machine->options.devices;
    struct stream *stream = xcalloc(1, sizeof *stream);
    *stream = (struct stream){.client = client,
                              .device = device,
                              .is_legacy = is_legacy,
                              .number = is_legacy ? 0 : ++client->streams_made,
                              .is_blocking = !is_legacy && !(flags & WIRE_STREAM_NON_BLOCKING)};
    if (!is_legacy) {
        stream->id = handles_add(&client->handles, HANDLE_STREAM, stream);
        if (!stream->id) {
            free(stream);
            return NULL;
        }
    }
    *link = stream;
    return stream;
}

struct stream *stream_find(struct client *client, uint64_t id, int device)
{
    if (id != WIRE_STREAM_LEGACY) {
        return handles_find(&client->handles, id, HANDLE_STREAM);
    }
    for (struct stream *stream = client->streams; stream; stream = stream->next) {
        if (stream->is_legacy && stream->device == device) {
            return stream;
        }
    }
    return NULL;
}

void event_release(struct event *event)
{
    if (event && --event->references == 0) {
        free(event->clock);
        free(event);
    }
}

struct item *item_make(enum item_kind kind)
{
    struct item *item = xcalloc(1, sizeof *item);

    item->kind = kind;
    return item;
}

void item_release(struct client *client, struct item *item)
{
    if (item->grid) {
        grid_release(item->grid);
    }
    if (item->kind == ITEM_COPY) {
        client->queued_bytes -= item->bytes_size;
    }
    free(item->bytes);
    event_release(item->event);
    free(item->order);
    free(item->queued);
    free(item);
}

static bool writes_host_memory(const struct client *client, uint64_t address)
{
    const struct region *region = region_find(client, address);

    return region && region->kind == REGION_HOST;
}

/* Whether the client can see that the item is done, other than by waiting for it. */
static bool is_news(const struct stream *stream, const struct item *item)
{
    switch (item->kind) {
    case ITEM_RECORD:
        return true;
    case ITEM_COPY:
        return item->copy.kind == WIRE_COPY_STAGED_OUT ||
               writes_host_memory(stream->client, item->copy.to);
    case ITEM_SET:
        return writes_host_memory(stream->client, item->set.to);
    case ITEM_WRITE_VALUE:
        return writes_host_memory(stream->client, item->value.address);
    default:
        return false;
    }
}

static void drop_head(struct stream *stream)
{
    struct item *item = stream->head;

    stream->client->has_news |= !item->next || is_news(stream, item);

    stream->head = item->next;
    if (!stream->head) {
        stream->tail = NULL;
    }
    stream->item_count--;
    stream->done_sequence = item->sequence;
    lanes_end(stream, item);
    item_release(stream->client, item);
}

void stream_clear(struct stream *stream)
{
    while (stream->head) {
        drop_head(stream);
    }
}

/* Takes the stream out of the list and frees it. */
static void stream_close(struct stream *stream)
{
    struct stream **link = &stream->client->streams;

    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    stream_clear(stream);
    lanes_close(stream);
    free(stream);
}

/* Destroyed streams go when they are done and nobody waits for them. */
static void reap(struct client *client)
{
    struct stream *next = NULL;

    for (struct stream *stream = client->streams; stream; stream = next) {
        next = stream->next;
        bool is_needed = !stream->is_destroyed || stream->head;
        for (struct channel *channel = client->channels; channel; channel = channel->next) {
            is_needed |= channel->is_pending && channel->waiting.stream == stream;
        }
        if (!is_needed) {
            stream_close(stream);
        }
    }
}

void stream_destroy(struct stream *stream)
{
    struct client *client = stream->client;

    handles_remove(&client->handles, stream->id);
    stream->is_destroyed = true;
    reap(client);
}

void streams_release(struct client *client)
{
    while (client->streams) {
        stream_close(client->streams);
    }
}

/* The legacy stream and the blocking streams of a device run in the order of the calls. */
static bool is_ordered_before(const struct stream *other, const struct stream *stream)
{
    bool is_ordered =
        stream->is_legacy ? other->is_blocking : stream->is_blocking && other->is_legacy;

    return is_ordered && other->device == stream->device && other->head &&
           other->head->sequence < stream->head->sequence;
}

/* Started, and not complete by that. */
static bool is_running(const struct item *item)
{
    return item->grid || item->host != HOST_QUEUED;
}

static bool can_start(const struct stream *stream)
{
    if (!stream->head || is_running(stream->head)) {
        return false;
    }
    for (const struct stream *other = stream->client->streams; other; other = other->next) {
        if (is_ordered_before(other, stream)) {
            return false;
        }
    }
    return work_is_ready(stream->client, stream->head);
}

static const char *kind_text(const struct item *item)
{
    switch (item->kind) {
    case ITEM_KERNEL:
        return "kernel";
    case ITEM_COPY:
        return "a copy";
    case ITEM_SET:
        return "a memset";
    case ITEM_WRITE_VALUE:
        return "a write of a value";
    default:
        return NULL; /* it does nothing by itself */
    }
}

/* The first piece of work up to `sequence` that is not done. */
static const struct item *first_left(const struct stream *stream, uint64_t sequence)
{
    for (const struct item *item = stream->head; item && item->sequence < sequence;
         item = item->next) {
        if (kind_text(item) && !item->is_nccl) {
            return item;
        }
    }
    return NULL;
}

/* Reports what was queued before `end` on other streams and is not done, the first of each. */
static void report_left(struct client *client, const struct stream *stream, const struct item *end)
{
    for (const struct stream *other = client->streams; other; other = other->next) {
        const struct item *left = other == stream ? NULL : first_left(other, end->sequence);
        if (!left) {
            continue;
        }
        const struct kernel *kernel = left->launch.kernel;
        const char *name = !kernel ? "" : kernel->demangled ? kernel->demangled : kernel->name;
        char *where = other->is_legacy ? xstrdup("the legacy default stream")
                                       : xasprintf("stream %d of the process", other->number);
        char *message = xasprintf(
            "%s%s%s on %s was %s when the work on ctx->stream was done: it was not joined "
            "to it",
            kind_text(left), kernel ? " " : "", name, where,
            left->grid ? "still running" : "still waiting to run");
        report_finding(client, "work_left_running", message);
        free(message);
        free(where);
    }
}

static int run_head(struct stream *stream)
{
    if (stream->head->is_call_end) {
        report_left(stream->client, stream, stream->head);
    }
    lanes_start(stream, stream->head);
    int result = work_run(stream->client, stream->head);

    if (!is_running(stream->head)) {
        drop_head(stream);
    }
    return result;
}

int stream_push(struct stream *stream, struct item *item)
{
    struct client *client = stream->client;

    item->sequence = ++client->sequence;
    item->launch.call = client->calls;
    client->calls += item->is_call_end;
    lanes_queue(stream, item);
    if (stream->tail) {
        stream->tail->next = item;
    } else {
        stream->head = item;
    }
    stream->tail = item;
    stream->item_count++;
    if (stream->head != item || !work_is_local(client, item) || !can_start(stream)) {
        return CUDA_SUCCESS;
    }
    int result = run_head(stream);
    if (result) {
        client_set_sticky(client, result);
    }
    return result;
}

struct item *stream_host_item(const struct client *client, int host)
{
    struct item *first = NULL;

    for (const struct stream *stream = client->streams; stream; stream = stream->next) {
        struct item *item = stream->head;
        if (item && item->kind == ITEM_HOST && (int)item->host == host &&
            (!first || item->sequence < first->sequence)) {
            first = item;
        }
    }
    return first;
}

bool stream_is_done(const struct stream *stream)
{
    return stream_is_done_until(stream, UINT64_MAX);
}

/* To wait for the legacy stream is to wait for the blocking ones too. */
bool stream_is_done_until(const struct stream *stream, uint64_t sequence)
{
    const struct stream *other = stream->is_legacy ? stream->client->streams : NULL;

    for (; other; other = other->next) {
        if (other->is_blocking && other->device == stream->device && other->head &&
            other->head->sequence <= sequence) {
            return false;
        }
    }
    return !stream->head || stream->head->sequence > sequence;
}

bool device_is_done_until(const struct client *client, int device, uint64_t sequence)
{
    for (const struct stream *stream = client->streams; stream; stream = stream->next) {
        if (stream->device == device && !stream_is_done_until(stream, sequence)) {
            return false;
        }
    }
    return true;
}

bool streams_have_work(const struct client *client)
{
    for (const struct stream *stream = client->streams; stream; stream = stream->next) {
        if (stream->head) {
            return true;
        }
    }
    return false;
}

/* Takes what the grids that have ended leave; false where a fault ended the client's work. */
static bool collect(struct client *client, bool *changed)
{
    for (struct stream *stream = client->streams; stream; stream = stream->next) {
        struct item *item = stream->head;
        if (item && item->host == HOST_ENDED) {
            *changed = true;
            drop_head(stream);
            item = stream->head;
        }
        if (!item || !item->grid) {
            continue;
        }
        enum grid_state state = grid_state(item->grid);
        if (client->output.size_bytes < CLIENT_OUTPUT_MAX) {
            grid_take_output(item->grid, &client->output);
        }
        if (state == GRID_FAULTED) {
            *changed = true;
            client_fault(client, item->grid);
            return false;
        }
        if (state == GRID_DONE) {
            *changed = true;
            drop_head(stream);
        }
    }
    return true;
}

bool streams_advance(struct client *client)
{
    bool changed = false;
    bool goes_on = collect(client, &changed);

    while (goes_on && !client->sticky) {
        struct stream *first = NULL;
        for (struct stream *stream = client->streams; stream; stream = stream->next) {
            if (can_start(stream) && (!first || stream->head->sequence < first->head->sequence)) {
                first = stream;
            }
        }
        if (!first) {
            break;
        }
        changed = true;
        int result = run_head(first);
        if (result) {
            client_set_sticky(client, result);
        }
    }
    reap(client);
    return changed;
}
