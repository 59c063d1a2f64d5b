/*
 * selftest.h — proves each layer of the sandbox by attacking it.
 *
 * pkb-probe runs in a sandbox of each policy, and once more without the filters, so that no layer
 * hides behind another. Takes about as long as the start of a job. Uses no loop.
 */
#pragma once

#include "worker/sandbox.h"

struct selftest_watch;

/* ERR_UNAVAILABLE: the message names each layer that is missing and not waived, and what happened.
 * Needs a node that cgroup_prepare and sandbox_node_init have prepared. */
enum status selftest_run(const struct sandbox_node *node, struct error *err);

/* On the loop: repeats it, and sends this process SIGTERM when it fails, so that it ends in order;
 * closing then gives the reason. */
struct selftest_watch *selftest_watch_open(const struct sandbox_node *node, int64_t every_ms);
enum status selftest_watch_close(struct selftest_watch *watch, struct error *err);
