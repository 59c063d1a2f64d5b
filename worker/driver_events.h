/*
 * driver_events.h — the driver's errors as a child process (pkb-judge --xids) tells of them.
 *
 * Runs on the loop. `lost` is called once, when the child has ended: nothing more will be told.
 */
#pragma once

#include "worker/sandbox.h"
#include "worker/xid.h"

struct driver_events;

struct driver_events_options {
    const struct sandbox_node *node;
    void (*found)(void *context, const struct xid *xid);
    void (*lost)(void *context);
    void *context;
};

/* ERR_UNAVAILABLE: the child does not start, or the message says why it does not watch. Waits for
 * its first line. */
enum status driver_events_open(struct driver_events **events,
                               const struct driver_events_options *options, struct error *err);
/* NULL: nothing. */
void driver_events_close(struct driver_events *events);
