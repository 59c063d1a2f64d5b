/* Requests about images, kernels and variables. */
#include "sim/request.h"

#include "common/mem.h"
#include "sim/program.h"
#include "sim/report.h"
#include "sim/stream.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

static int handle_load(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    const struct image *image = program_image(client->machine, channel->request.module.hash);

    if (!image) {
        report_not_simulable(client, "cuModuleLoadData of an image outside the submission", NULL);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    struct program *program = program_open(client, image);
    if (!program) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    reply->id = program->id;
    return CUDA_SUCCESS;
}

/* Payload: the kernel's name, with a zero byte behind it as every payload has. */
static int handle_kernel(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    struct program *program =
        handles_find(&client->handles, channel->request.kernel.module, HANDLE_PROGRAM);

    if (!program) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    const struct kernel *kernel = image_kernel(program->image, (const char *)channel->payload);
    if (!kernel) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (kernel->param_count > WIRE_PARAMS_MAX) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct function *function = xcalloc(1, sizeof *function);
    *function = (struct function){
        .program = program, .kernel = kernel, .dynamic_shared_max = PROGRAM_SHARED_DEFAULT};
    if (kernel->shared_bytes < PROGRAM_SHARED_DEFAULT) {
        function->dynamic_shared_max -= kernel->shared_bytes;
    } else {
        function->dynamic_shared_max = 0;
    }
    uint64_t id = handles_add(&client->handles, HANDLE_FUNCTION, function);
    if (!id) {
        free(function);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct wire_param params[WIRE_PARAMS_MAX];
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        params[i] = (struct wire_param){.offset_bytes = kernel->params[i].offset,
                                        .size_bytes = kernel->params[i].size_bytes};
    }
    reply->kernel = (struct wire_kernel_info){.kernel = id,
                                              .param_count = kernel->param_count,
                                              .param_bytes = kernel->param_bytes,
                                              .shared_bytes = kernel->shared_bytes,
                                              .local_bytes = kernel->local_bytes,
                                              .registers = kernel->registers,
                                              .threads_max = kernel->threads_max};
    reply->payload_bytes = kernel->param_count * (uint32_t)sizeof *params;
    channel_reply(channel, reply, params, -1);
    return REQUEST_ANSWERED;
}

static int handle_of_function(struct channel *channel, struct wire_reply *reply)
{
    const struct wire_kernel *request = &channel->request.kernel;
    struct client *client = channel->client;
    struct function *function = handles_find(&client->handles, request->kernel, HANDLE_FUNCTION);

    if (!function) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (channel->request.op == WIRE_KERNEL_SET) {
        uint32_t shared_bytes = function->kernel->shared_bytes;
        if (request->attribute != WIRE_KERNEL_DYNAMIC_SHARED_MAX || request->value < 0 ||
            shared_bytes > PROGRAM_SHARED_MAX ||
            request->value > PROGRAM_SHARED_MAX - (int64_t)shared_bytes) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        function->dynamic_shared_max = (uint32_t)request->value;
        return CUDA_SUCCESS;
    }
    if (!request->threads || request->threads > 1024 ||
        request->dynamic_shared_bytes > PROGRAM_SHARED_MAX) {
        reply->id = 0;
        return request->threads ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    reply->id = (uint64_t)engine_occupancy(client->machine->engine, function->kernel,
                                           (int)request->threads, request->dynamic_shared_bytes);
    return CUDA_SUCCESS;
}

static int handle_symbol(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    struct program *program =
        handles_find(&client->handles, channel->request.module.module, HANDLE_PROGRAM);
    struct instance *instance = NULL;
    struct error err = {0};

    if (!program) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    int symbol = program_symbol(program, (const char *)channel->payload);
    if (symbol < 0) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (program_instance(program, channel->request.device, &instance, &err)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    reply->pointer = (struct wire_pointer){.address = instance->addresses[symbol],
                                           .size_bytes = program->image->symbols[symbol].size_bytes,
                                           .device = channel->request.device,
                                           .kind = WIRE_MEMORY_DEVICE};
    return CUDA_SUCCESS;
}

static int handle_unload(struct channel *channel)
{
    struct client *client = channel->client;
    struct program *program =
        handles_find(&client->handles, channel->request.module.module, HANDLE_PROGRAM);

    if (!program) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (int device = 0; device < client->machine->options.devices; device++) {
        if (!device_is_done_until(client, device, client->sequence)) {
            return CUDA_SUCCESS; /* its kernels may run: it goes with the client */
        }
    }
    program_close(program);
    return CUDA_SUCCESS;
}

int request_program(struct channel *channel, struct wire_reply *reply)
{
    switch ((enum wire_op)channel->request.op) {
    case WIRE_MODULE_LOAD:
        return handle_load(channel, reply);
    case WIRE_MODULE_UNLOAD:
        return handle_unload(channel);
    case WIRE_KERNEL:
        return handle_kernel(channel, reply);
    case WIRE_KERNEL_SET:
    case WIRE_OCCUPANCY:
        return handle_of_function(channel, reply);
    case WIRE_SYMBOL:
        return handle_symbol(channel, reply);
    default:
        return REQUEST_MALFORMED;
    }
}
