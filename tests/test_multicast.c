/* Multicast objects as the judge makes them, over a driver of this file's own that fails on demand.
 */
#include "worker/multicast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { WORLD = 4, GRANULE = 2 << 20, OBJECT = 77 };

/* ---- the driver ---- */

static struct {
    int devices;
    int lacking;         /* the device that cannot do it; -1: all can */
    const char *failing; /* the call that fails, with `result` */
    CUresult result;
    int objects, added, bound;
} driver;

static CUresult outcome(const char *call)
{
    return driver.failing != NULL && strcmp(driver.failing, call) == 0 ? driver.result
                                                                       : CUDA_SUCCESS;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = driver.devices;
    return cudaSuccess;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_NOT_PERMITTED ? "CUDA_ERROR_NOT_PERMITTED" : "another";
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return outcome("cuDeviceGet");
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED && device != driver.lacking;
    return outcome("cuDeviceGetAttribute");
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *properties,
                                   CUmulticastGranularity_flags option)
{
    (void)properties;
    (void)option;
    *granularity = GRANULE;
    return outcome("cuMulticastGetGranularity");
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
                           const CUmulticastObjectProp *properties)
{
    if (outcome("cuMulticastCreate") != CUDA_SUCCESS) {
        return driver.result;
    }
    assert_int_equal(properties->numDevices, WORLD);
    assert_int_equal(properties->size, GRANULE);
    *handle = OBJECT;
    driver.objects++;
    return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device)
{
    assert_int_equal(handle, OBJECT);
    assert_int_equal(device, driver.added);
    assert_int_equal(driver.bound, 0);
    driver.added++;
    return outcome("cuMulticastAddDevice");
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset_bytes,
                            CUmemGenericAllocationHandle memory, size_t memory_offset_bytes,
                            size_t size_bytes, unsigned long long flags)
{
    if (outcome("cuMulticastBindMem") != CUDA_SUCCESS) {
        return driver.result;
    }
    assert_int_equal(handle, OBJECT);
    assert_int_equal(driver.added, WORLD); /* a real driver would wait for ever */
    assert_int_equal(memory, 100 + driver.bound);
    assert_int_equal(offset_bytes + memory_offset_bytes + flags, 0);
    assert_int_equal(size_bytes, GRANULE);
    driver.bound++;
    return CUDA_SUCCESS;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device,
                           size_t offset_bytes, size_t size_bytes)
{
    (void)offset_bytes;
    (void)size_bytes;
    assert_int_equal(handle, OBJECT);
    if (device >= driver.bound) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    if (outcome("cuMemExportToShareableHandle") != CUDA_SUCCESS) {
        return driver.result;
    }
    assert_int_equal(handle, OBJECT);
    assert_int_equal(type, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    assert_int_equal(flags, 0);
    *(int *)shareable = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    assert_int_equal(handle, OBJECT);
    driver.objects--;
    return CUDA_SUCCESS;
}

/* ---- the tests ---- */

static int set_up(void **state)
{
    (void)state;
    memset(&driver, 0, sizeof driver);
    driver.devices = WORLD;
    driver.lacking = -1;
    return 0;
}

static void make_arenas(struct arena arenas[WORLD])
{
    for (int rank = 0; rank < WORLD; rank++) {
        arenas[rank] =
            (struct arena){.handle = 100 + (uint64_t)rank, .size_bytes = GRANULE, .fd = -1};
    }
}

static void test_it_needs_a_capable_gpu_for_each_rank(void **state)
{
    (void)state;
    assert_true(multicast_is_possible(WORLD));
    assert_true(multicast_is_possible(2));
    assert_false(multicast_is_possible(1));
    driver.lacking = WORLD - 1;
    assert_false(multicast_is_possible(WORLD));
    assert_true(multicast_is_possible(2));
    driver.lacking = -1;
    driver.devices = 1; /* that all ranks share */
    assert_false(multicast_is_possible(WORLD));
    driver.devices = WORLD;
    driver.failing = "cuDeviceGetAttribute";
    driver.result = CUDA_ERROR_INVALID_VALUE;
    assert_false(multicast_is_possible(WORLD));
}

static void test_sizes_and_offsets_are_whole_granules(void **state)
{
    struct error err = {0};
    uint64_t bytes = 1;

    (void)state;
    assert_int_equal(multicast_round(&bytes, WORLD, &err), OK);
    assert_int_equal(bytes, GRANULE);
    assert_int_equal(multicast_round(&bytes, WORLD, &err), OK);
    assert_int_equal(bytes, GRANULE);
    driver.failing = "cuMulticastGetGranularity";
    driver.result = CUDA_ERROR_NOT_SUPPORTED;
    assert_int_equal(multicast_round(&bytes, WORLD, &err), ERR_IO);
}

static void test_all_memory_is_bound_and_the_object_exported(void **state)
{
    struct arena arenas[WORLD];
    struct multicast multicast = {0};
    struct error err = {0};

    (void)state;
    make_arenas(arenas);
    assert_int_equal(multicast_make(&multicast, arenas, WORLD, &err), OK);
    assert_true(multicast.is_open);
    assert_int_equal(driver.bound, WORLD);
    int fd = multicast.fd;
    assert_true(fcntl(fd, F_GETFD) >= 0);
    multicast_release(&multicast);
    assert_int_equal(driver.objects, 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_false(multicast.is_open);
    multicast_release(&multicast); /* nothing */
    assert_int_equal(driver.objects, 0);
}

static void test_what_fails_is_named_and_nothing_is_left(void **state)
{
    static const struct {
        const char *call;
        CUresult result;
        enum status status;
    } failures[] = {
        {"cuMulticastCreate", CUDA_ERROR_NOT_PERMITTED, ERR_IO},
        {"cuMulticastAddDevice", CUDA_ERROR_NOT_PERMITTED, ERR_IO},
        {"cuMulticastBindMem", CUDA_ERROR_OUT_OF_MEMORY, ERR_LIMIT},
        {"cuMemExportToShareableHandle", CUDA_ERROR_NOT_PERMITTED, ERR_IO},
    };
    struct arena arenas[WORLD];

    make_arenas(arenas);
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct multicast multicast = {0};
        struct error err = {0};
        set_up(state);
        driver.failing = failures[i].call;
        driver.result = failures[i].result;
        assert_int_equal(multicast_make(&multicast, arenas, WORLD, &err), failures[i].status);
        assert_non_null(strstr(err.message, failures[i].call));
        assert_non_null(strstr(err.message, "--no-multicast"));
        assert_false(multicast.is_open);
        assert_int_equal(driver.objects, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_it_needs_a_capable_gpu_for_each_rank, set_up),
        cmocka_unit_test_setup(test_sizes_and_offsets_are_whole_granules, set_up),
        cmocka_unit_test_setup(test_all_memory_is_bound_and_the_object_exported, set_up),
        cmocka_unit_test_setup(test_what_fails_is_named_and_nothing_is_left, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
