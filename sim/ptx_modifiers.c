#include "sim/ptx_ops.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
/* A name may stand here twice, with different kinds: .and combines predicates or words. */
static const struct ptx_modifier modifiers[] = {
    {".b8", KIND_TYPE, TYPE_B8}, {".b16", KIND_TYPE, TYPE_B16}, {".b32", KIND_TYPE, TYPE_B32},
    {".b64", KIND_TYPE, TYPE_B64}, {".b128", KIND_TYPE, TYPE_B128}, {".u8", KIND_TYPE, TYPE_U8},
    {".u16", KIND_TYPE, TYPE_U16}, {".u32", KIND_TYPE, TYPE_U32}, {".u64", KIND_TYPE, TYPE_U64},
    {".s8", KIND_TYPE, TYPE_S8}, {".s16", KIND_TYPE, TYPE_S16}, {".s32", KIND_TYPE, TYPE_S32},
    {".s64", KIND_TYPE, TYPE_S64}, {".f16", KIND_TYPE, TYPE_F16}, {".f16x2", KIND_TYPE, TYPE_F16X2},
    {".bf16", KIND_TYPE, TYPE_BF16}, {".bf16x2", KIND_TYPE, TYPE_BF16X2},
    {".f32", KIND_TYPE, TYPE_F32}, {".f32x2", KIND_TYPE, TYPE_F32X2}, {".f64", KIND_TYPE, TYPE_F64},
    {".tf32", KIND_TYPE, TYPE_TF32}, {".e4m3", KIND_TYPE, TYPE_E4M3},
    {".e5m2", KIND_TYPE, TYPE_E5M2},
    {".e4m3x2", KIND_TYPE, TYPE_E4M3X2}, {".e5m2x2", KIND_TYPE, TYPE_E5M2X2},
    {".u16x2", KIND_TYPE, TYPE_U16X2}, {".s16x2", KIND_TYPE, TYPE_S16X2},
    {".pred", KIND_TYPE, TYPE_PRED},

    {".rn", KIND_ROUND, ROUND_RN}, {".rz", KIND_ROUND, ROUND_RZ}, {".rm", KIND_ROUND, ROUND_RM},
    {".rp", KIND_ROUND, ROUND_RP}, {".rna", KIND_ROUND, ROUND_RNA}, {".rni", KIND_ROUND, ROUND_RNI},
    {".rzi", KIND_ROUND, ROUND_RZI}, {".rmi", KIND_ROUND, ROUND_RMI},
    {".rpi", KIND_ROUND, ROUND_RPI},

    {".eq", KIND_CMP, CMP_EQ}, {".ne", KIND_CMP, CMP_NE}, {".lt", KIND_CMP, CMP_LT},
    {".le", KIND_CMP, CMP_LE}, {".gt", KIND_CMP, CMP_GT}, {".ge", KIND_CMP, CMP_GE},
    {".lo", KIND_CMP, CMP_LO}, {".ls", KIND_CMP, CMP_LS}, {".hi", KIND_CMP, CMP_HI},
    {".hs", KIND_CMP, CMP_HS}, {".equ", KIND_CMP, CMP_EQU}, {".neu", KIND_CMP, CMP_NEU},
    {".ltu", KIND_CMP, CMP_LTU}, {".leu", KIND_CMP, CMP_LEU}, {".gtu", KIND_CMP, CMP_GTU},
    {".geu", KIND_CMP, CMP_GEU}, {".num", KIND_CMP, CMP_NUM}, {".nan", KIND_CMP, CMP_NAN},

    {".and", KIND_BOOL, BOOL_AND}, {".or", KIND_BOOL, BOOL_OR}, {".xor", KIND_BOOL, BOOL_XOR},
    {".popc", KIND_BOOL, BOOL_POPC},

    {".add", KIND_ATOM, ATOM_ADD}, {".min", KIND_ATOM, ATOM_MIN}, {".max", KIND_ATOM, ATOM_MAX},
    {".and", KIND_ATOM, ATOM_AND}, {".or", KIND_ATOM, ATOM_OR}, {".xor", KIND_ATOM, ATOM_XOR},
    {".exch", KIND_ATOM, ATOM_EXCH}, {".cas", KIND_ATOM, ATOM_CAS}, {".inc", KIND_ATOM, ATOM_INC},
    {".dec", KIND_ATOM, ATOM_DEC},

    {".global", KIND_SPACE, SPACE_GLOBAL}, {".shared", KIND_SPACE, SPACE_SHARED},
    {".shared::cta", KIND_SPACE, SPACE_SHARED}, {".local", KIND_SPACE, SPACE_LOCAL},
    {".const", KIND_SPACE, SPACE_CONST}, {".param", KIND_SPACE, SPACE_PARAM},
    {".param::entry", KIND_SPACE, SPACE_PARAM}, {".param::func", KIND_SPACE, SPACE_PARAM},

    {".weak", KIND_SEM, SEM_WEAK}, {".volatile", KIND_SEM, SEM_VOLATILE},
    {".relaxed", KIND_SEM, SEM_RELAXED}, {".acquire", KIND_SEM, SEM_ACQUIRE},
    {".release", KIND_SEM, SEM_RELEASE}, {".acq_rel", KIND_SEM, SEM_ACQ_REL},
    {".sc", KIND_SEM, SEM_SC},

    {".cta", KIND_SCOPE, SCOPE_CTA}, {".cluster", KIND_SCOPE, SCOPE_CLUSTER},
    {".gpu", KIND_SCOPE, SCOPE_GPU}, {".gl", KIND_SCOPE, SCOPE_GPU},
    {".sys", KIND_SCOPE, SCOPE_SYS},

    {".v2", KIND_VECTOR, 2}, {".v4", KIND_VECTOR, 4}, {".v8", KIND_VECTOR, 8},
    {".x1", KIND_MATRICES, 1}, {".x2", KIND_MATRICES, 2}, {".x4", KIND_MATRICES, 4},

    {".ca", KIND_CACHE, 0}, {".cg", KIND_CACHE, 0}, {".cs", KIND_CACHE, 0}, {".lu", KIND_CACHE, 0},
    {".cv", KIND_CACHE, 0}, {".wb", KIND_CACHE, 0}, {".wt", KIND_CACHE, 0},
    {".mmio", KIND_CACHE, 0},
    {".L1", KIND_CACHE, 0}, {".L2", KIND_CACHE, 0},
    {".L1::evict_normal", KIND_CACHE, 0}, {".L1::evict_unchanged", KIND_CACHE, 0},
    {".L1::evict_first", KIND_CACHE, 0}, {".L1::evict_last", KIND_CACHE, 0},
    {".L1::no_allocate", KIND_CACHE, 0}, {".L2::evict_normal", KIND_CACHE, 0},
    {".L2::evict_first", KIND_CACHE, 0}, {".L2::evict_last", KIND_CACHE, 0},
    {".L2::evict_unchanged", KIND_CACHE, 0}, {".L2::64B", KIND_CACHE, 0},
    {".L2::128B", KIND_CACHE, 0},
    {".L2::256B", KIND_CACHE, 0}, {".fractional", KIND_CACHE, 0}, {".range", KIND_CACHE, 0},
    {".L2::cache_hint", KIND_POLICY, 0},

    {".up", KIND_SHFL, SHFL_UP}, {".down", KIND_SHFL, SHFL_DOWN}, {".bfly", KIND_SHFL, SHFL_BFLY},
    {".idx", KIND_SHFL, SHFL_IDX},
    {".all", KIND_VOTE, VOTE_ALL}, {".any", KIND_VOTE, VOTE_ANY}, {".uni", KIND_VOTE, VOTE_UNI},
    {".ballot", KIND_VOTE, VOTE_BALLOT},
    {".any", KIND_MATCH, 0}, {".all", KIND_MATCH, 1},
    {".f4e", KIND_PRMT, PRMT_F4E}, {".b4e", KIND_PRMT, PRMT_B4E}, {".rc8", KIND_PRMT, PRMT_RC8},
    {".ecl", KIND_PRMT, PRMT_ECL}, {".ecr", KIND_PRMT, PRMT_ECR}, {".rc16", KIND_PRMT, PRMT_RC16},
    {".finite", KIND_TESTP, TESTP_FINITE}, {".infinite", KIND_TESTP, TESTP_INFINITE},
    {".number", KIND_TESTP, TESTP_NUMBER}, {".notanumber", KIND_TESTP, TESTP_NAN},
    {".normal", KIND_TESTP, TESTP_NORMAL}, {".subnormal", KIND_TESTP, TESTP_SUBNORMAL},
    {".alias", KIND_PROXY, PROXY_ALIAS}, {".async", KIND_PROXY, PROXY_ASYNC},
    {".async.global", KIND_PROXY, PROXY_ASYNC_GLOBAL},

    {".m8n8", KIND_M8N8, 0}, {".m8n8k4", KIND_SHAPE, SHAPE_M8N8K4},
    {".m8n8k16", KIND_SHAPE, SHAPE_M8N8K16}, {".m8n32k16", KIND_SHAPE, SHAPE_M8N32K16},
    {".m16n8k4", KIND_SHAPE, SHAPE_M16N8K4}, {".m16n8k8", KIND_SHAPE, SHAPE_M16N8K8},
    {".m16n8k16", KIND_SHAPE, SHAPE_M16N8K16}, {".m16n8k32", KIND_SHAPE, SHAPE_M16N8K32},
    {".m16n16k8", KIND_SHAPE, SHAPE_M16N16K8}, {".m16n16k16", KIND_SHAPE, SHAPE_M16N16K16},
    {".m32n8k16", KIND_SHAPE, SHAPE_M32N8K16},
    {".row", KIND_LAYOUT, 0}, {".col", KIND_LAYOUT, 1},
    {".acc::f32", KIND_ACC, TYPE_F32},

    {".lo", KIND_LO, 0}, {".r", KIND_LO, 0}, {".clamp", KIND_LO, 0}, {".inc", KIND_LO, 0},
    {".noftz", KIND_NOFTZ, 0},

    {".ftz", FLAG_FTZ, FLAG_FTZ}, {".sat", FLAG_SAT, FLAG_SAT}, {".hi", FLAG_HI, FLAG_HI},
    {".wide", FLAG_WIDE, FLAG_WIDE}, {".approx", FLAG_APPROX, FLAG_APPROX},
    {".full", FLAG_FULL, FLAG_FULL}, {".cc", FLAG_CC, FLAG_CC}, {".relu", FLAG_RELU, FLAG_RELU},
    {".NaN", FLAG_NAN, FLAG_NAN}, {".xorsign", FLAG_XORSIGN, FLAG_XORSIGN},
    {".abs", FLAG_ABS, FLAG_ABS}, {".l", FLAG_LEFT, FLAG_LEFT}, {".wrap", FLAG_WRAP, FLAG_WRAP},
    {".sync", FLAG_SYNC, FLAG_SYNC}, {".aligned", FLAG_ALIGNED, FLAG_ALIGNED},
    {".uni", FLAG_UNI, FLAG_UNI}, {".nc", FLAG_NC, FLAG_NC}, {".to", FLAG_TO, FLAG_TO},
    {".shiftamt", FLAG_SHIFTAMT, FLAG_SHIFTAMT}, {".trans", FLAG_TRANS, FLAG_TRANS},
    {".satfinite", FLAG_SATFINITE, FLAG_SATFINITE},
};
/* clang-format on */

enum { MODIFIER_COUNT = sizeof modifiers / sizeof modifiers[0] };

const struct ptx_modifier *ptx_modifier_find(struct slice name, uint64_t kinds)
{
    for (uint32_t i = 0; i < MODIFIER_COUNT; i++) {
        if ((modifiers[i].kind & kinds) != 0 && slice_is(name, modifiers[i].name)) {
            return &modifiers[i];
        }
    }
    return NULL;
}

enum code_type ptx_type(struct slice name)
{
    const struct ptx_modifier *modifier = ptx_modifier_find(name, KIND_TYPE);

    return modifier != NULL ? (enum code_type)modifier->value : TYPE_NONE;
}

uint32_t ptx_type_size_bytes(enum code_type type)
{
    static const uint8_t sizes[TYPES] = {
        [TYPE_B8] = 1,    [TYPE_B16] = 2,    [TYPE_B32] = 4,    [TYPE_B64] = 8,    [TYPE_B128] = 16,
        [TYPE_U8] = 1,    [TYPE_U16] = 2,    [TYPE_U32] = 4,    [TYPE_U64] = 8,    [TYPE_S8] = 1,
        [TYPE_S16] = 2,   [TYPE_S32] = 4,    [TYPE_S64] = 8,    [TYPE_F16] = 2,    [TYPE_F16X2] = 4,
        [TYPE_BF16] = 2,  [TYPE_BF16X2] = 4, [TYPE_F32] = 4,    [TYPE_F64] = 8,    [TYPE_TF32] = 4,
        [TYPE_E4M3] = 1,  [TYPE_E5M2] = 1,   [TYPE_E4M3X2] = 2, [TYPE_E5M2X2] = 2, [TYPE_F32X2] = 8,
        [TYPE_U16X2] = 4, [TYPE_S16X2] = 4,
    };

    return sizes[type];
}

bool ptx_type_is_signed(enum code_type type)
{
    return type >= TYPE_S8 && type <= TYPE_S64;
}

bool ptx_type_is_float(enum code_type type)
{
    return type >= TYPE_F16 && type <= TYPE_F32X2;
}
