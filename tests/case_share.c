/* Memory that two processes of a case share. */
#include "tests/cuda_cases.h"

#include <unistd.h>

CUmemAllocationProp case_properties(void)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
}

void case_allow(CUdeviceptr address, CUmemAccess_flags flags)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = flags};

    GOOD(cuMemSetAccess(address, CASE_SHARED_BYTES, &access, 1));
}

/* Rank 0 makes memory; rank 1 gets it read-only or writable at an address of its own. */
CUdeviceptr case_share(int rank, CUmemAccess_flags of_importer)
{
    CUmemAllocationProp of_device = case_properties();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    char token = 't';
    int fd = -1;

    GOOD(cudaFree(NULL));
    if (rank == 0) {
        GOOD(cuMemCreate(&handle, CASE_SHARED_BYTES, &of_device, 0));
        GOOD(
            cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        case_send(&token, 1, fd);
    } else {
        case_receive(&token, 1, &fd);
        GOOD(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    }
    close(fd);
    GOOD(cuMemAddressReserve(&address, CASE_SHARED_BYTES, 0, 0, 0));
    GOOD(cuMemMap(address, CASE_SHARED_BYTES, 0, handle, 0));
    GOOD(cuMemRelease(handle));
    case_allow(address, rank == 0 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : of_importer);
    return address;
}

void case_meet(void)
{
    char byte = 'm';

    case_send(&byte, 1, -1);
    case_receive(&byte, 1, NULL);
}
