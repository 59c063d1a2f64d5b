/*
 * staging.h — lets the users of jobs reach our programs and CUDA, wherever they are installed.
 *
 * Where another user cannot pass the folders above them (a checkout in /root), this process gets a
 * mount namespace of its own, in which they are also below /run/pkb; the node's paths then lead
 * there. Nothing of the machine changes.
 */
#pragma once

#include "worker/sandbox.h"

struct staging {
    char bin[64], sim[64], nccl[64], cuda[64], bwrap[PATH_MAX];
};

/* Before anything is started. ERR_UNAVAILABLE: they cannot be reached, and the message says what
 * to do. `staging` has to live as long as the node. */
enum status staging_prepare(struct staging *staging, struct sandbox_node *node, struct error *err);
