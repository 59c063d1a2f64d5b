/*
 * gate.h — is this node clean? Asked before the first job and after each.
 *
 * Clean is: no process of the slot's users lives, the disk has room, and, on GPUs, each can run a
 * kernel (through the MPS server, where jobs use one), nobody else uses it where a job has it
 * alone, and its memory is as free as at first. Runs on the loop; `done` is called once, never
 * before gate_open has returned, unless gate_close comes first.
 */
#pragma once

#include "worker/devices.h"
#include "worker/slot.h"

struct gate;

struct gate_options {
    const struct sandbox_node *node;
    enum device_kind device;
    const struct devices *first; /* at the start of this worker */
    int64_t disk_min_bytes;      /* that have to be free below the node's work directory */
};

struct gate_question {
    const struct slot_lease *slot; /* that is to be clean; NULL: all that nobody holds */
    bool has_gpus;                 /* and the GPUs, where there are any */
    /* ERR_CONFLICT: a process is left. ERR_LIMIT: the disk. ERR_UNAVAILABLE: a GPU. */
    void (*done)(void *context, enum status status, const struct error *err);
    void *context;
};

void gate_open(struct gate **gate, const struct gate_options *options,
               const struct gate_question *question);
/* NULL: nothing. */
void gate_close(struct gate *gate);
