/* Virtual memory, and what two processes share of it. */
#include "tests/cuda_cases.h"

static const size_t size_bytes = CASE_SHARED_BYTES;

static void memory_is_mapped_where_it_was_reserved(int rank)
{
    CUmemAllocationProp of_device = case_properties();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    size_t granularity = 0;
    int word = 5;

    (void)rank;
    GOOD(cudaFree(NULL));
    GOOD(cuMemGetAllocationGranularity(&granularity, &of_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT(granularity, size_bytes);
    EXPECT(cuMemCreate(&handle, 1000, &of_device, 0), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMemCreate(&handle, size_bytes, &of_device, 0));
    EXPECT(cuMemAddressReserve(&address, 1000, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMemAddressReserve(&address, size_bytes, 0, 0, 0));
    GOOD(cuMemMap(address, size_bytes, 0, handle, 0));
    EXPECT(cuMemMap(address, size_bytes, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemcpyDtoH(&word, address, 4), CUDA_ERROR_INVALID_VALUE); /* no access yet */
    case_allow(address, CU_MEM_ACCESS_FLAGS_PROT_READ);
    GOOD(cuMemcpyDtoH(&word, address, 4));
    EXPECT(cuMemcpyHtoD(address, &word, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemsetD8(address, 0, 8), CUDA_ERROR_INVALID_VALUE);
    case_allow(address, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    word = 17;
    GOOD(cuMemcpyHtoD(address, &word, 4));
    GOOD(cuMemRelease(handle)); /* the mapping keeps it */
    EXPECT(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    word = 0;
    GOOD(cuMemcpyDtoH(&word, address, 4));
    EXPECT(word, 17);
    EXPECT(cuMemUnmap(address, size_bytes / 2), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMemUnmap(address, size_bytes));
    EXPECT(cuMemAddressFree(address, size_bytes / 2), CUDA_ERROR_INVALID_VALUE);
    GOOD(cuMemAddressFree(address, size_bytes));
    EXPECT(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

static int word_at(CUdeviceptr address)
{
    int word = 0;

    GOOD(cuMemcpyDtoH(&word, address, sizeof word));
    return word;
}

static void two_processes_share_memory(int rank)
{
    int *words = (int *)case_share(rank, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    if (rank == 0) {
        GOOD(launch_fill(words, 11, 4, 0));
        GOOD(cudaDeviceSynchronize());
    }
    case_meet();
    EXPECT(word_at((CUdeviceptr)words), 11);
    if (rank == 1) {
        GOOD(launch_fill(words + 2, 12, 1, 0));
        GOOD(cudaDeviceSynchronize());
    }
    case_meet();
    EXPECT(word_at((CUdeviceptr)(words + 2)), 12);
    case_meet();
}

static void a_read_only_mapping_cannot_be_written(int rank)
{
    int *words = (int *)case_share(rank, CU_MEM_ACCESS_FLAGS_PROT_READ);
    int word = 1;

    if (rank == 0) {
        GOOD(launch_fill(words, 21, 4, 0));
        GOOD(cudaDeviceSynchronize());
    }
    case_meet();
    if (rank == 1) {
        EXPECT(word_at((CUdeviceptr)words), 21);
        EXPECT(cuMemcpyHtoD((CUdeviceptr)words, &word, sizeof word), CUDA_ERROR_INVALID_VALUE);
        GOOD(launch_fill(words, 22, 1, 0));
        EXPECT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    }
    case_meet();
    if (rank == 0) {
        EXPECT(word_at((CUdeviceptr)words), 21); /* the other's fault harms only the other */
        GOOD(launch_fill(words, 23, 1, 0));
        EXPECT(word_at((CUdeviceptr)words), 23);
    }
}

static void kernels_of_two_processes_signal_each_other(int rank)
{
    int *words = (int *)case_share(rank, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

    if (rank == 0) {
        GOOD(cudaMemset(words, 0, 64));
        GOOD(cudaDeviceSynchronize());
    }
    case_meet();
    for (int turn = 0; turn < 3; turn++) {
        int mine = 2 * turn + 1 + rank; /* rank 0 stores 1, 3, 5; rank 1 stores 2, 4, 6 */
        if (rank == 1 || turn) {
            GOOD(launch_wait_store(words, mine - 1, words + 8 + rank, 0));
        }
        GOOD(launch_fill(words, mine, 1, 0));
    }
    GOOD(cudaDeviceSynchronize());
    case_meet();
    EXPECT(word_at((CUdeviceptr)words), 6);
    EXPECT(word_at((CUdeviceptr)(words + 8)), 4);
    EXPECT(word_at((CUdeviceptr)(words + 9)), 5);
    case_meet();
}

static void memory_is_opened_by_a_handle(int rank)
{
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event_handle;
    cudaEvent_t event = NULL;
    int *words = NULL;

    GOOD(cudaFree(NULL));
    if (rank == 0) {
        GOOD(cudaMalloc((void **)&words, 2 << 20));
        GOOD(cudaIpcGetMemHandle(&memory, words));
        EXPECT(cudaIpcOpenMemHandle((void **)&words, memory, 0), cudaErrorInvalidValue);
        GOOD(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
        GOOD(cudaIpcGetEventHandle(&event_handle, event));
        (void)cudaGetLastError();
        GOOD(launch_slow_store(words, 31, 20000, 0));
        GOOD(cudaEventRecord(event, 0));
        case_send(&memory, sizeof memory, -1);
        case_send(&event_handle, sizeof event_handle, -1);
        case_meet();
        EXPECT(word_at((CUdeviceptr)(words + 1)), 31);
        case_meet();
        return;
    }
    case_receive(&memory, sizeof memory, NULL);
    case_receive(&event_handle, sizeof event_handle, NULL);
    GOOD(cudaIpcOpenMemHandle((void **)&words, memory, cudaIpcMemLazyEnablePeerAccess));
    GOOD(cudaIpcOpenEventHandle(&event, event_handle));
    GOOD(cudaStreamWaitEvent(0, event, 0));
    GOOD(launch_load(words, words + 1, 0));
    GOOD(cudaDeviceSynchronize());
    case_meet();
    case_meet();
    GOOD(cudaIpcCloseMemHandle(words));
    EXPECT(cudaMemset(words, 0, 4), cudaErrorInvalidValue);
}

const struct cuda_case cases_of_sharing[] = {
    CASE(memory_is_opened_by_a_handle, 2),
    CASE(memory_is_mapped_where_it_was_reserved, 1),
    CASE(two_processes_share_memory, 2),
    CASE(a_read_only_mapping_cannot_be_written, 2),
    CASE(kernels_of_two_processes_signal_each_other, 2),
    {0},
};
