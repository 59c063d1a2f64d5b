#include "sim/ptx_lower.h"

#include "common/mem.h"

#include <string.h>

/* Same as another operation where that is simpler to run. */
static void simplify(struct build *build)
{
    struct insn *insn = &build->insn;

    if (insn->op == OP_CVT && build->src_count == 1 && lower_is_integer(insn->type) &&
        lower_is_integer(insn->type2) && insn->flags == 0 && ptx_type_size_bytes(insn->type) >= 4 &&
        ptx_type_size_bytes(insn->type) == ptx_type_size_bytes(insn->type2)) {
        insn->op = OP_MOV;
        insn->type2 = TYPE_NONE;
    }
}

/* Inside a function parameters that have an address lie in local memory. */
static void choose_space(const struct frame *frame, struct insn *insn)
{
    bool is_access =
        insn->op == OP_LD || insn->op == OP_ST || insn->op == OP_CVTA || insn->op == OP_ISSPACEP;

    if (is_access && insn->space == SPACE_PARAM && (frame->caller != NULL || insn->op == OP_ST)) {
        insn->space = SPACE_LOCAL;
    }
}

static int32_t carry(struct lowering *lowering)
{
    if (lowering->carry < 0) {
        lowering->carry = lower_value(lowering, VALUE_PREDICATE);
    }
    return lowering->carry;
}

static void add_carry(struct lowering *lowering, struct build *build)
{
    uint16_t op = build->insn.op;

    if (build->insn.flags & FLAG_CC) {
        build->dst_predicates |= 1u << build->dst_count;
        build->dst[build->dst_count++] = carry(lowering);
    }
    if (op == OP_ADDC || op == OP_SUBC || op == OP_MADC) {
        build->src_predicates |= 1u << build->src_count;
        build->src[build->src_count++] = carry(lowering);
    }
}

static void emit_after(struct lowering *lowering, const struct build *build)
{
    for (uint32_t i = 0; i < build->after_count; i++) {
        lower_convert(lowering, build->after[i].to, build->after[i].to_type, build->after[i].from,
                      build->after[i].from_type, build);
    }
}

/* A return: a branch behind the inlined body, or the kernel's end. */
static void lower_return(struct lowering *lowering, struct frame *frame, struct build *build)
{
    if (frame->caller == NULL) {
        build->insn.op = OP_EXIT;
    } else {
        build->insn.op = OP_BRA;
        ptx_grow(&frame->returns, &frame->return_capacity, frame->return_count,
                 sizeof *frame->returns);
        frame->returns[frame->return_count++] = lowering->insn_count;
    }
    lower_emit(lowering, build);
}

static void refuse(struct lowering *lowering, const struct ptx_insn *insn)
{
    struct build build = {.insn = {.op = OP_UNSUPPORTED, .line = insn->insn.line}};

    lower_refuse(lowering, insn->text, insn->insn.line);
    lower_emit(lowering, &build);
}

static bool has_cells(const struct insn *insn)
{
    return (insn->op == OP_LD || insn->op == OP_ST) && insn->space == SPACE_PARAM;
}

void lower_insn(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn)
{
    struct build build = {.insn = insn->insn};

    if (insn->guard != PTX_NONE) {
        build.guard = lower_register(lowering, frame, insn->guard);
    }
    if (insn->insn.op == OP_UNSUPPORTED) {
        refuse(lowering, insn);
        return;
    }
    if (insn->insn.op == PTX_CALL) {
        lower_call(lowering, frame, insn, &build);
        return;
    }
    if (insn->insn.op == PTX_RET) {
        lower_return(lowering, frame, &build);
        return;
    }
    if (has_cells(&insn->insn) && lower_cells(lowering, frame, insn, &build)) {
        emit_after(lowering, &build);
    } else {
        choose_space(frame, &build.insn);
        lower_operands(lowering, frame, insn, &build);
        add_carry(lowering, &build);
        simplify(&build);
        build.is_bad |= !build.is_bad && !lower_is_complete(&build);
        if (!build.is_bad) {
            lower_emit(lowering, &build);
            emit_after(lowering, &build);
        }
    }
    if (build.is_bad) {
        refuse(lowering, insn);
    }
}
