/* Programs whose default stream is each thread's own, and calls that only advise. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include "tests/cuda_cases.h"

#include <string.h>

enum { COUNT = 64, BYTES = COUNT * sizeof(int), TURNS = 20000 };

static int *words(void)
{
    int *made = NULL;

    GOOD(cudaMalloc((void **)&made, BYTES));
    GOOD(cudaMemset(made, 0, BYTES));
    return made;
}

static void copies_go_through_the_threads_own_stream(int rank)
{
    int given[COUNT], got[COUNT];
    int *to = words();
    int *other = words();

    (void)rank;
    for (int i = 0; i < COUNT; i++) {
        given[i] = i * 3 + 1;
    }
    GOOD(cudaMemcpy(to, given, BYTES, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpyAsync(other, to, BYTES, cudaMemcpyDeviceToDevice, 0));
    GOOD(cudaMemcpy2D(got, 16, other, 32, 16, COUNT / 8, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(got, given, 16), 0);
    EXPECT(memcmp(got + 4, given + 8, 16), 0);
    GOOD(cudaMemsetAsync(other, 0x11, BYTES, 0));
    GOOD(cudaMemcpyAsync(got, other, BYTES, cudaMemcpyDeviceToHost, 0));
    GOOD(cudaStreamSynchronize(0));
    EXPECT(got[COUNT - 1], 0x11111111);
    GOOD(cudaMemcpyToSymbol(symbol_counters(), given, 8, 4, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpyFromSymbol(got, symbol_counters(), 12, 0, cudaMemcpyDeviceToHost));
    EXPECT(got[1] == given[0] && got[2] == given[1], 1);
}

/* The thread's own stream waits for the legacy one, but for no other. */
static void a_threads_own_stream_keeps_its_order(int rank)
{
    int *to = words();
    int got = 0;
    cudaEvent_t event = NULL;
    cudaStream_t beside = NULL;

    (void)rank;
    GOOD(cudaEventCreate(&event));
    GOOD(cudaStreamCreate(&beside));
    GOOD(launch_slow_store(to, 7, TURNS, cudaStreamPerThread));
    EXPECT(cudaStreamQuery(0), cudaErrorNotReady);
    GOOD(cudaStreamQuery(beside));
    GOOD(cudaEventRecord(event, 0));
    GOOD(cudaStreamWaitEvent(beside, event, 0));
    GOOD(cudaMemcpyAsync(&got, to, sizeof got, cudaMemcpyDeviceToHost, beside));
    GOOD(cudaStreamSynchronize(beside));
    EXPECT(got, 7);
    GOOD(cudaStreamQuery(0));
}

static void a_threads_own_stream_is_captured(int rank)
{
    int *to = words();
    int got = 0;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    (void)rank;
    GOOD(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal));
    GOOD(launch_add_one(to, cudaStreamPerThread));
    GOOD(cudaStreamIsCapturing(0, &status));
    EXPECT(status, cudaStreamCaptureStatusActive);
    GOOD(cudaStreamEndCapture(0, &graph));
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    GOOD(cudaGraphLaunch(exec, 0));
    GOOD(cudaGraphLaunch(exec, 0));
    GOOD(cudaMemcpy(&got, to, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got, 2);
}

static void memory_comes_and_goes_in_the_threads_own_stream(int rank)
{
    int *made = NULL;
    int got = 0;

    (void)rank;
    GOOD(cudaMallocAsync((void **)&made, BYTES, 0));
    GOOD(launch_fill(made, 5, COUNT, cudaStreamPerThread));
    GOOD(cudaMemcpyAsync(&got, made, sizeof got, cudaMemcpyDeviceToHost, 0));
    GOOD(cudaFreeAsync(made, 0));
    GOOD(cudaStreamSynchronize(0));
    EXPECT(got, 5);
}

static void advice_is_taken_and_changes_nothing(int rank)
{
    cudaStreamAttrValue value = {0};
    cudaStream_t stream = NULL;
    int least = 0, greatest = 0;

    (void)rank;
    GOOD(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest < least, 1);
    GOOD(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    GOOD(cudaStreamGetAttribute(stream, cudaStreamAttributePriority, &value));
    EXPECT(value.priority, greatest);
    memset(&value, 0, sizeof value);
    value.accessPolicyWindow.hitRatio = 0.5f;
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    GOOD(cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &value));
    EXPECT(cudaStreamSetAttribute(stream, (cudaStreamAttrID)999, &value), cudaErrorInvalidValue);
    (void)cudaGetLastError();
}

static void occupancy_tells_how_much_shared_memory_is_left(int rank)
{
    size_t bytes = 0;
    int blocks = 0;

    (void)rank;
    GOOD(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel_nothing(), 4, 128));
    EXPECT(bytes > 40960 && bytes <= 58368, 1);
    GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_nothing(), 128, bytes));
    EXPECT(blocks, 4);
}

const struct cuda_case cases_of_own_streams[] = {
    CASE(copies_go_through_the_threads_own_stream, 1),
    CASE(a_threads_own_stream_keeps_its_order, 1),
    CASE(a_threads_own_stream_is_captured, 1),
    CASE(memory_comes_and_goes_in_the_threads_own_stream, 1),
    CASE(advice_is_taken_and_changes_nothing, 1),
    CASE(occupancy_tells_how_much_shared_memory_is_left, 1),
    {0},
};
