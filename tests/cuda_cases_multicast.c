/* Multicast objects: one address for memory of several devices. */
#include "tests/cuda_cases.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BYTES = CASE_SHARED_BYTES, SUM_WORD = 64 };

/* Whether two devices can do this. A simulator always can; hardware without promises nothing. */
static bool is_possible(void)
{
    const char *on = getenv("PKB_TEST_DEVICE");
    int devices = 0;
    bool is_supported = true;

    GOOD(cudaFree(NULL));
    GOOD(cudaGetDeviceCount(&devices));
    for (int device = 0; device < 2 && device < devices; device++) {
        int value = 0;
        GOOD(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device));
        is_supported &= value != 0;
    }
    is_supported &= devices >= 2;
    EXPECT(is_supported || on != NULL, true);
    return is_supported;
}

static CUmulticastObjectProp of_devices(unsigned count)
{
    return (CUmulticastObjectProp){.numDevices = count,
                                   .size = BYTES,
                                   .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

static CUmemGenericAllocationHandle make_object(unsigned count)
{
    CUmulticastObjectProp wanted = of_devices(count);
    CUmemGenericAllocationHandle handle = 0;

    GOOD(cuMulticastCreate(&handle, &wanted));
    return handle;
}

static CUmemGenericAllocationHandle make_memory(int device)
{
    CUmemAllocationProp wanted = case_properties();
    CUmemGenericAllocationHandle handle = 0;

    wanted.location.id = device;
    GOOD(cuMemCreate(&handle, BYTES, &wanted, 0));
    return handle;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, int device)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address = 0;

    GOOD(cuMemAddressReserve(&address, BYTES, 0, 0, 0));
    GOOD(cuMemMap(address, BYTES, 0, handle, 0));
    GOOD(cuMemSetAccess(address, BYTES, &access, 1));
    return address;
}

static void give(CUmemGenericAllocationHandle handle)
{
    char token = 't';
    int fd = -1;

    GOOD(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    case_send(&token, 1, fd);
    close(fd);
}

static CUmemGenericAllocationHandle take(void)
{
    CUmemGenericAllocationHandle handle = 0;
    char token = 0;
    int fd = -1;

    case_receive(&token, 1, &fd);
    GOOD(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    return handle;
}

static int word_at(CUdeviceptr address, int index)
{
    int word = 0;

    GOOD(cuMemcpyDtoH(&word, address + (CUdeviceptr)index * sizeof word, sizeof word));
    return word;
}

static void a_multicast_address_reaches_the_memory_of_all_devices(int rank)
{
    CUmemGenericAllocationHandle object = 0, memory = 0;

    if (!is_possible()) {
        return;
    }
    GOOD(cudaSetDevice(rank));
    GOOD(cudaFree(NULL));
    if (rank == 0) {
        CUmemGenericAllocationHandle other = make_memory(1);
        object = make_object(2);
        memory = make_memory(0);
        GOOD(cuMulticastAddDevice(object, 0));
        GOOD(cuMulticastAddDevice(object, 1));
        GOOD(cuMulticastBindMem(object, 0, memory, 0, BYTES, 0));
        GOOD(cuMulticastBindMem(object, 0, other, 0, BYTES, 0));
        give(object);
        give(other);
        GOOD(cuMemRelease(other)); /* what is bound stays */
    } else {
        object = take();
        memory = take();
    }
    int *all = (int *)map(object, rank);
    CUdeviceptr own = map(memory, rank);
    GOOD(cuMemsetD8(own, 0, BYTES));
    case_meet();
    if (rank == 0) {
        GOOD(launch_multimem_store(all, 7, 0));
        GOOD(launch_multimem_store(all + 1, -3, 0));
        GOOD(cudaDeviceSynchronize());
    }
    case_meet();
    EXPECT(word_at(own, 0), 7);
    EXPECT(word_at(own, 1), -3);
    GOOD(launch_fill((int *)own + 2, 10 + 5 * rank, 1, 0));
    GOOD(launch_multimem_add(all + 3, 100 + rank, 0));
    GOOD(cudaDeviceSynchronize());
    case_meet();
    EXPECT(word_at(own, 3), 201);
    GOOD(launch_multimem_sum(all + 2, (int *)own + SUM_WORD, 0));
    GOOD(cudaDeviceSynchronize());
    EXPECT(word_at(own, SUM_WORD), 25);
    case_meet();
}

static void binding_waits_until_all_devices_take_part(int rank)
{
    CUmemGenericAllocationHandle object = 0;
    char word = 'b';

    if (!is_possible()) {
        return;
    }
    if (rank == 0) {
        object = make_object(2);
        GOOD(cuMulticastAddDevice(object, 0));
        give(object);
        GOOD(cuMulticastBindMem(object, 0, make_memory(0), 0, BYTES, 0));
        EXPECT(recv(case_peer, &word, 1, MSG_DONTWAIT), 1); /* it was sent before */
        EXPECT(word, 'a');
    } else {
        word = 'a';
        object = take();
        case_send(&word, 1, -1);
        GOOD(cuMulticastAddDevice(object, 1));
    }
    case_meet();
}

static void multicast_sizes_come_in_granules(int rank)
{
    CUmulticastObjectProp wanted = of_devices(2);
    CUmemGenericAllocationHandle object = 0;
    size_t minimum = 0, recommended = 0;

    (void)rank;
    if (!is_possible()) {
        return;
    }
    GOOD(cuMulticastGetGranularity(&minimum, &wanted, CU_MULTICAST_GRANULARITY_MINIMUM));
    GOOD(cuMulticastGetGranularity(&recommended, &wanted, CU_MULTICAST_GRANULARITY_RECOMMENDED));
    EXPECT(BYTES % minimum, 0);
    EXPECT(recommended % minimum, 0);
    EXPECT(cuMulticastGetGranularity(&minimum, NULL, CU_MULTICAST_GRANULARITY_MINIMUM),
           CUDA_ERROR_INVALID_VALUE);
    wanted.size = 1000;
    EXPECT(cuMulticastCreate(&object, &wanted), CUDA_ERROR_INVALID_VALUE);
    wanted.size = 0;
    EXPECT(cuMulticastCreate(&object, &wanted), CUDA_ERROR_INVALID_VALUE);
    wanted = of_devices(0);
    EXPECT(cuMulticastCreate(&object, &wanted), CUDA_ERROR_INVALID_VALUE);
    wanted = of_devices(2);
    wanted.flags = 1;
    EXPECT(cuMulticastCreate(&object, &wanted), CUDA_ERROR_INVALID_VALUE);
    EXPECT(object, 0);
}

static void a_device_takes_part_once(int rank)
{
    CUmemGenericAllocationHandle object = 0, memory = 0;

    (void)rank;
    if (!is_possible()) {
        return;
    }
    object = make_object(2);
    memory = make_memory(0);
    EXPECT(cuMulticastAddDevice(memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastAddDevice(object, 1000), CUDA_ERROR_INVALID_DEVICE);
    GOOD(cuMulticastAddDevice(object, 0));
    EXPECT(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMulticastAddDevice(object, 1));
    EXPECT(cuMulticastAddDevice(object, 1), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMemRelease(object));
    EXPECT(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
}

static void what_cannot_be_bound_is_refused(int rank)
{
    CUmemGenericAllocationHandle object = 0, memory = 0, other = 0;

    (void)rank;
    if (!is_possible()) {
        return;
    }
    object = make_object(1);
    memory = make_memory(0);
    other = make_memory(1);
    GOOD(cuMulticastAddDevice(object, 0));
    EXPECT(cuMulticastBindMem(object, 0, memory, 0, BYTES, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, 0, 0, 0, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, 0, memory, 0, 1000, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, 1000, memory, 0, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, 0, memory, 1000, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, BYTES, memory, 0, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, 0, memory, BYTES, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, 0, memory, 0, (size_t)2 * BYTES, 0),
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, 0, other, 0, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(object, 0, object, 0, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindMem(memory, 0, memory, 0, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMulticastBindMem(object, 0, memory, 0, BYTES, 0));
    EXPECT(cuMulticastBindMem(object, 0, memory, 0, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
}

static void what_is_unbound_can_be_bound_again(int rank)
{
    CUmemGenericAllocationHandle object = 0, memory = 0;

    (void)rank;
    if (!is_possible()) {
        return;
    }
    object = make_object(1);
    memory = make_memory(0);
    CUdeviceptr own = map(memory, 0);
    GOOD(cuMulticastAddDevice(object, 0));
    EXPECT(cuMulticastUnbind(object, 0, 0, BYTES), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindAddr(object, 0, own + 1000, BYTES, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastBindAddr(object, 0, own, BYTES, 1), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMulticastBindAddr(object, 0, own, BYTES, 0));
    EXPECT(cuMulticastUnbind(object, 1000, 0, BYTES), CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuMulticastUnbind(object, 1, 0, BYTES), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMulticastUnbind(memory, 0, 0, BYTES), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMulticastUnbind(object, 0, 0, BYTES));
    EXPECT(cuMulticastUnbind(object, 0, 0, BYTES), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMulticastBindMem(object, 0, memory, 0, BYTES, 0));
    int *all = (int *)map(object, 0);
    GOOD(cuMemsetD8(own, 0, BYTES));
    GOOD(launch_multimem_store(all, 9, 0));
    EXPECT(word_at(own, 0), 9);
}

const struct cuda_case cases_of_multicast[] = {
    CASE(a_multicast_address_reaches_the_memory_of_all_devices, 2),
    CASE(binding_waits_until_all_devices_take_part, 2),
    CASE(multicast_sizes_come_in_granules, 2),
    CASE(a_device_takes_part_once, 2),
    CASE(what_cannot_be_bound_is_refused, 2),
    CASE(what_is_unbound_can_be_bound_again, 2),
    {0},
};
