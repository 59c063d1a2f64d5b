#include "sim/ptx_lower.h"

#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLEES_MAX = 32 }; /* that a pointer may point to */

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

static void merge_call(struct ptx_module *module, const struct call *call,
                       const struct ptx_function *callee)
{
    for (uint32_t i = 0; i < call->return_count; i++) {
        bool is_known = callee != NULL && i < callee->return_count;
        merge(module, &call->returns[i], is_known ? &module->variables[callee->returns[i]] : NULL);
    }
    for (uint32_t i = 0; i < call->arg_count; i++) {
        bool is_known = callee != NULL && i < callee->param_count;
        merge(module, &call->args[i], is_known ? &module->variables[callee->params[i]] : NULL);
    }
}

static bool has_sizes(const struct ptx_module *module, const struct ptx_operand *operands,
                      const uint32_t *params, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct ptx_variable *param = &module->variables[params[i]];
        if (operands[i].kind == OPERAND_VARIABLE &&
            module->variables[operands[i].index].size_bytes != param->size_bytes) {
            return false;
        }
    }
    return true;
}

/* The function may be what a pointer that is called like this points to. */
static bool may_be_callee(const struct ptx_module *module, const struct call *call,
                          const struct ptx_function *function)
{
    return function->is_address_taken && function->is_defined && !function->is_entry &&
           function->return_count == call->return_count &&
           function->param_count == call->arg_count &&
           has_sizes(module, call->returns, function->returns, call->return_count) &&
           has_sizes(module, call->args, function->params, call->arg_count);
}

/* Those functions, at most CALLEES_MAX; returns how many there are. */
static uint32_t find_callees(const struct ptx_module *module, const struct call *call,
                             uint32_t *callees)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < module->function_count && count <= CALLEES_MAX; i++) {
        if (may_be_callee(module, call, &module->functions[i])) {
            if (count < CALLEES_MAX) {
                callees[count] = i;
            }
            count++;
        }
    }
    return count;
}

static void prepare(struct ptx_module *module, const struct ptx_function *function,
                    const struct ptx_insn *insn)
{
    uint32_t callees[CALLEES_MAX];
    struct call call;

    if (!read_call(function, insn, &call)) {
        return;
    }
    if (call.callee->kind == OPERAND_FUNCTION) {
        const struct ptx_function *callee = &module->functions[call.callee->index];
        merge_call(module, &call, callee->is_defined ? callee : NULL);
        return;
    }
    uint32_t count = find_callees(module, &call, callees);
    for (uint32_t i = 0; i < count && i < CALLEES_MAX; i++) {
        merge_call(module, &call, &module->functions[callees[i]]);
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

static void lower_callee(struct lowering *lowering, struct frame *frame, const struct call *call,
                         const struct ptx_function *callee)
{
    uint32_t line = call->insn->insn.line;

    bool is_code = callee->is_defined && !callee->is_entry;
    if (is_code && (is_recursive(frame, callee) || frame->depth == CODE_CALL_DEPTH_MAX)) {
        refuse_call(lowering, "recursive call of ", callee->name, line);
    } else if (!is_code || !lower_inline(lowering, frame, call, callee)) {
        refuse_call(lowering, "call of ", callee->name, line);
    }
}

static void land(struct lowering *lowering, uint32_t branch)
{
    if (!lowering->is_full) {
        lowering->insns[branch].target = lowering->insn_count;
    }
}

/* A branch that is taken unless `pointer` is this function's address. */
static uint32_t branch_unless(struct lowering *lowering, int32_t pointer, uint32_t function,
                              uint32_t line)
{
    struct build compare = {.dst_count = 1, .src_count = 2, .dst_predicates = 1};

    compare.insn.op = OP_SETP;
    compare.insn.type = TYPE_U64;
    compare.insn.cmp = CMP_EQ;
    compare.insn.line = line;
    compare.dst[0] = lower_value(lowering, VALUE_PREDICATE);
    compare.src[0] = pointer;
    compare.src[1] =
        lower_constant(lowering, PTX_FUNCTION_ADDRESS + (uint64_t)function * PTX_FUNCTION_ALIGN);
    lower_emit(lowering, &compare);
    return skip_unless(lowering, &(struct build){.guard = compare.dst[0], .insn = {.line = line}});
}

/* A call through a pointer: each function that it may be is compared and inlined, one by one. */
static void lower_pointer_call(struct lowering *lowering, struct frame *frame,
                               const struct call *call)
{
    struct build build = {.insn = {.line = call->insn->insn.line}};
    uint32_t callees[CALLEES_MAX] = {0}, ends[CALLEES_MAX] = {0};
    uint32_t count = find_callees(lowering->module, call, callees);

    lower_source(lowering, frame, &build, call->callee, TYPE_U64);
    if (build.is_bad || count > CALLEES_MAX) {
        refuse_call(lowering, "call through a pointer", (struct slice){"", 0},
                    call->insn->insn.line);
        return;
    }
    for (uint32_t i = 0; i < count && !lowering->is_full; i++) {
        uint32_t skip = branch_unless(lowering, build.src[0], callees[i], call->insn->insn.line);
        lower_callee(lowering, frame, call, &lowering->module->functions[callees[i]]);
        struct build jump = {.insn = {.op = OP_BRA, .line = call->insn->insn.line}};
        ends[i] = lowering->insn_count;
        lower_emit(lowering, &jump);
        land(lowering, skip);
    }
    lower_emit(lowering, &(struct build){.insn = {.op = OP_TRAP, .line = build.insn.line}});
    for (uint32_t i = 0; i < count && !lowering->is_full; i++) {
        land(lowering, ends[i]);
    }
}

void lower_call(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn,
                const struct build *like)
{
    const struct ptx_function *callee = NULL;
    const struct system_function *system = NULL;
    uint32_t skip = PTX_NONE;
    struct call call;

    if (!read_call(frame->function, insn, &call)) {
        refuse_call(lowering, "call of nothing", (struct slice){"", 0}, insn->insn.line);
        return;
    }
    if (call.callee->kind == OPERAND_FUNCTION) {
        callee = &lowering->module->functions[call.callee->index];
        system = callee->is_defined ? NULL : find_system_function(callee->name);
    }
    if (system != NULL) {
        if (!lower_system(lowering, frame, &call, system, like)) {
            refuse_call(lowering, "call of ", callee->name, insn->insn.line);
        }
        return;
    }
    if (like->guard != 0) {
        skip = skip_unless(lowering, like);
    }
    if (callee != NULL) {
        lower_callee(lowering, frame, &call, callee);
    } else {
        lower_pointer_call(lowering, frame, &call);
    }
    if (skip != PTX_NONE) {
        land(lowering, skip);
    }
}
