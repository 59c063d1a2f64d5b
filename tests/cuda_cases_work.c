/* Kernels, streams and events. */
#include "tests/cuda_cases.h"

#include <string.h>

enum { COUNT = 1000, TURNS = 20000 };

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

static cudaStream_t new_stream(unsigned int flags)
{
    cudaStream_t stream = NULL;

    GOOD(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

static void vectors_are_added(int rank)
{
    float a[COUNT], b[COUNT], sum[COUNT];
    float *device = NULL;

    (void)rank;
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)i;
        b[i] = 0.5f * (float)i;
    }
    GOOD(cudaMalloc((void **)&device, 3 * sizeof a));
    GOOD(cudaMemcpy(device, a, sizeof a, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpy(device + COUNT, b, sizeof b, cudaMemcpyHostToDevice));
    GOOD(launch_add(device, device + COUNT, device + (ptrdiff_t)2 * COUNT, COUNT, 0));
    GOOD(cudaMemcpy(sum, device + (ptrdiff_t)2 * COUNT, sizeof sum, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++) {
        EXPECT(sum[i] == a[i] + b[i], 1);
    }
}

static void parameters_of_every_size_arrive(int rank)
{
    struct big_argument big;
    double *sum = NULL, got = 0;
    unsigned int bytes = 0, expected = 0;

    (void)rank;
    GOOD(cudaMalloc((void **)&sum, sizeof *sum));
    GOOD(launch_every_size(1, -2, 3, 1ll << 40, 0.25f, 0.125, sum, 0));
    GOOD(cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 1 - 2 + 3 + (double)(1ll << 40) + 0.25 + 0.125, 1);
    for (size_t i = 0; i < sizeof big.bytes; i++) {
        big.bytes[i] = (unsigned char)(i * 3);
        expected += big.bytes[i];
    }
    GOOD(launch_big(big, (unsigned int *)sum, 0));
    memset(&big, 0, sizeof big); /* they were copied */
    GOOD(cudaMemcpy(&bytes, sum, sizeof bytes, cudaMemcpyDeviceToHost));
    EXPECT(bytes, expected);
}

static void a_stream_keeps_its_order(int rank)
{
    int *word = device_words(1), value = 0;
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);

    (void)rank;
    GOOD(launch_slow_store(word, 40, TURNS, stream));
    GOOD(launch_add_one(word, stream));
    GOOD(cudaMemcpyAsync(&value, word, sizeof value, cudaMemcpyDeviceToHost, stream));
    EXPECT(value, 41);
    GOOD(cudaMemsetAsync(word, 0, sizeof *word, stream));
    GOOD(launch_add_one(word, stream));
    GOOD(launch_add_one(word, stream));
    GOOD(cudaStreamSynchronize(stream));
    GOOD(cudaStreamQuery(stream));
    EXPECT(word_of(word), 2);
    GOOD(cudaStreamDestroy(stream));
}

static void the_legacy_stream_waits_for_blocking_streams(int rank)
{
    int *words = device_words(2);
    cudaStream_t blocking = new_stream(cudaStreamDefault);

    (void)rank;
    GOOD(launch_slow_store(words, 7, TURNS, blocking));
    GOOD(launch_load(words, words + 1, 0));
    EXPECT(word_of(words + 1), 7);
    GOOD(launch_slow_store(words, 8, TURNS, 0));
    GOOD(launch_load(words, words + 1, blocking));
    GOOD(cudaStreamSynchronize(blocking));
    EXPECT(word_of(words + 1), 8);
}

static void streams_run_beside_each_other(int rank)
{
    int *words = device_words(3);
    cudaStream_t first = new_stream(cudaStreamNonBlocking);
    cudaStream_t second = new_stream(cudaStreamNonBlocking);

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(launch_wait_store(words, 3, words + 1, first)); /* runs until the other has stored */
    GOOD(launch_fill(words, 3, 1, second));
    GOOD(cudaStreamSynchronize(first));
    EXPECT(word_of(words + 1), 3);
}

static void a_stream_waits_for_an_event_of_another(int rank)
{
    int *words = device_words(2);
    cudaStream_t first = new_stream(cudaStreamNonBlocking);
    cudaStream_t second = new_stream(cudaStreamNonBlocking);
    cudaEvent_t event = NULL;

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    GOOD(cudaStreamWaitEvent(second, event, 0)); /* never recorded: no wait */
    GOOD(launch_slow_store(words, 5, TURNS, first));
    GOOD(cudaEventRecord(event, first));
    GOOD(cudaStreamWaitEvent(second, event, 0));
    GOOD(launch_load(words, words + 1, second));
    GOOD(cudaEventDestroy(event)); /* what was queued keeps it */
    GOOD(cudaStreamSynchronize(second));
    EXPECT(word_of(words + 1), 5);
}

static void events_follow_their_stream(int rank)
{
    int *word = device_words(1);
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);
    cudaEvent_t before = NULL, after = NULL, untimed = NULL;
    float milliseconds = -1;

    (void)rank;
    GOOD(cudaEventCreate(&before));
    GOOD(cudaEventCreate(&after));
    GOOD(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    GOOD(cudaEventQuery(before));
    GOOD(cudaEventSynchronize(before));
    EXPECT(cudaEventElapsedTime(&milliseconds, before, after), cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
    GOOD(cudaEventRecord(before, stream));
    GOOD(launch_slow_store(word, 1, TURNS, stream));
    GOOD(cudaEventRecord(after, stream));
    GOOD(cudaEventRecord(untimed, stream));
    GOOD(cudaEventSynchronize(after));
    EXPECT(word_of(word), 1);
    GOOD(cudaEventElapsedTime(&milliseconds, before, after));
    EXPECT(milliseconds > 0, 1);
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(cudaEventElapsedTime(&milliseconds, before, untimed), cudaErrorInvalidResourceHandle);
    EXPECT(cudaEventRecord(NULL, stream), cudaErrorInvalidResourceHandle);
    EXPECT(cudaStreamWaitEvent(stream, NULL, 0), cudaErrorInvalidResourceHandle);
}

static void a_query_tells_work_from_rest(int rank)
{
    int *words = device_words(2), *flag = NULL;
    cudaStream_t stream = new_stream(cudaStreamNonBlocking);

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaMallocHost((void **)&flag, sizeof *flag));
    *flag = 0;
    GOOD(launch_wait_store(flag, 1, words, stream));
    EXPECT(cudaStreamQuery(stream), cudaErrorNotReady);
    EXPECT(cudaPeekAtLastError() == cudaSuccess, 1);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    }
    GOOD(cudaStreamQuery(stream));
    EXPECT(word_of(words), 1);
}

static void streams_have_words_to_wait_for(int rank)
{
    int *words = device_words(4);
    cudaStream_t first = new_stream(cudaStreamNonBlocking);
    cudaStream_t second = new_stream(cudaStreamNonBlocking);
    CUdeviceptr address = (CUdeviceptr)words;

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cuStreamWaitValue32(first, address, 4, CU_STREAM_WAIT_VALUE_GEQ));
    GOOD(cuStreamWriteValue64(first, address + 8, 0x100000002ull, 0));
    EXPECT(cudaStreamQuery(first), cudaErrorNotReady);
    GOOD(cuStreamWriteValue32(second, address, 5, 0));
    GOOD(cudaStreamSynchronize(first));
    EXPECT(word_of(words), 5);
    EXPECT(word_of(words + 2) == 2 && word_of(words + 3) == 1, 1);
    EXPECT(cuStreamWriteValue32(first, address + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamWriteValue64(first, address + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

static void shared_memory_can_be_extended(int rank)
{
    int *words = device_words(64);

    (void)rank;
    GOOD(launch_dynamic(words, (size_t)16 * 1024, 0));
    EXPECT(word_of(words), 16 * 1024 / 4 - 1);
    EXPECT(launch_dynamic(words, (size_t)100 * 1024, 0), cudaErrorInvalidValue);
    EXPECT(set_dynamic_shared(300 * 1024), cudaErrorInvalidValue);
    EXPECT(set_dynamic_shared(-1), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    GOOD(set_dynamic_shared(227 * 1024));
    GOOD(launch_dynamic(words, (size_t)227 * 1024, 0));
    EXPECT(word_of(words), 227 * 1024 / 4 - 1);
}

static void kernels_tell_their_attributes(int rank)
{
    struct cudaFuncAttributes attributes;
    int blocks = -1;

    (void)rank;
    GOOD(cudaFuncGetAttributes(&attributes, kernel_bounded()));
    EXPECT(attributes.maxThreadsPerBlock, 128);
    EXPECT(attributes.binaryVersion, 90);
    EXPECT(attributes.maxDynamicSharedSizeBytes, 48LL * 1024);
    EXPECT(attributes.numRegs > 0, 1);
    GOOD(cudaFuncGetAttributes(&attributes, kernel_nothing()));
    EXPECT(attributes.maxThreadsPerBlock, 1024);
    GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_nothing(), 256, 0));
    EXPECT(blocks, 8);
    GOOD(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_nothing(), 2048, 0));
    EXPECT(blocks, 0);
}

static void cooperative_grids_must_fit(int rank)
{
    int *word = device_words(1);

    (void)rank;
    GOOD(launch_cooperative(132 * 32, word));
    EXPECT(word_of(word), 132LL * 32 * 32);
    EXPECT(launch_cooperative(132 * 32 + 1, word), cudaErrorCooperativeLaunchTooLarge);
}

static void the_device_is_an_h200(int rank)
{
    struct cudaDeviceProp properties;
    int value = 0;

    (void)rank;
    GOOD(cudaGetDeviceProperties(&properties, 0));
    EXPECT(strcmp(properties.name, "NVIDIA H200"), 0);
    EXPECT(properties.major == 9 && properties.minor == 0, 1);
    EXPECT(properties.multiProcessorCount, 132);
    EXPECT(properties.sharedMemPerBlockOptin, 227LL * 1024);
    EXPECT(properties.totalGlobalMem, 150109880320);
    GOOD(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
    EXPECT(value, 32);
    EXPECT(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)9999, 0), cudaErrorInvalidValue);
    EXPECT(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99), cudaErrorInvalidDevice);
    EXPECT(cudaSetDevice(99), cudaErrorInvalidDevice);
    GOOD(cudaSetDevice(0));
    GOOD(cudaGetDevice(&value));
    EXPECT(value, 0);
    GOOD(cudaDeviceCanAccessPeer(&value, 0, 0));
    EXPECT(value, 0);
}

const struct cuda_case cases_of_work[] = {
    CASE(vectors_are_added, 1),
    CASE(parameters_of_every_size_arrive, 1),
    CASE(a_stream_keeps_its_order, 1),
    CASE(the_legacy_stream_waits_for_blocking_streams, 1),
    CASE(streams_run_beside_each_other, 1),
    CASE(a_stream_waits_for_an_event_of_another, 1),
    CASE(events_follow_their_stream, 1),
    CASE(a_query_tells_work_from_rest, 1),
    CASE(streams_have_words_to_wait_for, 1),
    CASE(shared_memory_can_be_extended, 1),
    CASE(kernels_tell_their_attributes, 1),
    CASE(cooperative_grids_must_fit, 1),
    CASE(the_device_is_an_h200, 1),
    {0},
};
