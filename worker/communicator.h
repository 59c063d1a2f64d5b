/*
 * communicator.h — the NCCL communicator that pkb_nccl gives to a submission.
 *
 * Made when it is first asked for, by all ranks together, and kept for the life of the process.
 * libnccl is loaded then, so that nobody else pays for it.
 */
#pragma once

#include "common/error.h"

struct ncclComm;

enum { COMMUNICATOR_ID_BYTES = 128 };

struct communicator_options {
    int rank, world;
    volatile unsigned char *id; /* COMMUNICATOR_ID_BYTES that all ranks share */
    int (*meet)(void *context); /* returns 0 once all ranks have come here */
    void *context;
};

/* ERR_UNAVAILABLE: no NCCL here, or it refused; the message says why. */
enum status communicator_make(struct ncclComm **made, const struct communicator_options *options,
                              struct error *err);
