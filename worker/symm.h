/*
 * symm.h — the services that a submission calls in a rank: symmetric memory and the host barrier.
 *
 * One struct symm per rank process, opened once all memory of the job was announced. What pkb_setup
 * asks for is freed after pkb_teardown by symm_end_run. pkb_host_barrier and pkb_symm_alloc poll
 * the rank's stream while they wait, so that a simulator sees that this rank is waiting.
 */
#pragma once

#include "tasks/solution.h"
#include "worker/arena.h"
#include "worker/channel.h"

enum { SYMM_ALLOCATIONS_MAX = 64 };

struct symm_options {
    int judge; /* the socket; not closed here */
    int rank, world, device;
    struct control_page *page;
    uint64_t signal_mapped_bytes;
    const int *signal_fds; /* `world` of them, and one where there is multicast; not closed here */
    bool has_multicast;
};

struct symm;

enum status symm_open(struct symm **symm, const struct symm_options *options, struct error *err);
void symm_close(struct symm *symm);

/* Fills in signal and services of `ctx`, whose other fields are set already. It then belongs to
 * this symm until symm_end_run: pkb_symm_alloc is allowed until symm_end_setup. */
void symm_begin_run(struct symm *symm, struct pkb_ctx *ctx);
void symm_end_setup(struct symm *symm);
void symm_end_run(struct symm *symm);
