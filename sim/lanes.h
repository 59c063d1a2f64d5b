/*
 * lanes.h — what a client's streams, events and host code say about the order of its work.
 *
 * A stream's work is ordered; an event hands on what is before its record to whoever waits for it;
 * the legacy stream and blocking ones wait for each other; what the host has waited for is before
 * all that it queues from then on, and so is what it can see in its own memory. Each piece of work
 * has its clock (order.h) when it starts. Here it is reported, too, what is not ordered before the
 * end of a pkb_run on ctx->stream. The judge's work has no lanes.
 */
#pragma once

struct channel;
struct item;
struct stream;

/* Its place in the stream is known. */
void lanes_queue(struct stream *stream, struct item *item);
/* It is about to run. */
void lanes_start(struct stream *stream, struct item *item);
/* It has been done. */
void lanes_end(struct stream *stream, const struct item *item);
/* The stream is no more. */
void lanes_close(struct stream *stream);
/* The host's wait, or its successful query, is over. */
void lanes_wait(const struct channel *channel);
