/* Functions of the host in the order of a stream. A thread of ours runs them. */
#include "sim/cuda_graph.h"

#include <pthread.h>
#include <stdlib.h>

struct host_call {
    CUhostFn function;
    void *data;
};

static CUresult start_result;

static void *run_functions(void *unused)
{
    (void)unused;
    for (;;) {
        struct link_call next = {.request = {.op = WIRE_HOST_NEXT}};
        if (link_call(&next)) {
            return NULL; /* after a fault none has its turn any more */
        }
        struct host_call *call = (struct host_call *)next.reply.id;
        call->function(call->data);
        free(call);
        if (link_send(
                &(struct wire_request){.op = WIRE_HOST_DONE, .host.function = next.reply.id})) {
            return NULL;
        }
    }
}

static void start(void)
{
    pthread_t thread;

    start_result = pthread_create(&thread, NULL, run_functions, NULL)
                       ? CUDA_ERROR_OPERATING_SYSTEM
                       : (pthread_detach(thread) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS);
}

CUresult host_queue(uint64_t stream, int device, CUhostFn function, void *data)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct host_call *call = malloc(sizeof *call);

    (void)pthread_once(&once, start);
    if (start_result || !call) {
        free(call);
        return start_result ? start_result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    *call = (struct host_call){.function = function, .data = data};
    CUresult result = link_send(&(struct wire_request){.op = WIRE_HOST_QUEUE,
                                                       .device = device,
                                                       .stream = stream,
                                                       .host.function = (uint64_t)call});
    if (result) {
        free(call);
    }
    /* The simulator has its address, and gives it back when the call's turn comes. */
    return result; /* NOLINT(clang-analyzer-unix.Malloc) */
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    struct CUgraphNode_st *node = NULL;
    uint64_t id = 0;
    int device = 0;
    CUresult result = context_enter(&device);

    result = result ? result : stream_id(stream, &id);
    if (result || !function) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (!capture_is_on(id)) {
        return host_queue(id, device, function, data);
    }
    result = capture_add(id, CU_GRAPH_NODE_TYPE_HOST, NODE_HOST, &node);
    if (!result) {
        node->function = function;
        node->data = data;
        node->device = device;
    }
    return result;
}

struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *data;
};

static void run_callback(void *memory)
{
    struct callback *callback = memory;

    callback->function(callback->stream, CUDA_SUCCESS, callback->data);
    free(callback);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data,
                             unsigned int flags)
{
    struct callback *callback = malloc(sizeof *callback);

    if (flags || !function || !callback) {
        free(callback);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *callback = (struct callback){.function = function, .stream = stream, .data = data};
    CUresult result = cuLaunchHostFunc(stream, run_callback, callback);
    if (result) {
        free(callback);
    }
    return result;
}
