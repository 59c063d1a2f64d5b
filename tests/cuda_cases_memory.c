/* Allocation, copies and sets. */
#include "tests/cuda_cases.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 3000, BIG_BYTES = 9 << 20 };

static void memory_is_allocated_and_freed(int rank)
{
    void *address = NULL, *second = NULL;
    int on_stack = 0;

    (void)rank;
    GOOD(cudaMalloc(&address, 100));
    GOOD(cudaMalloc(&second, 1 << 20));
    EXPECT(address != second, 1);
    EXPECT((uintptr_t)address % 256, 0);
    EXPECT((uintptr_t)second % 256, 0);
    EXPECT(cudaFree((char *)address + 4), cudaErrorInvalidValue);
    EXPECT(cudaFree(&on_stack), cudaErrorInvalidValue);
    GOOD(cudaFree(address));
    EXPECT(cudaFree(address), cudaErrorInvalidValue);
    GOOD(cudaFree(second));
    GOOD(cudaFree(NULL));
    GOOD(cudaMalloc(&address, 0));
    EXPECT(address == NULL, 1);
    EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
    GOOD(cudaGetLastError());
}

static void too_much_memory_is_refused(int rank)
{
    void *address = NULL;

    (void)rank;
    EXPECT(cudaMalloc(&address, 1ull << 50), cudaErrorMemoryAllocation);
    EXPECT(cudaGetLastError(), cudaErrorMemoryAllocation);
    GOOD(cudaMalloc(&address, 64)); /* and nothing is spoilt */
    GOOD(cudaFree(address));
}

static void bytes_come_back(int rank)
{
    int *device = NULL, *other = NULL;
    int out[COUNT], in[COUNT];

    (void)rank;
    for (int i = 0; i < COUNT; i++) {
        out[i] = i * 7;
    }
    GOOD(cudaMalloc((void **)&device, sizeof out));
    GOOD(cudaMalloc((void **)&other, sizeof out));
    GOOD(cudaMemcpy(device, out, sizeof out, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpy(other, device, sizeof out, cudaMemcpyDeviceToDevice));
    GOOD(cudaMemcpy(in, other, sizeof in, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(in, out, sizeof in), 0);
    memset(in, 0, sizeof in);
    GOOD(cudaMemcpy(in, device + 10, 40, cudaMemcpyDefault));
    EXPECT(memcmp(in, out + 10, 40), 0);
    GOOD(cudaMemcpy(in, out, sizeof in, cudaMemcpyHostToHost));
    EXPECT(memcmp(in, out, sizeof in), 0);
}

static void large_copies_are_whole(int rank)
{
    unsigned char *out = malloc(BIG_BYTES), *in = calloc(1, BIG_BYTES);
    void *device = NULL;

    (void)rank;
    for (size_t i = 0; i < BIG_BYTES; i++) {
        out[i] = (unsigned char)(i * 131 >> 7);
    }
    GOOD(cudaMalloc(&device, BIG_BYTES));
    GOOD(cudaMemcpyAsync(device, out, BIG_BYTES, cudaMemcpyHostToDevice, 0));
    GOOD(cudaMemcpyAsync(in, device, BIG_BYTES, cudaMemcpyDeviceToHost, 0));
    GOOD(cudaStreamSynchronize(0));
    EXPECT(memcmp(in, out, BIG_BYTES), 0);
    free(in);
    free(out);
}

static void planes_keep_their_pitch(int rank)
{
    unsigned char out[6][16], in[6][10];
    char *device = NULL;

    (void)rank;
    for (int i = 0; i < (int)sizeof out; i++) {
        out[i / 16][i % 16] = (unsigned char)i;
    }
    GOOD(cudaMalloc((void **)&device, (size_t)6 * 32));
    GOOD(cudaMemset(device, 0xee, (size_t)6 * 32));
    GOOD(cudaMemcpy2D(device, 32, out, 16, 10, 6, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpy2DAsync(in, 10, device, 32, 10, 6, cudaMemcpyDeviceToHost, 0));
    GOOD(cudaStreamSynchronize(0));
    for (int row = 0; row < 6; row++) {
        EXPECT(memcmp(in[row], out[row], 10), 0);
    }
    GOOD(cudaMemcpy(in, device + 10, 4, cudaMemcpyDeviceToHost));
    EXPECT(in[0][0], 0xee); /* between the rows nothing is written */
    EXPECT(cudaMemcpy2D(device, 8, out, 16, 12, 2, cudaMemcpyHostToDevice),
           cudaErrorInvalidPitchValue);
    EXPECT(cudaMemset2D(device, 8, 0, 12, 2), cudaErrorInvalidValue);
    GOOD(cudaMemset2D(device, 32, 0x11, 3, 2));
    GOOD(cudaMemcpy2D(in, 10, device, 32, 5, 3, cudaMemcpyDeviceToHost));
    EXPECT(in[0][2] == 0x11 && in[1][2] == 0x11, 1);
    EXPECT(in[0][3] == out[0][3] && in[2][0] == out[2][0], 1);
}

static void sets_have_each_width(int rank)
{
    unsigned int in[4];
    CUdeviceptr device = 0;

    (void)rank;
    GOOD(cudaFree(NULL)); /* makes the context */
    GOOD(cuMemAlloc(&device, 64));
    GOOD(cuMemsetD8(device, 0xab, 16));
    GOOD(cuMemsetD16(device + 4, 0x1234, 2));
    GOOD(cuMemsetD32(device + 8, 0xdeadbeef, 1));
    GOOD(cuMemcpyDtoH(in, device, sizeof in));
    EXPECT(in[0], 0xabababab);
    EXPECT(in[1], 0x12341234);
    EXPECT(in[2], 0xdeadbeef);
    EXPECT(in[3], 0xabababab);
    EXPECT(cuMemsetD32(device + 2, 0, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemsetD16(device + 1, 0, 2), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMemFree(device));
}

static void wrong_copies_are_refused(int rank)
{
    char host[64] = {0};
    char *device = NULL, *second = NULL;
    void *nowhere = (void *)0x300000000000;

    (void)rank;
    GOOD(cudaMalloc((void **)&device, 64));
    GOOD(cudaMalloc((void **)&second, 64));
    EXPECT(cudaMemcpy(device, host, 64, (enum cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    EXPECT(cudaMemcpy(device, host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(host, device, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT(cudaMemcpy(device, host, 64, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
    GOOD(cudaMemcpy(second, device, 64, cudaMemcpyHostToDevice));
    EXPECT(cudaMemcpy(nowhere, host, 64, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    EXPECT(cudaMemset(nowhere, 0, 4), cudaErrorInvalidValue);
    EXPECT(cudaMemset(host, 0, 4), cudaErrorInvalidValue);
    EXPECT(cudaMemset(device, 0, 1 << 30), cudaErrorInvalidValue);
    GOOD(cudaMemset(device, 0, 0));
    GOOD(cudaMemcpy(device, host, 0, cudaMemcpyHostToDevice));
    EXPECT(cudaGetLastError(), cudaErrorInvalidValue);
}

static void pinned_memory_is_seen_by_both(int rank)
{
    struct cudaPointerAttributes attributes;
    int *pinned = NULL, *device = NULL;
    unsigned int flags = 0;

    (void)rank;
    GOOD(cudaMallocHost((void **)&pinned, COUNT * sizeof *pinned));
    GOOD(cudaHostGetDevicePointer((void **)&device, pinned, 0));
    EXPECT(device == pinned, 1);
    GOOD(cudaHostGetFlags(&flags, pinned));
    GOOD(launch_fill(pinned, 5, COUNT, 0));
    GOOD(cudaDeviceSynchronize());
    EXPECT(pinned[0] == 5 && pinned[COUNT - 1] == 5, 1);
    GOOD(cudaPointerGetAttributes(&attributes, pinned + 1));
    EXPECT(attributes.type, cudaMemoryTypeHost);
    EXPECT(attributes.hostPointer == pinned + 1 && attributes.devicePointer == pinned + 1, 1);
    EXPECT(cudaFree(pinned), cudaErrorInvalidValue);
    GOOD(cudaFreeHost(pinned));
    GOOD(cudaFreeHost(NULL));
}

static void registered_memory_is_seen_by_both(int rank)
{
    char *pages = aligned_alloc(4096, (size_t)3 * 4096);
    int *words = (int *)(pages + 100);
    void *device = NULL;

    (void)rank;
    memset(pages, 7, (size_t)3 * 4096);
    GOOD(cudaHostRegister(words, 4096, 0));
    EXPECT(pages[0] == 7 && pages[8191] == 7, 1);
    EXPECT(cudaHostRegister(words, 4096, 0), cudaErrorHostMemoryAlreadyRegistered);
    EXPECT(cudaGetLastError(), cudaErrorHostMemoryAlreadyRegistered);
    GOOD(launch_fill(words, 9, 1024, 0));
    GOOD(cudaDeviceSynchronize());
    EXPECT(words[0] == 9 && words[1023] == 9 && pages[99] == 7, 1);
    GOOD(cudaHostUnregister(words));
    EXPECT(words[0] == 9 && pages[99] == 7, 1);
    EXPECT(cudaHostUnregister(words), cudaErrorHostMemoryNotRegistered);
    EXPECT(cudaHostGetDevicePointer(&device, words, 0), cudaErrorInvalidValue);
    free(pages);
}

static void pointers_tell_what_they_are(int rank)
{
    struct cudaPointerAttributes attributes;
    char *device = NULL;
    int host = 0;

    (void)rank;
    GOOD(cudaMalloc((void **)&device, 64));
    GOOD(cudaPointerGetAttributes(&attributes, device + 8));
    EXPECT(attributes.type, cudaMemoryTypeDevice);
    EXPECT(attributes.device, 0);
    EXPECT(attributes.devicePointer == device + 8 && attributes.hostPointer == NULL, 1);
    GOOD(cudaPointerGetAttributes(&attributes, &host));
    EXPECT(attributes.type, cudaMemoryTypeUnregistered);
    EXPECT(attributes.device, cudaInvalidDeviceId);
    EXPECT(attributes.hostPointer == &host, 1);
}

static void variables_are_read_and_written(int rank)
{
    int *device = NULL, in[20], words[17] = {100, 101, 102, 103};
    size_t size_bytes = 0;
    void *address = NULL;

    (void)rank;
    GOOD(cudaMalloc((void **)&device, sizeof in));
    GOOD(launch_symbols(device, 0));
    GOOD(cudaMemcpy(in, device, sizeof in, cudaMemcpyDeviceToHost));
    EXPECT(in[0] == 1 && in[2] == 3 && in[3] == 0 && in[16] == 0, 1);
    GOOD(cudaGetSymbolSize(&size_bytes, symbol_counters()));
    EXPECT(size_bytes, 64);
    GOOD(cudaMemcpyToSymbol(symbol_constants(), words, 16, 0, cudaMemcpyHostToDevice));
    GOOD(cudaMemcpyToSymbol(symbol_counters(), words, 8, 56, cudaMemcpyHostToDevice));
    GOOD(launch_symbols(device, 0));
    GOOD(cudaMemcpy(in, device, sizeof in, cudaMemcpyDeviceToHost));
    EXPECT(in[14] == 100 && in[15] == 101 && in[16] == 100 && in[19] == 103, 1);
    GOOD(cudaGetSymbolAddress(&address, symbol_counters()));
    GOOD(cudaMemcpyFromSymbol(in, symbol_counters(), 4, 4, cudaMemcpyDeviceToHost));
    EXPECT(in[0], 2);
    EXPECT(cudaMemcpyToSymbol(symbol_counters(), words, 68, 0, cudaMemcpyHostToDevice),
           cudaErrorInvalidValue);
    EXPECT(cudaMemcpyToSymbol(symbol_constants(), words, 8, 12, cudaMemcpyHostToDevice),
           cudaErrorInvalidValue);
    EXPECT(cudaGetSymbolAddress(&address, &size_bytes), cudaErrorInvalidSymbol);
}

static void managed_memory_is_everybodys(int rank)
{
    struct cudaPointerAttributes attributes;
    int *words = NULL;

    (void)rank;
    GOOD(cudaMallocManaged((void **)&words, COUNT * sizeof *words, cudaMemAttachGlobal));
    words[1] = 3;
    GOOD(launch_add_one(words + 1, 0));
    GOOD(cudaDeviceSynchronize());
    EXPECT(words[1], 4);
    GOOD(cudaPointerGetAttributes(&attributes, words));
    EXPECT(attributes.type, cudaMemoryTypeManaged);
    GOOD(cudaFree(words));
    EXPECT(cudaFree(words), cudaErrorInvalidValue);
}

static void pools_give_memory_in_order(int rank)
{
    cudaMemPool_t pool = NULL, other = NULL;
    uint64_t threshold = 1 << 20;
    int *words = NULL, word = 0;
    cudaStream_t stream = NULL;

    (void)rank;
    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaDeviceGetDefaultMemPool(&pool, 0));
    GOOD(cudaDeviceGetMemPool(&other, 0));
    EXPECT(pool == other, 1);
    GOOD(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    threshold = 0;
    GOOD(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    EXPECT(threshold, 1 << 20);
    GOOD(cudaMallocAsync((void **)&words, 64, stream));
    GOOD(launch_fill(words, 8, 16, stream));
    GOOD(cudaMemcpyAsync(&word, words, sizeof word, cudaMemcpyDeviceToHost, stream));
    GOOD(cudaFreeAsync(words, stream));
    GOOD(cudaStreamSynchronize(stream));
    EXPECT(word, 8);
    GOOD(cudaMallocFromPoolAsync((void **)&words, 64, pool, stream));
    GOOD(cudaFreeAsync(words, stream));
    GOOD(cudaMemPoolTrimTo(pool, 0));
}

const struct cuda_case cases_of_memory[] = {
    CASE(managed_memory_is_everybodys, 1),
    CASE(pools_give_memory_in_order, 1),
    CASE(memory_is_allocated_and_freed, 1),
    CASE(too_much_memory_is_refused, 1),
    CASE(bytes_come_back, 1),
    CASE(large_copies_are_whole, 1),
    CASE(planes_keep_their_pitch, 1),
    CASE(sets_have_each_width, 1),
    CASE(wrong_copies_are_refused, 1),
    CASE(pinned_memory_is_seen_by_both, 1),
    CASE(registered_memory_is_seen_by_both, 1),
    CASE(pointers_tell_what_they_are, 1),
    CASE(variables_are_read_and_written, 1),
    {0},
};
