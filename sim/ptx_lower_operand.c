#include "sim/ptx_lower.h"

#include "common/mem.h"

#include <string.h>

int32_t lower_register(struct lowering *lowering, struct frame *frame, uint32_t reg)
{
    int32_t *value = &frame->values[reg];

    if (*value < 0) {
        *value = lower_value(lowering, lower_kind(frame->function->register_types[reg]));
    }
    return *value;
}

static enum code_type integer_type(enum value_kind kind, bool is_signed)
{
    if (kind == VALUE_64) {
        return is_signed ? TYPE_S64 : TYPE_U64;
    }
    return is_signed ? TYPE_S32 : TYPE_U32;
}

/* One source, one destination, under the guard and line of `like`. */
static struct build unary(const struct build *like, enum code_op op, enum code_type type,
                          int32_t to, int32_t from)
{
    struct build build = {.dst = {to}, .src = {from}, .dst_count = 1, .src_count = 1};

    build.insn.op = (uint16_t)op;
    build.insn.type = (uint8_t)type;
    build.guard = like->guard;
    build.insn.guard_not = like->insn.guard_not;
    build.insn.line = like->insn.line;
    return build;
}

void lower_move(struct lowering *lowering, int32_t to, int32_t from, enum code_type type,
                const struct build *like)
{
    struct build build = unary(like, OP_MOV, type, to, from);

    build.dst_predicates = build.src_predicates = type == TYPE_PRED;
    lower_emit(lowering, &build);
}

void lower_convert(struct lowering *lowering, int32_t to, enum code_type to_type, int32_t from,
                   enum code_type from_type, const struct build *like)
{
    struct build build = unary(like, OP_CVT, to_type, to, from);

    build.insn.type2 = (uint8_t)from_type;
    lower_emit(lowering, &build);
}

static void add_source(struct build *build, int32_t value, bool is_predicate)
{
    if (build->dst_count + build->src_count >= INSN_ARGS_MAX) {
        build->is_bad = true;
        return;
    }
    build->src_predicates |= (uint32_t)is_predicate << build->src_count;
    build->src[build->src_count++] = value;
}

static uint64_t real_constant(uint64_t bits, enum code_type type)
{
    double wide;
    float single;
    uint32_t narrow;

    if (ptx_type_size_bytes(type) == 8) {
        return bits;
    }
    memcpy(&wide, &bits, sizeof wide);
    single = (float)wide;
    memcpy(&narrow, &single, sizeof narrow);
    if ((bits & 0x7fffffffffffffff) > 0x7ff0000000000000) {
        narrow = (uint32_t)(bits >> 63) << 31 | 0x7f800000 | ((uint32_t)(bits >> 29) & 0x7fffff);
    }
    return narrow;
}

static uint64_t integer_constant(uint64_t bits, enum code_type type)
{
    uint32_t size_bytes = ptx_type_size_bytes(type);

    return size_bytes < 8 ? bits & ((1ull << size_bytes * 8) - 1) : bits;
}

/* The constant that a shared variable's address in this kernel is. */
static int32_t shared_address(struct lowering *lowering, uint32_t index, int64_t offset)
{
    const struct ptx_variable *variable = &lowering->module->variables[index];
    struct kernel *kernel = lowering->kernel;
    uint32_t align = variable->align_bytes > 0 ? variable->align_bytes : 1;

    if (variable->is_extern) {
        lowering->dynamic_align = align > lowering->dynamic_align ? align : lowering->dynamic_align;
        ptx_grow(&lowering->dynamic_constants, &lowering->dynamic_capacity, lowering->dynamic_count,
                 sizeof *lowering->dynamic_constants);
        /* Not through lower_constant: nothing else may share what is patched later. */
        lowering->dynamic_constants[lowering->dynamic_count++] = lowering->constant_count;
        ptx_grow(&lowering->constants, &lowering->constant_capacity, lowering->constant_count,
                 sizeof *lowering->constants);
        ptx_grow(&lowering->constant_next, &lowering->next_capacity, lowering->constant_count,
                 sizeof *lowering->constant_next);
        lowering->constants[lowering->constant_count] = (uint64_t)offset;
        lowering->constant_next[lowering->constant_count] = PTX_NONE;
        return ~(int32_t)lowering->constant_count++;
    }
    if (lowering->shared_at[index] == PTX_NONE) {
        uint64_t at = ((uint64_t)kernel->shared_bytes + align - 1) / align * align;
        if (at + variable->size_bytes > CODE_SHARED_BYTES_MAX) {
            lower_refuse(lowering, variable->name, 0);
            return lower_constant(lowering, 0);
        }
        lowering->shared_at[index] = (uint32_t)at;
        kernel->shared_bytes = (uint32_t)(at + variable->size_bytes);
        ptx_grow(&lowering->shared_used, &lowering->shared_used_capacity,
                 lowering->shared_used_count, sizeof *lowering->shared_used);
        lowering->shared_used[lowering->shared_used_count++] = index;
    }
    return lower_constant(lowering, (uint32_t)(lowering->shared_at[index] + offset));
}

static int32_t symbol_address(struct lowering *lowering, uint32_t symbol, int64_t offset,
                              const struct build *like)
{
    struct build build = {.dst_count = 1};

    build.insn = (struct insn){.op = OP_SYMBOL, .type = TYPE_U64};
    build.insn.line = like->insn.line;
    build.insn.target = symbol;
    build.insn.imm = offset;
    build.dst[0] = lower_value(lowering, VALUE_64);
    lower_emit(lowering, &build);
    return build.dst[0];
}

/* A variable's address in its own state space, 64 bits wide. */
static int32_t variable_address(struct lowering *lowering, struct frame *frame, struct build *build,
                                uint32_t index, int64_t offset)
{
    const struct ptx_variable *variable = &lowering->module->variables[index];
    const struct storage *storage;

    switch (variable->space) {
    case SPACE_SHARED:
        return shared_address(lowering, index, offset);
    case SPACE_GLOBAL:
    case SPACE_CONST:
        if (variable->symbol == PTX_NONE) {
            build->is_bad = true;
            return lower_constant(lowering, 0);
        }
        return symbol_address(lowering, variable->symbol, offset, build);
    default:
        break;
    }
    storage = variable->local_index < frame->function->local_count
                  ? frame->storages[variable->local_index]
                  : NULL;
    if (storage != NULL && storage->is_memory) {
        return lower_constant(lowering, (uint64_t)(storage->local_offset + offset));
    }
    if (storage == NULL && frame->caller == NULL && variable->space == SPACE_PARAM) {
        return lower_constant(lowering, (uint64_t)(variable->param_offset + offset));
    }
    build->is_bad = true;
    return lower_constant(lowering, 0);
}

static int32_t special_value(struct lowering *lowering, uint32_t index, enum code_type type,
                             const struct build *like)
{
    struct build build = {.dst_count = 1};

    build.insn = (struct insn){.op = OP_SREG, .type = (uint8_t)type};
    build.insn.line = like->insn.line;
    build.insn.target = index;
    build.dst[0] = lower_value(lowering, lower_kind(type));
    lower_emit(lowering, &build);
    return build.dst[0];
}

/* A value of another width, as wide as the type. */
static int32_t coerce(struct lowering *lowering, struct build *build, int32_t value,
                      enum code_type type)
{
    enum value_kind kind = lower_kind(type);
    enum value_kind from;
    int32_t narrowed;

    if (value < 0) {
        return value;
    }
    from = lowering->kinds[value];
    if (from == kind) {
        return value;
    }
    if (from == VALUE_PREDICATE || kind == VALUE_PREDICATE || from == VALUE_128 ||
        kind == VALUE_128) {
        build->is_bad = true;
        return value;
    }
    narrowed = lower_value(lowering, kind);
    lower_convert(lowering, narrowed, integer_type(kind, ptx_type_is_signed(type)), value,
                  integer_type(from, ptx_type_is_signed(type)),
                  &(struct build){.insn = {.line = build->insn.line}});
    return narrowed;
}

static void predicate_source(struct lowering *lowering, struct frame *frame, struct build *build,
                             const struct ptx_operand *operand)
{
    int32_t value = 0;
    bool is_negated = operand->is_negated;

    if (operand->kind == OPERAND_REGISTER) {
        value = lower_register(lowering, frame, operand->index);
        build->is_bad |= lowering->kinds[value] != VALUE_PREDICATE;
    } else if (operand->kind == OPERAND_INTEGER) {
        is_negated ^= operand->bits == 0;
    } else {
        build->is_bad = true;
    }
    build->insn.src_not |= build->src_count < 32 ? (uint32_t)is_negated << build->src_count : 0;
    add_source(build, value, true);
}

void lower_source(struct lowering *lowering, struct frame *frame, struct build *build,
                  const struct ptx_operand *operand, enum code_type type)
{
    int32_t value = 0;

    if (type == TYPE_PRED) {
        predicate_source(lowering, frame, build, operand);
        return;
    }
    build->is_bad |= operand->is_negated || operand->is_address;
    switch (operand->kind) {
    case OPERAND_REGISTER:
        value = lower_register(lowering, frame, operand->index);
        break;
    case OPERAND_INTEGER:
        value = lower_constant(lowering, integer_constant(operand->bits, type));
        break;
    case OPERAND_REAL:
        value = lower_constant(lowering, real_constant(operand->bits, type));
        build->is_bad |= ptx_type_size_bytes(type) < 4;
        break;
    case OPERAND_VARIABLE:
        value = variable_address(lowering, frame, build, operand->index, operand->offset);
        break;
    case OPERAND_FUNCTION:
        value = lower_constant(lowering, PTX_FUNCTION_ADDRESS +
                                             (uint64_t)operand->index * PTX_FUNCTION_ALIGN);
        break;
    case OPERAND_SREG:
        value = special_value(lowering, operand->index, type, build);
        break;
    default:
        build->is_bad = true;
        return;
    }
    add_source(build, coerce(lowering, build, value, type), false);
}

void lower_destination(struct lowering *lowering, struct frame *frame, struct build *build,
                       const struct ptx_operand *operand, enum code_type type)
{
    enum value_kind kind = lower_kind(type);
    int32_t value;

    if (build->dst_count >= INSN_ARGS_MAX || operand->is_negated || operand->is_address ||
        (operand->kind != OPERAND_REGISTER && operand->kind != OPERAND_SINK)) {
        build->is_bad = true;
        return;
    }
    value = operand->kind == OPERAND_SINK ? lower_value(lowering, kind)
                                          : lower_register(lowering, frame, operand->index);
    if (lowering->kinds[value] != kind) {
        enum value_kind to = lowering->kinds[value];
        if (to == VALUE_PREDICATE || kind == VALUE_PREDICATE || to == VALUE_128 ||
            kind == VALUE_128) {
            build->is_bad = true;
            return;
        }
        int32_t narrow = lower_value(lowering, kind);
        build->after[build->after_count].from = narrow;
        build->after[build->after_count].to = value;
        build->after[build->after_count].from_type =
            (uint8_t)integer_type(kind, ptx_type_is_signed(type));
        build->after[build->after_count++].to_type =
            (uint8_t)integer_type(to, ptx_type_is_signed(type));
        value = narrow;
    }
    build->dst_predicates |= (uint32_t)(kind == VALUE_PREDICATE) << build->dst_count;
    build->dst[build->dst_count++] = value;
}

void lower_address(struct lowering *lowering, struct frame *frame, struct build *build,
                   const struct ptx_operand *operand)
{
    int32_t value = 0;

    build->is_bad |= !operand->is_address || operand->is_negated;
    build->insn.imm = operand->offset;
    switch (operand->kind) {
    case OPERAND_REGISTER:
        value = lower_register(lowering, frame, operand->index);
        build->is_bad |= lowering->kinds[value] != VALUE_32 && lowering->kinds[value] != VALUE_64;
        build->insn.flags |= lowering->kinds[value] == VALUE_32 ? FLAG_ADDR32 : 0;
        break;
    case OPERAND_INTEGER:
        value = lower_constant(lowering, operand->bits);
        break;
    case OPERAND_VARIABLE: {
        uint8_t space = lowering->module->variables[operand->index].space;
        value = variable_address(lowering, frame, build, operand->index, operand->offset);
        build->insn.imm = 0;
        if (build->insn.space == SPACE_GENERIC) {
            build->insn.space = space;
        }
        break;
    }
    default:
        build->is_bad = true;
        break;
    }
    add_source(build, value, false);
}

void lower_wide_address(struct lowering *lowering, struct frame *frame, struct build *build,
                        const struct ptx_operand *operand)
{
    struct ptx_operand base = *operand;
    uint32_t at = build->src_count;

    base.is_address = false;
    lower_source(lowering, frame, build, &base, TYPE_U64);
    if (operand->kind == OPERAND_REGISTER && operand->offset != 0 && !build->is_bad) {
        struct build add = {.dst_count = 1, .src_count = 2};
        add.insn = (struct insn){.op = OP_ADD, .type = TYPE_U64};
        add.insn.line = build->insn.line;
        add.src[0] = build->src[at];
        add.src[1] = lower_constant(lowering, (uint64_t)operand->offset);
        add.dst[0] = lower_value(lowering, VALUE_64);
        lower_emit(lowering, &add);
        build->src[at] = add.dst[0];
    }
}
