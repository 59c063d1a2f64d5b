/*
 * devices.h — the GPUs of this node, asked of pkb-judge, since pkb-worker links no CUDA.
 */
#pragma once

#include "common/lease.h"
#include "worker/sandbox.h"
#include "worker/xid.h"

enum { DEVICES_WAIT_MS = 60000, DEVICE_TEXT_MAX = 96, DEVICES_ANSWER_MAX = 16384 };

struct device {
    struct pci_address pci;
    int64_t used_bytes; /* of its memory, before anybody of ours; -1: not known */
    char uuid[DEVICE_TEXT_MAX];
};

struct devices {
    int ranks; /* that a job can have */
    struct device gpu[GPUS_MAX];
    int gpu_count;                /* that something is known of */
    char driver[DEVICE_TEXT_MAX]; /* "580.65.06"; "": not known */
    int cuda;                     /* 13000 is 13.0, that the driver can do; 0: not known */
};

/*
 * Has pkb-judge look at every GPU (health and, for DEVICE_CUDA, whether others use it), and waits.
 * Kinds whose ranks need no GPU each: as many as a job can have ranks. ERR_UNAVAILABLE names what
 * is missing; the versions are filled in even then, where they are known.
 */
enum status devices_look(const struct sandbox_node *node, enum device_kind kind,
                         struct devices *devices, struct error *err);
/* Reads what pkb-judge has written, and how it ended (as from waitpid): the same, for callers that
 * do the waiting. */
enum status devices_understand(char *answer, int wait_status, enum device_kind kind,
                               struct devices *devices, struct error *err);
/* Can a job of that world run on so many GPUs? ERR_UNAVAILABLE: too few. */
enum status devices_suffice(enum device_kind kind, int ranks, int world, struct error *err);
/* Are they the same ones as at first, and is nothing left in their memory? ERR_UNAVAILABLE says
 * what is not so. */
enum status devices_compare(const struct devices *first, const struct devices *now,
                            struct error *err);
