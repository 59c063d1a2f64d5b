/* Launches: what a driver checks before it queues one. */
#include "sim/request.h"

#include "common/mem.h"
#include "sim/program.h"
#include "sim/report.h"
#include "sim/stream.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 1024, BLOCK_Z_MAX = 64, GRID_YZ_MAX = 65535, REGISTERS_PER_BLOCK = 65536 };

static bool is_shape_allowed(const uint32_t grid[3], const uint32_t block[3])
{
    return grid[0] && grid[1] && grid[2] && block[0] && block[1] && block[2] &&
           grid[0] <= INT32_MAX && grid[1] <= GRID_YZ_MAX && grid[2] <= GRID_YZ_MAX &&
           block[0] <= THREADS_MAX && block[1] <= THREADS_MAX && block[2] <= BLOCK_Z_MAX &&
           (uint64_t)block[0] * block[1] * block[2] <= THREADS_MAX;
}

static bool is_block_required(const struct kernel *kernel, const uint32_t block[3])
{
    const uint32_t *required = kernel->ntid_required;

    return !required[0] || (required[0] == block[0] && (!required[1] || required[1] == block[1]) &&
                            (!required[2] || required[2] == block[2]));
}

static bool fits_cooperatively(const struct machine *machine, const struct kernel *kernel,
                               const struct wire_launch *launch, uint64_t threads)
{
    uint64_t ctas = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    int per_sm =
        engine_occupancy(machine->engine, kernel, (int)threads, launch->dynamic_shared_bytes);

    return per_sm > 0 && ctas <= (uint64_t)per_sm * MACHINE_SM_COUNT;
}

/* A CUresult. */
static int check(const struct client *client, const struct function *function,
                 const struct wire_launch *launch)
{
    const struct kernel *kernel = function->kernel;

    if (!is_shape_allowed(launch->grid, launch->block) ||
        !is_block_required(kernel, launch->block)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    if (kernel->threads_max && threads > kernel->threads_max) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (threads * kernel->registers > REGISTERS_PER_BLOCK) {
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    if (launch->dynamic_shared_bytes > function->dynamic_shared_max) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (launch->cooperative && !fits_cooperatively(client->machine, kernel, launch, threads)) {
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
    return CUDA_SUCCESS;
}

int request_launch(struct channel *channel, struct wire_reply *reply)
{
    struct client *client = channel->client;
    const struct wire_request *request = &channel->request;
    const struct wire_launch *launch = &request->launch;
    struct function *function = handles_find(&client->handles, launch->kernel, HANDLE_FUNCTION);
    struct stream *stream = stream_find(client, request->stream, request->device);
    struct instance *instance = NULL;
    struct error err = {0};

    (void)reply;
    if (!function || !stream || stream->device != request->device) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    const struct kernel *kernel = function->kernel;
    if (request->payload_bytes != kernel->param_bytes) {
        return REQUEST_MALFORMED;
    }
    int result = check(client, function, launch);
    if (result) {
        return result;
    }
    if (program_instance(function->program, request->device, &instance, &err)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    const char *unsupported = module_unsupported(instance->module, kernel);
    if (unsupported) {
        report_not_simulable(client, unsupported, kernel->demangled);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct item *item = item_make(ITEM_KERNEL);
    item->bytes = xmalloc(kernel->param_bytes + 1);
    memcpy(item->bytes, channel->payload, kernel->param_bytes);
    item->bytes_size = kernel->param_bytes;
    item->launch = (struct launch){
        .kernel = kernel,
        .module = instance->module,
        .space = client->space,
        .device = request->device,
        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
        .block = {launch->block[0], launch->block[1], launch->block[2]},
        .dynamic_shared_bytes = launch->dynamic_shared_bytes,
        .is_cooperative = launch->cooperative != 0,
    };
    return request_push(channel, stream, item, false);
}
