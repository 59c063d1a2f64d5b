/*
 * agent.h — the worker as a daemon: leases jobs from the server while its node is fit for them.
 *
 * Each slot holds one leased job (leased.h). A node that is not fit (fitness.h) tells the server so
 * and leases nothing; when it has quarantined itself it asks the server from time to time whether a
 * person has lifted that. On SIGTERM it leases nothing more, and agent_run returns once every slot
 * is empty; also when the server refuses this worker for good.
 */
#pragma once

#include "common/error.h"
#include "worker/evaluation.h"
#include "worker/fitness.h"

struct agent;

enum { SLOTS_MAX = 64 };

struct agent_options {
    const char *server, *token, *name;
    enum device_kind device;
    int slots; /* jobs at a time; on hardware one runs, and the others build or wait (turns.h) */
    const struct devices *devices;
    const char *kmsg;       /* as in struct fitness_options; so the next one */
    int64_t disk_min_bytes; /* as in struct gate_options */
    const struct evaluation_settings *settings;
};

/* Blocks, on the loop. ERR_DENIED, ERR_UNAUTHENTICATED: the token is not for this worker.
 * ERR_UNAVAILABLE: the driver's errors cannot be watched. */
enum status agent_run(const struct agent_options *options, struct error *err);
