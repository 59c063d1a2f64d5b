#include "sim/spin.h"

#include "sim/exec.h"

enum { LOOK_AHEAD = 24, LOOP_MAX = 256 };

static bool reads(const struct insn *insn, int source, int32_t slot)
{
    int at = insn->dst_count + source;

    return insn->args[at] == slot && !(insn->arg_predicate >> at & 1);
}

static bool writes(const struct insn *insn, int32_t slot)
{
    for (int i = 0; i < insn->dst_count; i++) {
        if (insn->args[i] == slot && !(insn->arg_predicate >> i & 1)) {
            return true;
        }
    }
    return false;
}

static const struct insn *branch_on(const struct kernel *kernel, const struct insn *setp)
{
    uint32_t start = (uint32_t)(setp - kernel->insns) + 1;

    for (uint32_t i = start; i < kernel->insn_count && i <= start + LOOK_AHEAD; i++) {
        const struct insn *insn = &kernel->insns[i];
        if (insn->op == OP_BRA) {
            bool is_its =
                insn->guard >= 0 && (insn->guard == setp->args[0] ||
                                     (setp->dst_count == 2 && insn->guard == setp->args[1]));
            return is_its ? insn : NULL;
        }
    }
    return NULL;
}

struct comparison spin_comparison(const struct kernel *kernel, uint32_t load_pc)
{
    const struct insn *load = &kernel->insns[load_pc];
    struct comparison comparison = {.is_other_kept = true};
    int32_t slot = load->dst_count ? load->args[0] : -1;

    for (uint32_t i = load_pc + 1; slot >= 0 && i < kernel->insn_count && i <= load_pc + LOOK_AHEAD;
         i++) {
        const struct insn *insn = &kernel->insns[i];
        if (insn->op == OP_BRA || insn->op == OP_BRX || insn->op == OP_EXIT) {
            break;
        }
        if (insn->op == OP_SETP && (reads(insn, 0, slot) || reads(insn, 1, slot))) {
            comparison.setp = insn;
            comparison.branch = branch_on(kernel, insn);
            comparison.is_first = reads(insn, 0, slot);
            comparison.other = insn->args[insn->dst_count + comparison.is_first];
            break;
        }
        if ((insn->op == OP_MOV || insn->op == OP_CVT) && reads(insn, 0, slot)) {
            slot = insn->args[0];
        }
    }
    for (const struct insn *insn = load; comparison.setp && insn < comparison.setp; insn++) {
        comparison.is_other_kept &= comparison.other < 0 || !writes(insn, comparison.other);
    }
    return comparison;
}

bool spin_is_taken_while(const struct comparison *comparison)
{
    const struct insn *setp = comparison->setp;
    const struct insn *branch = comparison->branch;
    bool is_second = setp->dst_count == 2 && branch->guard == setp->args[1];

    return branch->guard_not == is_second;
}

bool spin_is_wide(uint8_t type)
{
    return type == TYPE_U64 || type == TYPE_S64 || type == TYPE_B64 || type == TYPE_F64;
}

uint64_t spin_operand(const struct warp *warp, const struct comparison *comparison, int lane)
{
    return spin_is_wide(comparison->setp->type)
               ? ((const uint64_t *)source_8(warp, comparison->other))[lane]
               : ((const uint32_t *)source_4(warp, comparison->other))[lane];
}

/* 1 or 0; -1: not an order of integers of 4 or 8 bytes. */
static int compare(const struct insn *setp, uint64_t a, uint64_t b)
{
    bool is_signed = setp->type == TYPE_S32 || setp->type == TYPE_S64;
    int64_t x = setp->type == TYPE_S32 ? (int32_t)a : (int64_t)a;
    int64_t y = setp->type == TYPE_S32 ? (int32_t)b : (int64_t)b;
    bool is_less = is_signed ? x < y : a < b;

    switch (setp->type) {
    case TYPE_B32:
    case TYPE_U32:
    case TYPE_S32:
    case TYPE_B64:
    case TYPE_U64:
    case TYPE_S64:
        break;
    default:
        return -1;
    }
    switch (setp->cmp) {
    case CMP_EQ:
        return a == b;
    case CMP_NE:
        return a != b;
    case CMP_LT:
    case CMP_LO:
        return is_less;
    case CMP_LE:
    case CMP_LS:
        return is_less || a == b;
    case CMP_GT:
    case CMP_HI:
        return !is_less && a != b;
    case CMP_GE:
    case CMP_HS:
        return !is_less;
    default:
        return -1;
    }
}

/* The branch that closes the innermost loop around the load, or NULL. */
static const struct insn *loop_end(const struct kernel *kernel, uint32_t load_pc)
{
    for (uint32_t i = load_pc; i < kernel->insn_count && i <= load_pc + LOOP_MAX; i++) {
        const struct insn *insn = &kernel->insns[i];
        if (insn->op == OP_BRA && insn->back_edge && insn->target <= load_pc) {
            return insn;
        }
    }
    return NULL;
}

bool spin_is_ended_by(const struct warp *warp, uint32_t load_pc, int lane, uint64_t value)
{
    const struct kernel *kernel = warp->grid->bound->kernel;
    const struct insn *end = loop_end(kernel, load_pc);
    struct comparison comparison = spin_comparison(kernel, load_pc);
    const struct insn *setp = comparison.setp;

    if (!end || !setp || !comparison.branch || !comparison.is_other_kept ||
        setp->boolean != BOOL_NONE ||
        spin_is_wide(setp->type) != spin_is_wide(kernel->insns[load_pc].type)) {
        return false;
    }
    uint64_t other = spin_operand(warp, &comparison, lane);
    int is_true = comparison.is_first ? compare(setp, value, other) : compare(setp, other, value);
    if (is_true < 0) {
        return false;
    }
    /* One way stays in the loop, the other leaves it. */
    const struct insn *start = &kernel->insns[end->target];
    const struct insn *taken = &kernel->insns[comparison.branch->target];
    const struct insn *next = comparison.branch + 1;
    bool taken_stays = taken >= start && taken <= end;
    bool next_stays = next >= start && next <= end;
    bool is_taken = is_true == spin_is_taken_while(&comparison);
    return taken_stays != next_stays && !(is_taken ? taken_stays : next_stays);
}
