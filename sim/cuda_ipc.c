/* Memory and events of one process in another, of the driver API. */
#include "sim/cuda_link.h"

#include <string.h>

/* What a handle's bytes hold. */
struct content {
    char magic[8];
    struct wire_key key;
};
static const char memory_magic[8] = "pkb mem";
static const char event_magic[8] = "pkb evt";

_Static_assert(sizeof(struct content) <= CU_IPC_HANDLE_SIZE, "a handle holds it");

/* Asks for a key and writes it into a handle's bytes. */
static CUresult export_key(const struct wire_request *request, const char *magic, char *bytes)
{
    struct link_call call = {.request = *request};
    struct content content;
    CUresult result = context_enter(&call.request.device);

    result = result ? result : link_call(&call);
    if (!result) {
        memcpy(content.magic, magic, sizeof content.magic);
        content.key = call.reply.key;
        memset(bytes, 0, CU_IPC_HANDLE_SIZE);
        memcpy(bytes, &content, sizeof content);
    }
    return result;
}

static CUresult open_key(enum wire_op op, const char *magic, const char *bytes,
                         struct wire_reply *reply)
{
    struct link_call call = {.request = {.op = op}};
    struct content content;
    CUresult result = context_enter(&call.request.device);

    memcpy(&content, bytes, sizeof content);
    if (result || memcmp(content.magic, magic, sizeof content.magic) != 0) {
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    }
    call.request.ipc.key = content.key;
    result = link_call(&call);
    *reply = call.reply;
    return result;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    if (!handle) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return export_key(&(struct wire_request){.op = WIRE_IPC_EXPORT, .ipc.address = address},
                      memory_magic, handle->reserved);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
    struct wire_reply reply;

    if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = open_key(WIRE_IPC_OPEN, memory_magic, handle.reserved, &reply);
    if (!result) {
        *address = reply.pointer.address;
    }
    return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    struct wire_request request = {.op = WIRE_IPC_CLOSE, .memory.address = address};
    CUresult result = context_enter(&request.device);

    return result ? result : link_send(&request);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    if (!handle) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return export_key(&(struct wire_request){.op = WIRE_EVENT_EXPORT, .ipc.event = (uint64_t)event},
                      event_magic, handle->reserved);
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    struct wire_reply reply;

    if (!event) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = open_key(WIRE_EVENT_OPEN, event_magic, handle.reserved, &reply);
    if (!result) {
        *event = (CUevent)reply.id;
    }
    return result;
}
