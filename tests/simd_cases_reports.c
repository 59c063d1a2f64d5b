/* Reports, deadlocks, fuel, and the order of what happens. */
#include "tests/cuda_cases.h"
#include "worker/await.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int *device_words(int count)
{
    int *words = NULL;

    GOOD(cudaMalloc((void **)&words, (size_t)count * sizeof *words));
    GOOD(cudaMemset(words, 0, (size_t)count * sizeof *words));
    return words;
}

static void a_refused_call_is_named(int rank)
{
    cudaArray_t array = NULL;
    struct cudaChannelFormatDesc format = {.x = 32};

    (void)rank;
    EXPECT(cudaMallocArray(&array, &format, 16, 16, 0), cudaErrorNotSupported);
    EXPECT(cudaGetLastError(), cudaErrorNotSupported);
    GOOD(cudaDeviceSynchronize());
}

static void an_illegal_address_is_reported(int rank)
{
    (void)rank;
    GOOD(launch_fill((int *)0x10, 1, 1, 0));
    EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

static void a_lonely_wait_is_a_deadlock(int rank)
{
    int *words = device_words(2);

    (void)rank;
    GOOD(launch_wait_store(words, 1, words + 1, 0));
    EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
    EXPECT(cudaFree(NULL), cudaErrorLaunchTimeout);
}

static void a_word_never_written_is_a_deadlock(int rank)
{
    int *words = device_words(2);

    (void)rank;
    GOOD(cuStreamWaitValue32(NULL, (CUdeviceptr)words, 1, CU_STREAM_WAIT_VALUE_EQ));
    EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
}

static void a_device_that_is_never_added_is_a_deadlock(int rank)
{
    CUmulticastObjectProp properties = {.numDevices = 2,
                                        .size = CASE_SHARED_BYTES,
                                        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemAllocationProp of_device = case_properties();
    CUmemGenericAllocationHandle object = 0, memory = 0;

    GOOD(cudaSetDevice(0));
    if (rank == 0) {
        GOOD(cuMulticastCreate(&object, &properties));
        GOOD(cuMulticastAddDevice(object, 0));
        GOOD(cuMemCreate(&memory, CASE_SHARED_BYTES, &of_device, 0));
        EXPECT(cuMulticastBindMem(object, 0, memory, 0, CASE_SHARED_BYTES, 0),
               CUDA_ERROR_LAUNCH_TIMEOUT);
    } else {
        EXPECT(cuStreamWaitValue32(NULL, (CUdeviceptr)device_words(1), 1, CU_STREAM_WAIT_VALUE_EQ),
               0);
        EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
    }
}

static void a_second_piece_of_a_multicast_object_is_refused(int rank)
{
    CUmulticastObjectProp properties = {.numDevices = 1,
                                        .size = (size_t)2 * CASE_SHARED_BYTES,
                                        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemAllocationProp of_device = case_properties();
    CUmemGenericAllocationHandle object = 0, memory = 0;

    (void)rank;
    GOOD(cudaSetDevice(0));
    GOOD(cuMulticastCreate(&object, &properties));
    GOOD(cuMulticastAddDevice(object, 0));
    GOOD(cuMemCreate(&memory, CASE_SHARED_BYTES, &of_device, 0));
    GOOD(cuMulticastBindMem(object, 0, memory, 0, CASE_SHARED_BYTES, 0));
    EXPECT(cuMulticastBindMem(object, CASE_SHARED_BYTES, memory, 0, CASE_SHARED_BYTES, 0),
           CUDA_ERROR_NOT_SUPPORTED);
}

static void a_polled_deadlock_is_found(int rank)
{
    int *words = device_words(2);

    if (rank == 0) {
        GOOD(launch_wait_store(words, 1, words + 1, 0));
    }
    for (;;) {
        cudaError_t error = rank == 0 ? cudaStreamQuery(0) : cudaDeviceSynchronize();
        if (error == cudaErrorLaunchTimeout) {
            return;
        }
        EXPECT(error == cudaErrorNotReady || error == cudaSuccess, 1);
    }
}

static void an_endless_count_uses_up_the_fuel(int rank)
{
    int *words = device_words(1);

    (void)rank;
    GOOD(launch_slow_store(words, 1, 1 << 30, 0));
    EXPECT(cudaDeviceSynchronize(), cudaErrorLaunchTimeout);
}

static void a_polled_host_word_is_a_finding(int rank)
{
    volatile int *flag = NULL;

    (void)rank;
    GOOD(cudaMallocHost((void **)&flag, sizeof *flag));
    *flag = 0;
    GOOD(launch_fill((int *)flag, 1, 1, 0));
    while (*flag == 0) { /* no call: pkb-simd cannot see it wait */
    }
    GOOD(cudaDeviceSynchronize());
}

/* Ranks that go on by themselves, polling as pkb-rank does: who comes first at a shared counter is
 * the same in every run. */
static void polling_ranks_have_one_order(int rank)
{
    enum { TURNS = 20 };
    int *words = (int *)case_share(rank, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    int log[1 + 2 * TURNS] = {0};
    cudaStream_t stream = NULL;

    if (rank == 0) {
        GOOD(cudaMemset(words, 0, sizeof log));
        GOOD(cudaDeviceSynchronize());
    }
    GOOD(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    case_meet();
    for (int turn = 0; turn < TURNS; turn++) {
        GOOD(launch_ticket(words, rank, 300 * (1 + (turn * 7 + rank * 3) % 5), stream));
        while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        }
    }
    case_meet();
    GOOD(cudaMemcpy(log, words, sizeof log, cudaMemcpyDeviceToHost));
    EXPECT(log[0], 2LL * TURNS);
    for (int i = 0; rank == 0 && i < 2 * TURNS; i++) {
        printf("%d", log[1 + i]);
    }
    case_meet();
}

static void *synchronise(void *stream)
{
    GOOD(cudaSetDevice(0));
    GOOD(cudaStreamSynchronize(stream));
    return NULL;
}

static void a_thread_may_wait_while_another_launches(int rank)
{
    int *words = device_words(2);
    cudaStream_t first = NULL, second = NULL;
    pthread_t waiter;

    (void)rank;
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    GOOD(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    GOOD(launch_wait_store(words, 4, words + 1, first));
    GOOD(pthread_create(&waiter, NULL, synchronise, first));
    GOOD(launch_fill(words, 4, 1, second));
    GOOD(pthread_join(waiter, NULL));
}

static void *await_socket(void *end)
{
    char byte = 0;

    while (recv(*(int *)end, &byte, 1, MSG_DONTWAIT) < 0) {
        await_message(*(int *)end);
    }
    EXPECT(byte, 'm');
    return NULL;
}

/* Were the thread not seen to wait, devices would go on without it only after seconds, with a
 * finding. */
static void who_awaits_a_socket_is_seen_to_wait(int rank)
{
    int *words = device_words(2);
    int ends[2] = {-1, -1};
    pthread_t waiter;

    (void)rank;
    GOOD(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    GOOD(pthread_create(&waiter, NULL, await_socket, &ends[0]));
    for (int turn = 0; turn < 3; turn++) {
        GOOD(launch_slow_store(words, 1, 1000, 0));
        GOOD(cudaDeviceSynchronize());
    }
    EXPECT(send(ends[1], "m", 1, 0), 1);
    GOOD(pthread_join(waiter, NULL));
    GOOD(pthread_create(&waiter, NULL, await_socket, &ends[0]));
    EXPECT(send(ends[1], "m", 1, 0), 1);
    GOOD(pthread_join(waiter, NULL));
    close(ends[0]);
    close(ends[1]);
}

/* Every other call returns at once then. */
static void who_awaits_a_socket_does_so_after_a_fault_too(int rank)
{
    int ends[2] = {-1, -1};
    pthread_t waiter;

    (void)rank;
    GOOD(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    GOOD(launch_fill((int *)8, 1, 1, 0));
    EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    GOOD(pthread_create(&waiter, NULL, await_socket, &ends[0]));
    EXPECT(send(ends[1], "m", 1, 0), 1);
    GOOD(pthread_join(waiter, NULL));
    close(ends[0]);
    close(ends[1]);
}

static void a_kernel_prints_when_the_host_waits(int rank)
{
    (void)rank;
    GOOD(launch_print(42));
    FILE *saved = stdout;
    char text[64] = "";
    stdout = fmemopen(text, sizeof text, "w");
    GOOD(cudaDeviceSynchronize());
    (void)fclose(stdout);
    stdout = saved;
    EXPECT(strcmp(text, "kernel says 42\n"), 0);
}

const struct cuda_case cases_of_reports[] = {
    CASE(a_refused_call_is_named, 1, .report = "CUDA call cudaMallocArray"),
    CASE(an_illegal_address_is_reported, 1, .report = "cuda_cases.cu:"),
    CASE(a_lonely_wait_is_a_deadlock, 1, .report = "\"verdict\":\"deadlock\""),
    CASE(a_word_never_written_is_a_deadlock, 1, .report = "cuStreamWaitValue32"),
    CASE(a_device_that_is_never_added_is_a_deadlock, 2, .report = "cuMulticastBindMem"),
    CASE(a_second_piece_of_a_multicast_object_is_refused, 1,
         .report = "cuMulticastBindMem of a second piece"),
    CASE(a_polled_deadlock_is_found, 2, .report = "\"verdict\":\"deadlock\"", .repeats = 3),
    CASE(an_endless_count_uses_up_the_fuel, 1, .report = "\"verdict\":\"timeout\"",
         .fuel = 1000000),
    CASE(a_polled_host_word_is_a_finding, 1, .report = "host_timing_dependent"),
    CASE(polling_ranks_have_one_order, 2, .repeats = 5),
    CASE(a_thread_may_wait_while_another_launches, 1),
    CASE(who_awaits_a_socket_is_seen_to_wait, 1),
    CASE(who_awaits_a_socket_does_so_after_a_fault_too, 1, .report = "illegal_address"),
    CASE(a_kernel_prints_when_the_host_waits, 1),
    {0},
};
