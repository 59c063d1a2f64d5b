/* grid.c — launches: what a driver checks, CTAs and their memory, modules. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/defined.h"
#include "sim/exec.h"
#include "sim/schedule.h"

enum { REGISTERS_UNKNOWN = 32, THREADS_MAX = 1024 };

/* ---- modules ---- */

struct module *module_open(struct space *space, const struct image *image,
                           const uint64_t *addresses)
{
    struct engine *engine = space->engine;
    struct module *module = xcalloc(1, sizeof(*module));
    struct binding *binding = engine->bindings;

    while (binding && binding->image != image) {
        binding = binding->next;
    }
    if (!binding) {
        binding = xcalloc(1, sizeof(*binding));
        binding->image = image;
        binding->kernel_count = image->kernel_count;
        binding->bounds = xcalloc(image->kernel_count + 1, sizeof(*binding->bounds));
        binding->next = engine->bindings;
        engine->bindings = binding;
    }
    binding->references++;
    module->space = space;
    module->binding = binding;
    module->addresses = xcalloc(image->symbol_count + 1, sizeof(*addresses));
    if (image->symbol_count) {
        memcpy(module->addresses, addresses, image->symbol_count * sizeof(*addresses));
    }
    return module;
}

static void binding_close(struct engine *engine, struct binding *binding)
{
    struct binding **link = &engine->bindings;

    if (--binding->references > 0) {
        return;
    }
    while (*link != binding) {
        link = &(*link)->next;
    }
    *link = binding->next;
    for (uint32_t i = 0; i < binding->kernel_count; i++) {
        bound_release(&binding->bounds[i]);
    }
    free(binding->bounds);
    free(binding);
}

void module_close(struct module *module)
{
    if (!module) {
        return;
    }
    struct engine *engine = module->space->engine;

    for (int i = 0; i < engine->options.devices; i++) {
        for (struct grid *grid = engine->devices[i].grids; grid; grid = grid->next) {
            if (grid->module == module && grid->state == GRID_RUNNING) {
                grid_end(grid, GRID_DONE);
            }
        }
    }
    binding_close(engine, module->binding);
    free(module->addresses);
    free(module);
}

/* ---- CTAs ---- */

static size_t aligned(size_t size_bytes)
{
    return (size_bytes + 63) & ~(size_t)63;
}

static size_t slots_bytes(const struct kernel *kernel)
{
    return (size_t)kernel->slot_count * SLOT_BYTES;
}

static size_t cta_bytes(const struct grid *grid)
{
    const struct kernel *kernel = grid->bound->kernel;
    size_t warp_bytes = slots_bytes(kernel) + aligned(kernel->predicate_count * sizeof(uint32_t)) +
                        aligned((size_t)kernel->local_bytes * WARP_LANES);

    return aligned(sizeof(struct cta) + grid->warp_count * sizeof(struct warp)) +
           aligned(grid->shared_bytes) + grid->warp_count * warp_bytes;
}

static void warp_prepare(struct cta *cta, struct warp *warp, uint32_t index)
{
    struct grid *grid = cta->grid;
    struct device *device = grid->device;
    const struct kernel *kernel = grid->bound->kernel;
    bool is_counted = grid->launch.space->rank >= 0;

    warp->insns = kernel->insns;
    warp->constants = grid->bound->constants;
    warp->cta = cta;
    warp->grid = grid;
    warp->engine = grid->engine;
    warp->space = grid->launch.space;
    warp->traffic = is_counted ? device->traffic : NULL;
    warp->order = grid->launch.order;
    warp->index = index;
    memset(warp->commits, 0, sizeof(warp->commits));
    memset(warp->predicates, 0, kernel->predicate_count * sizeof(uint32_t));
    warp->predicates[0] = MASK_ALL;
    warp_start(warp, grid->thread_count - index * WARP_LANES);
    cta->live_lanes += (uint32_t)__builtin_popcount(warp->live);
}

/* The memory of a CTA is one block; that of one which ended is used again. */
static struct cta *cta_take(struct grid *grid)
{
    struct cta *cta = grid->spare;
    const struct kernel *kernel = grid->bound->kernel;
    uint8_t *at = NULL;

    if (cta) {
        grid->spare = cta->next;
        return cta;
    }
    cta = aligned_alloc(64, aligned(grid->cta_bytes));
    if (!cta) {
        abort();
    }
    memset(cta, 0, grid->cta_bytes);
    grid->engine->cta_bytes += grid->cta_bytes;
    at = (uint8_t *)cta + aligned(sizeof(*cta) + grid->warp_count * sizeof(struct warp));
    for (uint32_t i = 0; i < grid->warp_count; i++) {
        cta->warps[i].slots = at;
        at += slots_bytes(kernel);
        cta->warps[i].predicates = (uint32_t *)(void *)at;
        at += aligned(kernel->predicate_count * sizeof(uint32_t));
    }
    cta->shared = at;
    at += aligned(grid->shared_bytes);
    cta->local = at;
    return cta;
}

struct cta *cta_start(struct grid *grid)
{
    struct cta *cta = cta_take(grid);
    const uint32_t *size = grid->launch.grid;

    cta->grid = grid;
    cta->index = grid->ctas_started++;
    cta->id[0] = (uint32_t)(cta->index % size[0]);
    cta->id[1] = (uint32_t)(cta->index / size[0] % size[1]);
    cta->id[2] = (uint32_t)(cta->index / size[0] / size[1]);
    cta->warp_count = grid->warp_count;
    cta->live_warps = grid->warp_count;
    cta->live_lanes = 0;
    cta->barriers_waiting = 0;
    cta->has_released = false;
    cta->has_returned = false;
    cta->is_whole = false;
    cta->checks = 0;
    memset(cta->barriers, 0, sizeof(cta->barriers));
    for (int i = 0; i < BARRIERS; i++) {
        cta->barriers[i].all = true;
    }
    /* What a CTA finds there is nothing to rely on: NaN, not the last one's values. */
    defined_forget(cta->shared, aligned(grid->shared_bytes));
    defined_forget(cta->local,
                   (size_t)grid->warp_count * WARP_LANES * grid->bound->kernel->local_bytes);
    for (uint32_t i = 0; i < cta->warp_count; i++) {
        warp_prepare(cta, &cta->warps[i], i);
    }
    if (grid->live_count == grid->live_capacity) {
        grid->live_capacity = grid->live_capacity ? grid->live_capacity * 2 : 16;
        grid->live = xrealloc(grid->live, grid->live_capacity * sizeof(void *));
    }
    cta->position = grid->live_count;
    grid->live[grid->live_count++] = cta;
    grid->device->used += grid->cost;
    grid->engine->progress++;
    return cta;
}

void cta_end(struct cta *cta)
{
    struct grid *grid = cta->grid;
    struct cta *last = grid->live[--grid->live_count];

    for (uint32_t i = 0; i < cta->warp_count; i++) {
        async_drop(&cta->warps[i]);
    }
    grid->live[cta->position] = last;
    last->position = cta->position;
    cta->next = grid->spare;
    grid->spare = cta;
    grid->device->used -= grid->cost;
    grid->ctas_done++;
    grid->engine->progress++;
}

/* ---- launches ---- */

int engine_occupancy(const struct engine *engine, const struct kernel *kernel, int threads,
                     uint32_t dynamic_shared_bytes)
{
    const struct engine_options *options = &engine->options;
    int warps = (threads + WARP_LANES - 1) / WARP_LANES;
    int registers = (int)(kernel->registers ? kernel->registers : REGISTERS_UNKNOWN);
    int registers_per_warp = (registers * WARP_LANES + 255) / 256 * 256;
    int shared_bytes = (int)(kernel->dynamic_offset > kernel->shared_bytes && dynamic_shared_bytes
                                 ? kernel->dynamic_offset
                                 : kernel->shared_bytes) +
                       (int)dynamic_shared_bytes + SHARED_RESERVED_BYTES;
    int fits = options->ctas_per_sm;

    if (threads <= 0 || threads > THREADS_MAX || dynamic_shared_bytes > SHARED_MAX_BYTES) {
        return 0;
    }
    if (options->threads_per_sm / (warps * WARP_LANES) < fits) {
        fits = options->threads_per_sm / (warps * WARP_LANES);
    }
    if (options->registers_per_sm / (warps * registers_per_warp) < fits) {
        fits = options->registers_per_sm / (warps * registers_per_warp);
    }
    shared_bytes = (shared_bytes + 127) / 128 * 128;
    if (options->shared_per_sm_bytes / shared_bytes < fits) {
        fits = options->shared_per_sm_bytes / shared_bytes;
    }
    return fits;
}

static enum status check_shape(const struct launch *launch, struct error *err)
{
    const struct kernel *kernel = launch->kernel;
    static const uint32_t grid_max[3] = {INT32_MAX, UINT16_MAX, UINT16_MAX};
    static const uint32_t block_max[3] = {1024, 1024, 64};
    uint64_t threads = 1;

    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0 || launch->grid[i] > grid_max[i]) {
            return error_set(err, ERR_INVALID, "a grid of %u x %u x %u CTAs", launch->grid[0],
                             launch->grid[1], launch->grid[2]);
        }
        if (launch->block[i] == 0 || launch->block[i] > block_max[i]) {
            return error_set(err, ERR_INVALID, "a block of %u x %u x %u threads", launch->block[0],
                             launch->block[1], launch->block[2]);
        }
        if (kernel->ntid_required[i] && kernel->ntid_required[i] != launch->block[i]) {
            return error_set(err, ERR_INVALID, "the kernel requires %u x %u x %u threads",
                             kernel->ntid_required[0], kernel->ntid_required[1],
                             kernel->ntid_required[2]);
        }
        threads *= launch->block[i];
    }
    if (threads > THREADS_MAX || (kernel->threads_max && threads > kernel->threads_max)) {
        return error_set(err, ERR_INVALID, "%lu threads per CTA; at most %u are possible", threads,
                         kernel->threads_max ? kernel->threads_max : (uint32_t)THREADS_MAX);
    }
    return OK;
}

/* Binds the kernel's code at its first launch. */
static struct bound *bound_of(const struct launch *launch)
{
    const struct binding *binding = launch->module->binding;
    size_t index = (size_t)(launch->kernel - binding->image->kernels);
    struct bound *bound = &binding->bounds[index];

    if (!bound->is_bound) {
        bound->kernel = launch->kernel;
        bound->is_bound = true;
        exec_bind(bound);
    }
    return bound;
}

const char *module_unsupported(struct module *module, const struct kernel *kernel)
{
    if (kernel->unsupported) {
        return kernel->unsupported;
    }
    return bound_of(&(struct launch){.kernel = kernel, .module = module})->unsupported;
}

static enum status take_workspace(struct grid *grid, struct error *err)
{
    struct space *space = grid->launch.space;

    for (int i = 0; i < SPACE_WORKSPACES; i++) {
        if (!(space->workspaces >> i & 1)) {
            uint32_t *workspace =
                (uint32_t *)(void *)(space->workspace + (size_t)i * SPACE_WORKSPACE_BYTES);
            memset(workspace, 0, SPACE_WORKSPACE_BYTES);
            workspace[0] = SPACE_WORKSPACE_BYTES;
            space->workspaces |= 1u << i;
            grid->workspace = i;
            return OK;
        }
    }
    return error_set(err, ERR_LIMIT, "more than %d cooperative grids at once", SPACE_WORKSPACES);
}

static void give_workspace(struct grid *grid)
{
    if (grid->workspace >= 0) {
        grid->launch.space->workspaces &= ~(1u << grid->workspace);
        grid->workspace = -1;
    }
}

static struct grid *grid_make(struct engine *engine, const struct launch *launch,
                              struct bound *bound, int fits)
{
    struct grid *grid = xcalloc(1, sizeof(*grid));
    const struct kernel *kernel = launch->kernel;
    struct grid **link = &engine->devices[launch->device].grids;

    grid->engine = engine;
    grid->device = &engine->devices[launch->device];
    grid->launch = *launch;
    grid->bound = bound;
    grid->module = launch->module;
    grid->params = xcalloc(1, kernel->param_bytes + 16);
    if (kernel->param_bytes) {
        memcpy(grid->params, launch->params, kernel->param_bytes);
    }
    grid->launch.params = grid->params;
    grid->serial = ++engine->serial;
    grid->thread_count = launch->block[0] * launch->block[1] * launch->block[2];
    grid->warp_count = (grid->thread_count + WARP_LANES - 1) / WARP_LANES;
    grid->shared_bytes = launch->dynamic_shared_bytes
                             ? kernel->dynamic_offset + launch->dynamic_shared_bytes
                             : kernel->shared_bytes;
    grid->cta_count = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    grid->cost = (uint64_t)DEVICE_CAPACITY / (uint64_t)fits;
    grid->cta_bytes = cta_bytes(grid);
    grid->delay = engine_delay(engine);
    grid->workspace = -1;
    while (*link) {
        link = &(*link)->next;
    }
    *link = grid;
    return grid;
}

/* As a driver reserves the local memory of all CTAs that can be resident. */
static enum status check_bytes(const struct grid *grid, uint64_t resident_max, struct error *err)
{
    uint64_t ctas = grid->cta_count < resident_max ? grid->cta_count : resident_max;

    if (grid->cta_bytes > GRID_BYTES_MAX / ctas) {
        return error_set(err, ERR_LIMIT,
                         "%lu CTAs at once of %zu bytes of registers, local and shared memory each;"
                         " at most %d bytes are simulated",
                         ctas, grid->cta_bytes, GRID_BYTES_MAX);
    }
    return OK;
}

enum status engine_launch(struct engine *engine, struct grid **grid, const struct launch *launch,
                          struct error *err)
{
    const struct kernel *kernel = launch->kernel;
    uint64_t ctas = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    enum status status = check_shape(launch, err);

    if (status) {
        return status;
    }
    if (kernel->unsupported) {
        return error_set(err, ERR_UNAVAILABLE, "%s", kernel->unsupported);
    }
    struct bound *bound = bound_of(launch);
    if (bound->unsupported) {
        return error_set(err, ERR_UNAVAILABLE, "%s", bound->unsupported);
    }
    int fits = engine_occupancy(engine, kernel,
                                (int)(launch->block[0] * launch->block[1] * launch->block[2]),
                                launch->dynamic_shared_bytes);
    if (fits == 0) {
        return error_set(err, ERR_INVALID,
                         "a CTA of this shape needs more than a multiprocessor has");
    }
    if (launch->is_cooperative && ctas > (uint64_t)fits * (uint64_t)engine->options.sm_count) {
        return error_set(err, ERR_INVALID,
                         "a cooperative grid of %lu CTAs; %lu fit the device at once", ctas,
                         (uint64_t)fits * (uint64_t)engine->options.sm_count);
    }
    struct grid *made = grid_make(engine, launch, bound, fits);
    status = check_bytes(made, (uint64_t)fits * (uint64_t)engine->options.sm_count, err);
    if (status == OK && launch->is_cooperative) {
        status = take_workspace(made, err);
    }
    if (status) {
        grid_release(made);
        return status;
    }
    proof_changed(engine);
    *grid = made;
    return OK;
}

void grid_end(struct grid *grid, enum grid_state state)
{
    struct engine *engine = grid->engine;

    while (grid->live_count > 0) {
        cta_end(grid->live[0]);
    }
    while (grid->spare) {
        struct cta *cta = grid->spare;
        grid->spare = cta->next;
        engine->cta_bytes -= grid->cta_bytes;
        free(cta);
    }
    free(grid->live);
    grid->live = NULL;
    grid->live_capacity = 0;
    give_workspace(grid);
    grid->state = state;
    engine->has_event = true;
    proof_changed(engine);
}

void grid_release(struct grid *grid)
{
    if (!grid) {
        return;
    }
    struct grid **link = &grid->device->grids;

    if (grid->state == GRID_RUNNING) {
        grid_end(grid, GRID_DONE);
    }
    while (*link != grid) {
        link = &(*link)->next;
    }
    *link = grid->next;
    if (grid->fault) {
        fault_release(grid->fault);
        free(grid->fault);
    }
    buffer_release(&grid->output);
    free(grid->params);
    free(grid);
}

void engine_end_grids(struct engine *engine, const struct space *space)
{
    for (int i = 0; i < engine->options.devices; i++) {
        for (struct grid *grid = engine->devices[i].grids; grid; grid = grid->next) {
            if (grid->launch.space == space && grid->state == GRID_RUNNING) {
                grid_end(grid, GRID_DONE);
            }
        }
    }
}

enum grid_state grid_state(const struct grid *grid)
{
    return grid->state;
}

const struct fault *grid_fault(const struct grid *grid, int *cuda_error)
{
    *cuda_error = grid->cuda_error;
    return grid->fault;
}

void grid_take_output(struct grid *grid, struct buffer *text)
{
    if (grid->output.size_bytes) {
        buffer_append(text, grid->output.data, grid->output.size_bytes);
        buffer_release(&grid->output);
        grid->output = (struct buffer){0};
    }
}
