#include "sim/ptx_ops.h"

#include <string.h>

#define T(name) (1ull << TYPE_##name)
#define INTEGERS (T(U16) | T(S16) | T(U32) | T(S32) | T(U64) | T(S64))
#define WORDS (T(U32) | T(S32) | T(U64) | T(S64))
#define PAIRS (T(U16X2) | T(S16X2))
#define BITS (T(B16) | T(B32) | T(B64))
#define HALVES (T(F16) | T(F16X2) | T(BF16) | T(BF16X2))
#define FLOATS (HALVES | T(F32) | T(F32X2) | T(F64))
#define SINGLES (T(F32) | T(F64))
#define BYTES (T(B8) | T(U8) | T(S8))
#define EIGHTS (T(E4M3) | T(E5M2) | T(E4M3X2) | T(E5M2X2))
#define LOADS                                                                                      \
    (BYTES | BITS | T(B128) | INTEGERS | SINGLES | T(F16) | T(F16X2) | T(BF16) | T(BF16X2))
#define CONVERTS (BYTES | INTEGERS | BITS | HALVES | SINGLES | T(TF32) | EIGHTS)
#define ATOMS (BITS | T(B128) | WORDS | HALVES | SINGLES)
#define MULTIMEMS (T(B32) | T(B64) | WORDS | HALVES | SINGLES)
#define MMAS                                                                                       \
    (T(F16) | T(BF16) | T(TF32) | T(F32) | T(F64) | T(U8) | T(S8) | T(S32) | T(E4M3) | T(E5M2))

#define MEMORY (KIND_SPACE | KIND_SEM | KIND_SCOPE | KIND_VECTOR | KIND_CACHE | KIND_POLICY)
#define ROUNDS (KIND_ROUND | FLAG_FTZ)
#define APPROX (KIND_ROUND | FLAG_FTZ | FLAG_APPROX)
#define TOGETHER (FLAG_SYNC | FLAG_ALIGNED)

/* clang-format off */
const struct ptx_op ptx_ops[] = {
    /* arithmetic */
    {"add", OP_ADD, 0, "daa", INTEGERS | PAIRS | FLOATS, 0, ROUNDS | FLAG_SAT | FLAG_CC},
    {"sub", OP_SUB, 0, "daa", INTEGERS | PAIRS | FLOATS, 0, ROUNDS | FLAG_SAT | FLAG_CC},
    {"mul", OP_MUL, 0, "Daa", INTEGERS | FLOATS, 0,
     ROUNDS | FLAG_SAT | FLAG_HI | FLAG_WIDE | KIND_LO},
    {"mad", OP_MAD, 0, "DaaA", INTEGERS | SINGLES, 0,
     ROUNDS | FLAG_SAT | FLAG_HI | FLAG_WIDE | KIND_LO | FLAG_CC},
    {"fma", OP_FMA, 0, "daaa", FLOATS, 0, ROUNDS | FLAG_SAT | FLAG_RELU},
    {"div", OP_DIV, 0, "daa", INTEGERS | SINGLES, 0, APPROX | FLAG_FULL},
    {"rem", OP_REM, 0, "daa", INTEGERS, 0, 0},
    {"neg", OP_NEG, 0, "da", INTEGERS | FLOATS, 0, FLAG_FTZ},
    {"abs", OP_ABS, 0, "da", INTEGERS | FLOATS, 0, FLAG_FTZ},
    {"min", OP_MIN, 0, "daa", INTEGERS | PAIRS | FLOATS, 0,
     FLAG_FTZ | FLAG_NAN | FLAG_XORSIGN | FLAG_ABS | FLAG_RELU},
    {"max", OP_MAX, 0, "daa", INTEGERS | PAIRS | FLOATS, 0,
     FLAG_FTZ | FLAG_NAN | FLAG_XORSIGN | FLAG_ABS | FLAG_RELU},
    {"sad", OP_SAD, 0, "daaa", INTEGERS, 0, 0},
    {"addc", OP_ADDC, 0, "daa", WORDS, 0, FLAG_CC},
    {"subc", OP_SUBC, 0, "daa", WORDS, 0, FLAG_CC},
    {"madc", OP_MADC, 0, "daaa", WORDS, 0, FLAG_HI | KIND_LO | FLAG_CC},
    {"mul24", OP_MUL24, 0, "daa", T(U32) | T(S32), 0, FLAG_HI | KIND_LO},
    {"mad24", OP_MAD24, 0, "daaa", T(U32) | T(S32), 0, FLAG_HI | KIND_LO | FLAG_SAT},
    {"rcp", OP_RCP, 0, "da", SINGLES, 0, APPROX},
    {"sqrt", OP_SQRT, 0, "da", SINGLES, 0, APPROX},
    {"rsqrt", OP_RSQRT, 0, "da", SINGLES, 0, APPROX},
    {"sin", OP_SIN, 0, "da", T(F32), 0, APPROX},
    {"cos", OP_COS, 0, "da", T(F32), 0, APPROX},
    {"lg2", OP_LG2, 0, "da", T(F32), 0, APPROX},
    {"ex2", OP_EX2, 0, "da", T(F32) | HALVES, 0, APPROX},
    {"tanh", OP_TANH, 0, "da", T(F32) | HALVES, 0, FLAG_APPROX},
    {"copysign", OP_COPYSIGN, 0, "daa", SINGLES, 0, 0},
    {"testp", OP_TESTP, 0, "pa", SINGLES, 0, KIND_TESTP},

    /* bits */
    {"and", OP_AND, 0, "daa", BITS | T(PRED), 0, 0},
    {"or", OP_OR, 0, "daa", BITS | T(PRED), 0, 0},
    {"xor", OP_XOR, 0, "daa", BITS | T(PRED), 0, 0},
    {"not", OP_NOT, 0, "da", BITS | T(PRED), 0, 0},
    {"cnot", OP_CNOT, 0, "da", BITS, 0, 0},
    {"shl", OP_SHL, 0, "dau", BITS, 0, 0},
    {"shr", OP_SHR, 0, "dau", BITS | INTEGERS, 0, 0},
    {"shf", OP_SHF, 0, "daau", T(B32), 0, FLAG_LEFT | FLAG_WRAP | KIND_LO},
    {"lop3", OP_LOP3, 0, "d/paaai?q", T(B32), 0, KIND_BOOL},
    {"prmt", OP_PRMT, 0, "daaa", T(B32), 0, KIND_PRMT},
    {"popc", OP_POPC, 0, "xa", T(B32) | T(B64), 0, 0},
    {"clz", OP_CLZ, 0, "xa", T(B32) | T(B64), 0, 0},
    {"brev", OP_BREV, 0, "da", T(B32) | T(B64), 0, 0},
    {"bfind", OP_BFIND, 0, "xa", WORDS, 0, FLAG_SHIFTAMT},
    {"bfe", OP_BFE, 0, "dauu", WORDS, 0, 0},
    {"bfi", OP_BFI, 0, "daauu", T(B32) | T(B64), 0, 0},
    {"bmsk", OP_BMSK, 0, "daa", T(B32), 0, KIND_LO | FLAG_WRAP},
    {"szext", OP_SZEXT, 0, "dau", T(U32) | T(S32), 0, KIND_LO | FLAG_WRAP},
    {"fns", OP_FNS, 0, "daaa", T(B32), 0, 0},
    {"dp4a", OP_DP4A, 0, "daba", T(U32) | T(S32), T(U32) | T(S32), 0},
    {"dp2a", OP_DP2A, 0, "daba", T(U32) | T(S32), T(U32) | T(S32), FLAG_HI | KIND_LO},
    {"vabsdiff2.u32.u32.u32", OP_VABSDIFF, 2, "xuuu", 0, 0, 0},
    {"vabsdiff4.u32.u32.u32", OP_VABSDIFF, 4, "xuuu", 0, 0, 0},
    {"vabsdiff2.s32.s32.s32", OP_VABSDIFF, 2 | VABSDIFF_SIGNED, "xuuu", 0, 0, 0},
    {"vabsdiff4.s32.s32.s32", OP_VABSDIFF, 4 | VABSDIFF_SIGNED, "xuuu", 0, 0, 0},
    {"vabsdiff2.u32.u32.u32.add", OP_VABSDIFF, 2 | VABSDIFF_ADD, "xuuu", 0, 0, 0},
    {"vabsdiff4.u32.u32.u32.add", OP_VABSDIFF, 4 | VABSDIFF_ADD, "xuuu", 0, 0, 0},
    {"vabsdiff2.s32.s32.s32.add", OP_VABSDIFF, 2 | VABSDIFF_SIGNED | VABSDIFF_ADD, "xuuu", 0, 0,
     0},
    {"vabsdiff4.s32.s32.s32.add", OP_VABSDIFF, 4 | VABSDIFF_SIGNED | VABSDIFF_ADD, "xuuu", 0, 0,
     0},

    /* comparing, choosing, moving */
    {"setp", OP_SETP, 0, "p/paa?q", BITS | INTEGERS | FLOATS, 0, KIND_CMP | KIND_BOOL | FLAG_FTZ},
    {"set", OP_SET, 0, "dbb?q", INTEGERS | FLOATS, BITS | INTEGERS | FLOATS,
     KIND_CMP | KIND_BOOL | FLAG_FTZ},
    {"selp", OP_SELP, 0, "daaq", BITS | INTEGERS | SINGLES, 0, 0},
    {"slct", OP_SLCT, 0, "daab", BITS | INTEGERS | SINGLES, T(S32) | T(F32), FLAG_FTZ},
    {"mov", PTX_MOV, 0, "", BITS | T(B128) | INTEGERS | SINGLES | T(PRED), 0, 0},
    {"cvt", OP_CVT, 0, "db?b", CONVERTS, CONVERTS, ROUNDS | FLAG_SAT | FLAG_SATFINITE | FLAG_RELU},
    {"cvt.pack.sat.u16", OP_CVT_PACK, 16, "daa", T(S32), 0, 0},
    {"cvt.pack.sat.s16", OP_CVT_PACK, 16 | PACK_SIGNED, "daa", T(S32), 0, 0},
    {"cvt.pack.sat.u8", OP_CVT_PACK, 8, "daab", T(S32), T(B32), 0},
    {"cvt.pack.sat.s8", OP_CVT_PACK, 8 | PACK_SIGNED, "daab", T(S32), T(B32), 0},
    {"cvt.pack.sat.u4", OP_CVT_PACK, 4, "daab", T(S32), T(B32), 0},
    {"cvt.pack.sat.s4", OP_CVT_PACK, 4 | PACK_SIGNED, "daab", T(S32), T(B32), 0},
    {"cvt.pack.sat.u2", OP_CVT_PACK, 2, "daab", T(S32), T(B32), 0},
    {"cvt.pack.sat.s2", OP_CVT_PACK, 2 | PACK_SIGNED, "daab", T(S32), T(B32), 0},
    {"cvta", OP_CVTA, 0, "da", T(U32) | T(U64), 0, KIND_SPACE | FLAG_TO},
    {"isspacep", OP_ISSPACEP, 0, "pU", 0, 0, KIND_SPACE},
    {"activemask", OP_ACTIVEMASK, 0, "d", T(B32), 0, 0},

    /* memory */
    {"ld", OP_LD, 0, "vm", LOADS, 0, MEMORY | FLAG_NC},
    {"ldu", OP_LD, 0, "vm", LOADS, 0, MEMORY},
    {"st", OP_ST, 0, "mV", LOADS, 0, MEMORY},
    {"atom", OP_ATOM, 0, "vmV?V", ATOMS, 0, MEMORY | KIND_ATOM | KIND_NOFTZ},
    {"red", OP_RED, 0, "mV", ATOMS, 0, MEMORY | KIND_ATOM | KIND_NOFTZ},
    {"prefetch", OP_PREFETCH, 0, "m", 0, 0, KIND_SPACE | KIND_CACHE},
    {"prefetchu", OP_PREFETCH, 0, "m", 0, 0, KIND_CACHE},
    {"applypriority", OP_PREFETCH, 0, "mn", 0, 0, KIND_SPACE | KIND_CACHE},
    {"discard", OP_PREFETCH, 0, "mn", 0, 0, KIND_SPACE | KIND_CACHE},
    {"createpolicy", OP_MOV, 0, "dz", T(B64), 0, KIND_CACHE | KIND_SPACE},
    {"createpolicy.cvt", OP_MOV, 0, "dz", T(B64), 0, KIND_CACHE},
    {"multimem.ld_reduce", OP_MULTIMEM_LD_REDUCE, 0, "vm", MULTIMEMS, 0,
     MEMORY | KIND_ATOM | KIND_ACC},
    {"multimem.st", OP_MULTIMEM_ST, 0, "mV", MULTIMEMS, 0, MEMORY},
    {"multimem.red", OP_MULTIMEM_RED, 0, "mV", MULTIMEMS, 0, MEMORY | KIND_ATOM},
    {"cp.async", OP_CP_ASYNC, 0, "mMk?e", 0, 0, KIND_SPACE | KIND_CACHE | KIND_POLICY},
    {"cp.async.commit_group", OP_CP_ASYNC_COMMIT, 0, "", 0, 0, 0},
    {"cp.async.wait_group", OP_CP_ASYNC_WAIT, 0, "i", 0, 0, 0},
    {"cp.async.wait_all", OP_CP_ASYNC_WAIT, 1, "", 0, 0, 0},
    {"membar", OP_MEMBAR, 0, "", 0, 0, KIND_SCOPE},
    {"fence", OP_FENCE, 0, "", 0, 0, KIND_SEM | KIND_SCOPE},
    {"fence.proxy.alias", OP_FENCE_PROXY, PROXY_ALIAS, "", 0, 0, 0},
    {"fence.proxy.async", OP_FENCE_PROXY, PROXY_ASYNC, "", 0, 0, 0},
    {"fence.proxy.async.global", OP_FENCE_PROXY, PROXY_ASYNC_GLOBAL, "", 0, 0, 0},
    {"fence.proxy.async.shared::cta", OP_FENCE_PROXY, PROXY_ASYNC_SHARED, "", 0, 0, 0},

    /* between threads */
    {"bar.sync", OP_BAR, 0, "u?u", 0, 0, 0},
    {"bar.cta.sync", OP_BAR, 0, "u?u", 0, 0, 0},
    {"barrier.sync", OP_BAR, 0, "u?u", 0, 0, FLAG_ALIGNED},
    {"barrier.cta.sync", OP_BAR, 0, "u?u", 0, 0, FLAG_ALIGNED},
    {"bar.arrive", OP_BARRIER_ARRIVE, 0, "uu", 0, 0, 0},
    {"bar.cta.arrive", OP_BARRIER_ARRIVE, 0, "uu", 0, 0, 0},
    {"barrier.arrive", OP_BARRIER_ARRIVE, 0, "uu", 0, 0, FLAG_ALIGNED},
    {"barrier.cta.arrive", OP_BARRIER_ARRIVE, 0, "uu", 0, 0, FLAG_ALIGNED},
    {"bar.red", OP_BAR_RED, 0, "du?uq", T(U32) | T(PRED), 0, KIND_BOOL},
    {"bar.cta.red", OP_BAR_RED, 0, "du?uq", T(U32) | T(PRED), 0, KIND_BOOL},
    {"barrier.red", OP_BAR_RED, 0, "du?uq", T(U32) | T(PRED), 0, KIND_BOOL | FLAG_ALIGNED},
    {"barrier.cta.red", OP_BAR_RED, 0, "du?uq", T(U32) | T(PRED), 0, KIND_BOOL | FLAG_ALIGNED},
    {"bar.warp.sync", OP_BAR_WARP, 0, "u", 0, 0, 0},
    {"shfl", OP_SHFL, 0, "d/pauu?u", T(B32), 0, KIND_SHFL | FLAG_SYNC},
    {"vote", OP_VOTE, 0, "dq?u", T(PRED) | T(B32), 0, KIND_VOTE | FLAG_SYNC},
    {"match", OP_MATCH, 0, "x/pau", T(B32) | T(B64), 0, KIND_MATCH | FLAG_SYNC},
    {"redux", OP_REDUX, 0, "dau", T(B32) | T(U32) | T(S32) | T(F32), 0,
     KIND_ATOM | FLAG_SYNC | FLAG_ABS | FLAG_NAN},
    {"elect", OP_ELECT, 0, "x/pu", 0, 0, FLAG_SYNC},
    {"griddepcontrol.launch_dependents", OP_GRIDDEPCONTROL, 0, "", 0, 0, 0},
    {"griddepcontrol.wait", OP_GRIDDEPCONTROL, 1, "", 0, 0, 0},

    /* matrices */
    {"ldmatrix", OP_LDMATRIX, 0, "vm", T(B16), 0,
     KIND_M8N8 | KIND_MATRICES | FLAG_TRANS | KIND_SPACE | TOGETHER},
    {"stmatrix", OP_STMATRIX, 0, "mV", T(B16), 0,
     KIND_M8N8 | KIND_MATRICES | FLAG_TRANS | KIND_SPACE | TOGETHER},
    {"mma", OP_MMA, 0, "Ffff", MMAS, MMAS, KIND_SHAPE | KIND_LAYOUT | TOGETHER | FLAG_SATFINITE},
    {"wmma.load.a", OP_WMMA_LOAD, FRAGMENT_A, "Fm?u", MMAS, 0,
     KIND_SHAPE | KIND_LAYOUT | TOGETHER | KIND_SPACE},
    {"wmma.load.b", OP_WMMA_LOAD, FRAGMENT_B, "Fm?u", MMAS, 0,
     KIND_SHAPE | KIND_LAYOUT | TOGETHER | KIND_SPACE},
    {"wmma.load.c", OP_WMMA_LOAD, FRAGMENT_C, "Fm?u", MMAS, 0,
     KIND_SHAPE | KIND_LAYOUT | TOGETHER | KIND_SPACE},
    {"wmma.store.d", OP_WMMA_STORE, FRAGMENT_D, "mf?u", MMAS, 0,
     KIND_SHAPE | KIND_LAYOUT | TOGETHER | KIND_SPACE},
    {"wmma.mma", OP_WMMA_MMA, 0, "Ffff", MMAS, MMAS,
     KIND_SHAPE | KIND_LAYOUT | TOGETHER | FLAG_SATFINITE | KIND_ROUND},

    /* control */
    {"bra", OP_BRA, 0, "L", 0, 0, FLAG_UNI},
    {"brx.idx", OP_BRX, 0, "uT", 0, 0, FLAG_UNI},
    {"call", PTX_CALL, 0, "", 0, 0, FLAG_UNI},
    {"ret", PTX_RET, 0, "", 0, 0, FLAG_UNI},
    {"exit", OP_EXIT, 0, "", 0, 0, 0},
    {"trap", OP_TRAP, 0, "", 0, 0, 0},
    {"brkpt", OP_BRKPT, 0, "", 0, 0, 0},
    {"nanosleep", OP_NANOSLEEP, 0, "u", T(U32), 0, 0},
    {"pmevent", OP_NOP, 0, "n", 0, 0, 0},
    {"pmevent.mask", OP_NOP, 0, "n", 0, 0, 0},
    {"setmaxnreg.inc", OP_NOP, 0, "n", T(U32), 0, TOGETHER},
    {"setmaxnreg.dec", OP_NOP, 0, "n", T(U32), 0, TOGETHER},
};
/* clang-format on */

const uint32_t ptx_op_count = sizeof ptx_ops / sizeof ptx_ops[0];

/* Kinds that a row which allows them also needs. */
static const uint64_t needed_kinds = KIND_CMP | KIND_ATOM | KIND_SHFL | KIND_VOTE | KIND_TESTP |
                                     KIND_MATCH | KIND_SHAPE | KIND_MATRICES;
static const uint64_t flag_kinds = 0xffffffff;

/* Words of the row's name that `words` starts with, all of them or none. */
static uint32_t match_name(const char *name, const struct slice *words, uint32_t count)
{
    uint32_t matched = 0;

    while (*name != 0) {
        if (matched == count || strncmp(name, words[matched].text, words[matched].length) != 0) {
            return 0;
        }
        name += words[matched].length;
        if (*name != 0 && *name != '.') {
            return 0;
        }
        matched++;
    }
    return matched;
}

/* The row with the longest name, and how many words that is. */
static const struct ptx_op *find_op(const struct slice *words, uint32_t count, uint32_t *matched)
{
    const struct ptx_op *found = NULL;

    *matched = 0;
    for (uint32_t i = 0; i < ptx_op_count; i++) {
        uint32_t length = match_name(ptx_ops[i].name, words, count);
        if (length > *matched) {
            found = &ptx_ops[i];
            *matched = length;
        }
    }
    return found;
}

static void apply(struct ptx_decoded *decoded, const struct ptx_modifier *modifier, bool is_second)
{
    struct insn *insn = &decoded->insn;
    uint8_t value = (uint8_t)modifier->value;

    switch (modifier->kind) {
    case KIND_ROUND:
        insn->round = value;
        break;
    case KIND_CMP:
        insn->cmp = value;
        break;
    case KIND_BOOL:
        insn->boolean = value;
        break;
    case KIND_ATOM:
    case KIND_SHFL:
    case KIND_VOTE:
    case KIND_PRMT:
    case KIND_TESTP:
    case KIND_MATCH:
        insn->sub = value;
        break;
    case KIND_SPACE:
        insn->space = is_second ? insn->space : value;
        break;
    case KIND_SEM:
        insn->sem = value;
        break;
    case KIND_SCOPE:
        insn->scope = value;
        break;
    case KIND_VECTOR:
    case KIND_MATRICES:
        insn->vector = value;
        break;
    case KIND_SHAPE:
        insn->shape = value;
        break;
    case KIND_LAYOUT:
        insn->flags |= value == 0 ? 0 : is_second ? FLAG_B_COL : FLAG_A_COL;
        break;
    case KIND_ACC:
        insn->type2 = value;
        break;
    case KIND_POLICY:
        decoded->has_policy = true;
        break;
    default:
        insn->flags |= (uint32_t)(modifier->kind & flag_kinds);
        break;
    }
}

/* Gives the types that were named their places; false where their number or one of them is not
 * what the row allows. */
static bool apply_types(struct insn *insn, const struct ptx_op *op, const uint8_t *types,
                        uint32_t count)
{
    bool is_mma = op->op == OP_MMA || op->op == OP_WMMA_MMA;

    for (uint32_t i = 0; i < count; i++) {
        if (((i == 0 ? op->types : op->types2) >> types[i] & 1) == 0) {
            return false;
        }
    }
    if (is_mma && count == 4) {
        insn->type = types[0];
        insn->type_a = types[1];
        insn->type_b = types[2];
        insn->type2 = types[3];
        return true;
    }
    if (is_mma) {
        insn->type_a = insn->type_b = TYPE_F16;
    }
    if (count != (uint32_t)(op->types != 0) + (op->types2 != 0)) {
        return false;
    }
    insn->type = count > 0 ? types[0] : TYPE_NONE;
    insn->type2 = count > 1 ? types[1] : insn->type2;
    return true;
}

static bool apply_modifiers(struct ptx_decoded *decoded, const struct ptx_op *op,
                            const struct slice *words, uint32_t count)
{
    uint8_t types[PTX_TYPES_MAX];
    uint32_t type_count = 0;
    uint64_t seen = 0;
    uint64_t twice = flag_kinds | KIND_CACHE | KIND_LAYOUT | KIND_LO;

    if (op->op == OP_CP_ASYNC) {
        twice |= KIND_SPACE;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct ptx_modifier *modifier = ptx_modifier_find(words[i], op->kinds | KIND_TYPE);
        if (modifier == NULL || (modifier->kind & seen & ~twice) != 0) {
            return false;
        }
        if (modifier->kind != KIND_TYPE) {
            apply(decoded, modifier, (seen & modifier->kind) != 0);
            seen |= modifier->kind;
        } else if (type_count < PTX_TYPES_MAX) {
            types[type_count++] = (uint8_t)modifier->value;
        } else {
            return false;
        }
    }
    return (op->kinds & needed_kinds & ~seen) == 0 &&
           apply_types(&decoded->insn, op, types, type_count);
}

struct ptx_decoded ptx_decode(const struct slice *words, uint32_t count)
{
    struct ptx_decoded decoded = {.insn = {.guard = -1}, .pattern = ""};
    uint32_t matched;
    const struct ptx_op *op = find_op(words, count, &matched);

    if (op != NULL) {
        decoded.insn.op = op->op;
        decoded.insn.sub = op->sub;
        decoded.insn.vector = 1;
        decoded.pattern = op->pattern;
        decoded.is_known = apply_modifiers(&decoded, op, words + matched, count - matched);
    }
    if (!decoded.is_known) {
        decoded.insn = (struct insn){.op = OP_UNSUPPORTED, .guard = -1};
        decoded.pattern = "";
    } else if (decoded.insn.op == OP_MAD && ptx_type_is_float(decoded.insn.type)) {
        decoded.insn.op = OP_FMA;
    } else if (decoded.insn.op == OP_MEMBAR) {
        decoded.insn.sem = SEM_SC;
    } else if (decoded.insn.op == OP_FENCE && decoded.insn.sem == SEM_WEAK) {
        decoded.insn.sem = SEM_ACQ_REL;
    }
    return decoded;
}
