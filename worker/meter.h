/*
 * meter.h — a timed call as pkb-rank makes it.
 *
 * Opened once, on hardware. An iteration puts onto the rank's stream: a gate that waits for the
 * key, the unmasking of this rank's inputs, an event, the calls, an event, and one kernel that says
 * done, waits for the nonce and proves that the outputs are there. The judge's clock decides; the
 * events are only this process's word.
 */
#pragma once

#include "worker/caller.h"

struct meter;

struct meter_options {
    int judge; /* the socket; not closed here */
    int rank, device;
    cudaStream_t stream;
    int page_fd, inputs_fd; /* stay the caller's */
    uint64_t inputs_bytes;
};

enum status meter_open(struct meter **meter, const struct meter_options *options,
                       struct error *err);
/* Tells ENTERED, RETURNED and FINISHED of each call. */
enum status meter_iterate(struct meter *meter, struct caller *caller,
                          const struct iteration_body *body, struct error *err);
