#include "sim/ptx_lower.h"

#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call taken apart. */
struct call {
    const struct ptx_insn *insn;
    const struct ptx_operand *returns, *callee, *args;
    uint32_t return_count, arg_count;
};

static bool read_call(const struct ptx_function *function, const struct ptx_insn *insn,
                      struct call *call)
{
    const struct ptx_operand *operands = function->operands + insn->operand_start;

    *call = (struct call){.insn = insn};
    if (insn->operand_count < insn->return_count + 1) {
        return false;
    }
    call->returns = operands;
    call->return_count = insn->return_count;
    call->callee = operands + insn->return_count;
    call->args = call->callee + 1;
    call->arg_count = insn->operand_count - insn->return_count - 1;
    return true;
}

/* What the callee reads of its parameter is read of the argument's variable. */
static void merge(struct ptx_module *module, const struct ptx_operand *operand,
                  const struct ptx_variable *param)
{
    struct ptx_variable *variable;

    if (operand->kind != OPERAND_VARIABLE ||
        module->variables[operand->index].space != SPACE_PARAM) {
        return;
    }
    variable = &module->variables[operand->index];
    if (param == NULL || param->is_register) {
        ptx_note_access(variable, 0, (uint32_t)variable->size_bytes);
        return;
    }
    variable->needs_memory |= param->needs_memory;
    for (uint32_t i = 0; i < param->access_count; i++) {
        ptx_note_access(variable, param->accesses[i].offset, param->accesses[i].size_bytes);
    }
}

static void prepare(struct ptx_module *module, const struct ptx_function *function,
                    const struct ptx_insn *insn)
{
    const struct ptx_function *callee = NULL;
    struct call call;

    if (!read_call(function, insn, &call)) {
        return;
    }
    if (call.callee->kind == OPERAND_FUNCTION && module->functions[call.callee->index].is_defined) {
        callee = &module->functions[call.callee->index];
    }
    for (uint32_t i = 0; i < call.return_count; i++) {
        bool is_known = callee != NULL && i < callee->return_count;
        merge(module, &call.returns[i], is_known ? &module->variables[callee->returns[i]] : NULL);
    }
    for (uint32_t i = 0; i < call.arg_count; i++) {
        bool is_known = callee != NULL && i < callee->param_count;
        merge(module, &call.args[i], is_known ? &module->variables[callee->params[i]] : NULL);
    }
}

void calls_prepare(struct ptx_module *module)
{
    for (uint32_t i = 0; i < module->function_count; i++) {
        const struct ptx_function *function = &module->functions[i];
        for (uint32_t j = 0; j < function->insn_count; j++) {
            if (function->insns[j].insn.op == PTX_CALL) {
                prepare(module, function, &function->insns[j]);
            }
        }
    }
}

struct cell *storage_cell(struct lowering *lowering, struct storage *storage, uint32_t offset,
                          uint32_t size_bytes)
{
    enum value_kind kind = size_bytes == 16 ? VALUE_128 : size_bytes == 8 ? VALUE_64 : VALUE_32;

    for (uint32_t i = 0; i < storage->cell_count; i++) {
        if (storage->cells[i].offset == offset && storage->cells[i].size_bytes == size_bytes) {
            return &storage->cells[i];
        }
    }
    ptx_grow(&storage->cells, &storage->cell_capacity, storage->cell_count, sizeof *storage->cells);
    storage->cells[storage->cell_count] =
        (struct cell){offset, size_bytes, lower_value(lowering, kind)};
    return &storage->cells[storage->cell_count++];
}

/* Gives the frame's own variables a place; its parameters get theirs from the call. */
static void place_locals(struct lowering *lowering, struct frame *frame)
{
    const struct ptx_function *function = frame->function;
    uint32_t param_count = function->return_count + function->param_count; /* the first ones */
    uint64_t end = frame->local_end;

    for (uint32_t i = 0; i < function->variable_count; i++) {
        const struct ptx_variable *variable =
            &lowering->module->variables[function->variable_start + i];
        uint64_t align = variable->align_bytes > 0 ? variable->align_bytes : 1;
        struct storage *storage = &frame->owned[variable->local_index];
        if (variable->space != SPACE_LOCAL && variable->space != SPACE_PARAM) {
            continue;
        }
        if (variable->local_index < param_count) {
            /* A kernel's parameters are no locals. */
            frame->storages[variable->local_index] = frame->caller != NULL ? storage : NULL;
            continue;
        }
        frame->storages[variable->local_index] = storage;
        storage->is_memory = variable->space == SPACE_LOCAL || variable->needs_memory;
        if (storage->is_memory) {
            end = (end + align - 1) / align * align;
            storage->local_offset = (uint32_t)end;
            end += variable->size_bytes;
        }
        if (end > CODE_LOCAL_BYTES_MAX) {
            lowering->is_full = true;
            return;
        }
    }
    frame->local_end = (uint32_t)end;
    if (frame->local_end > lowering->kernel->local_bytes) {
        lowering->kernel->local_bytes = (frame->local_end + 7) / 8 * 8;
    }
}

struct frame *frame_open(struct lowering *lowering, struct frame *caller,
                         const struct ptx_function *function)
{
    struct frame *frame = xcalloc(1, sizeof *frame);

    frame->caller = caller;
    frame->function = function;
    frame->depth = caller != NULL ? caller->depth + 1 : 0;
    frame->local_end = caller != NULL ? caller->local_end : 0;
    frame->values = xmalloc(function->register_count * sizeof *frame->values);
    memset(frame->values, 0xff, function->register_count * sizeof *frame->values);
    frame->storages = xcalloc(function->local_count, sizeof(void *));
    frame->owned = xcalloc(function->local_count, sizeof *frame->owned);
    place_locals(lowering, frame);
    return frame;
}

void frame_close(struct frame *frame)
{
    for (uint32_t i = 0; i < frame->function->local_count; i++) {
        free(frame->owned[i].cells);
    }
    free(frame->values);
    free(frame->storages);
    free(frame->owned);
    free(frame->fixups);
    free(frame->returns);
    free(frame);
}

static struct storage *storage_of(const struct lowering *lowering, const struct frame *frame,
                                  const struct ptx_operand *operand)
{
    const struct ptx_variable *variable;

    if (operand->kind != OPERAND_VARIABLE || operand->is_address) {
        return NULL;
    }
    variable = &lowering->module->variables[operand->index];
    return variable->space == SPACE_PARAM && variable->local_index < frame->function->local_count
               ? frame->storages[variable->local_index]
               : NULL;
}

static enum code_type bits_type(uint64_t size_bytes)
{
    return size_bytes == 16 ? TYPE_B128 : size_bytes == 8 ? TYPE_B64 : TYPE_B32;
}

/* A whole parameter as one value. */
static void whole_source(struct lowering *lowering, struct frame *frame, struct build *build,
                         const struct ptx_operand *operand, enum code_type type)
{
    struct storage *storage = storage_of(lowering, frame, operand);

    if (storage == NULL) {
        lower_source(lowering, frame, build, operand, type);
    } else if (storage->is_memory || build->src_count == INSN_ARGS_MAX) {
        build->is_bad = true;
    } else {
        build->src[build->src_count++] =
            storage_cell(lowering, storage, 0, ptx_type_size_bytes(type))->value;
    }
}

static void whole_destination(struct lowering *lowering, struct frame *frame, struct build *build,
                              const struct ptx_operand *operand, enum code_type type)
{
    struct storage *storage = storage_of(lowering, frame, operand);

    if (storage == NULL) {
        lower_destination(lowering, frame, build, operand, type);
    } else if (storage->is_memory || build->dst_count == INSN_ARGS_MAX) {
        build->is_bad = true;
    } else {
        build->dst[build->dst_count++] =
            storage_cell(lowering, storage, 0, ptx_type_size_bytes(type))->value;
    }
}

/* Functions of the system that are one operation here. */
static const struct system_function {
    const char *name;
    uint16_t op;
    uint8_t return_type; /* TYPE_NONE: none */
    uint8_t types[5];
} system_functions[] = {
    {"vprintf", OP_VPRINTF, TYPE_B32, {TYPE_B64, TYPE_B64}},
    {"__assertfail", OP_ASSERTFAIL, TYPE_NONE, {TYPE_B64, TYPE_B64, TYPE_B32, TYPE_B64, TYPE_B64}},
    {"malloc", OP_MALLOC, TYPE_B64, {TYPE_B64}},
    {"free", OP_FREE, TYPE_NONE, {TYPE_B64}},
};

static const struct system_function *find_system_function(struct slice name)
{
    for (size_t i = 0; i < sizeof system_functions / sizeof system_functions[0]; i++) {
        if (slice_is(name, system_functions[i].name)) {
            return &system_functions[i];
        }
    }
    return NULL;
}

static bool lower_system(struct lowering *lowering, struct frame *frame, const struct call *call,
                         const struct system_function *system, const struct build *like)
{
    struct build build = {.guard = like->guard};

    build.insn.op = system->op;
    build.insn.line = like->insn.line;
    build.insn.guard_not = like->insn.guard_not;
    for (uint32_t i = 0; i < call->arg_count && !build.is_bad; i++) {
        build.is_bad |= i >= 5 || system->types[i] == TYPE_NONE;
        if (!build.is_bad) {
            whole_source(lowering, frame, &build, &call->args[i], system->types[i]);
        }
    }
    build.is_bad |= call->arg_count == 0 ||
                    (call->arg_count < 5 && system->types[call->arg_count] != TYPE_NONE);
    if (system->return_type != TYPE_NONE && call->return_count == 1) {
        whole_destination(lowering, frame, &build, &call->returns[0], system->return_type);
    } else if (system->return_type != TYPE_NONE) {
        build.dst[build.dst_count++] = lower_value(lowering, lower_kind(system->return_type));
    }
    if (build.is_bad || build.after_count > 0) {
        return false;
    }
    lower_emit(lowering, &build);
    return true;
}

/* Gives the callee's parameter its storage, or moves the argument into it. */
static bool bind_argument(struct lowering *lowering, struct frame *frame, struct frame *inner,
                          const struct ptx_operand *operand, const struct ptx_variable *param)
{
    struct storage *storage = storage_of(lowering, frame, operand);
    struct build like = {0};
    int32_t to;

    if (!param->is_register && storage != NULL) {
        inner->storages[param->local_index] = storage;
        return true;
    }
    enum code_type type =
        param->is_register ? (enum code_type)param->type : bits_type(param->size_bytes);
    whole_source(lowering, frame, &like, operand, type);
    if (like.is_bad || (!param->is_register && param->needs_memory)) {
        return false;
    }
    to = param->is_register ? lower_register(lowering, inner, param->reg)
                            : storage_cell(lowering, inner->storages[param->local_index], 0,
                                           (uint32_t)param->size_bytes)
                                  ->value;
    if (type == TYPE_PRED) {
        return false;
    }
    lower_move(lowering, to, like.src[0], type, &(struct build){0});
    return true;
}

static bool bind_return(struct lowering *lowering, struct frame *frame, struct frame *inner,
                        const struct ptx_operand *operand, const struct ptx_variable *param)
{
    struct storage *storage = storage_of(lowering, frame, operand);

    if (!param->is_register && storage != NULL) {
        inner->storages[param->local_index] = storage;
        return true;
    }
    return operand->kind == OPERAND_REGISTER || operand->kind == OPERAND_SINK;
}

/* After the body: results that did not go straight into the caller's variable. */
static bool take_return(struct lowering *lowering, struct frame *frame, struct frame *inner,
                        const struct ptx_operand *operand, const struct ptx_variable *param)
{
    struct build like = {0};
    enum code_type type =
        param->is_register ? (enum code_type)param->type : bits_type(param->size_bytes);
    int32_t from;

    if (!param->is_register && storage_of(lowering, frame, operand) != NULL) {
        return true;
    }
    whole_destination(lowering, frame, &like, operand, type);
    if (like.is_bad || like.after_count > 0 || type == TYPE_PRED ||
        (!param->is_register && param->needs_memory)) {
        return false;
    }
    from = param->is_register ? lower_register(lowering, inner, param->reg)
                              : storage_cell(lowering, inner->storages[param->local_index], 0,
                                             (uint32_t)param->size_bytes)
                                    ->value;
    lower_move(lowering, like.dst[0], from, type, &(struct build){0});
    return true;
}

static bool lower_inline(struct lowering *lowering, struct frame *frame, const struct call *call,
                         const struct ptx_function *callee)
{
    const struct ptx_variable *variables = lowering->module->variables;
    struct frame *inner;
    uint64_t cost = 1 + callee->local_count / 8; /* so that empty functions have an end, too */

    if (lowering->insns_left <= cost) {
        lowering->is_full = true;
        return true;
    }
    lowering->insns_left -= cost;
    inner = frame_open(lowering, frame, callee);
    bool is_good = call->arg_count == callee->param_count &&
                   call->return_count == callee->return_count && !lowering->is_full;

    for (uint32_t i = 0; is_good && i < call->arg_count; i++) {
        is_good =
            bind_argument(lowering, frame, inner, &call->args[i], &variables[callee->params[i]]);
    }
    for (uint32_t i = 0; is_good && i < call->return_count; i++) {
        is_good =
            bind_return(lowering, frame, inner, &call->returns[i], &variables[callee->returns[i]]);
    }
    if (is_good) {
        lower_body(lowering, inner);
    }
    for (uint32_t i = 0; is_good && i < call->return_count; i++) {
        is_good =
            take_return(lowering, frame, inner, &call->returns[i], &variables[callee->returns[i]]);
    }
    frame_close(inner);
    return is_good || lowering->is_full;
}

static bool is_recursive(const struct frame *frame, const struct ptx_function *callee)
{
    for (; frame != NULL; frame = frame->caller) {
        if (frame->function == callee) {
            return true;
        }
    }
    return false;
}

/* A guarded call is a branch round the body. */
static uint32_t skip_unless(struct lowering *lowering, const struct build *like)
{
    struct build build = {.guard = like->guard};
    uint32_t at = lowering->insn_count;

    build.insn.op = OP_BRA;
    build.insn.line = like->insn.line;
    build.insn.guard_not = !like->insn.guard_not;
    lower_emit(lowering, &build);
    return at;
}

static void refuse_call(struct lowering *lowering, const char *why, struct slice name,
                        uint32_t line)
{
    char text[128];
    int length = snprintf(text, sizeof text, "%s%.*s", why,
                          (int)(name.length < 96 ? name.length : 96), name.text);

    lower_refuse(lowering, (struct slice){text, (uint32_t)length}, line);
}

void lower_call(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn,
                const struct build *like)
{
    const struct ptx_function *callee;
    const struct system_function *system;
    struct call call;
    uint32_t line = insn->insn.line;

    if (!read_call(frame->function, insn, &call) || call.callee->kind != OPERAND_FUNCTION) {
        refuse_call(lowering, "call through a pointer", (struct slice){"", 0}, line);
        return;
    }
    callee = &lowering->module->functions[call.callee->index];
    system = callee->is_defined ? NULL : find_system_function(callee->name);
    if (system != NULL) {
        if (!lower_system(lowering, frame, &call, system, like)) {
            refuse_call(lowering, "call of ", callee->name, line);
        }
    } else if (!callee->is_defined || callee->is_entry) {
        refuse_call(lowering, "call of ", callee->name, line);
    } else if (is_recursive(frame, callee) || frame->depth == CODE_CALL_DEPTH_MAX) {
        refuse_call(lowering, "recursive call of ", callee->name, line);
    } else {
        uint32_t skip = like->guard != 0 ? skip_unless(lowering, like) : PTX_NONE;
        if (!lower_inline(lowering, frame, &call, callee)) {
            refuse_call(lowering, "call of ", callee->name, line);
        }
        if (skip != PTX_NONE && !lowering->is_full) {
            lowering->insns[skip].target = lowering->insn_count;
        }
    }
}
