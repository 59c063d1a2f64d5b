/* Graphs, functions of the host, copies of planes. */
#include "tests/cuda_cases.h"

#include <pthread.h>
#include <string.h>

enum { TURNS = 5000 };

static int *device_words(int count)
{
    int *words = NULL;

    GOOD(cudaMalloc((void **)&words, (size_t)count * sizeof *words));
    GOOD(cudaMemset(words, 0, (size_t)count * sizeof *words));
    return words;
}

static int word_of(const int *device)
{
    int word = 0;

    GOOD(cudaMemcpy(&word, device, sizeof word, cudaMemcpyDeviceToHost));
    return word;
}

static cudaStream_t new_stream(void)
{
    cudaStream_t stream = NULL;

    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void a_captured_stream_is_replayed(int rank)
{
    int *words = device_words(2);
    cudaStream_t stream = new_stream();
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    size_t count = 0;

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GOOD(cudaStreamIsCapturing(stream, &status));
    EXPECT(status, cudaStreamCaptureStatusActive);
    GOOD(launch_add_one(words, stream));
    GOOD(launch_load(words, words + 1, stream));
    GOOD(cudaMemsetAsync(words, 0, 0, stream));
    GOOD(launch_add_one(words, stream));
    GOOD(cudaStreamEndCapture(stream, &graph));
    EXPECT(word_of(words), 0); /* nothing ran */
    GOOD(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT(count >= 3, 1);
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    GOOD(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        GOOD(cudaGraphLaunch(exec, stream));
    }
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(word_of(words), 6);
    EXPECT(word_of(words + 1), 5);
    GOOD(cudaGraphExecDestroy(exec));
}

static void branches_of_a_capture_join(int rank)
{
    int *words = device_words(3);
    cudaStream_t stream = new_stream(), side = new_stream();
    cudaEvent_t fork = NULL, join = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    GOOD(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GOOD(launch_slow_store(words, 3, TURNS, stream));
    GOOD(cudaEventRecord(fork, stream));
    GOOD(cudaStreamWaitEvent(side, fork, 0));
    GOOD(launch_load(words, words + 1, side));
    GOOD(launch_slow_store(words + 2, 4, TURNS, stream));
    GOOD(cudaEventRecord(join, side));
    GOOD(cudaStreamWaitEvent(stream, join, 0));
    GOOD(launch_add_one(words + 1, stream));
    GOOD(cudaStreamEndCapture(stream, &graph));
    GOOD(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    GOOD(cudaGraphLaunch(exec, stream));
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(word_of(words + 1), 4);
    EXPECT(word_of(words + 2), 4);
    GOOD(cudaGraphLaunch(exec, 0));
    EXPECT(word_of(words + 1), 4);
}

static void a_branch_that_does_not_join_is_an_error(int rank)
{
    int *words = device_words(2);
    cudaStream_t stream = new_stream(), side = new_stream();
    cudaEvent_t fork = NULL;
    cudaGraph_t graph = NULL;

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GOOD(launch_add_one(words, stream));
    GOOD(cudaEventRecord(fork, stream));
    GOOD(cudaStreamWaitEvent(side, fork, 0));
    GOOD(launch_add_one(words + 1, side));
    EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
}

static void a_capture_forbids_what_it_cannot_hold(int rank)
{
    int *words = device_words(2);
    cudaStream_t stream = new_stream(), blocking = NULL;
    cudaEvent_t event = NULL;
    cudaGraph_t graph = NULL;
    void *address = NULL;

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    EXPECT(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal),
           cudaErrorStreamCaptureUnsupported);
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    (void)cudaGetLastError();
    EXPECT(launch_add_one(words, stream), cudaErrorStreamCaptureInvalidated);
    EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    EXPECT(cudaMalloc(&address, 64), cudaErrorStreamCaptureUnsupported);
    EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    GOOD(cudaMalloc(&address, 64));
    GOOD(cudaEventRecord(event, stream));
    EXPECT(cudaEventQuery(event), cudaErrorCapturedEvent);
    EXPECT(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    GOOD(cudaStreamCreate(&blocking));
    GOOD(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeThreadLocal));
    (void)cudaGetLastError();
    EXPECT(launch_add_one(words, 0), cudaErrorStreamCaptureImplicit);
    EXPECT(cudaStreamEndCapture(blocking, &graph), cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    GOOD(launch_add_one(words, stream)); /* and afterwards all is well */
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(word_of(words), 1);
}

static void graphs_are_built_by_hand(int rank)
{
    int *words = device_words(4);
    int host[2] = {21, 0};
    cudaStream_t stream = new_stream();
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaGraphNode_t copy_in = NULL, kernel = NULL, copy_out = NULL;
    enum cudaGraphNodeType type;
    void *kernel_args[] = {&words};
    struct cudaKernelNodeParams params = {.func = (void *)kernel_add_one(),
                                          .gridDim = {1, 1, 1},
                                          .blockDim = {1, 1, 1},
                                          .kernelParams = kernel_args};

    (void)rank;
    GOOD(cudaGraphCreate(&graph, 0));
    GOOD(
        cudaGraphAddMemcpyNode1D(&copy_in, graph, NULL, 0, words, host, 4, cudaMemcpyHostToDevice));
    GOOD(cudaGraphAddKernelNode(&kernel, graph, &copy_in, 1, &params));
    GOOD(cudaGraphAddMemcpyNode1D(&copy_out, graph, &kernel, 1, host + 1, words, 4,
                                  cudaMemcpyDeviceToHost));
    GOOD(cudaGraphNodeGetType(kernel, &type));
    EXPECT(type, cudaGraphNodeTypeKernel);
    GOOD(cudaGraphInstantiate(&exec, graph, 0));
    GOOD(cudaGraphLaunch(exec, stream));
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(host[1], 22);
    int *other = words + 2;
    kernel_args[0] = &other;
    GOOD(cudaGraphExecKernelNodeSetParams(exec, kernel, &params));
    GOOD(cudaGraphLaunch(exec, stream));
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(host[1], 21);
    EXPECT(word_of(words + 2), 1);
    GOOD(cudaGraphExecDestroy(exec));
    GOOD(cudaGraphDestroy(graph));
}

static cudaGraph_t capture_store(int *word, int value, cudaStream_t stream)
{
    cudaGraph_t graph = NULL;

    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GOOD(launch_fill(word, value, 1, stream));
    GOOD(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static void an_executable_graph_is_updated(int rank)
{
    int *words = device_words(2);
    cudaStream_t stream = new_stream();
    cudaGraphExecUpdateResultInfo info;
    cudaGraphExec_t exec = NULL;
    cudaGraph_t two = NULL;

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaGraphInstantiate(&exec, capture_store(words, 5, stream), 0));
    GOOD(cudaGraphLaunch(exec, stream));
    GOOD(cudaGraphExecUpdate(exec, capture_store(words + 1, 6, stream), &info));
    EXPECT(info.result, cudaGraphExecUpdateSuccess);
    GOOD(cudaGraphLaunch(exec, stream));
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(word_of(words), 5);
    EXPECT(word_of(words + 1), 6);
    GOOD(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GOOD(launch_add_one(words, stream));
    GOOD(launch_add_one(words, stream));
    GOOD(cudaStreamEndCapture(stream, &two));
    EXPECT(cudaGraphExecUpdate(exec, two, &info), cudaErrorGraphExecUpdateFailure);
    EXPECT(info.result, cudaGraphExecUpdateErrorTopologyChanged);
}

static void note(void *memory)
{
    int *word = memory;

    *word = *word * 10 + 1;
}

static void host_functions_have_their_turn(int rank)
{
    int *words = device_words(1), *pinned = NULL, noted = 0;
    cudaStream_t stream = new_stream();

    (void)rank;
    GOOD(cudaMallocHost((void **)&pinned, sizeof *pinned));
    GOOD(cudaDeviceSynchronize());
    *pinned = 0;
    GOOD(launch_slow_store(pinned, 7, TURNS, stream));
    GOOD(cudaLaunchHostFunc(stream, note, pinned));
    GOOD(cudaMemcpyAsync(words, pinned, sizeof *pinned, cudaMemcpyHostToDevice, stream));
    GOOD(cudaLaunchHostFunc(stream, note, &noted));
    GOOD(cudaLaunchHostFunc(stream, note, &noted));
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(word_of(words), 71);
    EXPECT(noted, 11);
}

static void blocks_of_three_dimensions_are_copied(int rank)
{
    enum { X = 12, Y = 3, Z = 4 };
    unsigned char out[Z][Y][X], in[Z][Y][X] = {0};
    struct cudaPitchedPtr device;
    struct cudaExtent extent = {X, Y, Z};

    (void)rank;
    for (size_t i = 0; i < sizeof out; i++) {
        ((unsigned char *)out)[i] = (unsigned char)i;
    }
    GOOD(cudaMalloc3D(&device, extent));
    struct cudaMemcpy3DParms params = {.srcPtr = {out, X, X, Y},
                                       .dstPtr = device,
                                       .extent = extent,
                                       .kind = cudaMemcpyHostToDevice};
    GOOD(cudaMemcpy3D(&params));
    params = (struct cudaMemcpy3DParms){.srcPtr = device,
                                        .dstPtr = {in, X, X, Y},
                                        .extent = extent,
                                        .kind = cudaMemcpyDeviceToHost};
    GOOD(cudaMemcpy3DAsync(&params, 0));
    GOOD(cudaStreamSynchronize(0));
    EXPECT(memcmp(in, out, sizeof in), 0);
}

const struct cuda_case cases_of_graphs[] = {
    CASE(a_captured_stream_is_replayed, 1),
    CASE(branches_of_a_capture_join, 1),
    CASE(a_branch_that_does_not_join_is_an_error, 1),
    CASE(a_capture_forbids_what_it_cannot_hold, 1),
    CASE(graphs_are_built_by_hand, 1),
    CASE(an_executable_graph_is_updated, 1),
    CASE(host_functions_have_their_turn, 1),
    CASE(blocks_of_three_dimensions_are_copied, 1),
    {0},
};
