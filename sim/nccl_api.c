#include "sim/nccl.h"

#include <string.h>

/* NOLINTBEGIN(readability-function-size): the signatures are NCCL's. */

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(
        &(struct operation){OPERATION_ALL_REDUCE, comm, stream, send, recv, count, dtype, op, 0});
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(
        &(struct operation){OPERATION_REDUCE, comm, stream, send, recv, count, dtype, op, root});
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(&(struct operation){OPERATION_REDUCE_SCATTER, comm, stream, send, recv,
                                                count, dtype, op, 0});
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(&(struct operation){OPERATION_BROADCAST, comm, stream, send, recv,
                                                count, dtype, ncclSum, root});
}

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,
                       cudaStream_t stream)
{
    return ncclBroadcast(buffer, buffer, count, dtype, root, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(&(struct operation){OPERATION_ALL_GATHER, comm, stream, send, recv,
                                                count, dtype, ncclSum, 0});
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                          ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(&(struct operation){OPERATION_ALL_TO_ALL, comm, stream, send, recv,
                                                count, dtype, ncclSum, 0});
}

ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(&(struct operation){OPERATION_GATHER, comm, stream, send, recv, count,
                                                dtype, ncclSum, root});
}

ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,
                         ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(&(struct operation){OPERATION_SCATTER, comm, stream, send, recv, count,
                                                dtype, ncclSum, root});
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t dtype, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    return operation_submit(
        &(struct operation){OPERATION_SEND, comm, stream, send, NULL, count, dtype, ncclSum, peer});
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    return operation_submit(
        &(struct operation){OPERATION_RECV, comm, stream, NULL, recv, count, dtype, ncclSum, peer});
}

/* NOLINTEND(readability-function-size) */

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t dtype,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    if (op == NULL || scalar == NULL || comm == NULL || nccl_type_bytes(dtype) == 0) {
        return nccl_fail(comm, ncclInvalidArgument, "ncclRedOpCreatePreMulSum: a missing argument");
    }
    for (int i = 0; i < NCCL_REDUCTIONS_MAX; i++) {
        struct reduction *reduction = &comm->reductions[i];
        if (reduction->is_used) {
            continue;
        }
        *reduction = (struct reduction){.is_used = true, .dtype = dtype};
        reduction->is_device = residence == ncclScalarDevice;
        if (reduction->is_device) {
            memcpy(reduction->scalar, &scalar, sizeof scalar);
        } else {
            memcpy(reduction->scalar, scalar, nccl_type_bytes(dtype));
        }
        *op = (ncclRedOp_t)(ncclNumOps + i);
        return ncclSuccess;
    }
    return nccl_fail(comm, ncclInvalidUsage, "more than %d operators", NCCL_REDUCTIONS_MAX);
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    int index = (int)op - ncclNumOps;

    if (comm == NULL || index < 0 || index >= NCCL_REDUCTIONS_MAX ||
        !comm->reductions[index].is_used) {
        return nccl_fail(comm, ncclInvalidArgument, "no operator %d to destroy", (int)op);
    }
    comm->reductions[index].is_used = false;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error",
        [ncclSystemError] = "unhandled system error",
        [ncclInternalError] = "internal error",
        [ncclInvalidArgument] = "invalid argument",
        [ncclInvalidUsage] = "invalid usage",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
    };

    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (comm == NULL || error == NULL) {
        return ncclInvalidArgument;
    }
    *error = comm->async_error;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    if (comm == NULL || count == NULL) {
        return ncclInvalidArgument;
    }
    *count = comm->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    if (comm == NULL || device == NULL) {
        return ncclInvalidArgument;
    }
    *device = comm->device;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    if (comm == NULL || rank == NULL) {
        return ncclInvalidArgument;
    }
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **memory, size_t size_bytes)
{
    return nccl_cuda(NULL, (int)cudaMalloc(memory, size_bytes), "ncclMemAlloc");
}

ncclResult_t ncclMemFree(void *memory)
{
    return nccl_cuda(NULL, (int)cudaFree(memory), "ncclMemFree");
}

/* Registration only makes a real NCCL faster: here every buffer is used through the inboxes. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size_bytes, void **handle)
{
    (void)comm;
    (void)size_bytes;
    *handle = buffer;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    (void)comm;
    (void)handle;
    return ncclSuccess;
}

/* The same; what a kernel could do with a window needs a device communicator, which is refused. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size_bytes,
                                    ncclWindow_t *window, int flags)
{
    if (comm == NULL || buffer == NULL || size_bytes == 0 || window == NULL ||
        (flags & ~NCCL_WIN_COLL_SYMMETRIC) != 0) {
        return nccl_fail(comm, ncclInvalidArgument, "ncclCommWindowRegister: a wrong argument");
    }
    *window = buffer;
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    (void)window;
    return comm != NULL ? ncclSuccess : ncclInvalidArgument;
}

void ncclResetDebugInit(void)
{
}
