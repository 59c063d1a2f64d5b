/*
 * selftest.h — proves each layer of the sandbox by attacking it.
 *
 * pkb-probe runs in a sandbox of each policy, and once more without the filters, so that no layer
 * hides behind another. Takes about as long as the start of a job. Uses no loop.
 */
#pragma once

#include "worker/sandbox.h"

/* ERR_UNAVAILABLE: the message names each layer that is missing and not waived, and what happened.
 * Needs a node that cgroup_prepare and sandbox_node_init have prepared. */
enum status selftest_run(const struct sandbox_node *node, struct error *err);
