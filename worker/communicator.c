#include "worker/communicator.h"

#include <assert.h>
#include <dlfcn.h>
#include <nccl.h>
#include <stdbool.h>

struct functions {
    ncclResult_t (*get_unique_id)(ncclUniqueId *);
    ncclResult_t (*init_rank)(ncclComm_t *, int, ncclUniqueId, int);
    const char *(*error_string)(ncclResult_t);
};

_Static_assert(sizeof(ncclUniqueId) == COMMUNICATOR_ID_BYTES, "the shared page has room for it");

static enum status load(struct functions *functions, struct error *err)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        return error_set(err, ERR_UNAVAILABLE, "%s", dlerror());
    }
    *(void **)&functions->get_unique_id = dlsym(library, "ncclGetUniqueId");
    *(void **)&functions->init_rank = dlsym(library, "ncclCommInitRank");
    *(void **)&functions->error_string = dlsym(library, "ncclGetErrorString");
    if (functions->get_unique_id == NULL || functions->init_rank == NULL ||
        functions->error_string == NULL) {
        return error_set(err, ERR_UNAVAILABLE, "libnccl.so.2 lacks a function");
    }
    return OK;
}

enum status communicator_make(struct ncclComm **made, const struct communicator_options *options,
                              struct error *err)
{
    struct functions functions = {0};
    ncclResult_t result = ncclSuccess;
    ncclUniqueId id;
    ncclComm_t comm = NULL;

    enum status status = load(&functions, err);
    if (status != OK) {
        return status;
    }
    assert(functions.get_unique_id != NULL);
    assert(functions.init_rank != NULL);
    if (options->rank == 0) {
        result = functions.get_unique_id(&id);
        for (int i = 0; i < COMMUNICATOR_ID_BYTES && result == ncclSuccess; i++) {
            options->id[i] = (unsigned char)id.internal[i];
        }
    }
    /* Everybody meets also where rank 0 has no id, so that nobody waits for ever. */
    int code = options->meet(options->context);
    if (code != 0) {
        return error_set(err, ERR_UNAVAILABLE, "the ranks did not meet (%d)", code);
    }
    for (int i = 0; i < COMMUNICATOR_ID_BYTES; i++) {
        id.internal[i] = (char)options->id[i];
    }
    if (result == ncclSuccess) {
        result = functions.init_rank(&comm, options->world, id, options->rank);
    }
    if (result != ncclSuccess) {
        return error_set(err, ERR_UNAVAILABLE, "NCCL: %s", functions.error_string(result));
    }
    *made = comm;
    return OK;
}
