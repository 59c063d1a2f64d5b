/* Names of errors, calls that are not simulated, and how to find calls by name. */
#include "sim/cuda_errors.h"
#include "sim/cuda_link.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REFUSED_MAX = 256, NAME_MAX_BYTES_OF_CALL = 128, VERSIONS_MAX = 4 };

static const struct {
    int number;
    const char *name, *text;
} errors[] = {
#define X(number, runtime_name, driver_name, text) {number, driver_name, text},
    CUDA_ERRORS(X)
#undef X
};

CUresult cuGetErrorName(CUresult error, const char **name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].number == (int)error && errors[i].name) {
            *name = errors[i].name;
            return CUDA_SUCCESS;
        }
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].number == (int)error && errors[i].name) {
            *text = errors[i].text;
            return CUDA_SUCCESS;
        }
    }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

/* True the first time that this call is refused. */
static bool is_new(const char *name)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char *refused[REFUSED_MAX];
    static int count;
    bool found = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < count && !found; i++) {
        found = strcmp(refused[i], name) == 0;
    }
    if (!found && count < REFUSED_MAX) {
        refused[count] = strdup(name);
        count += refused[count] != NULL;
    }
    pthread_mutex_unlock(&lock);
    return !found;
}

CUresult pkb_cuda_refuse(const char *name)
{
    char what[NAME_MAX_BYTES_OF_CALL + 16];

    if (is_new(name)) {
        int length = snprintf(what, sizeof what, "CUDA call %s", name);
        (void)fprintf(stderr, "%s is not simulated\n", what);
        (void)link_call(&(struct link_call){
            .request = {.op = WIRE_REFUSED, .payload_bytes = (uint32_t)length}, .payload = what});
    }
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The newest form of a call that this library has: name_v4 before name_v3, and so on. */
CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status)
{
    char versioned[NAME_MAX_BYTES_OF_CALL];
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    void *found = NULL;
    Dl_info self;

    (void)version;
    if (!name || !function || strlen(name) > sizeof versioned - 16) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    void *library = dladdr((void *)cuInit, &self) ? dlopen(self.dli_fname, RTLD_LAZY) : NULL;
    for (int suffix = VERSIONS_MAX; library && !found && suffix > 0; suffix--) {
        for (int ptsz = per_thread; ptsz >= 0 && !found; ptsz--) {
            int length = suffix == 1
                             ? snprintf(versioned, sizeof versioned, "%s", name)
                             : snprintf(versioned, sizeof versioned, "%s_v%d", name, suffix);
            (void)snprintf(versioned + length, sizeof versioned - (size_t)length, "%s",
                           ptsz ? "_ptsz" : "");
            found = dlsym(library, versioned);
        }
    }
    *function = found;
    if (status) {
        *status = found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
