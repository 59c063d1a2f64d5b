/*
 * cuda_link.h — the connection of this process to pkb-simd, and what belongs to it.
 *
 * The connection is opened by the first call, from PKB_SIM_FD; every thread that calls gets a
 * channel of its own, which closes with the thread. A forked child has none: its calls fail as on a
 * GPU.
 */
#pragma once

#include "sim/cuda_api.h"
#include "sim/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_call {
    struct wire_request request; /* payload_bytes is that of `payload` */
    const void *payload;
    int give_fd; /* attached to the request; 0: none */
    struct wire_reply reply;
    void *into; /* the reply's payload, at most into_bytes; may be NULL */
    size_t into_bytes;
    bool takes_fd;
    int taken_fd; /* came with the reply, if takes_fd and the call succeeded */
};

/* Sends the request and waits for the reply. */
CUresult link_call(struct link_call *call);
/* A request that needs nothing but its record and the reply's result. */
CUresult link_send(const struct wire_request *request);

/* This thread's staging memory of WIRE_STAGING_BYTES, or NULL. */
uint8_t *link_staging(void);

/* Opens the connection if it is not. */
CUresult link_open(void);
const struct wire_hello *link_hello(void);

/* The device of the thread's current context, or -1. (cuda_context.c) */
int context_device(void);
int context_device_of(CUcontext context);
bool context_is(CUcontext context);
/* Whether the driver is initialised and has this device. */
CUresult context_check_device(CUdevice device);
/* link_open, and CUDA_ERROR_INVALID_CONTEXT where the thread has no context. */
CUresult context_enter(int *device);
