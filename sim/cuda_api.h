/*
 * cuda_api.h — the driver API's declarations, visible to programs; all else in our libcuda is not.
 */
#pragma once

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>

/* For our libcudart: the call `name` is not simulated. Says so on stderr, once, and to pkb-simd. */
CUresult pkb_cuda_refuse(const char *name);
/* For our libnccl: what this thread queues from now on is NCCL's (1) or the program's own (0). */
void pkb_sim_traffic_tag(int nccl);
/* For pkb-rank: the event that this thread records next stands at the end of a pkb_run: what is
 * still to run then on other streams is reported. */
void pkb_sim_call_ends(void);
/* For pkb-rank: waits until the SOCK_SEQPACKET socket `fd` can be read or has hung up, so that
 * pkb-simd sees this thread wait. May return early. */
void pkb_sim_await(int fd);
#pragma GCC visibility pop
