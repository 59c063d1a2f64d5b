/* Modules and libraries of the driver API. Both are simd's numbers of a loaded image. */
#include "sim/cuda_module.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FATBIN_WRAPPER_MAGIC = 0x466243b1 };
static const uint32_t fatbin_magic = 0xba55ed50;

static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel_handle *kernels;

struct kernel_handle *kernel_of(const void *handle)
{
    struct kernel_handle *found = NULL;

    pthread_mutex_lock(&kernels_lock);
    for (struct kernel_handle *kernel = kernels; kernel && !found; kernel = kernel->next) {
        found = kernel == handle ? kernel : NULL;
    }
    pthread_mutex_unlock(&kernels_lock);
    return found;
}

/* The same as simd's fatbin_hash (code.h). */
static uint64_t hash_bytes(const uint8_t *bytes, size_t size_bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

/* A fatbin, or the wrapper around one that a compiled program has. */
static CUresult load(const void *image, uint64_t *module)
{
    struct {
        uint32_t magic, version;
        const void *data;
        const void *unused;
    } wrapper;
    struct {
        uint32_t magic;
        uint16_t version, header_bytes;
        uint64_t size_bytes;
    } header;

    if (!image) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&wrapper, image, sizeof wrapper.magic);
    if (wrapper.magic == FATBIN_WRAPPER_MAGIC) {
        memcpy(&wrapper, image, sizeof wrapper);
        image = wrapper.data;
    }
    memcpy(&header.magic, image, sizeof header.magic);
    if (header.magic != fatbin_magic) {
        bool is_code = memcmp(image, "\177ELF", 4) == 0 || memcmp(image, "//", 2) == 0 ||
                       memcmp(image, ".ver", 4) == 0 || memcmp(image, "\n", 1) == 0;
        return is_code ? pkb_cuda_refuse("cuModuleLoadData of PTX or a cubin")
                       : CUDA_ERROR_INVALID_IMAGE;
    }
    memcpy(&header, image, sizeof header);
    struct link_call call = {
        .request = {.op = WIRE_MODULE_LOAD,
                    .module.hash = hash_bytes(image, header.header_bytes + header.size_bytes)}};
    CUresult result = link_call(&call);
    if (!result) {
        *module = call.reply.id;
    }
    return result;
}

static struct kernel_handle *find_kernel(uint64_t module, const char *name)
{
    struct kernel_handle *kernel = NULL;

    pthread_mutex_lock(&kernels_lock);
    for (kernel = kernels; kernel; kernel = kernel->next) {
        if (kernel->module == module && strcmp(kernel->name, name) == 0) {
            break;
        }
    }
    pthread_mutex_unlock(&kernels_lock);
    return kernel;
}

static CUresult get_kernel(uint64_t module, const char *name, struct kernel_handle **found)
{
    enum { SHARED_DEFAULT = 48 * 1024 };
    struct wire_param params[WIRE_PARAMS_MAX];
    struct link_call call = {.request = {.op = WIRE_KERNEL,
                                         .payload_bytes = (uint32_t)strlen(name),
                                         .kernel.module = module},
                             .payload = name,
                             .into = params,
                             .into_bytes = sizeof params};

    *found = find_kernel(module, name);
    if (*found) {
        return CUDA_SUCCESS;
    }
    if (strlen(name) > WIRE_PAYLOAD_MAX) {
        return CUDA_ERROR_NOT_FOUND;
    }
    CUresult result = link_call(&call);
    if (result) {
        return result;
    }
    struct kernel_handle *kernel = calloc(1, sizeof *kernel);
    size_t params_bytes = call.reply.kernel.param_count * sizeof *params;
    if (!kernel) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    kernel->params = malloc(params_bytes + 1);
    kernel->name = strdup(name);
    if (!kernel->params || !kernel->name) {
        free(kernel->params);
        free(kernel->name);
        free(kernel);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(kernel->params, params, params_bytes);
    kernel->module = module;
    kernel->info = call.reply.kernel;
    int rest = SHARED_DEFAULT - (int)kernel->info.shared_bytes;
    kernel->dynamic_shared_max = rest > 0 ? rest : 0;
    pthread_mutex_lock(&kernels_lock);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&kernels_lock);
    *found = kernel;
    return CUDA_SUCCESS;
}

static CUresult get_symbol(uint64_t module, const char *name, CUdeviceptr *address,
                           size_t *size_bytes)
{
    struct link_call call = {.request = {.op = WIRE_SYMBOL, .module.module = module},
                             .payload = name};
    CUresult result = context_enter(&call.request.device);

    if (result || !name || strlen(name) > WIRE_PAYLOAD_MAX) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    call.request.payload_bytes = (uint32_t)strlen(name);
    result = link_call(&call);
    if (!result && address) {
        *address = call.reply.pointer.address;
    }
    if (!result && size_bytes) {
        *size_bytes = call.reply.pointer.size_bytes;
    }
    return result;
}

static CUresult unload(uint64_t module)
{
    return link_send(&(struct wire_request){.op = WIRE_MODULE_UNLOAD, .module.module = module});
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    int device = 0;
    CUresult result = context_enter(&device);

    return result ? result : load(image, (uint64_t *)module);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int option_count,
                            CUjit_option *options, void **values)
{
    (void)option_count;
    (void)options;
    (void)values;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return cuModuleLoadData(module, image);
}

CUresult cuModuleUnload(CUmodule module)
{
    return unload((uint64_t)module);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    if (!function || !name) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return get_kernel((uint64_t)module, name, (struct kernel_handle **)function);
}

CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *size_bytes, CUmodule module,
                           const char *name)
{
    return get_symbol((uint64_t)module, name, address, size_bytes);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit_options,
                           void **jit_values, unsigned int jit_count, CUlibraryOption *options,
                           void **values, unsigned int count)
{
    CUresult result = link_open();

    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)options;
    (void)values;
    (void)count;
    return result ? result : load(image, (uint64_t *)library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    return unload((uint64_t)library);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    if (!kernel || !name) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return get_kernel((uint64_t)library, name, (struct kernel_handle **)kernel);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    *module = (CUmodule)library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size_bytes, CUlibrary library,
                            const char *name)
{
    return get_symbol((uint64_t)library, name, address, size_bytes);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)kernel;
    return kernel_of(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    const struct kernel_handle *found = kernel_of(kernel);

    *library = found ? (CUlibrary)found->module : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
    return cuKernelGetLibrary((CUlibrary *)module, (CUkernel)function);
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
    const struct kernel_handle *found = kernel_of(kernel);

    *name = found ? found->name : NULL;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    return cuKernelGetName(name, (CUkernel)function);
}
