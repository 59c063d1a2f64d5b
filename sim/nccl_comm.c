#include "sim/nccl_comm.h"

#include "sim/nccl.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static _Thread_local char last_message[NCCL_MESSAGE_MAX];

ncclResult_t nccl_fail(ncclComm_t comm, ncclResult_t result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(last_message, sizeof last_message, format, args);
    va_end(args);
    (void)fprintf(stderr, "nccl: %s\n", last_message);
    if (comm != NULL) {
        memcpy(comm->message, last_message, sizeof comm->message);
        if (result != ncclInvalidArgument && result != ncclInvalidUsage) {
            comm->async_error = result;
        }
    }
    return result;
}

ncclResult_t nccl_cuda(ncclComm_t comm, int cuda_error, const char *what)
{
    if (cuda_error == 0) {
        return ncclSuccess;
    }
    return nccl_fail(comm, ncclUnhandledCudaError, "%s: %s", what,
                     cudaGetErrorName((cudaError_t)cuda_error));
}

const char *ncclGetLastError(ncclComm_t comm)
{
    return comm != NULL ? comm->message : last_message;
}

void nccl_tag(bool is_ours)
{
    static void (*tag)(int);
    static bool is_known;

    if (!is_known) {
        *(void **)&tag = dlsym(RTLD_DEFAULT, "pkb_sim_traffic_tag");
        is_known = true;
    }
    if (tag != NULL) {
        tag(is_ours);
    }
}

ncclResult_t nccl_refuse_call(const char *name)
{
    int (*refuse)(const char *) = NULL;

    *(void **)&refuse = dlsym(RTLD_DEFAULT, "pkb_cuda_refuse");
    if (refuse != NULL) {
        (void)refuse(name);
    }
    return nccl_fail(NULL, ncclInvalidUsage, "%s is not in this library", name);
}

/* ---- the region of every rank ---- */

static CUmemAllocationProp region_properties(int device)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

static CUresult map_region(ncclComm_t comm, int rank, CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = comm->device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    CUdeviceptr address = 0;

    CUresult result = cuMemAddressReserve(&address, comm->region_bytes, 0, 0, 0);
    if (result == CUDA_SUCCESS) {
        result = cuMemMap(address, comm->region_bytes, 0, handle, 0);
    }
    if (result == CUDA_SUCCESS) {
        result = cuMemSetAccess(address, comm->region_bytes, &access, 1);
    }
    if (result == CUDA_SUCCESS) {
        comm->region[rank] = (uint8_t *)(uintptr_t)address;
    }
    return result;
}

/* Own region: flags at their start values. */
static CUresult clear_region(ncclComm_t comm)
{
    uint32_t *flags = calloc(1, NCCL_FLAGS_BYTES);

    if (flags == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (int i = 0; i < NCCL_RANKS_MAX * NCCL_INBOXES; i++) {
        size_t index = (size_t)NCCL_RANKS_MAX * NCCL_INBOXES + (size_t)i;
        flags[index * (NCCL_FLAG_STRIDE_BYTES / sizeof *flags)] = 1;
    }
    CUresult result = (CUresult)cudaMemcpy(comm->region[comm->rank], flags, NCCL_FLAGS_BYTES,
                                           cudaMemcpyHostToDevice);
    free(flags);
    return result;
}

static ncclResult_t import_regions(ncclComm_t comm, const int *fds)
{
    ncclResult_t result = ncclSuccess;

    for (int rank = 0; rank < comm->ranks && result == ncclSuccess; rank++) {
        CUmemGenericAllocationHandle handle = 0;
        if (rank == comm->rank) {
            continue;
        }
        CUresult code = cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fds[rank],
                                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        if (code == CUDA_SUCCESS) {
            code = map_region(comm, rank, handle);
            cuMemRelease(handle);
        }
        result = nccl_cuda(comm, (int)code, "map the region of another rank");
    }
    return result;
}

static ncclResult_t share_regions(ncclComm_t comm)
{
    CUmemAllocationProp properties = region_properties(comm->device);
    CUmemGenericAllocationHandle handle = 0;
    int fds[NCCL_RANKS_MAX];
    char token = 0, tokens[NCCL_RANKS_MAX];
    size_t granularity = 0;

    memset(fds, -1, sizeof fds);
    CUresult code =
        cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    size_t wanted = NCCL_FLAGS_BYTES + (size_t)comm->ranks * NCCL_INBOXES * NCCL_CHUNK_BYTES;
    if (code == CUDA_SUCCESS) {
        comm->region_bytes = (wanted + granularity - 1) / granularity * granularity;
        code = cuMemCreate(&handle, comm->region_bytes, &properties, 0);
    }
    if (code == CUDA_SUCCESS) {
        code = map_region(comm, comm->rank, handle);
    }
    if (code == CUDA_SUCCESS) {
        code = clear_region(comm);
    }
    if (code == CUDA_SUCCESS) {
        code = cuMemExportToShareableHandle(&fds[comm->rank], handle,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    }
    ncclResult_t result = nccl_cuda(comm, (int)code, "make this rank's region");
    if (result == ncclSuccess) {
        result = bootstrap_gather(&comm->bootstrap, &token, tokens, sizeof token, fds);
    }
    if (result == ncclSuccess) {
        result = import_regions(comm, fds);
    }
    for (int rank = 0; rank < comm->ranks; rank++) {
        if (fds[rank] >= 0) {
            close(fds[rank]);
        }
    }
    if (handle != 0) {
        cuMemRelease(handle);
    }
    return result;
}

/* Rank 0's memory file, mapped by all. */
static ncclResult_t share_page(ncclComm_t comm)
{
    int fds[NCCL_RANKS_MAX];
    char token = 0, tokens[NCCL_RANKS_MAX];
    void *page = MAP_FAILED;

    memset(fds, -1, sizeof fds);
    fds[comm->rank] = memfd_create("nccl-page", MFD_CLOEXEC);
    if (fds[comm->rank] < 0 || ftruncate(fds[comm->rank], sizeof *comm->page) != 0) {
        return nccl_fail(comm, ncclSystemError, "no shared page: %m");
    }
    ncclResult_t result = bootstrap_gather(&comm->bootstrap, &token, tokens, sizeof token, fds);
    if (result == ncclSuccess && fds[0] >= 0) {
        page = mmap(NULL, sizeof *comm->page, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    }
    for (int rank = 0; rank < comm->ranks; rank++) {
        if (fds[rank] >= 0) {
            close(fds[rank]);
        }
    }
    if (page == MAP_FAILED) {
        return result != ncclSuccess ? result
                                     : nccl_fail(comm, ncclSystemError, "no shared page: %m");
    }
    comm->page = page;
    return ncclSuccess;
}

/* ---- communicators ---- */

static void comm_free(ncclComm_t comm)
{
    for (int rank = 0; rank < comm->ranks; rank++) {
        CUdeviceptr address = (CUdeviceptr)(uintptr_t)comm->region[rank];
        if (address != 0) {
            cuMemUnmap(address, comm->region_bytes);
            cuMemAddressFree(address, comm->region_bytes);
        }
    }
    if (comm->page != NULL) {
        munmap(comm->page, sizeof *comm->page);
    }
    bootstrap_close(&comm->bootstrap);
    free(comm);
}

static ncclResult_t comm_create(ncclComm_t *out, int ranks, const ncclUniqueId *id, int rank)
{
    if (out == NULL || ranks < 1 || ranks > NCCL_RANKS_MAX || rank < 0 || rank >= ranks) {
        return nccl_fail(NULL, ncclInvalidArgument,
                         "rank %d of %d: 1 to %d ranks, each from 0 below that", rank, ranks,
                         NCCL_RANKS_MAX);
    }
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (comm == NULL) {
        return nccl_fail(NULL, ncclSystemError, "out of memory");
    }
    comm->rank = rank;
    comm->ranks = ranks;
    ncclResult_t result = nccl_cuda(NULL, (int)cudaGetDevice(&comm->device), "cudaGetDevice");
    if (result == ncclSuccess) {
        /* The primary context, which the driver calls below need. */
        result = nccl_cuda(NULL, (int)cudaFree(NULL), "start the device");
    }
    if (result == ncclSuccess) {
        result = bootstrap_open(&comm->bootstrap, id, rank, ranks);
    }
    if (result == ncclSuccess) {
        result = share_regions(comm);
    }
    if (result == ncclSuccess) {
        result = share_page(comm);
    }
    if (result != ncclSuccess) {
        comm_free(comm);
        return result;
    }
    *out = comm;
    return ncclSuccess;
}

/* A rank that waits for others must not keep its own thread's other ranks from coming. */
struct pending {
    ncclComm_t *out;
    ncclUniqueId id;
    int ranks, rank, device;
    ncclResult_t result;
    pthread_t thread;
};

static _Thread_local struct pending pending[NCCL_RANKS_MAX];
static _Thread_local int pending_count, group_depth;

static void *create_pending(void *argument)
{
    struct pending *one = argument;

    one->result = nccl_cuda(NULL, (int)cudaSetDevice(one->device), "cudaSetDevice");
    if (one->result == ncclSuccess) {
        one->result = comm_create(one->out, one->ranks, &one->id, one->rank);
    }
    return NULL;
}

/* Creates all communicators that the group asked for, side by side. */
ncclResult_t comm_create_pending(void)
{
    ncclResult_t result = ncclSuccess;
    int count = pending_count;

    pending_count = 0;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&pending[i].thread, NULL, create_pending, &pending[i]) != 0) {
            abort();
        }
    }
    for (int i = 0; i < count; i++) {
        pthread_join(pending[i].thread, NULL);
        result = result == ncclSuccess ? pending[i].result : result;
    }
    return result;
}

void comm_group_depth(int change)
{
    group_depth += change;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    if (group_depth == 0) {
        return comm_create(comm, ranks, &id, rank);
    }
    if (pending_count == NCCL_RANKS_MAX) {
        return nccl_fail(NULL, ncclInvalidUsage, "more than %d communicators in one group",
                         NCCL_RANKS_MAX);
    }
    struct pending *one = &pending[pending_count];
    *one = (struct pending){.out = comm, .id = id, .ranks = ranks, .rank = rank};
    ncclResult_t result = nccl_cuda(NULL, (int)cudaGetDevice(&one->device), "cudaGetDevice");
    pending_count += result == ncclSuccess;
    return result;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    if (config != NULL && config->magic != 0xcafebeef) {
        return nccl_fail(NULL, ncclInvalidArgument,
                         "the configuration was not set by NCCL_CONFIG_INITIALIZER");
    }
    return ncclCommInitRank(comm, ranks, id, rank);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int ranks, int rank, int id_count,
                                      ncclUniqueId *ids, ncclConfig_t *config)
{
    if (ids == NULL || id_count < 1) {
        return nccl_fail(NULL, ncclInvalidArgument, "no unique id");
    }
    return ncclCommInitRankConfig(comm, ranks, ids[0], rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
    ncclUniqueId id;
    int before = 0;

    ncclResult_t result = ncclGetUniqueId(&id);
    if (result != ncclSuccess || cudaGetDevice(&before) != cudaSuccess) {
        return result;
    }
    ncclGroupStart();
    for (int i = 0; i < count && result == ncclSuccess; i++) {
        result = nccl_cuda(NULL, (int)cudaSetDevice(devices != NULL ? devices[i] : i), "device");
        if (result == ncclSuccess) {
            result = ncclCommInitRank(&comms[i], count, id, i);
        }
    }
    cudaSetDevice(before);
    ncclResult_t ended = ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
}

/* What each rank says when a communicator is divided. */
struct division {
    int color, key, rank;
    ncclUniqueId id;
};

static int compare_divisions(const void *a, const void *b)
{
    const struct division *x = a, *y = b;

    return x->key != y->key ? (x->key < y->key ? -1 : 1)
                            : (x->rank > y->rank) - (x->rank < y->rank);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
                           ncclConfig_t *config)
{
    struct division mine = {.color = color, .key = key, .rank = comm->rank};
    struct division all[NCCL_RANKS_MAX];
    int members = 0, own = -1;

    (void)config;
    *out = NULL;
    ncclResult_t result = ncclGetUniqueId(&mine.id);
    if (result == ncclSuccess) {
        result = bootstrap_gather(&comm->bootstrap, &mine, all, sizeof mine, NULL);
    }
    if (result != ncclSuccess || color == NCCL_SPLIT_NOCOLOR) {
        return result;
    }
    for (int rank = 0; rank < comm->ranks; rank++) {
        if (all[rank].color == color) {
            all[members++] = all[rank];
        }
    }
    qsort(all, (size_t)members, sizeof *all, compare_divisions);
    for (int i = 0; i < members; i++) {
        own = all[i].rank == comm->rank ? i : own;
    }
    return comm_create(out, members, &all[0].id, own);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    (void)comm;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    int before = 0;

    if (comm == NULL) {
        return ncclSuccess;
    }
    cudaGetDevice(&before);
    cudaSetDevice(comm->device);
    ncclResult_t result = nccl_cuda(NULL, (int)cudaDeviceSynchronize(), "end a communicator");
    comm_free(comm);
    cudaSetDevice(before);
    return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (comm != NULL) {
        comm_free(comm);
    }
    return ncclSuccess;
}
