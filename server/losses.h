/*
 * losses.h — jobs that take their workers, or the nodes of these, with them.
 *
 * A worker that falls silent while it holds a job may have died of it. The job is tried again until
 * it has lost LOST_WORKERS_MAX workers on two nodes, or LOST_ON_ONE_NODE_MAX on one. A worker that
 * reports a fault of its node gives the job back, which costs the job nothing, until two nodes have
 * failed under it, or one NODE_FAULTS_MAX times. Then it is quarantined, so that one job cannot
 * stop a whole cluster.
 */
#pragma once

#include "server/db.h"
#include "server/leases.h"

enum { LOST_WORKERS_MAX = 3, LOST_ON_ONE_NODE_MAX = 6, NODE_FAULTS_MAX = 3 };

/* Ends a lease whose worker fell silent; *state is what became of the job: JOB_QUEUED or
 * JOB_QUARANTINED. */
enum status loss_count(struct db *db, const struct lease *lease, int64_t wall_ms,
                       enum job_state *state, struct error *err);

/* The same for a lease whose worker reported a fault of its node; *changed is false where that
 * worker does not hold that lease. */
enum status node_fault_count(struct db *db, const struct lease *lease, int64_t wall_ms,
                             enum job_state *state, bool *changed, struct error *err);
