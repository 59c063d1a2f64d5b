#include "worker/gpus.h"

#include "common/mem.h"
#include "worker/nvml.h"
#include "worker/seat.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

enum { PCI_ADDRESS_MAX = 32, BUSY_PERCENT = 5, RELEASE_MS = 5000, RELEASE_STEP_MS = 100 };

static bool look(int device, struct nvml_state *state)
{
    char pci_address[PCI_ADDRESS_MAX] = "";

    return cudaDeviceGetPCIBusId(pci_address, sizeof pci_address, device) == cudaSuccess &&
           nvml_look(pci_address, state);
}

static char *text_or_null(const char *text)
{
    return text[0] == 0 ? NULL : xstrdup(text);
}

/* Of the library that the ranks' would be. */
static char *nccl_version(void)
{
    int (*get)(int *) = NULL;
    int version = 0;
    void *library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);

    if (library != NULL) {
        *(void **)&get = dlsym(library, "ncclGetVersion");
    }
    if (get == NULL || get(&version) != 0) {
        return NULL;
    }
    return xasprintf("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

struct gpu *gpus_describe(int count)
{
    struct gpu *gpu = xcalloc(1, sizeof *gpu);
    struct nvml_state state = {0};
    struct cudaDeviceProp properties;
    int version = 0;

    gpu->count = count;
    if (look(0, &state)) {
        gpu->uuid = text_or_null(state.uuid);
        gpu->driver = text_or_null(state.driver);
        gpu->sm_mhz = state.sm_mhz > 0 ? state.sm_mhz : 0;
        gpu->memory_mhz = state.memory_mhz > 0 ? state.memory_mhz : 0;
        gpu->temperature_c = state.temperature_c > 0 ? state.temperature_c : 0;
        gpu->throttled = state.throttled == NULL ? NULL : xstrdup(state.throttled);
    }
    if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess) {
        gpu->name = xstrdup(properties.name);
    }
    if (cudaRuntimeGetVersion(&version) == cudaSuccess) {
        gpu->cuda = xasprintf("%d.%d", version / 1000, version % 1000 / 10);
    }
    gpu->nccl = nccl_version();
    return gpu;
}

/* Who has just ended may hold a GPU for a moment more. */
static enum status await_free(int device, struct error *err)
{
    const struct timespec pause = {.tv_nsec = RELEASE_STEP_MS * 1000000L};
    struct nvml_state state = {0};

    for (int waited_ms = 0; look(device, &state); waited_ms += RELEASE_STEP_MS) {
        bool is_free = state.processes <= 0 && state.busy_percent <= BUSY_PERCENT;
        if (is_free) {
            break;
        }
        if (waited_ms >= RELEASE_MS) {
            return error_set(err, ERR_UNAVAILABLE,
                             "GPU %d is in use: %d processes that are not ours, %d %% busy", device,
                             state.processes, state.busy_percent);
        }
        (void)nanosleep(&pause, NULL);
    }
    return OK;
}

static enum status check_one(int device, bool is_exclusive, struct gpu_look *found,
                             struct error *err)
{
    struct seat *seat = NULL;
    struct nvml_state state = {0};
    struct error reason = {0};

    /* Before there is a context of our own. */
    enum status status = is_exclusive ? await_free(device, err) : OK;
    if (status != OK) {
        return status;
    }
    *found = (struct gpu_look){.used_bytes = -1};
    (void)cudaDeviceGetPCIBusId(found->pci_address, sizeof found->pci_address, device);
    if (look(device, &state)) {
        found->used_bytes = state.used_bytes;
        (void)snprintf(found->uuid, sizeof found->uuid, "%s", state.uuid);
    }
    if (seat_open(&seat, device, &reason) != OK) {
        return error_set(err, ERR_UNAVAILABLE, "GPU %d cannot run a kernel: %s", device,
                         reason.message);
    }
    seat_close(seat);
    return OK;
}

enum status gpus_check(bool is_exclusive, struct gpu_look *looks, int count_max, int *count,
                       struct error *err)
{
    int found = 0;
    cudaError_t error = cudaGetDeviceCount(&found);

    if (error != cudaSuccess || found == 0) {
        return error_set(err, ERR_UNAVAILABLE, "this node has no GPU that CUDA can use: %s",
                         cudaGetErrorString(error != cudaSuccess ? error : cudaErrorNoDevice));
    }
    if (found > count_max) {
        return error_set(err, ERR_LIMIT, "%d GPUs are more than %d", found, count_max);
    }
    for (int device = 0; device < found; device++) {
        enum status status = check_one(device, is_exclusive, &looks[device], err);
        if (status != OK) {
            return status;
        }
    }
    *count = found;
    return OK;
}

void gpus_driver(char *version, size_t size_bytes, int *cuda)
{
    nvml_driver(version, size_bytes);
    if (cuDriverGetVersion(cuda) != CUDA_SUCCESS) {
        *cuda = 0;
    }
}
