/* nccl_comm.h — what the group calls need of the communicators' module. */
#pragma once

#include <nccl.h>

/* A group was opened or closed in this thread: communicators asked for inside wait for its end. */
void comm_group_depth(int change);
ncclResult_t comm_create_pending(void);
