#include "worker/grants.h"

#include "worker/layout.h"

#include <cuda_runtime_api.h>

#define SYMM_BYTES_MAX (UINT64_C(8) << 30)

void grants_begin(struct grants *grants, uint64_t signal_bytes)
{
    grants->next = WINDOW_SYMM + signal_bytes + SYMM_GAP_BYTES;
}

static void release_arenas(struct arena arenas[WORLD_MAX])
{
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        arena_release(&arenas[rank]);
    }
}

static void answer(struct grants *grants, struct peers *peers, const struct symm_grant_body *body)
{
    const struct arena *arenas = grants->arenas[grants->count];
    int fds[WORLD_MAX];

    for (int rank = 0; rank < peers->world; rank++) {
        fds[rank] = arenas[rank].fd;
    }
    for (int rank = 0; rank < peers->world; rank++) {
        if (peers->peer[rank].is_asking) {
            peers->peer[rank].is_asking = false;
            peers_send(peers, rank,
                       &(struct message_parts){.kind = MESSAGE_SYMM_GRANT,
                                               .body = body,
                                               .size_bytes = sizeof *body,
                                               .fds = fds,
                                               .fd_count = body->code == 0 ? peers->world : 0},
                       RANK_SETUP);
        }
    }
}

/* Allocates `size_bytes` on every rank, zeroed. */
static enum status make(struct grants *grants, int world, uint64_t size_bytes, struct error *err)
{
    struct arena *arenas = grants->arenas[grants->count];
    enum status status = arena_round(&size_bytes, 0, err);

    if (status == OK && (grants->count == SYMM_ALLOCATIONS_MAX - 1 ||
                         grants->next + size_bytes > WINDOW_SYMM + SYMM_BYTES_MAX)) {
        status = error_set(err, ERR_LIMIT, "too much symmetric memory");
    }
    for (int rank = 0; rank < world && status == OK; rank++) {
        struct arena_place place = {.address = window_address(rank, grants->next),
                                    .size_bytes = size_bytes,
                                    .device_count = arena_device_count(world)};
        status = arena_make(&arenas[rank], arena_device(rank), &place, err);
        if (status == OK &&
            cudaMemset((void *)(uintptr_t)arenas[rank].address, 0, size_bytes) != cudaSuccess) {
            status = error_set(err, ERR_IO, "cannot clear symmetric memory");
        }
    }
    return status;
}

static void grant(struct grants *grants, struct peers *peers, uint64_t size_bytes)
{
    struct error err = {0};
    enum status status =
        size_bytes > SYMM_BYTES_MAX ? ERR_LIMIT : make(grants, peers->world, size_bytes, &err);
    struct arena *arenas = grants->arenas[grants->count];

    if (status != OK) {
        release_arenas(arenas);
        grants->refusal = status == ERR_LIMIT ? SYMM_NO_MEMORY : SYMM_FAILED;
        answer(grants, peers,
               &(struct symm_grant_body){.code = status == ERR_LIMIT ? cudaErrorMemoryAllocation
                                                                     : cudaErrorUnknown});
        return;
    }
    answer(grants, peers,
           &(struct symm_grant_body){.offset = grants->next, .mapped_bytes = arenas[0].size_bytes});
    grants->next += arenas[0].size_bytes + SYMM_GAP_BYTES;
    grants->count++;
}

void grants_serve(struct grants *grants, struct peers *peers)
{
    int asking = 0;
    int in_code = 0;
    bool is_equal = true;
    uint64_t size_bytes = 0;

    for (int rank = 0; rank < peers->world; rank++) {
        in_code += peers_is_in_code(peers, rank);
        if (peers->peer[rank].is_asking) {
            is_equal &= asking == 0 || peers->peer[rank].asked_bytes == size_bytes;
            size_bytes = peers->peer[rank].asked_bytes;
            asking++;
        }
    }
    if (asking == peers->world && is_equal) {
        grant(grants, peers, size_bytes);
    } else if (asking > 0 && in_code == 0) {
        grants->refusal = SYMM_NOT_EQUAL;
        answer(grants, peers, &(struct symm_grant_body){.code = cudaErrorInvalidValue});
    }
}

void grants_release(struct grants *grants)
{
    while (grants->count > 0) {
        release_arenas(grants->arenas[--grants->count]);
    }
}
