/*
 * stream.h — the order in which a client's work runs on its devices.
 *
 * A stream is a queue of items; its head is what runs. Items of one client are numbered in the
 * order of the calls. The legacy stream of a device and its blocking streams wait for each other's
 * items with lower numbers. What touches only memory that no other client can reach is done as soon
 * as it is queued, if nothing is before it; everything else waits for quiet.h to say that the
 * devices may run. Copies and sets take no simulated time.
 */
#pragma once

#include "common/error.h"
#include "sim/engine.h"
#include "sim/order.h"
#include "sim/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct channel;
struct client;

enum {
    STREAMS_MAX = 4096,                /* of one client */
    STREAM_DEPTH = 1024,               /* of a queue: who adds more waits */
    STREAM_QUEUED_BYTES_MAX = 1 << 30, /* of host memory, of one client */
};

struct event {
    int references;
    int device; /* -1: not recorded yet */
    bool has_timing;
    struct wire_key key;          /* zero: not exported */
    uint64_t recorded, completed; /* numbers of records */
    int64_t time_ns;              /* of the last completed record */
    struct clock *clock;          /* what was before that; NULL: not known */
};

enum item_kind {
    ITEM_KERNEL,
    ITEM_COPY,
    ITEM_SET,
    ITEM_FREE,
    ITEM_RECORD,
    ITEM_WAIT_EVENT,
    ITEM_HOST,
    ITEM_WRITE_VALUE,
    ITEM_WAIT_VALUE,
};
struct item {
    struct item *next;
    enum item_kind kind;
    uint64_t sequence;
    bool is_nccl;
    bool is_call_end;  /* a record at the end of a pkb_run */
    struct grid *grid; /* of a kernel that runs */
    struct launch launch;
    uint8_t *bytes; /* parameters of a kernel, or what a copy takes from the host; owned */
    uint64_t bytes_size;
    enum { HOST_QUEUED, HOST_DUE, HOST_RUNNING, HOST_ENDED } host; /* of a host function */
    uint64_t function;
    struct channel *channel; /* whose staging memory a copy fills; it waits for that */
    struct wire_copy copy;
    struct wire_set set;
    struct wire_value value;
    uint64_t address;
    struct event *event; /* one reference */
    uint64_t record;
    struct work_order *order; /* owned; NULL: not followed */
    struct clock *queued;     /* of the end of a pkb_run: the last numbers of all lanes; owned */
};

struct stream {
    struct stream *next;
    struct client *client;
    uint64_t id;
    int device;
    bool is_legacy, is_blocking;
    bool is_destroyed; /* goes when its work is done */
    struct item *head, *tail;
    int item_count;
    uint64_t done_sequence; /* every item up to here is done */
    int number;             /* of those that the process made, from 1; 0: a legacy one */
    int lane;               /* order.h; 0: none yet */
    struct clock *clock;    /* what is done before its next item; with the lane */
};

/* Made with the client: the legacy stream of each device. */
struct stream *stream_open(struct client *client, int device, uint32_t flags);
/* The stream called `id`, or the legacy one of the device; NULL where there is none. */
struct stream *stream_find(struct client *client, uint64_t id, int device);
/* Frees it when its work is done. */
void stream_destroy(struct stream *stream);
/* Drops what is queued or runs. */
void stream_clear(struct stream *stream);
void streams_release(struct client *client);

struct item *item_make(enum item_kind kind);
/* Takes `item` with all it owns. A CUresult: what went wrong with an item that ran at once. */
int stream_push(struct stream *stream, struct item *item);
void item_release(struct client *client, struct item *item);

/* The host function that stands in this state, lowest sequence first, or NULL. */
struct item *stream_host_item(const struct client *client, int host);

bool stream_is_done(const struct stream *stream);
/* Whether all that was queued up to `sequence` is done, and on all streams of a device. */
bool stream_is_done_until(const struct stream *stream, uint64_t sequence);
bool device_is_done_until(const struct client *client, int device, uint64_t sequence);

/* Starts and completes what can be, in the order of sequence; true if an item was completed or
 * started. */
bool streams_advance(struct client *client);
/* Whether any item is queued. */
bool streams_have_work(const struct client *client);

void event_release(struct event *event);
