/*
 * nccl.h — the replacement libnccl from the inside: communicators of one node in ordinary CUDA.
 *
 * It serves where NCCL itself cannot run: on the simulator, and where several ranks share a GPU.
 * Data moves by copies into a peer's inbox; streams order it by wait and write values, so nothing
 * spins on an SM and a captured operation can be replayed. A reduction adds the ranks in ascending
 * order. One region per rank holds its flags and inboxes and is mapped by all ranks.
 *
 * A pair of ranks has NCCL_INBOXES slots in each direction. `ready` lies with the receiver, `free`
 * with the sender; each is 0 or 1, waited for and reset by its owner, set by the other side.
 */
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NCCL_RANKS_MAX = 8,
    NCCL_INBOXES = 2,
    NCCL_CHUNK_BYTES = 512 * 1024,
    NCCL_FLAG_STRIDE_BYTES = 64,
    NCCL_FLAGS_BYTES = 65536,
    NCCL_LOG_ENTRIES = 256,
    NCCL_REDUCTIONS_MAX = 64, /* operators made by ncclRedOpCreatePreMulSum and alive */
    NCCL_MESSAGE_MAX = 256,
};

/* ---- bootstrap: the ranks find each other over unix sockets ---- */

struct bootstrap {
    int rank, ranks;
    int sockets[NCCL_RANKS_MAX]; /* rank 0: one per other rank; others: [0] leads to rank 0 */
    cudaStream_t stream;         /* polled in every wait, so that the simulator sees us wait */
};

/* Blocks until all `ranks` have come with the same id, or NCCL_INIT_SECONDS have passed. */
ncclResult_t bootstrap_open(struct bootstrap *bootstrap, const ncclUniqueId *id, int rank,
                            int ranks);
void bootstrap_close(struct bootstrap *bootstrap);

/* Everybody's `size_bytes` in rank order in `all`. With `fds` (ranks long, own entry set) each rank
 * also gets a descriptor of every rank's file; entries are the caller's to close. */
ncclResult_t bootstrap_gather(struct bootstrap *bootstrap, const void *mine, void *all,
                              size_t size_bytes, int *fds);

struct reduce_args;

/* ---- communicators ---- */

/* What a collective is, for the check that all ranks call the same. */
struct operation_record {
    uint64_t sequence; /* 0: none yet */
    uint64_t count;
    int32_t kind, dtype, op, root;
};

/* Host memory shared by the ranks of a communicator. */
struct shared_page {
    struct operation_record records[NCCL_RANKS_MAX][NCCL_LOG_ENTRIES];
};

struct reduction {
    bool is_used, is_device;
    ncclDataType_t dtype;
    unsigned char scalar[8]; /* is_device: the address */
};

struct ncclComm {
    int rank, ranks, device;
    struct bootstrap bootstrap;
    uint8_t *region[NCCL_RANKS_MAX]; /* mapped here */
    size_t region_bytes;
    struct shared_page *page;
    uint64_t sequence;                                       /* collectives so far */
    uint64_t sent[NCCL_RANKS_MAX], received[NCCL_RANKS_MAX]; /* chunks */
    struct reduction reductions[NCCL_REDUCTIONS_MAX];
    ncclResult_t async_error;
    char message[NCCL_MESSAGE_MAX];
};

/* Keeps the message for ncclGetLastError (of `comm`, which may be NULL, and of the thread). */
ncclResult_t nccl_fail(ncclComm_t comm, ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ncclResult_t nccl_cuda(ncclComm_t comm, int cuda_error, const char *what);
size_t nccl_type_bytes(ncclDataType_t dtype); /* 0: no such type */
/* For calls that this library lacks (sim/stubs.sh): names the call to the simulator as well. */
ncclResult_t nccl_refuse_call(const char *name);
/* Traffic between true and false counts as NCCL's, where the device can tell. */
void nccl_tag(bool is_ours);

/* ---- operations ---- */

enum operation_kind {
    OPERATION_ALL_REDUCE,
    OPERATION_REDUCE,
    OPERATION_REDUCE_SCATTER,
    OPERATION_ALL_GATHER,
    OPERATION_BROADCAST,
    OPERATION_GATHER,
    OPERATION_SCATTER,
    OPERATION_ALL_TO_ALL,
    OPERATION_SEND,
    OPERATION_RECV,
};

struct operation {
    enum operation_kind kind;
    ncclComm_t comm;
    cudaStream_t stream;
    const void *send;
    void *recv;
    size_t count; /* elements, as the call has it */
    ncclDataType_t dtype;
    ncclRedOp_t op;
    int root; /* of send and recv: the peer */
};

/* Runs at once, or at the end of the group that is open. */
ncclResult_t operation_submit(const struct operation *operation);
/* Enqueues one collective. */
ncclResult_t collective_run(const struct operation *operation);
const char *operation_name(enum operation_kind kind);

/* One message to or from a peer. */
struct transfer {
    int peer;
    const uint8_t *from; /* of a send */
    uint8_t *to;         /* of a receive */
    size_t size_bytes;
};
/* Enqueues sends and receives that go on together; what goes to this rank itself is copied. */
ncclResult_t transfer_run(ncclComm_t comm, cudaStream_t stream, const struct transfer *sends,
                          int send_count, const struct transfer *receives, int receive_count);

/* The slot of the chunk that is next in that direction: waits, and what ends the wait. With
 * `scaling` the chunk is multiplied by its factor on the way. */
ncclResult_t inbox_push(ncclComm_t comm, cudaStream_t stream, int peer, const void *from,
                        size_t size_bytes, const struct reduce_args *scaling);
/* Waits for the next chunk of `peer`; *data is where it lies until inbox_pop. */
ncclResult_t inbox_peek(ncclComm_t comm, cudaStream_t stream, int peer, const uint8_t **data);
ncclResult_t inbox_pop(ncclComm_t comm, cudaStream_t stream, int peer);
