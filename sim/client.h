/*
 * client.h — one process that uses the simulated devices: its connection, its threads' channels,
 * and how it ends.
 *
 * A request is read whole, handed to request.h, and answered at once or later. What a client sends
 * that the protocol does not allow ends that client only: client_end marks it, and machine_run
 * closes it between two requests.
 */
#pragma once

#include "sim/machine.h"

enum { CLIENT_OUTPUT_MAX = 1 << 20 };

/* The client's streams and windows, once the machine has its devices. */
void client_open(struct client *client);
/* Frees all that it has; its memory lives on where others have mapped it. */
void client_close(struct client *client);

/* Reads what has arrived; true when a whole request is here. */
bool channel_take(struct channel *channel);
/* Answers the request; `payload` of reply->payload_bytes; `fd` is attached where it is not -1. */
void channel_reply(struct channel *channel, struct wire_reply *reply, const void *payload, int fd);
void channel_answer(struct channel *channel, int result);

/* A new thread's channel, which takes `fd`; NULL beyond WIRE_CHANNELS_MAX. */
struct channel *channel_open(struct client *client, int fd, int *staging_fd);
void channel_close(struct channel *channel);

/* The client is to be closed, for this reason. */
void client_end(struct client *client, const char *reason);
/* Every further call of it fails with `result`; its work is dropped. */
void client_set_sticky(struct client *client, int result);
/* A kernel of it has failed: reported, and sticky. */
void client_fault(struct client *client, struct grid *grid);

/* CPU time of its process; 0 where that cannot be known. */
int64_t client_cpu_ns(const struct client *client);
