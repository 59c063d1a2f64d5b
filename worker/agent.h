/*
 * agent.h — the worker as a daemon: leases jobs from the server, evaluates them, reports.
 *
 * Each slot holds one job: leased, kept alive by heartbeats, evaluated, reported until the server
 * acknowledges it or says that the lease is another's by now. A job whose lease could not be
 * renewed for two thirds of its life is killed. agent_run returns after agent_drain, once every
 * slot is empty, or when the server refuses this worker for good.
 */
#pragma once

#include "common/error.h"
#include "worker/evaluation.h"

struct agent;

enum { SLOTS_MAX = 64 };

struct agent_options {
    const char *server, *token, *name;
    enum device_kind device;
    int slots; /* on hardware one: a job that is timed has the node alone */
    int gpus;  /* that a slot offers: for DEVICE_CUDA, of this node; else ranks of a job */
    const struct evaluation_settings *settings;
};

/* Blocks, on the loop. ERR_DENIED, ERR_UNAUTHENTICATED: the token is not for this worker. */
enum status agent_run(const struct agent_options *options, struct error *err);
