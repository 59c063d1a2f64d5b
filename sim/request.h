/*
 * request.h — what each request of a client does.
 *
 * Handlers check every field. They answer, or leave the channel waiting; a request that no library
 * of ours would send ends the client.
 */
#pragma once

#include "sim/client.h"

struct item;
struct stream;

/* A handler's result beside a CUresult. */
enum { REQUEST_WAITS = -1, REQUEST_ANSWERED = -2, REQUEST_MALFORMED = -3 };

/* Handlers of one subject each; they fill `reply` and return a CUresult or one of the above. */
int request_memory(struct channel *channel, struct wire_reply *reply);
int request_multicast(struct channel *channel, struct wire_reply *reply);
int request_ipc(struct channel *channel, struct wire_reply *reply);
int request_program(struct channel *channel, struct wire_reply *reply);
int request_work(struct channel *channel, struct wire_reply *reply);
int request_launch(struct channel *channel, struct wire_reply *reply);

/* Whether the client's handle is that of a multicast object to which devices are still to be added:
 * nothing can be bound to it nor mapped before. */
bool request_misses_devices(const struct channel *channel, uint64_t handle);

/* Queues `item`, taking it. The answer waits for it, where `waits`, or else for the head of a queue
 * that is too deep. */
int request_push(struct channel *channel, struct stream *stream, struct item *item, bool waits);

/* Handles the channel's whole request. True if it was active: not a mere poll. */
bool request_handle(struct channel *channel);

/* Whether a request that waits can be answered now; a poll cannot. */
bool request_is_satisfied(const struct channel *channel);
/* Answers a request that waits, or a poll. */
void request_finish(struct channel *channel);
