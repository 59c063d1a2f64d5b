#include "sim/ptx_lower.h"

#include "common/mem.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum value_kind lower_kind(enum code_type type)
{
    switch (ptx_type_size_bytes(type)) {
    case 0:
        return VALUE_PREDICATE;
    case 8:
        return VALUE_64;
    case 16:
        return VALUE_128;
    default:
        return VALUE_32;
    }
}

int32_t lower_value(struct lowering *lowering, enum value_kind kind)
{
    if (lowering->value_count == VALUES_MAX) {
        lowering->is_full = true;
        return 0;
    }
    ptx_grow(&lowering->kinds, &lowering->value_capacity, lowering->value_count,
             sizeof *lowering->kinds);
    lowering->kinds[lowering->value_count] = (uint8_t)kind;
    return (int32_t)lowering->value_count++;
}

int32_t lower_constant(struct lowering *lowering, uint64_t bits)
{
    uint64_t hash = bits * 0x9e3779b97f4a7c15u;
    uint32_t *bucket = &lowering->constant_buckets[hash >> 54];

    for (uint32_t i = *bucket; i != PTX_NONE; i = lowering->constant_next[i]) {
        if (lowering->constants[i] == bits) {
            return ~(int32_t)i;
        }
    }
    ptx_grow(&lowering->constants, &lowering->constant_capacity, lowering->constant_count,
             sizeof *lowering->constants);
    ptx_grow(&lowering->constant_next, &lowering->next_capacity, lowering->constant_count,
             sizeof *lowering->constant_next);
    lowering->constants[lowering->constant_count] = bits;
    lowering->constant_next[lowering->constant_count] = *bucket;
    *bucket = lowering->constant_count;
    return ~(int32_t)lowering->constant_count++;
}

static void add_args(struct lowering *lowering, const int32_t *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        ptx_grow(&lowering->args, &lowering->arg_capacity, lowering->arg_count,
                 sizeof *lowering->args);
        lowering->args[lowering->arg_count++] = args[i];
    }
}

void lower_emit(struct lowering *lowering, const struct build *build)
{
    struct insn insn = build->insn;

    if (lowering->insn_count == CODE_INSNS_MAX || lowering->insns_left == 0) {
        lowering->is_full = true;
        return;
    }
    lowering->insns_left--;
    assert(build->dst_count + build->src_count <= INSN_ARGS_MAX);
    insn.dst_count = (uint8_t)build->dst_count;
    insn.src_count = (uint8_t)build->src_count;
    insn.arg_predicate = build->dst_predicates;
    if (build->src_count > 0) {
        insn.arg_predicate |= build->src_predicates << build->dst_count;
    }
    ptx_grow(&lowering->insns, &lowering->insn_capacity, lowering->insn_count,
             sizeof *lowering->insns);
    ptx_grow(&lowering->arg_starts, &lowering->start_capacity, lowering->insn_count,
             sizeof *lowering->arg_starts);
    ptx_grow(&lowering->guards, &lowering->guard_capacity, lowering->insn_count,
             sizeof *lowering->guards);
    lowering->insns[lowering->insn_count] = insn;
    lowering->guards[lowering->insn_count] = (uint32_t)build->guard;
    lowering->arg_starts[lowering->insn_count++] = lowering->arg_count;
    add_args(lowering, build->dst, build->dst_count);
    add_args(lowering, build->src, build->src_count);
}

void lower_refuse(struct lowering *lowering, struct slice what, uint32_t line)
{
    const struct code_line *at = &lowering->module->lines[line];
    struct kernel *kernel = lowering->kernel;

    if (kernel->unsupported == NULL) {
        kernel->unsupported =
            xasprintf("%.*s (kernel %s, %s:%u)", (int)(what.length < 128 ? what.length : 128),
                      what.text, kernel->demangled, at->line > 0 ? at->file : "ptx", at->line);
    }
}

/* Lowers the frame's function; on return its branches are resolved. */
void lower_body(struct lowering *lowering, struct frame *frame)
{
    const struct ptx_function *function = frame->function;
    uint32_t *starts = xmalloc((function->insn_count + 1) * sizeof *starts);

    for (uint32_t i = 0; i < function->insn_count && !lowering->is_full; i++) {
        starts[i] = lowering->insn_count;
        lower_insn(lowering, frame, &function->insns[i]);
        starts[i + 1] = lowering->insn_count;
    }
    if (!lowering->is_full) {
        starts[function->insn_count] = lowering->insn_count;
        for (uint32_t i = 0; i < frame->fixup_count; i++) {
            const struct fixup *fixup = &frame->fixups[i];
            uint32_t target = starts[function->labels[fixup->label].insn];
            if (fixup->is_table) {
                lowering->targets[fixup->at] = target;
            } else {
                lowering->insns[fixup->at].target = target;
            }
        }
        for (uint32_t i = 0; i < frame->return_count; i++) {
            lowering->insns[frame->returns[i]].target = lowering->insn_count;
        }
    }
    free(starts);
}

static void place_dynamic_shared(struct lowering *lowering)
{
    struct kernel *kernel = lowering->kernel;
    uint32_t align = lowering->dynamic_align;

    kernel->dynamic_offset = (kernel->shared_bytes + align - 1) / align * align;
    for (uint32_t i = 0; i < lowering->dynamic_count; i++) {
        uint64_t *constant = &lowering->constants[lowering->dynamic_constants[i]];
        *constant = (uint32_t)(*constant + kernel->dynamic_offset);
    }
}

static void mark_back_edges(struct kernel *kernel)
{
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        struct insn *insn = &kernel->insns[i];
        if (insn->op == OP_BRA) {
            insn->back_edge = insn->target <= i;
        } else if (insn->op == OP_BRX) {
            for (int64_t target = 0; target < insn->imm; target++) {
                insn->back_edge |= kernel->targets[insn->target + target] <= i;
            }
        }
    }
}

/* Hands what was made to the kernel. */
static void finish_kernel(struct lowering *lowering)
{
    struct kernel *kernel = lowering->kernel;

    kernel->insns = lowering->insns;
    kernel->insn_count = lowering->insn_count;
    kernel->args = lowering->args;
    kernel->arg_count = lowering->arg_count;
    kernel->constants = lowering->constants;
    kernel->constant_count = lowering->constant_count;
    kernel->targets = lowering->targets;
    kernel->target_count = lowering->target_count;
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        kernel->insns[i].args = kernel->args + lowering->arg_starts[i];
    }
    mark_back_edges(kernel);
}

static void lower_params(struct kernel *kernel, const struct ptx_module *module,
                         const struct ptx_function *function)
{
    kernel->params = xcalloc(function->param_count, sizeof *kernel->params);
    kernel->param_count = function->param_count;
    kernel->param_bytes = function->param_bytes;
    for (uint32_t i = 0; i < function->param_count; i++) {
        const struct ptx_variable *param = &module->variables[function->params[i]];
        kernel->params[i].offset = param->param_offset;
        kernel->params[i].size_bytes = (uint32_t)param->size_bytes;
    }
}

static void emit_exit(struct lowering *lowering)
{
    struct build build = {.insn = {.op = OP_EXIT}};

    lower_emit(lowering, &build);
}

/* What was made so far is dropped: the kernel is one EXIT that is never run. */
static void lower_nothing(struct lowering *lowering)
{
    lowering->insn_count = 0;
    lowering->arg_count = 0;
    lowering->target_count = 0;
    lowering->is_full = false;
    lowering->insns_left += lowering->insns_left == 0;
    emit_exit(lowering);
    lowering->insns[0].guard = -1;
}

static void lower_kernel(struct lowering *lowering, const struct ptx_function *function)
{
    struct kernel *kernel = lowering->kernel;
    struct frame *frame = frame_open(lowering, NULL, function);

    /* There is an array even where no instruction has an argument. */
    ptx_grow(&lowering->args, &lowering->arg_capacity, lowering->arg_count, sizeof *lowering->args);
    lower_value(lowering, VALUE_PREDICATE);
    lowering->carry = -1;
    lowering->dynamic_align = 16;
    memset(lowering->constant_buckets, 0xff, sizeof lowering->constant_buckets);
    lower_params(kernel, lowering->module, function);
    kernel->threads_max = function->threads_max;
    kernel->ctas_min = function->ctas_min;
    memcpy(kernel->ntid_required, function->ntid_required, sizeof kernel->ntid_required);
    if (function->unsupported != NULL) {
        struct slice what = {function->unsupported, (uint32_t)strlen(function->unsupported)};
        lower_refuse(lowering, what, 0);
    }
    lower_body(lowering, frame);
    emit_exit(lowering);
    if (!lowering->is_full && kernel->unsupported == NULL) {
        place_dynamic_shared(lowering);
        code_simplify(lowering);
        slots_assign(lowering);
    }
    if (lowering->is_full) {
        lower_refuse(lowering, (struct slice){"too large after inlining", 24}, 0);
    }
    if (kernel->unsupported != NULL) {
        lower_nothing(lowering);
    }
    finish_kernel(lowering);
    frame_close(frame);
}

/* Makes the lowering ready for the next kernel; what a kernel was given is not touched. */
static void reset(struct lowering *lowering)
{
    for (uint32_t i = 0; i < lowering->shared_used_count; i++) {
        lowering->shared_at[lowering->shared_used[i]] = PTX_NONE;
    }
    free(lowering->arg_starts);
    free(lowering->guards);
    free(lowering->kinds);
    free(lowering->constant_next);
    free(lowering->shared_used);
    free(lowering->dynamic_constants);
    *lowering = (struct lowering){
        .module = lowering->module,
        .image = lowering->image,
        .insns_left = lowering->insns_left,
        .steps_left = lowering->steps_left,
        .shared_at = lowering->shared_at,
    };
}

static void lower_symbol(struct image *image, struct ptx_variable *variable)
{
    struct code_symbol *symbol = &image->symbols[image->symbol_count];

    *symbol = (struct code_symbol){
        .name = xstrndup(variable->name.text, variable->name.length),
        .space = variable->space == SPACE_CONST ? SYMBOL_CONST : SYMBOL_GLOBAL,
        .size_bytes = variable->size_bytes,
        .align_bytes = variable->align_bytes,
        .initial = variable->initial,
        .is_visible = variable->is_visible,
    };
    variable->initial = NULL;
    variable->symbol = image->symbol_count++;
}

static void lower_relocations(struct image *image, const struct ptx_module *module,
                              const struct ptx_variable *variable)
{
    struct code_symbol *symbol = &image->symbols[variable->symbol];

    for (uint32_t i = 0; i < variable->relocation_count; i++) {
        const struct ptx_relocation *relocation = &variable->relocations[i];
        uint64_t address =
            PTX_FUNCTION_ADDRESS + (uint64_t)relocation->function * PTX_FUNCTION_ALIGN;
        if (relocation->variable == PTX_NONE) {
            memcpy(symbol->initial + relocation->at, &address, sizeof address);
            continue;
        }
        if (module->variables[relocation->variable].symbol == PTX_NONE) {
            continue; /* a shared variable's: no such address exists before a launch */
        }
        if (symbol->relocations == NULL) {
            symbol->relocations = xcalloc(variable->relocation_count, sizeof *symbol->relocations);
        }
        symbol->relocations[symbol->relocation_count++] = (struct code_relocation){
            .at = relocation->at,
            .symbol = module->variables[relocation->variable].symbol,
            .addend = relocation->addend,
        };
    }
}

static void lower_symbols(struct image *image, struct ptx_module *module)
{
    image->symbols = xcalloc(module->variable_count, sizeof *image->symbols);
    for (uint32_t i = 0; i < module->variable_count; i++) {
        struct ptx_variable *variable = &module->variables[i];
        if ((variable->space == SPACE_GLOBAL || variable->space == SPACE_CONST) &&
            image->symbol_count < CODE_SYMBOLS_MAX) {
            lower_symbol(image, variable);
        }
    }
    for (uint32_t i = 0; i < module->variable_count; i++) {
        if (module->variables[i].symbol != PTX_NONE) {
            lower_relocations(image, module, &module->variables[i]);
        }
    }
}

void ptx_lower(struct image *image, struct ptx_module *module)
{
    struct lowering lowering = {.module = module,
                                .image = image,
                                .insns_left = IMAGE_INSNS_MAX,
                                .steps_left = IMAGE_STEPS_MAX};
    uint32_t entries = 0;

    lower_symbols(image, module);
    calls_prepare(module);
    for (uint32_t i = 0; i < module->function_count; i++) {
        entries += module->functions[i].is_entry && module->functions[i].is_defined;
    }
    entries = entries < CODE_KERNELS_MAX ? entries : CODE_KERNELS_MAX;
    image->kernels = xcalloc(entries, sizeof *image->kernels);
    lowering.shared_at = xmalloc(module->variable_count * sizeof *lowering.shared_at);
    memset(lowering.shared_at, 0xff, module->variable_count * sizeof *lowering.shared_at);
    for (uint32_t i = 0; i < module->function_count && image->kernel_count < entries; i++) {
        const struct ptx_function *function = &module->functions[i];
        if (!function->is_entry || !function->is_defined) {
            continue;
        }
        lowering.kernel = &image->kernels[image->kernel_count++];
        lowering.kernel->name = xstrndup(function->name.text, function->name.length);
        lowering.kernel->demangled = image_demangle(lowering.kernel->name);
        lowering.kernel->image = image;
        lower_kernel(&lowering, function);
        reset(&lowering);
    }
    free(lowering.shared_at);
    image->lines = module->lines;
    image->line_count = module->line_count;
    image->files = module->files;
    image->file_count = module->file_count;
    module->lines = NULL;
    module->files = NULL;
    module->line_count = module->file_count = 0;
}
