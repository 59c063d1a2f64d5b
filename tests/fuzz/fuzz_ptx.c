/* fuzz_ptx.c — a module's text, as far as code that could be launched. */
#include "sim/engine.h"
#include "tests/fuzz/fuzz.h"

#include "common/mem.h"

#include <assert.h>
#include <stdlib.h>

static const struct engine_options options = {
    .devices = 1,
    .fuel = 1,
    .sm_count = 1,
    .shared_per_sm_bytes = 228 * 1024,
    .threads_per_sm = 2048,
    .ctas_per_sm = 32,
    .registers_per_sm = 65536,
};

/* What the interpreter relies on without looking. */
static void check_insn(const struct kernel *kernel, const struct insn *insn)
{
    assert(insn->op < OPS);
    assert(insn->line < kernel->image->line_count);
    assert(insn->guard < (int)kernel->predicate_count);
    assert(insn->op != OP_BRA || insn->target < kernel->insn_count);
    for (int i = 0; i < insn->dst_count + insn->src_count; i++) {
        int64_t arg = insn->args[i];
        bool is_predicate = insn->arg_predicate >> i & 1;
        assert(arg >= 0 || i >= insn->dst_count);
        assert(arg >= 0 || ~arg < kernel->constant_count);
        assert(arg < (is_predicate ? kernel->predicate_count : kernel->slot_count));
    }
}

static void check_kernel(const struct kernel *kernel)
{
    assert(kernel->insn_count > 0 && kernel->insns[kernel->insn_count - 1].op == OP_EXIT);
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        check_insn(kernel, &kernel->insns[i]);
    }
    for (uint32_t i = 0; i < kernel->target_count; i++) {
        assert(kernel->targets[i] < kernel->insn_count);
    }
}

/* Binds each kernel by a launch of one thread, which is ended before it runs. */
static void launch_all(const struct image *image)
{
    struct engine *engine = engine_open(&options);
    struct space *space = space_open(engine, 0);
    uint64_t *addresses = xcalloc(image->symbol_count + 1, sizeof *addresses);
    struct module *module = module_open(space, image, addresses);
    uint8_t params[CODE_PARAM_BYTES_MAX] = {0};

    for (uint32_t i = 0; i < image->kernel_count; i++) {
        struct error err = {0};
        struct grid *grid = NULL;
        struct launch launch = {.kernel = &image->kernels[i],
                                .module = module,
                                .space = space,
                                .grid = {1, 1, 1},
                                .block = {1, 1, 1},
                                .params = params};
        if (engine_launch(engine, &grid, &launch, &err) == OK) {
            grid_release(grid);
        }
    }
    free(addresses);
    module_close(module);
    space_close(space);
    engine_close(engine);
}

void fuzz_ptx(const uint8_t *data, size_t size_bytes)
{
    struct image *image = NULL;
    struct error err = {0};

    if (image_parse(&image, (const char *)data, size_bytes, &err) != OK) {
        return;
    }
    for (uint32_t i = 0; i < image->kernel_count; i++) {
        check_kernel(&image->kernels[i]);
    }
    launch_all(image);
    image_close(image);
}
