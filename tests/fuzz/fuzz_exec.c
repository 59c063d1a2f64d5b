/*
 * fuzz_exec.c — kernels run, with little fuel and little memory, whatever they do.
 *
 * Each parameter of eight bytes points into the one buffer that there is; others count from 1.
 */
#include "sim/engine.h"
#include "tests/fuzz/fuzz.h"

#include "common/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEVICES = 2,
    BUFFER_BYTES = 1 << 16,
    SYMBOLS_BYTES_MAX = 1 << 20,
    KERNELS_MAX = 4,
    THREADS = 64,
    SWEEPS = 64,
    TURNS_MAX = 1 << 12,
    DYNAMIC_SHARED_BYTES = 1024,
};
#define BUFFER_ADDRESS 0x300000000000u
#define SYMBOLS_ADDRESS 0x300100000000u

static const struct engine_options options = {
    .devices = DEVICES,
    .seed = 1,
    .fuel = 200000,
    .sm_count = 2,
    .shared_per_sm_bytes = 228 * 1024,
    .threads_per_sm = 2048,
    .ctas_per_sm = 32,
    .registers_per_sm = 65536,
};

struct machine {
    struct engine *engine;
    struct space *space;
    uint8_t *buffer, *symbols;
    uint64_t *addresses;
    struct module *module;
};

static void map(struct machine *machine, uint64_t address, uint8_t *host, uint64_t size_bytes)
{
    struct error err = {0};
    struct mapping mapping = {.address = address,
                              .size_bytes = size_bytes,
                              .host = host,
                              .owner = DEVICES - 1,
                              .access = MAP_READ | MAP_WRITE,
                              .label = ""};
    enum status status = space_map(machine->space, &mapping, &err);

    assert(status == OK);
}

/* False where the variables are larger than this is for. */
static bool map_symbols(struct machine *machine, const struct image *image)
{
    uint64_t at = 0;

    machine->addresses = xcalloc(image->symbol_count + 1, sizeof *machine->addresses);
    for (uint32_t i = 0; i < image->symbol_count; i++) {
        const struct code_symbol *symbol = &image->symbols[i];
        if (symbol->size_bytes > SYMBOLS_BYTES_MAX - at) {
            return false;
        }
        machine->addresses[i] = SYMBOLS_ADDRESS + at;
        if (symbol->initial != NULL) {
            memcpy(machine->symbols + at, symbol->initial, symbol->size_bytes);
        }
        at += (symbol->size_bytes + 255) / 256 * 256;
    }
    return true;
}

static void set_params(const struct kernel *kernel, uint8_t *params)
{
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const struct code_param *param = &kernel->params[i];
        uint64_t value = param->size_bytes == 8 ? BUFFER_ADDRESS + (uint64_t)i * 4096 : i + 1;
        size_t size_bytes = param->size_bytes < sizeof value ? param->size_bytes : sizeof value;
        memcpy(params + param->offset, &value, size_bytes);
    }
}

static void run(const struct machine *machine)
{
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        switch (engine_run(machine->engine, SWEEPS)) {
        case ENGINE_IDLE:
        case ENGINE_STUCK:
        case ENGINE_NO_FUEL:
            return;
        default:
            break;
        }
    }
    assert(!"it ends by itself or for want of fuel");
}

static void report(const struct machine *machine, struct grid *grid)
{
    struct result result = {.rank = -1};
    struct wait *waits = NULL;
    size_t count = 0;
    struct buffer text = {0};
    int cuda_error = 0;

    (void)grid_fault(grid, &cuda_error);
    grid_take_output(grid, &text);
    engine_waits(machine->engine, &waits, &count);
    for (size_t i = 0; i < count; i++) {
        result_add_wait(&result, waits[i]);
    }
    free(waits);
    engine_report(machine->engine, &result);
    buffer_release(&text);
    result_write(&result, &text);
    buffer_release(&text);
    result_release(&result);
}

static void launch(const struct machine *machine, const struct kernel *kernel, bool is_cooperative)
{
    static uint8_t params[CODE_PARAM_BYTES_MAX + 8];
    struct error err = {0};
    struct grid *grid = NULL;
    uint32_t threads =
        kernel->threads_max && kernel->threads_max < THREADS ? kernel->threads_max : THREADS;
    struct launch wanted = {.kernel = kernel,
                            .module = machine->module,
                            .space = machine->space,
                            .grid = {3, 1, 1},
                            .block = {threads, 1, 1},
                            .dynamic_shared_bytes = DYNAMIC_SHARED_BYTES,
                            .is_cooperative = is_cooperative,
                            .params = params};

    assert(kernel->param_bytes <= CODE_PARAM_BYTES_MAX);
    set_params(kernel, params);
    for (int i = 0; i < 3 && kernel->ntid_required[0]; i++) {
        wanted.block[i] = kernel->ntid_required[i];
    }
    if (engine_launch(machine->engine, &grid, &wanted, &err) == OK) {
        run(machine);
        report(machine, grid);
        grid_release(grid);
    }
}

static void run_image(const struct image *image)
{
    struct machine machine = {.buffer = xcalloc(1, BUFFER_BYTES),
                              .symbols = xcalloc(1, SYMBOLS_BYTES_MAX)};

    for (uint32_t i = 0; i < image->kernel_count && i < KERNELS_MAX; i++) {
        machine.engine = engine_open(&options);
        machine.space = space_open(machine.engine, 0);
        map(&machine, BUFFER_ADDRESS, machine.buffer, BUFFER_BYTES);
        map(&machine, SYMBOLS_ADDRESS, machine.symbols, SYMBOLS_BYTES_MAX);
        if (map_symbols(&machine, image)) {
            machine.module = module_open(machine.space, image, machine.addresses);
            launch(&machine, &image->kernels[i], i % 2 == 1);
            module_close(machine.module);
        }
        free(machine.addresses);
        space_close(machine.space);
        engine_close(machine.engine);
    }
    free(machine.symbols);
    free(machine.buffer);
}

void fuzz_exec(const uint8_t *data, size_t size_bytes)
{
    struct image *image = NULL;
    struct error err = {0};

    if (image_parse(&image, (const char *)data, size_bytes, &err) == OK) {
        run_image(image);
        image_close(image);
    }
}
