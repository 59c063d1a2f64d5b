/* Streams, events and words in memory of the driver API. Handles are simd's numbers. */
#include "sim/cuda_graph.h"

#include <stdlib.h>

#define LEGACY_HANDLE ((CUstream)1)
#define PER_THREAD_HANDLE ((CUstream)2)

static _Thread_local uint64_t per_thread_streams[WORLD_MAX];

CUresult stream_id(CUstream stream, uint64_t *id)
{
    int device = 0;

    if (!stream || stream == LEGACY_HANDLE) {
        *id = WIRE_STREAM_LEGACY;
        return CUDA_SUCCESS;
    }
    if (stream != PER_THREAD_HANDLE) {
        *id = (uint64_t)stream;
        return CUDA_SUCCESS;
    }
    CUresult result = context_enter(&device);
    if (!result && !per_thread_streams[device]) {
        struct link_call call = {.request = {.op = WIRE_STREAM_CREATE, .device = device}};
        result = link_call(&call);
        per_thread_streams[device] = result ? 0 : call.reply.id;
    }
    *id = result ? 0 : per_thread_streams[device];
    return result;
}

/* A request that needs no more than the stream. */
static CUresult send_on(enum wire_op op, CUstream stream)
{
    struct wire_request request = {.op = op};
    CUresult result = context_enter(&request.device);

    result = result ? result : stream_id(stream, &request.stream);
    result = result ? result : capture_forbids(request.stream);
    return result ? result : link_send(&request);
}

/* What a stream was made with is kept here: device, flags and priority. */
struct stream_facts {
    struct stream_facts *next;
    uint64_t id;
    int device, priority;
    unsigned int flags;
};
static struct stream_facts *_Atomic all_facts;

static const struct stream_facts *find_facts(CUstream stream)
{
    for (const struct stream_facts *facts = all_facts; facts; facts = facts->next) {
        if (facts->id == (uint64_t)stream) {
            return facts;
        }
    }
    return NULL;
}

bool stream_is_blocking(uint64_t id)
{
    const struct stream_facts *facts = find_facts((CUstream)id);

    return facts && !(facts->flags & CU_STREAM_NON_BLOCKING);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    struct link_call call = {.request = {.op = WIRE_STREAM_CREATE,
                                         .options.flags = flags & CU_STREAM_NON_BLOCKING
                                                              ? WIRE_STREAM_NON_BLOCKING
                                                              : 0}};
    CUresult result = context_enter(&call.request.device);

    if (result || !stream || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    struct stream_facts *facts = calloc(1, sizeof *facts);
    result = facts ? link_call(&call) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(facts);
        return result;
    }
    *facts = (struct stream_facts){.next = all_facts,
                                   .id = call.reply.id,
                                   .device = call.request.device,
                                   .priority = priority > 0    ? 0
                                               : priority < -5 ? -5
                                                               : priority,
                                   .flags = flags};
    while (!__atomic_compare_exchange_n((struct stream_facts **)&all_facts, &facts->next, facts,
                                        false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    *stream = (CUstream)call.reply.id;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream)
{
    if (!stream || stream == LEGACY_HANDLE || stream == PER_THREAD_HANDLE) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return send_on(WIRE_STREAM_DESTROY, stream);
}

CUresult cuStreamSynchronize(CUstream stream)
{
    return send_on(WIRE_STREAM_SYNC, stream);
}

CUresult cuStreamQuery(CUstream stream)
{
    return send_on(WIRE_STREAM_QUERY, stream);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
    const struct stream_facts *facts = find_facts(stream);

    *flags = facts ? facts->flags : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    const struct stream_facts *facts = find_facts(stream);

    *priority = facts ? facts->priority : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
    const struct stream_facts *facts = find_facts(stream);

    if (facts) {
        *device = facts->device;
        return CUDA_SUCCESS;
    }
    return context_enter(device);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    CUdevice device = 0;
    CUresult result = cuStreamGetDevice(stream, &device);

    result = result ? result : cuDevicePrimaryCtxRetain(context, device);
    return result;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    return stream_id(stream, (uint64_t *)id);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    struct wire_request request = {.op = WIRE_STREAM_WAIT, .event.event = (uint64_t)event};
    CUresult result = context_enter(&request.device);

    if (result || flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    result = stream_id(stream, &request.stream);
    if (!result && capture_wait(request.stream, request.event.event, &result)) {
        return result;
    }
    return result ? result : link_send(&request);
}

CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
    struct link_call call = {
        .request = {.op = WIRE_EVENT_CREATE,
                    .options.flags = flags & CU_EVENT_DISABLE_TIMING ? WIRE_EVENT_NO_TIMING : 0}};
    CUresult result = context_enter(&call.request.device);

    if (result || !event || flags > 7u) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    if (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    result = link_call(&call);
    if (!result) {
        *event = (CUevent)call.reply.id;
    }
    return result;
}

static CUresult send_event(enum wire_op op, CUevent event)
{
    struct wire_request request = {.op = op, .event.event = (uint64_t)event};
    CUresult result = context_enter(&request.device);

    return result ? result : link_send(&request);
}

CUresult cuEventDestroy(CUevent event)
{
    return send_event(WIRE_EVENT_DESTROY, event);
}

CUresult cuEventQuery(CUevent event)
{
    CUresult result = capture_forbids_event((uint64_t)event);

    return result ? result : send_event(WIRE_EVENT_QUERY, event);
}

CUresult cuEventSynchronize(CUevent event)
{
    CUresult result = capture_forbids_event((uint64_t)event);

    return result ? result : send_event(WIRE_EVENT_SYNC, event);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    struct wire_request request = {.op = WIRE_EVENT_RECORD, .event.event = (uint64_t)event};
    CUresult result = context_enter(&request.device);

    if (result || flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    result = stream_id(stream, &request.stream);
    if (!result && flags && capture_is_on(request.stream)) {
        return capture_request(CU_GRAPH_NODE_TYPE_EVENT_RECORD, &request);
    }
    if (!result && capture_record(request.event.event, request.stream, &result)) {
        return result;
    }
    return result ? result : link_send(&request);
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return cuEventRecordWithFlags(event, stream, 0);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to)
{
    struct link_call call = {
        .request = {.op = WIRE_EVENT_ELAPSED,
                    .event = {.event = (uint64_t)from, .event2 = (uint64_t)to}}};
    CUresult result = context_enter(&call.request.device);

    result = result ? result : link_call(&call);
    if (!result) {
        *milliseconds = (float)((double)(int64_t)call.reply.id / 1e6);
    }
    return result;
}

/* ---- words in memory ---- */

static CUresult send_value(enum wire_op op, CUstream stream, const struct wire_value *value)
{
    struct wire_request request = {.op = op, .value = *value};
    CUresult result = context_enter(&request.device);

    result = result ? result : stream_id(stream, &request.stream);
    if (!result && capture_is_on(request.stream)) {
        return capture_request(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &request);
    }
    return result ? result : link_send(&request);
}

static CUresult write_value(CUstream stream, CUdeviceptr address, uint64_t value,
                            unsigned int flags, uint32_t width_bytes)
{
    if (flags & ~(unsigned int)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return send_value(
        WIRE_WRITE_VALUE, stream,
        &(struct wire_value){.address = address, .value = value, .width_bytes = width_bytes});
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned int flags,
                           uint32_t width_bytes)
{
    static const uint32_t compares[] = {[CU_STREAM_WAIT_VALUE_GEQ] = WIRE_GEQ,
                                        [CU_STREAM_WAIT_VALUE_EQ] = WIRE_EQ,
                                        [CU_STREAM_WAIT_VALUE_AND] = WIRE_AND,
                                        [CU_STREAM_WAIT_VALUE_NOR] = WIRE_NOR};

    if (flags >= sizeof compares / sizeof *compares) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return send_value(WIRE_WAIT_VALUE, stream,
                      &(struct wire_value){.address = address,
                                           .value = value,
                                           .width_bytes = width_bytes,
                                           .compare = compares[flags]});
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags)
{
    return write_value(stream, address, value, flags, 4);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned int flags)
{
    return write_value(stream, address, value, flags, 8);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags)
{
    return wait_value(stream, address, value, flags, 4);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned int flags)
{
    return wait_value(stream, address, value, flags, 8);
}

static CUresult run_operation(CUstream stream, const CUstreamBatchMemOpParams *operation)
{
    switch (operation->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_value(stream, operation->waitValue.address, operation->waitValue.value,
                          operation->waitValue.flags, 4);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_value(stream, operation->waitValue.address, operation->waitValue.value64,
                          operation->waitValue.flags, 8);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return write_value(stream, operation->writeValue.address, operation->writeValue.value,
                           operation->writeValue.flags, 4);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return write_value(stream, operation->writeValue.address, operation->writeValue.value64,
                           operation->writeValue.flags, 8);
    case CU_STREAM_MEM_OP_BARRIER:
        return CUDA_SUCCESS; /* a stream is in order anyway */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
                            CUstreamBatchMemOpParams *operations, unsigned int flags)
{
    CUresult result = flags || count > 256 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

    for (unsigned int i = 0; !result && i < count; i++) {
        result = run_operation(stream, &operations[i]);
    }
    return result;
}
