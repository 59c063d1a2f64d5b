/* The replacement libnccl, between two ranks. */
#include "tests/cuda_cases.h"
#include "tests/rounded.h"

#include <nccl.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, COUNT = 777, MANY = 300000 /* more than two chunks of its inboxes */ };

static ncclComm_t communicator(int rank)
{
    ncclUniqueId id;
    ncclComm_t comm = NULL;

    GOOD(cudaFree(NULL));
    if (rank == 0) {
        GOOD(ncclGetUniqueId(&id));
        case_send(&id, sizeof id, -1);
    } else {
        case_receive(&id, sizeof id, NULL);
    }
    GOOD(ncclCommInitRank(&comm, RANKS, id, rank));
    return comm;
}

static void *device_copy(const void *data, size_t size_bytes)
{
    void *made = NULL;

    GOOD(cudaMalloc(&made, size_bytes));
    GOOD(cudaMemcpy(made, data, size_bytes, cudaMemcpyHostToDevice));
    return made;
}

/* ---- types and operators ---- */

static const struct narrow narrow_e4m3 = {4, 3, false};
static const struct narrow narrow_e5m2 = {5, 2, true};

static const struct element {
    ncclDataType_t type;
    int bytes;
    bool is_integer;
    const struct narrow *narrow;
} elements[] = {
    {ncclInt8, 1, true, NULL},
    {ncclUint8, 1, true, NULL},
    {ncclInt32, 4, true, NULL},
    {ncclUint32, 4, true, NULL},
    {ncclInt64, 8, true, NULL},
    {ncclUint64, 8, true, NULL},
    {ncclFloat16, 2, false, &narrow_f16},
    {ncclFloat32, 4, false, NULL},
    {ncclFloat64, 8, false, NULL},
    {ncclBfloat16, 2, false, &narrow_bf16},
    {ncclFloat8e4m3, 1, false, &narrow_e4m3},
    {ncclFloat8e5m2, 1, false, &narrow_e5m2},
};

static void put(uint8_t *to, const struct element *element, double value)
{
    int64_t whole = (int64_t)value;
    float single = (float)value;
    uint32_t code = element->narrow ? narrow_round(element->narrow, value, TO_NEAREST, false) : 0;

    memcpy(to,
           element->is_integer   ? (void *)&whole
           : element->narrow     ? (void *)&code
           : element->bytes == 4 ? (void *)&single
                                 : (void *)&value,
           (size_t)element->bytes);
}

/* What rank `rank` gives: exact in every type, with every operator. */
static double given(int rank, int index)
{
    return 1 + (index + rank) % 3;
}

static double combined(ncclRedOp_t op, int index)
{
    double a = given(0, index), b = given(1, index);

    switch (op) {
    case ncclSum:
        return a + b;
    case ncclProd:
        return a * b;
    case ncclMax:
        return a > b ? a : b;
    case ncclMin:
        return a < b ? a : b;
    default:
        return (a + b) / 2;
    }
}

static void every_type_and_operator_is_reduced(int rank)
{
    ncclComm_t comm = communicator(rank);

    for (size_t k = 0; k < sizeof elements / sizeof *elements; k++) {
        const struct element *element = &elements[k];
        size_t size_bytes = (size_t)element->bytes * COUNT;
        uint8_t mine[COUNT * 8], wanted[COUNT * 8], got[COUNT * 8];
        for (int i = 0; i < COUNT; i++) {
            put(mine + (size_t)(i * element->bytes), element, given(rank, i));
        }
        void *from = device_copy(mine, size_bytes);
        void *to = device_copy(mine, size_bytes);
        for (int op = ncclSum; op < ncclNumOps; op++) {
            GOOD(ncclAllReduce(from, to, COUNT, element->type, (ncclRedOp_t)op, comm, 0));
            GOOD(cudaMemcpy(got, to, size_bytes, cudaMemcpyDeviceToHost));
            for (int i = 0; i < COUNT; i++) {
                put(wanted + (size_t)(i * element->bytes), element, combined((ncclRedOp_t)op, i));
            }
            EXPECT(memcmp(got, wanted, size_bytes), 0);
        }
        GOOD(cudaFree(from));
        GOOD(cudaFree(to));
    }
    GOOD(ncclCommDestroy(comm));
}

static void a_factor_is_multiplied_in_before_the_sum(int rank)
{
    ncclComm_t comm = communicator(rank);
    float mine[COUNT], got[COUNT];
    float factor = rank == 0 ? 0.5f : 4;
    float *on_device = device_copy(&factor, sizeof factor);
    int whole = 3;
    ncclRedOp_t immediate, resident, of_ints;

    for (int i = 0; i < COUNT; i++) {
        mine[i] = (float)(i + rank);
    }
    float *from = device_copy(mine, sizeof mine);
    float *to = device_copy(mine, sizeof mine);
    GOOD(ncclRedOpCreatePreMulSum(&immediate, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
    GOOD(ncclRedOpCreatePreMulSum(&resident, on_device, ncclFloat32, ncclScalarDevice, comm));
    GOOD(ncclRedOpCreatePreMulSum(&of_ints, &whole, ncclInt32, ncclScalarHostImmediate, comm));
    factor = 0; /* it was taken */
    for (int turn = 0; turn < 2; turn++) {
        GOOD(ncclAllReduce(from, to, COUNT, ncclFloat32, turn ? resident : immediate, comm, 0));
        GOOD(cudaMemcpy(got, to, sizeof got, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; i++) {
            EXPECT(got[i] == 0.5f * (float)i + 4 * (float)(i + 1), 1);
        }
    }
    EXPECT(ncclAllReduce(from, to, COUNT, ncclFloat32, of_ints, comm, 0), ncclInvalidArgument);
    GOOD(ncclRedOpDestroy(immediate, comm));
    EXPECT(ncclRedOpDestroy(immediate, comm), ncclInvalidArgument);
    EXPECT(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument);
}

/* ---- collectives ---- */

struct buffers {
    int *from, *to; /* RANKS * MANY each; from[i] is rank * 1000000 + i */
    int *host;
};

static struct buffers new_buffers(int rank)
{
    struct buffers buffers = {.host = calloc((size_t)RANKS * MANY, sizeof(int))};
    size_t size_bytes = (size_t)RANKS * MANY * sizeof(int);

    for (int i = 0; i < RANKS * MANY; i++) {
        buffers.host[i] = rank * 1000000 + i;
    }
    buffers.from = device_copy(buffers.host, size_bytes);
    buffers.to = device_copy(buffers.host, size_bytes);
    return buffers;
}

/* Result i of `count` must be start + i * step. */
static void expect_words(struct buffers *buffers, int at, int count, int start, int step)
{
    GOOD(cudaMemcpy(buffers->host, buffers->to + at, (size_t)count * sizeof(int),
                    cudaMemcpyDeviceToHost));
    for (int i = 0; i < count; i++) {
        EXPECT(buffers->host[i], start + i * step);
    }
}

static void every_collective_moves_what_it_says(int rank)
{
    ncclComm_t comm = communicator(rank);
    struct buffers b = new_buffers(rank);
    int other = 1 - rank, of_other = other * 1000000;

    GOOD(ncclAllGather(b.from, b.to, MANY, ncclInt32, comm, 0));
    expect_words(&b, 0, MANY, 0, 1);
    expect_words(&b, MANY, MANY, 1000000, 1);
    GOOD(ncclReduceScatter(b.from, b.to, MANY, ncclInt32, ncclSum, comm, 0));
    expect_words(&b, 0, MANY, 1000000 + 2 * rank * MANY, 2);
    GOOD(ncclAlltoAll(b.from, b.to, MANY, ncclInt32, comm, 0));
    expect_words(&b, rank * MANY, MANY, rank * 1000000 + rank * MANY, 1);
    expect_words(&b, other * MANY, MANY, of_other + rank * MANY, 1);
    GOOD(ncclBroadcast(b.from, b.to, MANY, ncclInt32, 1, comm, 0));
    expect_words(&b, 0, MANY, 1000000, 1);
    GOOD(cudaMemcpy(b.to, b.from, (size_t)MANY * sizeof(int), cudaMemcpyDeviceToDevice));
    GOOD(ncclBcast(b.to, MANY, ncclInt32, 0, comm, 0));
    expect_words(&b, 0, MANY, 0, 1);
    GOOD(ncclReduce(b.from, b.to, MANY, ncclInt32, ncclMax, 1, comm, 0));
    expect_words(&b, 0, MANY, rank == 1 ? 1000000 : 0, 1);
    GOOD(ncclScatter(b.from, b.to, MANY, ncclInt32, 1, comm, 0));
    expect_words(&b, 0, MANY, 1000000 + rank * MANY, 1);
    GOOD(ncclGather(b.from, b.to, MANY, ncclInt32, 0, comm, 0));
    expect_words(&b, 0, rank == 0 ? MANY : 1, rank == 0 ? 0 : 1000000 + MANY, 1);
    if (rank == 0) {
        expect_words(&b, MANY, MANY, 1000000, 1);
    }
    /* In place. */
    GOOD(ncclAllReduce(b.from, b.from, MANY, ncclInt32, ncclSum, comm, 0));
    GOOD(cudaMemcpy(b.to, b.from, (size_t)MANY * sizeof(int), cudaMemcpyDeviceToDevice));
    expect_words(&b, 0, MANY, 1000000, 2);
    GOOD(ncclCommDestroy(comm));
}

static void messages_cross_in_a_group(int rank)
{
    ncclComm_t comm = communicator(rank);
    struct buffers b = new_buffers(rank);
    int other = 1 - rank;

    GOOD(ncclGroupStart());
    GOOD(ncclGroupStart());
    GOOD(ncclSend(b.from, MANY, ncclInt32, other, comm, 0));
    GOOD(ncclGroupEnd());
    GOOD(ncclRecv(b.to, MANY, ncclInt32, other, comm, 0));
    GOOD(ncclSend(b.from + MANY, 5, ncclInt32, rank, comm, 0)); /* to itself */
    GOOD(ncclRecv(b.to + MANY, 5, ncclInt32, rank, comm, 0));
    GOOD(ncclGroupEnd());
    expect_words(&b, 0, MANY, other * 1000000, 1);
    expect_words(&b, MANY, 5, rank * 1000000 + MANY, 1);
    /* One way, without a group. */
    if (rank == 0) {
        GOOD(ncclSend(b.from, 100, ncclInt32, 1, comm, 0));
    } else {
        GOOD(ncclRecv(b.to, 100, ncclInt32, 0, comm, 0));
        expect_words(&b, 0, 100, 0, 1);
    }
    GOOD(cudaDeviceSynchronize());
}

static void a_captured_collective_is_replayed(int rank)
{
    ncclComm_t comm = communicator(rank);
    struct buffers b = new_buffers(rank);
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;

    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GOOD(ncclAllReduce(b.from, b.to, COUNT, ncclInt32, ncclSum, comm, stream));
    GOOD(cudaStreamEndCapture(stream, &graph));
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    for (int turn = 0; turn < 3; turn++) {
        GOOD(cudaMemsetAsync(b.to, 0, COUNT * sizeof(int), stream));
        GOOD(cudaGraphLaunch(exec, stream));
        GOOD(cudaStreamSynchronize(stream));
        expect_words(&b, 0, COUNT, 1000000, 2);
    }
}

/* ---- communicators ---- */

static void expect_place(ncclComm_t comm, int rank, int count)
{
    int got = -1;

    GOOD(ncclCommUserRank(comm, &got));
    EXPECT(got, rank);
    GOOD(ncclCommCount(comm, &got));
    EXPECT(got, count);
    GOOD(ncclCommCuDevice(comm, &got));
    EXPECT(got, 0);
}

static void communicators_are_made_in_every_way(int rank)
{
    ncclComm_t comm = communicator(rank), second = NULL, third = NULL, alone = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId ids[2];
    ncclResult_t error = ncclInternalError;
    int device = 0, version = 0;

    GOOD(ncclGetVersion(&version));
    EXPECT(version, NCCL_VERSION_CODE);
    expect_place(comm, rank, RANKS);
    if (rank == 0) {
        GOOD(ncclGetUniqueId(&ids[0]));
        GOOD(ncclGetUniqueId(&ids[1]));
        case_send(ids, sizeof ids, -1);
    } else {
        case_receive(ids, sizeof ids, NULL);
    }
    GOOD(ncclCommInitRankConfig(&second, RANKS, ids[0], rank, &config));
    expect_place(second, rank, RANKS);
    GOOD(ncclCommInitRankScalable(&third, RANKS, rank, 1, &ids[1], &config));
    expect_place(third, rank, RANKS);
    GOOD(ncclCommInitAll(&alone, 1, &device));
    expect_place(alone, 0, 1);
    GOOD(ncclCommGetAsyncError(third, &error));
    EXPECT(error, ncclSuccess);
    GOOD(ncclCommFinalize(second));
    GOOD(ncclCommDestroy(second));
    GOOD(ncclCommAbort(third));
    GOOD(ncclCommDestroy(alone));
}

static void a_communicator_is_split_by_colour_and_key(int rank)
{
    ncclComm_t comm = communicator(rank), same = NULL, own = NULL, none = NULL;
    struct buffers b = new_buffers(rank);

    GOOD(ncclCommSplit(comm, 7, -rank, &same, NULL)); /* the keys turn the order round */
    expect_place(same, 1 - rank, RANKS);
    GOOD(ncclAllGather(b.from, b.to, COUNT, ncclInt32, same, 0));
    expect_words(&b, 0, COUNT, 1000000, 1);
    expect_words(&b, COUNT, COUNT, 0, 1);
    GOOD(ncclCommSplit(comm, rank, 0, &own, NULL));
    expect_place(own, 0, 1);
    GOOD(ncclAllReduce(b.from, b.to, COUNT, ncclInt32, ncclSum, own, 0));
    expect_words(&b, 0, COUNT, rank * 1000000, 1);
    GOOD(ncclCommSplit(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 1, 0, &none, NULL));
    EXPECT(none == NULL, rank == 0);
}

static void buffers_are_allocated_and_registered(int rank)
{
    ncclComm_t comm = communicator(rank);
    void *memory = NULL, *handle = NULL;
    ncclWindow_t window = NULL;

    GOOD(ncclMemAlloc(&memory, COUNT * sizeof(int)));
    GOOD(ncclCommRegister(comm, memory, COUNT * sizeof(int), &handle));
    GOOD(ncclCommWindowRegister(comm, memory, COUNT * sizeof(int), &window,
                                NCCL_WIN_COLL_SYMMETRIC));
    EXPECT(ncclCommWindowRegister(comm, NULL, 4, &window, 0), ncclInvalidArgument);
    GOOD(cudaMemset(memory, 1, COUNT * sizeof(int)));
    GOOD(ncclAllReduce(memory, memory, COUNT, ncclInt32, ncclSum, comm, 0));
    GOOD(cudaDeviceSynchronize());
    GOOD(ncclCommWindowDeregister(comm, window));
    GOOD(ncclCommDeregister(comm, handle));
    GOOD(ncclMemFree(memory));
}

/* ---- what is wrong ---- */

static void wrong_arguments_are_refused(int rank)
{
    ncclComm_t comm = communicator(rank);
    struct buffers b = new_buffers(rank);
    ncclUniqueId id = {{0}};
    ncclComm_t other = NULL;

    EXPECT(ncclAllReduce(b.from, b.to, 1, ncclInt32, ncclSum, NULL, 0), ncclInvalidArgument);
    EXPECT(ncclAllReduce(NULL, NULL, 1, ncclInt32, ncclSum, comm, 0), ncclInvalidArgument);
    EXPECT(ncclAllReduce(b.from, b.to, 1, (ncclDataType_t)99, ncclSum, comm, 0),
           ncclInvalidArgument);
    EXPECT(ncclBroadcast(b.from, b.to, 1, ncclInt32, RANKS, comm, 0), ncclInvalidArgument);
    EXPECT(ncclSend(b.from, 1, ncclInt32, -1, comm, 0), ncclInvalidArgument);
    EXPECT(ncclCommInitRank(&other, 2, id, 2), ncclInvalidArgument);
    EXPECT(ncclCommCount(NULL, &rank), ncclInvalidArgument);
    EXPECT(ncclGroupEnd(), ncclInvalidUsage);
    EXPECT(strcmp(ncclGetErrorString(ncclInvalidArgument), "invalid argument"), 0);
    EXPECT(ncclGetLastError(comm)[0] != 0, 1);
}

static void ranks_that_call_different_collectives_are_told(int rank)
{
    ncclComm_t comm = communicator(rank);
    struct buffers b = new_buffers(rank);
    char turn = 0;

    if (rank == 0) {
        GOOD(ncclAllReduce(b.from, b.to, COUNT, ncclInt32, ncclSum, comm, 0));
        case_send(&turn, 1, -1);
        return;
    }
    case_receive(&turn, 1, NULL);
    EXPECT(ncclAllReduce(b.from, b.to, COUNT + 1, ncclInt32, ncclSum, comm, 0), ncclInvalidUsage);
    EXPECT(strstr(ncclGetLastError(comm), "of 778") != NULL, 1);
}

static void a_call_that_is_missing_is_named(int rank)
{
    ncclComm_t comm = communicator(rank), shrunk = NULL;
    int excluded = 1;

    EXPECT(ncclCommShrink(comm, &excluded, 1, &shrunk, NULL, NCCL_SHRINK_DEFAULT) != ncclSuccess,
           1);
    EXPECT(strstr(ncclGetLastError(NULL), "ncclCommShrink") != NULL, 1);
}

const struct cuda_case cases_of_nccl[] = {
    CASE(every_type_and_operator_is_reduced, RANKS),
    CASE(a_factor_is_multiplied_in_before_the_sum, RANKS),
    CASE(every_collective_moves_what_it_says, RANKS),
    CASE(messages_cross_in_a_group, RANKS),
    CASE(a_captured_collective_is_replayed, RANKS),
    CASE(communicators_are_made_in_every_way, RANKS),
    CASE(a_communicator_is_split_by_colour_and_key, RANKS),
    CASE(buffers_are_allocated_and_registered, RANKS),
    CASE(wrong_arguments_are_refused, RANKS),
    CASE(ranks_that_call_different_collectives_are_told, RANKS),
    CASE(a_call_that_is_missing_is_named, RANKS, .report = "ncclCommShrink"),
    {0},
};
