#include "sim/nccl.h"

#include "sim/nccl_comm.h"

#include <stdlib.h>

enum { GROUP_OPERATIONS_MAX = 1 << 16 };

static _Thread_local struct operation *queued;
static _Thread_local int queued_count, queued_capacity, depth;
static _Thread_local ncclResult_t group_result;

size_t nccl_type_bytes(ncclDataType_t dtype)
{
    static const unsigned char sizes[] = {
        [ncclInt8] = 1,    [ncclUint8] = 1,    [ncclInt32] = 4,      [ncclUint32] = 4,
        [ncclInt64] = 8,   [ncclUint64] = 8,   [ncclFloat16] = 2,    [ncclFloat32] = 4,
        [ncclFloat64] = 8, [ncclBfloat16] = 2, [ncclFloat8e4m3] = 1, [ncclFloat8e5m2] = 1,
    };

    return (unsigned)dtype < sizeof sizes ? sizes[dtype] : 0;
}

static bool is_message(const struct operation *operation)
{
    return operation->kind == OPERATION_SEND || operation->kind == OPERATION_RECV;
}

/* All sends and receives of one communicator and stream from `first` on, as one exchange. */
static ncclResult_t run_messages(int first, bool *is_done)
{
    ncclComm_t comm = queued[first].comm;
    cudaStream_t stream = queued[first].stream;
    struct transfer *sends = calloc((size_t)queued_count + 1, sizeof *sends);
    struct transfer *receives = calloc((size_t)queued_count + 1, sizeof *receives);
    int send_count = 0, receive_count = 0;
    ncclResult_t result = ncclSystemError;

    for (int i = first; sends != NULL && receives != NULL && i < queued_count; i++) {
        const struct operation *one = &queued[i];
        if (is_done[i] || !is_message(one) || one->comm != comm || one->stream != stream) {
            continue;
        }
        size_t size = one->count * nccl_type_bytes(one->dtype);
        if (one->kind == OPERATION_SEND) {
            sends[send_count++] = (struct transfer){one->root, one->send, NULL, size};
        } else {
            receives[receive_count++] = (struct transfer){one->root, NULL, one->recv, size};
        }
        is_done[i] = true;
    }
    if (sends != NULL && receives != NULL) {
        result = transfer_run(comm, stream, sends, send_count, receives, receive_count);
    }
    free(sends);
    free(receives);
    return result;
}

/* Runs what the group has collected: collectives in their order, then the messages. */
static ncclResult_t run_queued(void)
{
    bool *is_done = calloc((size_t)queued_count + 1, sizeof *is_done);
    ncclResult_t result = is_done != NULL ? ncclSuccess : ncclSystemError;
    int before = 0;

    cudaGetDevice(&before);
    nccl_tag(true);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < queued_count && result == ncclSuccess; i++) {
            if (is_done[i] || is_message(&queued[i]) != (pass == 1)) {
                continue;
            }
            result =
                nccl_cuda(queued[i].comm, (int)cudaSetDevice(queued[i].comm->device), "device");
            if (result == ncclSuccess) {
                result = pass == 1 ? run_messages(i, is_done) : collective_run(&queued[i]);
            }
        }
    }
    nccl_tag(false);
    cudaSetDevice(before);
    free(is_done);
    queued_count = 0;
    return result;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    comm_group_depth(1);
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (depth == 0) {
        return nccl_fail(NULL, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    }
    depth--;
    comm_group_depth(-1);
    if (depth > 0) {
        return ncclSuccess;
    }
    ncclResult_t result = group_result;
    group_result = ncclSuccess;
    if (result != ncclSuccess) {
        queued_count = 0;
        return result;
    }
    result = comm_create_pending();
    return result == ncclSuccess ? run_queued() : result;
}

static ncclResult_t check(const struct operation *operation)
{
    ncclComm_t comm = operation->comm;
    const char *name = operation_name(operation->kind);
    bool is_rooted = is_message(operation) || operation->kind == OPERATION_REDUCE ||
                     operation->kind == OPERATION_BROADCAST ||
                     operation->kind == OPERATION_GATHER || operation->kind == OPERATION_SCATTER;

    if (comm == NULL) {
        return nccl_fail(NULL, ncclInvalidArgument, "%s: the communicator is NULL", name);
    }
    if (operation->count > 0 && operation->send == NULL && operation->recv == NULL) {
        return nccl_fail(comm, ncclInvalidArgument, "%s: no buffer", name);
    }
    if (nccl_type_bytes(operation->dtype) == 0) {
        return nccl_fail(comm, ncclInvalidArgument, "%s: no datatype %d", name,
                         (int)operation->dtype);
    }
    if (is_rooted && (operation->root < 0 || operation->root >= comm->ranks)) {
        return nccl_fail(comm, ncclInvalidArgument, "%s: rank %d of a communicator of %d", name,
                         operation->root, comm->ranks);
    }
    if ((int)operation->op < 0 || (int)operation->op >= ncclNumOps + NCCL_REDUCTIONS_MAX) {
        return nccl_fail(comm, ncclInvalidArgument, "%s: no operator %d", name, (int)operation->op);
    }
    return comm->async_error;
}

ncclResult_t operation_submit(const struct operation *operation)
{
    ncclResult_t result = check(operation);

    if (result == ncclSuccess && queued_count == queued_capacity) {
        int capacity = queued_capacity > 0 ? 2 * queued_capacity : 16;
        struct operation *grown = queued_count < GROUP_OPERATIONS_MAX
                                      ? realloc(queued, (size_t)capacity * sizeof *queued)
                                      : NULL;
        if (grown == NULL) {
            result = nccl_fail(operation->comm, ncclInvalidUsage,
                               "more than %d operations in a group", GROUP_OPERATIONS_MAX);
        } else {
            queued = grown;
            queued_capacity = capacity;
        }
    }
    if (result != ncclSuccess) {
        group_result = depth > 0 ? result : group_result;
        return result;
    }
    queued[queued_count++] = *operation;
    return depth > 0 ? ncclSuccess : run_queued();
}
