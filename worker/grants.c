#include "worker/grants.h"

#include "worker/layout.h"

#include <cuda_runtime_api.h>

#define SYMM_BYTES_MAX (UINT64_C(8) << 30)

void grants_begin(struct grants *grants, uint64_t signal_bytes, bool has_multicast)
{
    grants->next = WINDOW_SYMM + signal_bytes + SYMM_GAP_BYTES;
    grants->has_multicast = has_multicast;
}

static void answer(struct peers *peers, const struct symm_grant_body *body, const int *fds,
                   int fd_count)
{
    for (int rank = 0; rank < peers->world; rank++) {
        if (peers->peer[rank].is_asking) {
            peers->peer[rank].is_asking = false;
            peers_send(peers, rank,
                       &(struct message_parts){.kind = MESSAGE_SYMM_GRANT,
                                               .body = body,
                                               .size_bytes = sizeof *body,
                                               .fds = fds,
                                               .fd_count = fd_count},
                       RANK_SETUP);
        }
    }
}

/* Allocates on every rank, zeroed; rounds up `place`. */
static enum status make(struct grants *grants, struct symmetric_place *place, struct error *err)
{
    struct symmetric *made = &grants->allocations[grants->count];
    enum status status = symmetric_round(place, err);

    if (status == OK && (grants->count == SYMM_ALLOCATIONS_MAX - 1 ||
                         place->offset + place->size_bytes > WINDOW_SYMM + SYMM_BYTES_MAX)) {
        status = error_set(err, ERR_LIMIT, "too much symmetric memory");
    }
    if (status == OK) {
        status = symmetric_make(made, place, err);
    }
    for (int rank = 0; rank < place->world && status == OK; rank++) {
        if (cudaMemset((void *)(uintptr_t)made->arenas[rank].address, 0, place->size_bytes) !=
            cudaSuccess) {
            status = error_set(err, ERR_IO, "cannot clear symmetric memory");
        }
    }
    if (status == OK && cudaStreamSynchronize(NULL) != cudaSuccess) {
        status = error_set(err, ERR_IO, "cannot clear symmetric memory");
    }
    return status;
}

static void grant(struct grants *grants, struct peers *peers, uint64_t size_bytes)
{
    struct symmetric *made = &grants->allocations[grants->count];
    struct symmetric_place place = {.offset = grants->next,
                                    .size_bytes = size_bytes,
                                    .world = peers->world,
                                    .has_multicast = grants->has_multicast};
    struct error err = {0};
    int fds[SYMMETRIC_FDS_MAX];

    enum status status = size_bytes > SYMM_BYTES_MAX ? ERR_LIMIT : make(grants, &place, &err);
    if (status != OK) {
        symmetric_release(made);
        grants->refusal = status == ERR_LIMIT ? SYMM_NO_MEMORY : SYMM_FAILED;
        answer(peers,
               &(struct symm_grant_body){.code = status == ERR_LIMIT ? cudaErrorMemoryAllocation
                                                                     : cudaErrorUnknown},
               NULL, 0);
        return;
    }
    answer(peers,
           &(struct symm_grant_body){.offset = place.offset, .mapped_bytes = place.size_bytes}, fds,
           symmetric_fds(made, fds));
    grants->next = place.offset + place.size_bytes + SYMM_GAP_BYTES;
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
        answer(peers, &(struct symm_grant_body){.code = cudaErrorInvalidValue}, NULL, 0);
    }
}

void grants_release(struct grants *grants)
{
    while (grants->count > 0) {
        symmetric_release(&grants->allocations[--grants->count]);
    }
}
