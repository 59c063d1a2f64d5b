/* What compiled programs register before main: fatbins, functions, variables. */
#include "sim/cudart_api.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, CONFIGURATIONS_MAX = 64 };

struct fatbin {
    void *wrapper;
    CUlibrary library; /* NULL: not loaded yet */
};
struct entry {
    struct entry *next;
    const void *host;
    struct fatbin *fatbin;
    char *name;
    bool is_variable;
    CUkernel kernel; /* NULL: not asked for yet */
};

static pthread_mutex_t entries_lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries[BUCKETS];

static struct entry **bucket(const void *host)
{
    return &entries[(uint64_t)host * 0x9e3779b97f4a7c15u >> 54];
}

static void add_entry(void **handle, const void *host, const char *name, bool is_variable)
{
    struct entry *entry = calloc(1, sizeof *entry);

    if (!entry || !(entry->name = strdup(name))) {
        abort();
    }
    entry->host = host;
    entry->fatbin = (struct fatbin *)handle;
    entry->is_variable = is_variable;
    pthread_mutex_lock(&entries_lock);
    entry->next = *bucket(host);
    *bucket(host) = entry;
    pthread_mutex_unlock(&entries_lock);
}

static struct entry *find_entry(const void *host, bool is_variable)
{
    pthread_mutex_lock(&entries_lock);
    struct entry *entry = *bucket(host);
    while (entry && (entry->host != host || entry->is_variable != is_variable)) {
        entry = entry->next;
    }
    pthread_mutex_unlock(&entries_lock);
    return entry;
}

void **__cudaRegisterFatBinary(void *wrapper)
{
    struct fatbin *fatbin = calloc(1, sizeof *fatbin);

    if (!fatbin) {
        abort();
    }
    fatbin->wrapper = wrapper;
    return (void **)fatbin;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

/* At the end of the process, or when a library is closed: its entries go. */
void __cudaUnregisterFatBinary(void **handle)
{
    pthread_mutex_lock(&entries_lock);
    for (int i = 0; i < BUCKETS; i++) {
        struct entry **link = &entries[i];
        while (*link) {
            struct entry *entry = *link;
            if (entry->fatbin != (struct fatbin *)handle) {
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            free(entry->name);
            free(entry);
        }
    }
    pthread_mutex_unlock(&entries_lock);
    free(handle);
}

char __cudaInitModule(void **handle)
{
    return handle != NULL;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp_size)
{
    (void)device;
    (void)thread_limit;
    (void)tid;
    (void)bid;
    (void)block;
    (void)grid;
    (void)warp_size;
    add_entry(handle, host, name, false);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                       size_t size_bytes, int constant, int global)
{
    (void)device;
    (void)ext;
    (void)size_bytes;
    (void)constant;
    (void)global;
    add_entry(handle, host, name, true);
}

static CUresult load(struct fatbin *fatbin)
{
    if (fatbin->library) {
        return CUDA_SUCCESS;
    }
    return cuLibraryLoadData(&fatbin->library, fatbin->wrapper, NULL, NULL, 0, NULL, NULL, 0);
}

CUresult runtime_kernel(const void *function, CUkernel *kernel)
{
    struct entry *entry = function ? find_entry(function, false) : NULL;

    if (!entry) {
        *kernel = (CUkernel)function; /* a handle, or nothing: the driver will tell */
        return function ? CUDA_SUCCESS : (CUresult)cudaErrorInvalidDeviceFunction;
    }
    if (!entry->kernel) {
        CUresult result = load(entry->fatbin);
        result = result ? result
                        : cuLibraryGetKernel(&entry->kernel, entry->fatbin->library, entry->name);
        if (result) {
            entry->kernel = NULL;
            return result == CUDA_ERROR_NOT_FOUND ? (CUresult)cudaErrorInvalidDeviceFunction
                                                  : result;
        }
    }
    *kernel = entry->kernel;
    return CUDA_SUCCESS;
}

CUresult runtime_symbol(const void *symbol, CUdeviceptr *address, size_t *size_bytes)
{
    struct entry *entry = symbol ? find_entry(symbol, true) : NULL;

    if (!entry) {
        return (CUresult)cudaErrorInvalidSymbol;
    }
    CUresult result = load(entry->fatbin);
    result = result ? result
                    : cuLibraryGetGlobal(address, size_bytes, entry->fatbin->library, entry->name);
    return result == CUDA_ERROR_NOT_FOUND ? (CUresult)cudaErrorInvalidSymbol : result;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    CUkernel found = NULL;
    cudaError_t error = runtime_enter();

    error = error ? error : runtime_end(runtime_kernel(host, &found));
    if (!error) {
        *kernel = (cudaKernel_t)found;
    }
    return error;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *function)
{
    return __cudaGetKernel(kernel, function);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol)
{
    return __cudaGetKernel((cudaKernel_t *)function, symbol);
}

/* ---- what <<<...>>> pushes and the host stub pops ---- */

struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    void *stream;
};
static _Thread_local struct configuration configurations[CONFIGURATIONS_MAX];
static _Thread_local int configuration_count;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void *stream)
{
    if (configuration_count == CONFIGURATIONS_MAX) {
        return (unsigned)runtime_end(CUDA_ERROR_OUT_OF_MEMORY);
    }
    configurations[configuration_count++] = (struct configuration){
        .grid = grid, .block = block, .shared_bytes = shared_bytes, .stream = stream};
    return cudaSuccess;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    if (!configuration_count) {
        return runtime_end((CUresult)cudaErrorMissingConfiguration);
    }
    const struct configuration *top = &configurations[--configuration_count];
    *grid = top->grid;
    *block = top->block;
    *shared_bytes = top->shared_bytes;
    *(void **)stream = top->stream;
    return cudaSuccess;
}
