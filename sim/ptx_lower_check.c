#include "sim/ptx_lower.h"

/* Registers of one fragment, or 0 where the simulator lacks the combination. */
static uint32_t fragment_count(const struct insn *insn, enum code_fragment fragment,
                               enum code_type type)
{
    static const struct {
        uint8_t m, n, k;
    } shapes[] = {
        [SHAPE_M8N8K4] = {8, 8, 4},       [SHAPE_M8N8K16] = {8, 8, 16},
        [SHAPE_M8N32K16] = {8, 32, 16},   [SHAPE_M16N8K4] = {16, 8, 4},
        [SHAPE_M16N8K8] = {16, 8, 8},     [SHAPE_M16N8K16] = {16, 8, 16},
        [SHAPE_M16N8K32] = {16, 8, 32},   [SHAPE_M16N16K8] = {16, 16, 8},
        [SHAPE_M16N16K16] = {16, 16, 16}, [SHAPE_M32N8K16] = {32, 8, 16},
    };
    uint32_t m = shapes[insn->shape].m, n = shapes[insn->shape].n, k = shapes[insn->shape].k;
    uint32_t elements = fragment == FRAGMENT_A ? m * k : fragment == FRAGMENT_B ? k * n : m * n;
    uint32_t size_bytes = ptx_type_size_bytes(type);

    if (type == TYPE_F64) {
        return elements / WARP_LANES;
    }
    /* wmma's f16 multiplicands are held twice, as the first tensor cores did. */
    if (insn->op != OP_MMA && type == TYPE_F16 && fragment <= FRAGMENT_B) {
        return 8;
    }
    return elements * size_bytes / WARP_LANES / 4;
}

static bool has_fragments(const struct build *build)
{
    const struct insn *insn = &build->insn;
    uint32_t d = fragment_count(insn, FRAGMENT_D, insn->type);

    switch (insn->op) {
    case OP_MMA:
    case OP_WMMA_MMA:
        if (insn->op == OP_MMA && insn->shape == SHAPE_M8N8K4 && insn->type_a == TYPE_F16) {
            return false; /* Volta's, four of them at once */
        }
        if (insn->round > ROUND_RN) {
            return false;
        }
        return build->dst_count == d && d > 0 &&
               insn->a_count == fragment_count(insn, FRAGMENT_A, insn->type_a) &&
               insn->b_count == fragment_count(insn, FRAGMENT_B, insn->type_b) &&
               build->src_count ==
                   insn->a_count + insn->b_count + fragment_count(insn, FRAGMENT_C, insn->type2) &&
               insn->a_count > 0 && insn->b_count > 0;
    case OP_WMMA_LOAD:
        return build->dst_count == fragment_count(insn, insn->sub, insn->type) &&
               build->dst_count > 0;
    case OP_WMMA_STORE:
        return d > 0 && (build->src_count == d + 1 || build->src_count == d + 2);
    default:
        return true;
    }
}

bool lower_is_complete(const struct build *build)
{
    const struct insn *insn = &build->insn;
    uint32_t values = build->src_count - 1;

    switch (insn->op) {
    case OP_ATOM:
        return values == (insn->sub == ATOM_CAS ? 2u : 1u) * insn->vector;
    case OP_RED:
        return insn->sub != ATOM_CAS && insn->sub != ATOM_EXCH;
    case OP_CP_ASYNC:
        return insn->vector == 4 || insn->vector == 8 || insn->vector == 16;
    case OP_BAR_RED:
        return (insn->type == TYPE_PRED) ==
                   (insn->boolean == BOOL_AND || insn->boolean == BOOL_OR) &&
               (insn->type == TYPE_PRED || insn->boolean == BOOL_POPC);
    case OP_LOP3:
        return (insn->boolean != BOOL_NONE) == (build->dst_count == 2);
    case OP_VOTE:
        return (insn->type == TYPE_PRED) == (insn->sub != VOTE_BALLOT);
    default:
        return has_fragments(build);
    }
}
