#include "sim/lanes.h"

#include "common/mem.h"
#include "sim/client.h"
#include "sim/machine.h"
#include "sim/report.h"
#include "sim/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct order_state *state_of(const struct client *client)
{
    return engine_order(client->machine->engine);
}

/* A lane of this client that is free, or a new one; 0: there are no more. */
static int take_lane(const struct stream *stream)
{
    struct order_state *state = state_of(stream->client);
    int at = 1;

    /* Work of the stream that had it before counts as done before: it adds order only. */
    while (at < state->lane_count &&
           (state->lanes[at].is_open || state->lanes[at].rank != stream->client->rank)) {
        at++;
    }
    if (at == ORDER_LANES) {
        return 0;
    }
    struct lane *lane = &state->lanes[at];
    state->lane_count = at == state->lane_count ? at + 1 : state->lane_count;
    lane->rank = stream->client->rank;
    lane->is_open = true;
    lane->is_unjoined = false;
    if (stream->is_legacy) {
        (void)snprintf(lane->stream, sizeof lane->stream, "the legacy default stream");
    } else {
        (void)snprintf(lane->stream, sizeof lane->stream, "stream %d of the process",
                       stream->number);
    }
    return at;
}

void lanes_close(struct stream *stream)
{
    if (stream->lane) {
        state_of(stream->client)->lanes[stream->lane].is_open = false;
    }
    free(stream->clock);
}

/* ---- the host queues ---- */

/* What reports call it; NULL: it does nothing by itself. */
static char *what_of(const struct item *item)
{
    const struct kernel *kernel = item->launch.kernel;

    switch (item->kind) {
    case ITEM_KERNEL:
        return xasprintf("kernel %s", kernel->demangled ? kernel->demangled : kernel->name);
    case ITEM_COPY:
        return xstrdup("a copy");
    case ITEM_SET:
        return xstrdup("a memset");
    case ITEM_WRITE_VALUE:
        return xstrdup("a write of a value");
    case ITEM_FREE:
        return xstrdup("a free");
    default:
        return NULL;
    }
}

static void give_number(struct stream *stream, struct item *item)
{
    struct lane *lane = &state_of(stream->client)->lanes[stream->lane];
    char *what = what_of(item);

    if (what || item->is_call_end) {
        struct past *past = &lane->past[++lane->number % ORDER_PAST];
        (void)snprintf(past->what, sizeof past->what, "%s", what ? what : "");
        past->is_nccl = item->is_nccl;
    }
    item->order->number = lane->number;
    free(what);
}

static void queue_call_end(struct stream *stream, struct item *item)
{
    struct client *client = stream->client;
    struct order_state *state = state_of(client);

    item->queued = xcalloc(1, sizeof *item->queued);
    for (int i = 1; i < state->lane_count; i++) {
        item->queued->done[i] = state->lanes[i].rank == client->rank ? state->lanes[i].number : 0;
    }
    client->run_lane = stream->lane;
    client->run_end = item->order->number;
    (void)snprintf(state->lanes[stream->lane].stream, ORDER_NAME_MAX, "ctx->stream");
}

void lanes_queue(struct stream *stream, struct item *item)
{
    struct client *client = stream->client;

    if (client->rank < 0 || client->is_unordered) {
        return;
    }
    if (!stream->lane) {
        stream->lane = take_lane(stream);
        stream->clock = xcalloc(1, sizeof *stream->clock);
        client->host = client->host ? client->host : xcalloc(1, sizeof *client->host);
    }
    if (!stream->lane || state_of(client)->lanes[stream->lane].number == ORDER_NUMBER_MAX) {
        client->is_unordered = true; /* from now on nothing of it is judged */
        return;
    }
    item->order = xcalloc(1, sizeof *item->order);
    item->order->clock = *client->host;
    item->order->host = client->host;
    item->order->lane = stream->lane;
    item->order->rank = client->rank;
    item->order->call = item->launch.call;
    if (client->run_lane != stream->lane) {
        item->order->run_lane = client->run_lane;
        item->order->run_end = client->run_end;
    }
    give_number(stream, item);
    if (item->is_call_end) {
        queue_call_end(stream, item);
    }
}

/* ---- work starts ---- */

/* Joins what the streams say with which this one runs in turn. */
static void join_turns(const struct stream *stream, struct clock *clock)
{
    const struct order_state *state = state_of(stream->client);

    for (const struct stream *other = stream->client->streams; other; other = other->next) {
        bool is_in_turn =
            stream->is_legacy ? other->is_blocking : stream->is_blocking && other->is_legacy;
        if (is_in_turn && other->device == stream->device && other->clock) {
            clock_join(state, clock, other->clock);
        }
    }
}

/* Whether another lane of the rank has work that is not ordered before this. */
static bool has_unordered(const struct order_state *state, const struct work_order *order)
{
    for (int i = 1; i < state->lane_count; i++) {
        if (i != order->lane && state->lanes[i].rank == order->rank &&
            state->lanes[i].number > order->clock.done[i]) {
            return true;
        }
    }
    return false;
}

static void touch_rows(struct client *client, struct item *item, struct order_range range,
                       uint64_t pitch_bytes, uint64_t height)
{
    for (uint64_t row = 0; row < height; row++) {
        order_touch(client->space, item->order, &range);
        range.address += pitch_bytes;
    }
}

static void touch(struct client *client, struct item *item)
{
    const struct wire_copy *copy = &item->copy;
    const struct wire_set *set = &item->set;
    const struct region *region = NULL;

    switch (item->kind) {
    case ITEM_COPY:
        if (copy->kind != WIRE_COPY_STAGED_IN) {
            touch_rows(client, item,
                       (struct order_range){copy->from, copy->width_bytes, false, "a copy"},
                       copy->from_pitch_bytes, copy->height);
        }
        if (copy->kind != WIRE_COPY_STAGED_OUT) {
            touch_rows(client, item,
                       (struct order_range){copy->to, copy->width_bytes, true, "a copy"},
                       copy->to_pitch_bytes, copy->height);
        }
        break;
    case ITEM_SET:
        touch_rows(client, item, (struct order_range){set->to, set->width_bytes, true, "a memset"},
                   set->pitch_bytes, set->height);
        break;
    case ITEM_FREE:
        region = region_find(client, item->address);
        if (region) {
            order_touch(client->space, item->order,
                        &(struct order_range){region->address, region->size_bytes, true, "a free"});
        }
        break;
    default:
        break;
    }
}

/* The first work of the lane in this call that is not ordered before its end. */
static void report_lane(struct client *client, int number, const struct item *end)
{
    struct lane *lane = &state_of(client)->lanes[number];
    uint32_t done = end->order->clock.done[number];
    uint32_t before = client->queued_before ? client->queued_before->done[number] : 0;
    uint32_t first = (done > before ? done : before) + 1;
    const struct past *past = lane_past(lane, first);

    if (!past || past->is_nccl || lane->is_unjoined) {
        return;
    }
    char *message = xasprintf("%s on %s is not joined to ctx->stream when pkb_run %u returns: "
                              "nothing on ctx->stream waits for it",
                              past->what, lane->stream, end->order->call + 1);
    lane->is_unjoined = true;
    report_finding(client, "unjoined_work", message);
    free(message);
}

static void report_unjoined(struct client *client, struct item *end)
{
    const struct order_state *state = state_of(client);

    for (int i = 1; i < state->lane_count; i++) {
        if (i != end->order->lane && state->lanes[i].rank == client->rank &&
            end->queued->done[i] > end->order->clock.done[i]) {
            report_lane(client, i, end);
        }
    }
    free(client->queued_before);
    client->queued_before = end->queued;
    end->queued = NULL;
}

void lanes_start(struct stream *stream, struct item *item)
{
    struct client *client = stream->client;
    struct order_state *state = state_of(client);
    struct work_order *order = item->order;

    if (!order || client->is_unordered) {
        return;
    }
    clock_join(state, &order->clock, stream->clock);
    join_turns(stream, &order->clock);
    if (item->kind == ITEM_WAIT_EVENT && item->event->clock) {
        clock_join(state, &order->clock, item->event->clock);
    }
    if (item->kind == ITEM_WAIT_VALUE) {
        order_waited(client->space, order, item->value.address);
    }
    if (item->is_call_end) {
        report_unjoined(client, item);
    }
    if (!state->is_on && lane_past(&state->lanes[order->lane], order->number) &&
        has_unordered(state, order)) {
        state->is_on = true;
    }
    if (state->is_on) {
        order->is_checked = order_is_whole(client->machine->engine);
        item->launch.order = order;
    }
    if (order->is_checked) {
        touch(client, item);
    }
}

/* ---- work has been done ---- */

static bool is_seen_by_host(const struct client *client, const struct item *item)
{
    uint64_t address = item->kind == ITEM_COPY          ? item->copy.to
                       : item->kind == ITEM_SET         ? item->set.to
                       : item->kind == ITEM_WRITE_VALUE ? item->value.address
                                                        : 0;
    const struct region *region = address ? region_find(client, address) : NULL;

    return item->kind == ITEM_HOST || (region && region->kind == REGION_HOST);
}

void lanes_end(struct stream *stream, const struct item *item)
{
    struct client *client = stream->client;
    const struct order_state *state = state_of(client);

    if (!item->order) {
        return;
    }
    clock_join(state, stream->clock, &item->order->clock);
    stream->clock->done[stream->lane] = item->order->number;
    if (item->kind == ITEM_RECORD) {
        item->event->clock =
            item->event->clock ? item->event->clock : xcalloc(1, sizeof *item->event->clock);
        *item->event->clock = *stream->clock;
    }
    if (item->kind == ITEM_WRITE_VALUE && state->is_on) {
        order_wrote(client->space, item->order, item->value.address);
    }
    if (is_seen_by_host(client, item)) {
        clock_join(state, client->host, stream->clock);
    }
}

/* ---- the host waits ---- */

static void join_stream(struct client *client, const struct stream *stream)
{
    if (stream->clock) {
        clock_join(state_of(client), client->host, stream->clock);
    }
}

void lanes_wait(const struct channel *channel)
{
    struct client *client = channel->client;
    const struct waiting *waiting = &channel->waiting;

    if (!client->host) {
        return;
    }
    switch (waiting->kind) {
    case WAIT_STREAM:
    case POLL_STREAM:
        join_stream(client, waiting->stream);
        join_turns(waiting->stream, client->host);
        break;
    case WAIT_DEVICE:
        for (const struct stream *stream = client->streams; stream; stream = stream->next) {
            if (stream->device == waiting->device) {
                join_stream(client, stream);
            }
        }
        break;
    case WAIT_EVENT:
    case POLL_EVENT:
        if (waiting->event->clock) {
            clock_join(state_of(client), client->host, waiting->event->clock);
        }
        break;
    default:
        break;
    }
}
