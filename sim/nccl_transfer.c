#include "sim/nccl.h"
#include "sim/nccl_reduce.h"

#include <cuda.h>

enum flag_kind { FLAG_READY, FLAG_FREE };

/* Where a flag lies in a rank's region: of the pair with `peer`, for one inbox. */
static CUdeviceptr flag_address(ncclComm_t comm, int rank, enum flag_kind kind, int peer, int slot)
{
    size_t pair = (size_t)kind * NCCL_RANKS_MAX + (size_t)peer;
    size_t index = pair * NCCL_INBOXES + (size_t)slot;

    return (CUdeviceptr)(uintptr_t)(comm->region[rank] + index * NCCL_FLAG_STRIDE_BYTES);
}

static uint8_t *inbox_address(ncclComm_t comm, int rank, int from, int slot)
{
    return comm->region[rank] + NCCL_FLAGS_BYTES +
           (size_t)(from * NCCL_INBOXES + slot) * NCCL_CHUNK_BYTES;
}

/* Waits for 1 and resets it: a replayed graph finds it as it was. */
static CUresult take_flag(cudaStream_t stream, CUdeviceptr flag)
{
    CUresult code = cuStreamWaitValue32(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ);

    if (code == CUDA_SUCCESS) {
        code = cuStreamWriteValue32(stream, flag, 0, CU_STREAM_WRITE_VALUE_DEFAULT);
    }
    return code;
}

ncclResult_t inbox_push(ncclComm_t comm, cudaStream_t stream, int peer, const void *from,
                        size_t size_bytes, const struct reduce_args *scaling)
{
    int slot = (int)(comm->sent[peer]++ % NCCL_INBOXES);
    uint8_t *inbox = inbox_address(comm, peer, comm->rank, slot);

    CUresult code = take_flag(stream, flag_address(comm, comm->rank, FLAG_FREE, peer, slot));
    if (code == CUDA_SUCCESS && scaling == NULL) {
        code = (CUresult)cudaMemcpyAsync(inbox, from, size_bytes, cudaMemcpyDeviceToDevice, stream);
    } else if (code == CUDA_SUCCESS) {
        struct reduce_args scaled = *scaling;
        scaled.sources[0] = from;
        scaled.source_count = 1;
        scaled.scaled_source = 0;
        scaled.to = inbox;
        scaled.count = size_bytes / nccl_type_bytes(scaling->dtype);
        code = (CUresult)reduce_launch(&scaled, stream);
    }
    if (code == CUDA_SUCCESS) {
        CUdeviceptr ready = flag_address(comm, peer, FLAG_READY, comm->rank, slot);
        code = cuStreamWriteValue32(stream, ready, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    }
    return nccl_cuda(comm, (int)code, "send a chunk");
}

ncclResult_t inbox_peek(ncclComm_t comm, cudaStream_t stream, int peer, const uint8_t **data)
{
    int slot = (int)(comm->received[peer] % NCCL_INBOXES);

    *data = inbox_address(comm, comm->rank, peer, slot);
    CUresult code = take_flag(stream, flag_address(comm, comm->rank, FLAG_READY, peer, slot));
    return nccl_cuda(comm, (int)code, "wait for a chunk");
}

ncclResult_t inbox_pop(ncclComm_t comm, cudaStream_t stream, int peer)
{
    int slot = (int)(comm->received[peer]++ % NCCL_INBOXES);
    CUdeviceptr flag = flag_address(comm, peer, FLAG_FREE, comm->rank, slot);

    CUresult code = cuStreamWriteValue32(stream, flag, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    return nccl_cuda(comm, (int)code, "free an inbox");
}

/* The messages of one direction with one peer, and how far they have come. */
struct progress {
    const struct transfer *transfers;
    int count, peer;
    int next;      /* index of the message under way */
    size_t offset; /* bytes of it that are done */
};

struct chunk {
    const struct transfer *of;
    size_t offset, size_bytes;
};

/* Takes the next chunk; false when there is none. */
static bool next_chunk(struct progress *progress, struct chunk *chunk)
{
    while (progress->next < progress->count) {
        const struct transfer *one = &progress->transfers[progress->next];
        if (one->peer == progress->peer && progress->offset < one->size_bytes) {
            size_t left = one->size_bytes - progress->offset;
            *chunk = (struct chunk){.of = one, .offset = progress->offset};
            chunk->size_bytes = left < NCCL_CHUNK_BYTES ? left : NCCL_CHUNK_BYTES;
            progress->offset += chunk->size_bytes;
            return true;
        }
        progress->next++;
        progress->offset = 0;
    }
    return false;
}

static ncclResult_t receive_chunk(ncclComm_t comm, cudaStream_t stream, int peer, uint8_t *to,
                                  size_t size_bytes)
{
    const uint8_t *data = NULL;

    ncclResult_t result = inbox_peek(comm, stream, peer, &data);
    if (result == ncclSuccess) {
        result = nccl_cuda(
            comm, (int)cudaMemcpyAsync(to, data, size_bytes, cudaMemcpyDeviceToDevice, stream),
            "take a chunk");
    }
    if (result == ncclSuccess) {
        result = inbox_pop(comm, stream, peer);
    }
    return result;
}

/* Messages to this rank itself, in order. */
static ncclResult_t copy_own(ncclComm_t comm, cudaStream_t stream, const struct transfer *sends,
                             int send_count, const struct transfer *receives, int receive_count)
{
    ncclResult_t result = ncclSuccess;
    int at = 0;

    for (int i = 0; i < send_count && result == ncclSuccess; i++) {
        if (sends[i].peer != comm->rank) {
            continue;
        }
        while (at < receive_count && receives[at].peer != comm->rank) {
            at++;
        }
        if (at == receive_count || receives[at].size_bytes != sends[i].size_bytes) {
            return nccl_fail(comm, ncclInvalidUsage,
                             "a send of rank %d to itself has no receive of its size", comm->rank);
        }
        if (receives[at].to != sends[i].from && sends[i].size_bytes > 0) {
            result =
                nccl_cuda(comm,
                          (int)cudaMemcpyAsync(receives[at].to, sends[i].from, sends[i].size_bytes,
                                               cudaMemcpyDeviceToDevice, stream),
                          "copy within a rank");
        }
        at++;
    }
    return result;
}

ncclResult_t transfer_run(ncclComm_t comm, cudaStream_t stream, const struct transfer *sends,
                          int send_count, const struct transfer *receives, int receive_count)
{
    struct progress sent[NCCL_RANKS_MAX], received[NCCL_RANKS_MAX];
    struct chunk chunk = {0};

    for (int peer = 0; peer < comm->ranks; peer++) {
        sent[peer] = (struct progress){sends, send_count, peer, 0, 0};
        received[peer] = (struct progress){receives, receive_count, peer, 0, 0};
    }
    ncclResult_t result = copy_own(comm, stream, sends, send_count, receives, receive_count);
    /* A round sends one chunk to everybody, then takes one of everybody: a wait only ever needs
     * what the other side does in the same round or an earlier one. */
    for (bool is_more = true; is_more && result == ncclSuccess;) {
        is_more = false;
        for (int step = 1; step < comm->ranks && result == ncclSuccess; step++) {
            int peer = (comm->rank + step) % comm->ranks;
            if (next_chunk(&sent[peer], &chunk)) {
                result = inbox_push(comm, stream, peer, chunk.of->from + chunk.offset,
                                    chunk.size_bytes, NULL);
                is_more = true;
            }
        }
        for (int step = 1; step < comm->ranks && result == ncclSuccess; step++) {
            int peer = (comm->rank + comm->ranks - step) % comm->ranks;
            if (next_chunk(&received[peer], &chunk)) {
                result = receive_chunk(comm, stream, peer, chunk.of->to + chunk.offset,
                                       chunk.size_bytes);
                is_more = true;
            }
        }
    }
    return result;
}
