#include "sim/nccl.h"
#include "sim/nccl_reduce.h"

#include <stdatomic.h>
#include <string.h>

const char *operation_name(enum operation_kind kind)
{
    static const char *const names[] = {
        [OPERATION_ALL_REDUCE] = "ncclAllReduce",
        [OPERATION_REDUCE] = "ncclReduce",
        [OPERATION_REDUCE_SCATTER] = "ncclReduceScatter",
        [OPERATION_ALL_GATHER] = "ncclAllGather",
        [OPERATION_BROADCAST] = "ncclBroadcast",
        [OPERATION_GATHER] = "ncclGather",
        [OPERATION_SCATTER] = "ncclScatter",
        [OPERATION_ALL_TO_ALL] = "ncclAlltoAll",
        [OPERATION_SEND] = "ncclSend",
        [OPERATION_RECV] = "ncclRecv",
    };

    return names[kind];
}

/* Says what this rank calls and looks whether the others called the same at this place. */
static ncclResult_t check_same(const struct operation *operation)
{
    ncclComm_t comm = operation->comm;
    uint64_t sequence = ++comm->sequence;
    struct operation_record mine = {
        .sequence = sequence,
        .count = operation->count,
        .kind = (int32_t)operation->kind,
        .dtype = (int32_t)operation->dtype,
        .op = (int32_t)operation->op,
        .root = operation->root,
    };
    struct operation_record *own = &comm->page->records[comm->rank][sequence % NCCL_LOG_ENTRIES];

    *own = mine;
    atomic_thread_fence(memory_order_seq_cst);
    for (int rank = 0; rank < comm->ranks; rank++) {
        struct operation_record other = comm->page->records[rank][sequence % NCCL_LOG_ENTRIES];
        if (other.sequence != sequence || memcmp(&other, &mine, sizeof mine) == 0) {
            continue;
        }
        comm->async_error = ncclInvalidUsage;
        int kind = other.kind >= 0 && other.kind <= (int32_t)OPERATION_RECV ? other.kind : 0;
        return nccl_fail(comm, ncclInvalidUsage,
                         "collective %llu: rank %d calls %s of %zu elements (dtype %d, op %d, root "
                         "%d), rank %d calls %s of %llu (dtype %d, op %d, root %d)",
                         (unsigned long long)sequence, comm->rank, operation_name(operation->kind),
                         operation->count, mine.dtype, mine.op, mine.root, rank,
                         operation_name((enum operation_kind)kind), (unsigned long long)other.count,
                         other.dtype, other.op, other.root);
    }
    return ncclSuccess;
}

/* ---- reductions ---- */

/* The kernel's arguments but for sources, target and count. */
static ncclResult_t reduction_of(const struct operation *operation, struct reduce_args *args)
{
    ncclComm_t comm = operation->comm;

    *args = (struct reduce_args){
        .dtype = operation->dtype, .op = (int)operation->op, .scaled_source = comm->rank};
    if ((int)operation->op < ncclNumOps) {
        return ncclSuccess;
    }
    int index = (int)operation->op - ncclNumOps;
    if (index >= NCCL_REDUCTIONS_MAX || !comm->reductions[index].is_used ||
        comm->reductions[index].dtype != operation->dtype) {
        return nccl_fail(comm, ncclInvalidArgument, "operator %d is not one of this communicator",
                         (int)operation->op);
    }
    args->op = ncclNumOps;
    memcpy(args->immediate, comm->reductions[index].scalar, sizeof args->immediate);
    if (comm->reductions[index].is_device) {
        memcpy(&args->scalar, comm->reductions[index].scalar, sizeof args->scalar);
    }
    return ncclSuccess;
}

/* The part of a reduction that one rank owns. */
struct segment {
    size_t start, count; /* elements of the send buffer */
};

/* Sends every other owner its chunk `offset` bytes into its segment; with a factor of the operator,
 * which is this rank's own, multiplied by it. */
static ncclResult_t push_segments(const struct operation *operation, const struct segment *segments,
                                  size_t offset, const struct reduce_args *args)
{
    ncclComm_t comm = operation->comm;
    size_t element = nccl_type_bytes(operation->dtype);
    ncclResult_t result = ncclSuccess;

    for (int step = 1; step < comm->ranks && result == ncclSuccess; step++) {
        int owner = (comm->rank + step) % comm->ranks;
        size_t bytes = segments[owner].count * element;
        if (offset >= bytes) {
            continue;
        }
        size_t size = bytes - offset < NCCL_CHUNK_BYTES ? bytes - offset : NCCL_CHUNK_BYTES;
        const uint8_t *from = (const uint8_t *)operation->send + segments[owner].start * element;
        result = inbox_push(comm, operation->stream, owner, from + offset, size,
                            args->op == ncclNumOps ? args : NULL);
    }
    return result;
}

/* Reduces the own chunk at `offset` of everybody into `to`. */
static ncclResult_t reduce_chunk(const struct operation *operation, struct reduce_args *args,
                                 const struct segment *own, size_t offset, uint8_t *to)
{
    ncclComm_t comm = operation->comm;
    size_t element = nccl_type_bytes(operation->dtype);
    size_t left = own->count * element - offset;
    ncclResult_t result = ncclSuccess;

    args->source_count = comm->ranks;
    args->count = (left < NCCL_CHUNK_BYTES ? left : NCCL_CHUNK_BYTES) / element;
    args->to = to + offset;
    for (int rank = 0; rank < comm->ranks && result == ncclSuccess; rank++) {
        const uint8_t *data = (const uint8_t *)operation->send + own->start * element + offset;
        if (rank != comm->rank) {
            result = inbox_peek(comm, operation->stream, rank, &data);
        }
        args->sources[rank] = data;
    }
    if (result == ncclSuccess) {
        result = nccl_cuda(comm, (int)reduce_launch(args, operation->stream), "reduce a chunk");
    }
    for (int rank = 0; rank < comm->ranks && result == ncclSuccess; rank++) {
        if (rank != comm->rank) {
            result = inbox_pop(comm, operation->stream, rank);
        }
    }
    return result;
}

/* Every rank reduces its segment of all send buffers into `to`. */
static ncclResult_t reduce_segments(const struct operation *operation,
                                    const struct segment *segments, uint8_t *to)
{
    ncclComm_t comm = operation->comm;
    size_t element = nccl_type_bytes(operation->dtype), longest = 0;
    struct reduce_args args;

    ncclResult_t result = reduction_of(operation, &args);
    for (int rank = 0; rank < comm->ranks; rank++) {
        longest = segments[rank].count > longest ? segments[rank].count : longest;
    }
    for (size_t offset = 0; offset < longest * element && result == ncclSuccess;
         offset += NCCL_CHUNK_BYTES) {
        result = push_segments(operation, segments, offset, &args);
        if (result == ncclSuccess && offset < segments[comm->rank].count * element) {
            result = reduce_chunk(operation, &args, &segments[comm->rank], offset, to);
        }
    }
    return result;
}

static ncclResult_t run_reduction(const struct operation *operation)
{
    ncclComm_t comm = operation->comm;
    size_t element = nccl_type_bytes(operation->dtype);
    struct segment segments[NCCL_RANKS_MAX] = {0};
    uint8_t *to = operation->recv;

    for (int rank = 0; rank < comm->ranks; rank++) {
        size_t count = operation->count, ranks = (size_t)comm->ranks, index = (size_t)rank;
        switch (operation->kind) {
        case OPERATION_REDUCE:
            segments[rank].count = rank == operation->root ? count : 0;
            break;
        case OPERATION_REDUCE_SCATTER:
            segments[rank] = (struct segment){index * count, count};
            break;
        default:
            segments[rank].start = count * index / ranks;
            segments[rank].count = count * (index + 1) / ranks - segments[rank].start;
            break;
        }
    }
    if (operation->kind != OPERATION_ALL_REDUCE) {
        return reduce_segments(operation, segments, to);
    }

    struct transfer sends[NCCL_RANKS_MAX], receives[NCCL_RANKS_MAX];
    uint8_t *own = to + segments[comm->rank].start * element;
    ncclResult_t result = reduce_segments(operation, segments, own);
    for (int rank = 0; rank < comm->ranks; rank++) {
        uint8_t *part = to + segments[rank].start * element;
        sends[rank] = (struct transfer){
            .peer = rank, .from = own, .size_bytes = segments[comm->rank].count * element};
        receives[rank] = (struct transfer){
            .peer = rank, .to = part, .size_bytes = segments[rank].count * element};
    }
    if (result == ncclSuccess) {
        result = transfer_run(comm, operation->stream, sends, comm->ranks, receives, comm->ranks);
    }
    return result;
}

/* ---- movement ---- */

/* Whether `rank` sends to `peer` in this collective. */
static bool is_sent(const struct operation *operation, int rank, int peer)
{
    switch (operation->kind) {
    case OPERATION_BROADCAST:
    case OPERATION_SCATTER:
        return rank == operation->root;
    case OPERATION_GATHER:
        return peer == operation->root;
    default:
        return true;
    }
}

static ncclResult_t run_movement(const struct operation *operation)
{
    ncclComm_t comm = operation->comm;
    size_t size = operation->count * nccl_type_bytes(operation->dtype);
    bool is_split = operation->kind == OPERATION_SCATTER || operation->kind == OPERATION_ALL_TO_ALL;
    bool is_joined = operation->kind == OPERATION_GATHER ||
                     operation->kind == OPERATION_ALL_GATHER ||
                     operation->kind == OPERATION_ALL_TO_ALL;
    struct transfer sends[NCCL_RANKS_MAX], receives[NCCL_RANKS_MAX];
    int send_count = 0, receive_count = 0;

    for (int peer = 0; peer < comm->ranks; peer++) {
        if (is_sent(operation, comm->rank, peer)) {
            sends[send_count++] = (struct transfer){.peer = peer,
                                                    .from = (const uint8_t *)operation->send +
                                                            (is_split ? (size_t)peer * size : 0),
                                                    .size_bytes = size};
        }
        if (is_sent(operation, peer, comm->rank)) {
            receives[receive_count++] = (struct transfer){
                .peer = peer,
                .to = (uint8_t *)operation->recv + (is_joined ? (size_t)peer * size : 0),
                .size_bytes = size};
        }
    }
    return transfer_run(comm, operation->stream, sends, send_count, receives, receive_count);
}

ncclResult_t collective_run(const struct operation *operation)
{
    ncclResult_t result = check_same(operation);

    if (result != ncclSuccess || operation->count == 0) {
        return result;
    }
    switch (operation->kind) {
    case OPERATION_ALL_REDUCE:
    case OPERATION_REDUCE:
    case OPERATION_REDUCE_SCATTER:
        return run_reduction(operation);
    default:
        return run_movement(operation);
    }
}
