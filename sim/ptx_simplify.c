/*
 * Before slots are assigned: what moves a constant or copies a value that never changes is not
 * needed, nor is what nobody reads. Compilers leave both to ptxas; an interpreter pays for each.
 */
#include "sim/ptx_flow.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

enum { DEFINED_NEVER = -1, DEFINED_OFTEN = -2, BRANCHES_MAX = 16 };

struct simplifier {
    struct lowering *lowering;
    struct flow flow;
    int64_t *definitions; /* by value: the one insn that writes it, or DEFINED_... */
    uint32_t *uses;       /* by value */
    bool *is_gone;        /* by insn */
};

static int32_t *args_of(const struct lowering *lowering, uint32_t insn)
{
    return lowering->args + lowering->arg_starts[insn];
}

static void find_definitions(struct simplifier *simplifier)
{
    const struct lowering *lowering = simplifier->lowering;

    for (uint32_t value = 0; value < lowering->value_count; value++) {
        simplifier->definitions[value] = DEFINED_NEVER;
    }
    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        for (uint32_t arg = 0; arg < lowering->insns[i].dst_count; arg++) {
            int64_t *definition = &simplifier->definitions[args_of(lowering, i)[arg]];
            bool is_first = *definition == DEFINED_NEVER && lowering->guards[i] == 0;
            *definition = is_first ? (int64_t)i : DEFINED_OFTEN;
        }
    }
}

/* Global addresses are the same in the generic space. */
static void make_moves(struct lowering *lowering)
{
    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        struct insn *insn = &lowering->insns[i];
        if (insn->op == OP_CVTA && insn->type == TYPE_U64 &&
            (insn->space == SPACE_GLOBAL || insn->space == SPACE_CONST)) {
            insn->op = OP_MOV;
            insn->space = SPACE_GENERIC;
            insn->flags = 0;
        }
    }
}

/* What may stand for source `value` of `insn`: where it is a copy, what it was copied from. */
static int32_t origin(const struct simplifier *simplifier, int32_t value, uint32_t insn)
{
    const struct lowering *lowering = simplifier->lowering;
    int64_t copy = value > 0 ? simplifier->definitions[value] : DEFINED_NEVER;
    int32_t from;

    if (copy < 0 || lowering->insns[copy].op != OP_MOV || lowering->insns[copy].type == TYPE_PRED) {
        return value;
    }
    from = args_of(lowering, (uint32_t)copy)[1];
    if (from < 0) {
        return from; /* before the move its value is anything, so also this */
    }
    /* Nothing writes `from` between the copy and here: that would have led over the copy again. */
    return simplifier->definitions[from] >= 0 &&
                   flow_dominates(&simplifier->flow, (uint32_t)simplifier->definitions[from],
                                  (uint32_t)copy) &&
                   flow_dominates(&simplifier->flow, (uint32_t)copy, insn)
               ? from
               : value;
}

/* An addition of nothing is a copy. */
static void drop_zero(const struct lowering *lowering, struct insn *insn, int32_t *sources)
{
    bool is_sum = insn->op == OP_ADD && insn->flags == 0 && lower_is_integer(insn->type) &&
                  ptx_type_size_bytes(insn->type) >= 4;

    for (int i = 0; i < 2 && is_sum; i++) {
        if (sources[i] < 0 && lowering->constants[~sources[i]] == 0) {
            sources[0] = sources[1 - i];
            insn->op = OP_MOV;
            insn->src_count = 1;
            break;
        }
    }
}

static void replace_copies(struct simplifier *simplifier)
{
    const struct lowering *lowering = simplifier->lowering;

    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        struct insn *insn = &lowering->insns[i];
        int32_t *sources = args_of(lowering, i) + insn->dst_count;
        for (uint32_t source = 0; source < insn->src_count; source++) {
            sources[source] = origin(simplifier, sources[source], i);
        }
        drop_zero(lowering, insn, sources);
    }
}

/* It does nothing but write its destinations. */
static bool is_pure(const struct insn *insn)
{
    if (insn->op == OP_LD) {
        return insn->space == SPACE_PARAM;
    }
    return insn->op <= OP_UNPACK;
}

static void count_uses(struct simplifier *simplifier)
{
    const struct lowering *lowering = simplifier->lowering;

    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        const struct insn *insn = &lowering->insns[i];
        const int32_t *sources = args_of(lowering, i) + insn->dst_count;
        simplifier->uses[lowering->guards[i]]++;
        for (uint32_t source = 0; source < insn->src_count; source++) {
            if (sources[source] >= 0) {
                simplifier->uses[sources[source]]++;
            }
        }
    }
}

static bool is_unused(const struct simplifier *simplifier, uint32_t i)
{
    const struct lowering *lowering = simplifier->lowering;
    const struct insn *insn = &lowering->insns[i];

    if (!is_pure(insn) || insn->dst_count == 0) {
        return false;
    }
    for (uint32_t arg = 0; arg < insn->dst_count; arg++) {
        if (simplifier->uses[args_of(lowering, i)[arg]] > 0) {
            return false;
        }
    }
    return true;
}

/* Backwards, so that most of what only the unused needed goes in the same turn. */
static void drop_unused(struct simplifier *simplifier)
{
    const struct lowering *lowering = simplifier->lowering;

    for (uint32_t i = lowering->insn_count; i-- > 0;) {
        const struct insn *insn = &lowering->insns[i];
        const int32_t *sources = args_of(lowering, i) + insn->dst_count;
        if (!is_unused(simplifier, i)) {
            continue;
        }
        simplifier->is_gone[i] = true;
        simplifier->uses[lowering->guards[i]]--;
        for (uint32_t source = 0; source < insn->src_count; source++) {
            if (sources[source] >= 0) {
                simplifier->uses[sources[source]]--;
            }
        }
    }
}

/* Where a branch to a branch ends. */
static uint32_t follow(const struct lowering *lowering, uint32_t target)
{
    for (int i = 0; i < BRANCHES_MAX && target < lowering->insn_count; i++) {
        const struct insn *insn = &lowering->insns[target];
        /* A branch back is where the scheduler takes over: it stays one of its own. */
        if (insn->op != OP_BRA || lowering->guards[target] != 0 || insn->target <= target) {
            break;
        }
        target = insn->target;
    }
    return target;
}

static void shorten_branches(struct simplifier *simplifier)
{
    struct lowering *lowering = simplifier->lowering;
    uint32_t *kept = xmalloc((lowering->insn_count + 1) * sizeof *kept); /* from here, the first */

    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        struct insn *insn = &lowering->insns[i];
        if (insn->op == OP_BRA && insn->target > i) {
            insn->target = follow(lowering, insn->target);
        }
    }
    kept[lowering->insn_count] = lowering->insn_count;
    for (uint32_t i = lowering->insn_count; i-- > 0;) {
        const struct insn *insn = &lowering->insns[i];
        if (insn->op == OP_NOP ||
            (insn->op == OP_BRA && insn->target > i && kept[i + 1] == kept[insn->target])) {
            simplifier->is_gone[i] = true;
        }
        kept[i] = simplifier->is_gone[i] ? kept[i + 1] : i;
    }
    free(kept);
}

static void compact(struct simplifier *simplifier)
{
    struct lowering *lowering = simplifier->lowering;
    uint32_t *moved = xmalloc((lowering->insn_count + 1) * sizeof *moved);
    uint32_t count = 0;

    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        moved[i] = count;
        count += !simplifier->is_gone[i];
    }
    moved[lowering->insn_count] = count;
    for (uint32_t i = 0; i < lowering->insn_count; i++) {
        struct insn *insn = &lowering->insns[i];
        if (insn->op == OP_BRA) {
            insn->target = moved[insn->target];
        }
        if (!simplifier->is_gone[i]) {
            lowering->insns[moved[i]] = *insn;
            lowering->guards[moved[i]] = lowering->guards[i];
            lowering->arg_starts[moved[i]] = lowering->arg_starts[i];
        }
    }
    for (uint32_t i = 0; i < lowering->target_count; i++) {
        lowering->targets[i] = moved[lowering->targets[i]];
    }
    lowering->insn_count = count;
    free(moved);
}

void code_simplify(struct lowering *lowering)
{
    struct simplifier simplifier = {.lowering = lowering};

    simplifier.definitions = xmalloc(lowering->value_count * sizeof *simplifier.definitions);
    simplifier.uses = xcalloc(lowering->value_count, sizeof *simplifier.uses);
    simplifier.is_gone = xcalloc(lowering->insn_count, sizeof *simplifier.is_gone);
    make_moves(lowering);
    find_definitions(&simplifier);
    flow_init(&simplifier.flow, lowering);
    flow_dominators(&simplifier.flow);
    replace_copies(&simplifier);
    count_uses(&simplifier);
    drop_unused(&simplifier);
    shorten_branches(&simplifier);
    compact(&simplifier);
    flow_release(&simplifier.flow);
    free(simplifier.definitions);
    free(simplifier.uses);
    free(simplifier.is_gone);
}
