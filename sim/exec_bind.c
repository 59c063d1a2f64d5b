/* exec_bind.c — which function runs an instruction. */
#include <stdlib.h>

#include "common/mem.h"
#include "sim/exec.h"
#include "sim/schedule.h"

static bool is_integer(uint8_t type)
{
    return (type >= TYPE_U8 && type <= TYPE_S64) || type == TYPE_U16X2 || type == TYPE_S16X2;
}

static bool is_half(uint8_t type)
{
    return type >= TYPE_F16 && type <= TYPE_BF16X2;
}

/* Arithmetic, by the type. */
static insn_exec *find_arithmetic(const struct insn *insn)
{
    return is_integer(insn->type) ? find_integer(insn)
           : is_half(insn->type)  ? find_half(insn)
                                  : find_float(insn);
}

static insn_exec *find_function(const struct insn *insn)
{
    return is_half(insn->type) ? find_half(insn) : find_math(insn);
}

static insn_exec *(*const finders[OPS])(const struct insn *) = {
    [OP_ADD] = find_arithmetic,
    [OP_SUB] = find_arithmetic,
    [OP_MUL] = find_arithmetic,
    [OP_MAD] = find_arithmetic,
    [OP_FMA] = find_arithmetic,
    [OP_DIV] = find_arithmetic,
    [OP_REM] = find_arithmetic,
    [OP_NEG] = find_arithmetic,
    [OP_ABS] = find_arithmetic,
    [OP_MIN] = find_arithmetic,
    [OP_MAX] = find_arithmetic,
    [OP_SAD] = find_integer,
    [OP_ADDC] = find_integer,
    [OP_SUBC] = find_integer,
    [OP_MADC] = find_integer,
    [OP_MUL24] = find_integer,
    [OP_MAD24] = find_integer,
    [OP_AND] = find_bits,
    [OP_OR] = find_bits,
    [OP_XOR] = find_bits,
    [OP_NOT] = find_bits,
    [OP_CNOT] = find_bits,
    [OP_SHL] = find_bits,
    [OP_SHR] = find_bits,
    [OP_SHF] = find_bits,
    [OP_LOP3] = find_bits,
    [OP_PRMT] = find_bits,
    [OP_POPC] = find_bits,
    [OP_CLZ] = find_bits,
    [OP_BREV] = find_bits,
    [OP_BFIND] = find_bits,
    [OP_BFE] = find_bits,
    [OP_BFI] = find_bits,
    [OP_BMSK] = find_bits,
    [OP_SZEXT] = find_bits,
    [OP_FNS] = find_bits,
    [OP_DP4A] = find_bits,
    [OP_DP2A] = find_bits,
    [OP_VABSDIFF] = find_bits,
    [OP_RCP] = find_function,
    [OP_SQRT] = find_function,
    [OP_RSQRT] = find_function,
    [OP_SIN] = find_function,
    [OP_COS] = find_function,
    [OP_LG2] = find_function,
    [OP_EX2] = find_function,
    [OP_TANH] = find_function,
    [OP_COPYSIGN] = find_float,
    [OP_TESTP] = find_float,
    [OP_SETP] = find_compare,
    [OP_SET] = find_compare,
    [OP_SELP] = find_compare,
    [OP_SLCT] = find_compare,
    [OP_MOV] = find_move,
    [OP_CVT] = find_cvt,
    [OP_CVT_PACK] = find_cvt,
    [OP_CVTA] = find_move,
    [OP_ISSPACEP] = find_move,
    [OP_SREG] = find_move,
    [OP_SYMBOL] = find_move,
    [OP_PACK] = find_move,
    [OP_UNPACK] = find_move,
    [OP_LD] = find_memory,
    [OP_ST] = find_memory,
    [OP_ATOM] = find_atom,
    [OP_RED] = find_atom,
    [OP_MULTIMEM_LD_REDUCE] = find_multimem,
    [OP_MULTIMEM_ST] = find_multimem,
    [OP_MULTIMEM_RED] = find_multimem,
    [OP_CP_ASYNC] = find_async,
    [OP_CP_ASYNC_COMMIT] = find_async,
    [OP_CP_ASYNC_WAIT] = find_async,
    [OP_LDMATRIX] = find_fragment,
    [OP_STMATRIX] = find_fragment,
    [OP_MMA] = find_matrix,
    [OP_WMMA_LOAD] = find_fragment,
    [OP_WMMA_STORE] = find_fragment,
    [OP_WMMA_MMA] = find_matrix,
    [OP_SHFL] = find_warp,
    [OP_VOTE] = find_warp,
    [OP_MATCH] = find_warp,
    [OP_REDUX] = find_warp,
    [OP_ELECT] = find_warp,
    [OP_ACTIVEMASK] = find_warp,
    [OP_BAR_WARP] = find_warp,
};

static char *name_missing(const struct kernel *kernel, const struct insn *insn)
{
    static const char *const names[OPS] = {
#define X(name) #name,
        CODE_OPS(X)
#undef X
    };
    const struct code_line *line =
        &kernel->image->lines[insn->line < kernel->image->line_count ? insn->line : 0];

    return xasprintf("%s with type %d, flags %#x (kernel %s, %s:%u)", names[insn->op], insn->type,
                     insn->flags, kernel->demangled ? kernel->demangled : kernel->name,
                     line->file ? line->file : "", line->line);
}

static void broadcast_constants(struct bound *bound)
{
    const struct kernel *kernel = bound->kernel;

    bound->constants = aligned_alloc(64, ((size_t)kernel->constant_count + 1) * CONSTANT_BYTES);
    if (!bound->constants) {
        abort();
    }
    for (uint32_t i = 0; i < kernel->constant_count; i++) {
        uint32_t *narrow = (uint32_t *)(void *)(bound->constants + (size_t)i * CONSTANT_BYTES);
        uint64_t *wide = (uint64_t *)(void *)((uint8_t *)narrow + SLOT_BYTES);
        for (int lane = 0; lane < WARP_LANES; lane++) {
            narrow[lane] = (uint32_t)kernel->constants[i];
            wide[lane] = kernel->constants[i];
        }
    }
}

bool exec_bind(struct bound *bound)
{
    const struct kernel *kernel = bound->kernel;

    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        struct insn *insn = &kernel->insns[i];
        insn->exec = finders[insn->op] ? finders[insn->op](insn) : find_control(insn);
        if (!insn->exec) {
            bound->unsupported = name_missing(kernel, insn);
            return false;
        }
    }
    broadcast_constants(bound);
    return true;
}

void bound_release(struct bound *bound)
{
    free(bound->constants);
    free(bound->writers);
    free(bound->noted);
    free(bound->unsupported);
    *bound = (struct bound){0};
}
