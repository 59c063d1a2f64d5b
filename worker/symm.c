#include "worker/symm.h"

#include "common/mem.h"
#include "worker/await.h"
#include "worker/communicator.h"
#include "worker/layout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One allocation as this rank maps it. */
struct shared {
    struct arena arenas[WORLD_MAX];
    struct arena multicast; /* not open: there is none */
};

struct symm {
    struct symm_options options;
    struct shared signal;
    struct shared allocations[SYMM_ALLOCATIONS_MAX];
    int count;
    struct ncclComm *communicator; /* NULL: nobody has asked yet */
    struct pkb_ctx *ctx;           /* of the run; NULL between runs */
    bool is_setup;
};

/* ctx is the submission's to change, so it does not lead back to us. */
static struct symm *the_symm;

/* The descriptors are those of the ranks, then that of the multicast object. */
static enum status map_all(struct shared *shared, const struct symm *symm, const int *fds,
                           const struct arena_place *in_window, struct error *err)
{
    int world = symm->options.world;
    struct arena_place place = *in_window;
    enum status status = OK;

    place.first_device = symm->options.device;
    place.device_count = 1;
    for (int rank = 0; rank < world && status == OK; rank++) {
        place.address = window_address(rank, in_window->address);
        status = arena_import(&shared->arenas[rank], fds[rank], &place, err);
    }
    if (status == OK && symm->options.has_multicast) {
        place.address = window_address(WINDOW_MULTICAST, in_window->address);
        status = arena_import(&shared->multicast, fds[world], &place, err);
    }
    return status;
}

static void release_all(struct shared *shared)
{
    arena_release(&shared->multicast);
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        arena_release(&shared->arenas[rank]);
    }
}

static void describe(const struct symm *symm, const struct shared *shared, uint64_t size_bytes,
                     struct pkb_symm *to)
{
    *to = (struct pkb_symm){.size_bytes = size_bytes};
    for (int rank = 0; rank < symm->options.world; rank++) {
        to->peer[rank] = (void *)(uintptr_t)shared->arenas[rank].address;
    }
    to->local = to->peer[symm->options.rank];
    to->multicast = (void *)(uintptr_t)shared->multicast.address; /* 0: NULL */
}

/* Waits for the judge's answer. A hang-up ends this process: the job is over. */
static void await_grant(const struct symm *symm, struct message *message)
{
    struct error err = {0};
    enum status status = OK;

    while ((status = channel_receive(symm->options.judge, message, &err)) == ERR_NOT_FOUND) {
        await_message(symm->options.judge);
    }
    if (status != OK || message->kind != MESSAGE_SYMM_GRANT) {
        _exit(1);
    }
}

static int grant(struct symm *symm, uint64_t size_bytes, struct message *message,
                 struct pkb_symm *to)
{
    struct symm_grant_body body = {0};
    struct error err = {0};

    if (channel_body(message, &body, sizeof body, &err) != OK) {
        return cudaErrorUnknown;
    }
    if (body.code != 0) {
        return body.code;
    }
    struct shared *shared = &symm->allocations[symm->count];
    struct arena_place place = {.address = body.offset, .size_bytes = body.mapped_bytes};
    if (message->fd_count != symm->options.world + symm->options.has_multicast ||
        map_all(shared, symm, message->fds, &place, &err) != OK) {
        release_all(shared);
        return cudaErrorMemoryAllocation;
    }
    symm->count++;
    describe(symm, shared, size_bytes, to);
    return 0;
}

static int alloc_service(struct pkb_ctx *ctx, uint64_t size_bytes, struct pkb_symm *to)
{
    struct symm *symm = the_symm;
    struct symm_ask_body ask = {.size_bytes = size_bytes};
    struct error err = {0};

    (void)ctx; /* there is one of them */
    if (symm->ctx == NULL || !symm->is_setup) {
        return cudaErrorNotPermitted;
    }
    if (size_bytes == 0 || to == NULL) {
        return cudaErrorInvalidValue;
    }
    if (symm->count == SYMM_ALLOCATIONS_MAX) {
        return cudaErrorMemoryAllocation;
    }
    struct message_parts parts = {.kind = MESSAGE_SYMM_ASK, .body = &ask, .size_bytes = sizeof ask};
    if (channel_send(symm->options.judge, &parts, &err) != OK) {
        return cudaErrorUnknown;
    }
    struct message *message = xcalloc(1, sizeof *message);
    await_grant(symm, message);
    int code = grant(symm, size_bytes, message, to);
    message_close_fds(message);
    free(message);
    return code;
}

/* The last to arrive starts the next generation. The page says who waits for which one. */
static int barrier_service(struct pkb_ctx *ctx)
{
    struct control_page *page = the_symm->options.page;
    int rank = the_symm->options.rank;
    uint32_t generation = page->generation;

    page->in_barrier[rank] = generation + 1;
    if (++page->arrived == (uint32_t)the_symm->options.world) {
        page->arrived = 0;
        page->generation = generation + 1;
    }
    while (page->generation == generation) {
        cudaError_t error = cudaStreamQuery(ctx->stream);
        if (error != cudaSuccess && error != cudaErrorNotReady) {
            return (int)error;
        }
    }
    page->in_barrier[rank] = 0;
    return 0;
}

static int meet(void *context)
{
    return barrier_service(context);
}

/* Collective, and the same communicator from then on. NULL where there is none; stderr says why. */
static struct ncclComm *nccl_service(struct pkb_ctx *ctx)
{
    struct symm *symm = the_symm;
    struct error err = {0};
    struct communicator_options options = {.rank = symm->options.rank,
                                           .world = symm->options.world,
                                           .id = symm->options.page->nccl_id,
                                           .meet = meet,
                                           .context = ctx};

    if (symm->communicator == NULL &&
        communicator_make(&symm->communicator, &options, &err) != OK) {
        (void)fprintf(stderr, "pkb_nccl: %s\n", err.message);
    }
    return symm->communicator;
}

enum status symm_open(struct symm **symm, const struct symm_options *options, struct error *err)
{
    struct symm *made = xcalloc(1, sizeof *made);
    struct arena_place place = {.address = WINDOW_SYMM, .size_bytes = options->signal_mapped_bytes};

    made->options = *options;
    made->options.signal_fds = NULL;
    enum status status = map_all(&made->signal, made, options->signal_fds, &place, err);
    if (status != OK) {
        symm_close(made);
        return status;
    }
    *symm = made;
    return OK;
}

void symm_close(struct symm *symm)
{
    if (symm == NULL) {
        return;
    }
    symm_end_run(symm);
    release_all(&symm->signal);
    free(symm);
}

void symm_begin_run(struct symm *symm, struct pkb_ctx *ctx)
{
    static const struct pkb_services services = {alloc_service, barrier_service, nccl_service};

    assert(symm->ctx == NULL);
    describe(symm, &symm->signal, PKB_SIGNAL_BYTES, &ctx->signal);
    ctx->services = &services;
    symm->ctx = ctx;
    symm->is_setup = true;
    the_symm = symm;
}

void symm_end_setup(struct symm *symm)
{
    symm->is_setup = false;
}

void symm_end_run(struct symm *symm)
{
    for (int i = 0; i < symm->count; i++) {
        release_all(&symm->allocations[i]);
    }
    symm->count = 0;
    symm->ctx = NULL;
}
