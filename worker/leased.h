/*
 * leased.h — a job that this worker holds: kept alive by heartbeats, evaluated, looked at when it
 * has left the node, reported until the server acknowledges it or says that the lease is another's.
 *
 * A job whose lease could not be renewed for two thirds of its life is killed. One under which a
 * GPU failed is reported as a fault of the node, whatever came out of it. `ended` is called once,
 * and the caller then closes it.
 */
#pragma once

#include "worker/connection.h"
#include "worker/evaluation.h"
#include "worker/fitness.h"

struct leased;

struct leased_options {
    struct connection *connection;
    const char *worker; /* its name */
    const struct evaluation_settings *settings;
    struct fitness *fitness;
    void (*ended)(void *context);
    void *context;
};

/* Takes over what the grant holds. */
void leased_open(struct leased **leased, const struct leased_options *options,
                 const struct lease_grant *grant);
/* Whatever is due by now. */
void leased_step(struct leased *leased, int64_t now_ms);
/* A GPU failed: what runs is of no use. */
void leased_fail(struct leased *leased);
/* Nothing of it runs: it can be closed before it has ended. */
bool leased_is_evaluated(const struct leased *leased);
/* NULL: nothing. */
void leased_close(struct leased *leased);
