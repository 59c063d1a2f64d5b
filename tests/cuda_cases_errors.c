/* What goes wrong, and how it stays wrong. */
#include "tests/cuda_cases.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>

/* After a fault every call fails with it, but for those that need no context. */
static void expect_sticky(cudaError_t fault)
{
    struct cudaPointerAttributes attributes;
    cudaStream_t stream = NULL;
    void *address = NULL;
    int count = 0;

    EXPECT(cudaDeviceSynchronize(), fault);
    EXPECT(cudaGetLastError(), fault);
    GOOD(cudaGetLastError());
    EXPECT(cudaMalloc(&address, 4), fault);
    EXPECT(cudaPeekAtLastError(), fault);
    EXPECT(cudaGetLastError(), fault);
    EXPECT(cudaStreamQuery(0), fault);
    EXPECT(cudaStreamCreate(&stream), fault);
    EXPECT(cudaFree(NULL), fault);
    GOOD(cudaGetDeviceCount(&count));
    GOOD(cudaSetDevice(0));
    GOOD(cudaPointerGetAttributes(&attributes, &count));
}

static void an_illegal_address_is_sticky(int rank)
{
    (void)rank;
    GOOD(launch_fill((int *)0x10, 1, 1, 0));
    expect_sticky(cudaErrorIllegalAddress);
}

static void a_misaligned_address_is_sticky(int rank)
{
    char *device = NULL;

    (void)rank;
    GOOD(cudaMalloc((void **)&device, 64));
    GOOD(launch_misaligned(device));
    expect_sticky(cudaErrorMisalignedAddress);
}

static void a_trap_is_sticky(int rank)
{
    (void)rank;
    GOOD(launch_trap());
    expect_sticky(cudaErrorLaunchFailure);
}

static void wrong_launches_are_refused(int rank)
{
    int *device = NULL, host = 0;
    cudaStream_t stream = NULL;

    (void)rank;
    GOOD(cudaMalloc((void **)&device, 4096));
    EXPECT(launch_shape((dim3){1, 1, 1}, (dim3){2048, 1, 1}, 0), cudaErrorInvalidValue);
    EXPECT(launch_shape((dim3){0, 1, 1}, (dim3){1, 1, 1}, 0), cudaErrorInvalidValue);
    EXPECT(launch_shape((dim3){1, 65536, 1}, (dim3){1, 1, 1}, 0), cudaErrorInvalidValue);
    EXPECT(launch_shape((dim3){1, 1, 1}, (dim3){1, 1, 65}, 0), cudaErrorInvalidValue);
    EXPECT(launch_shape((dim3){1, 1, 1}, (dim3){1, 1, 1}, 300000), cudaErrorInvalidValue);
    EXPECT(launch_bounded(device, 256), cudaErrorInvalidValue);
    EXPECT(cudaLaunchKernel(NULL, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, 0),
           cudaErrorInvalidDeviceFunction);
    EXPECT(cudaLaunchKernel(&host, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, 0),
           cudaErrorInvalidResourceHandle);
    EXPECT(cudaStreamDestroy(0), cudaErrorInvalidResourceHandle);
    EXPECT(cudaStreamCreateWithFlags(&stream, 99), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    GOOD(launch_bounded(device, 128)); /* and nothing is spoilt */
    GOOD(cudaDeviceSynchronize());
}

static void errors_have_names(int rank)
{
    const char *text = NULL;

    (void)rank;
    EXPECT(strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress"), 0);
    EXPECT(strcmp(cudaGetErrorString(cudaErrorIllegalAddress),
                  "an illegal memory access was encountered"),
           0);
    EXPECT(strcmp(cudaGetErrorString((cudaError_t)12345), "unrecognized error code"), 0);
    GOOD(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    EXPECT(strcmp(text, "an illegal memory access was encountered"), 0);
    EXPECT(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
}

static sigjmp_buf back;

static void on_signal(int number)
{
    siglongjmp(back, number);
}

static void the_host_cannot_touch_device_memory(int rank)
{
    volatile int *device = NULL;

    (void)rank;
    GOOD(cudaMalloc((void **)&device, 64));
    (void)signal(SIGSEGV, on_signal);
    (void)signal(SIGBUS, on_signal);
    int number = sigsetjmp(back, 1);
    if (!number) {
        *device = 1;
    }
    EXPECT(number == SIGSEGV || number == SIGBUS, 1);
    GOOD(cudaFree((void *)device));
}

static void calls_are_found_by_name(int rank)
{
    CUresult (*version)(int *) = NULL;
    enum cudaDriverEntryPointQueryResult status;
    void *function = NULL;
    int number = 0;

    (void)rank;
    GOOD(cudaGetDriverEntryPointByVersion("cuDriverGetVersion", (void **)&version, 12000, 0,
                                          &status));
    EXPECT(status, cudaDriverEntryPointSuccess);
    GOOD(version(&number));
    EXPECT(number >= 13000, 1);
    GOOD(cudaGetDriverEntryPointByVersion("cuNoSuchCall", &function, 12000, 0, &status));
    EXPECT(status, cudaDriverEntryPointSymbolNotFound);
}

const struct cuda_case cases_of_errors[] = {
    CASE(an_illegal_address_is_sticky, 1),
    CASE(a_misaligned_address_is_sticky, 1),
    CASE(a_trap_is_sticky, 1),
    CASE(wrong_launches_are_refused, 1),
    CASE(errors_have_names, 1),
    CASE(the_host_cannot_touch_device_memory, 1),
    CASE(calls_are_found_by_name, 1),
    {0},
};
