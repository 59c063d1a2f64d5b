/*
 * code.h — a kernel as the simulator runs it: decoded PTX, calls inlined, operands resolved.
 *
 * image_parse (ptx.c) makes it once per image and it is shared by all devices and launches; exec.c
 * runs it. An instruction is kept generic (operation, types, modifiers); exec_bind() picks the
 * function that runs it, and what has none makes the kernel not simulable when it is launched.
 *
 * Registers live in slots. A slot is 32 lanes of 4 bytes; a 64-bit register takes two adjacent
 * slots that are read as 32 lanes of 8 bytes, and a 128-bit one four. Registers of different sizes
 * never share a slot, so lanes that diverged cannot harm each other. An operand is as wide as the
 * type says (up to 32 bits: one slot); where PTX lets a register be wider than the type, the parser
 * has added a CVT. Narrow types use the low bits of a slot; what lies above is unspecified, except
 * that LD and CVT to an integer below 32 bits extend it to all 32 (B and U by zeros, S by sign).
 *
 * A predicate is a 32-bit mask of lanes in a file of its own. Predicate 0 is true on all lanes and
 * is never written (mov.pred p, 0 is MOV p, !0). An operand is a slot number >= 0, a predicate
 * number (arg_predicate says so), or a constant: ~index of a pool entry < 0. A constant is 8 bytes,
 * zero-extended from the type's width, broadcast to all lanes. Destinations are never constants;
 * '_' is a slot or predicate that nobody reads.
 */
#pragma once

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WARP_LANES = 32,
    CODE_INSNS_MAX = 1 << 18,   /* per kernel, after inlining */
    CODE_SLOTS_MAX = 4096,      /* per warp */
    CODE_PREDICATES_MAX = 4096, /* per warp */
    CODE_KERNELS_MAX = 4096,    /* per image */
    CODE_SYMBOLS_MAX = 1 << 16, /* per image */
    CODE_SYMBOL_BYTES_MAX = 256 << 20,
    CODE_CALL_DEPTH_MAX = 64, /* inlining; deeper or recursive: not simulable */
    CODE_SHARED_BYTES_MAX = 1 << 20,
    CODE_LOCAL_BYTES_MAX = 512 << 10, /* of a thread, as on hardware */
    CODE_PARAM_BYTES_MAX = 32764,
    IMAGE_BYTES_MAX = 64 << 20,
};

enum code_type {
    TYPE_NONE,
    TYPE_B8,
    TYPE_B16,
    TYPE_B32,
    TYPE_B64,
    TYPE_B128,
    TYPE_U8,
    TYPE_U16,
    TYPE_U32,
    TYPE_U64,
    TYPE_S8,
    TYPE_S16,
    TYPE_S32,
    TYPE_S64,
    TYPE_F16,
    TYPE_F16X2,
    TYPE_BF16,
    TYPE_BF16X2,
    TYPE_F32,
    TYPE_F64,
    TYPE_TF32,
    TYPE_E4M3,
    TYPE_E5M2,
    TYPE_E4M3X2,
    TYPE_E5M2X2,
    TYPE_F32X2,
    TYPE_U16X2,
    TYPE_S16X2,
    TYPE_PRED,
    TYPES,
};

enum code_space {
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_SHARED,
    SPACE_LOCAL,
    SPACE_CONST,
    SPACE_PARAM
};
enum code_sem {
    SEM_WEAK,
    SEM_VOLATILE,
    SEM_RELAXED,
    SEM_ACQUIRE,
    SEM_RELEASE,
    SEM_ACQ_REL,
    SEM_SC
};
enum code_scope { SCOPE_NONE, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_GPU, SCOPE_SYS };

/* clang-format off */
/*
 * One word an operation of PTX; types and modifiers say the rest. Operands are in PTX's order,
 * destinations, then sources, unless said here. [x] may be absent, P marks a predicate.
 *
 *   ADD SUB with FLAG_CC    d, carryP : a, b       CC is an ordinary predicate; of SUB the borrow
 *   ADDC SUBC MADC          d, [carryP with FLAG_CC] : a, b, [c], carryP
 *   MUL MAD                 `type` is that of a and b; FLAG_WIDE: d and c are twice as wide
 *   LOP3                    d, [P] : a, b, c, [P]    imm: table; boolean where P is there
 *   PRMT                    sub: enum code_prmt
 *   DP4A DP2A               type of a, type2 of b; d and c are 32 bits
 *   VABSDIFF                d : a, b, c              sub: enum code_vabsdiff, or'ed
 *   SETP                    P, [P] : a, b, [P]       the second P is !cmp, combined alike
 *   SET                     d : a, b, [P]            type of d, type2 of a and b
 *   SELP                    d : a, b, P
 *   SLCT                    d : a, b, c              type2 of c
 *   TESTP                   P : a                    sub: enum code_testp
 *   MOV AND OR XOR NOT      also TYPE_PRED: all are predicates
 *   CVT                     d : a, [b]               type from type2; of two, a is the upper half
 *   CVT_PACK                d : a, b, [c]            sub: bits of a part, | PACK_SIGNED
 *   CVTA                    d : a                    space; FLAG_TO
 *   ISSPACEP                P : a                    space
 *   SREG                    d                        target: enum code_sreg; type: d's
 *   SYMBOL                  d                        64 bits; target: a symbol's index; imm: addend
 *   PACK                    d : a...                 type of d, type2 of each a, lowest first
 *   UNPACK                  d... : a                 type of each d, type2 of a
 *
 * Memory: an address is one operand, 8 bytes, or 4 with FLAG_ADDR32; imm is added to it. Shared and
 * local variables are constant offsets into the CTA's or thread's own memory, kernel parameters
 * offsets into the parameters; constant variables lie in global memory (SYMBOL).
 *   LD                      d x vector : address     type: of one element; sem, scope, FLAG_NC
 *   ST                      : address, a x vector
 *   ATOM                    d x vector : address, a x vector, [new value of CAS]
 *   RED                     : address, a x vector    sub of both: enum code_atom
 *   MULTIMEM_LD_REDUCE      d x vector : address     sub; type2: TYPE_F32 with .acc::f32, or NONE
 *   MULTIMEM_ST, _RED       as ST, RED
 *   PREFETCH                : address
 *   CP_ASYNC                : shared, global, [source bytes, or P: ignore it]   vector: bytes; imm
 *                           and FLAG_ADDR32 are of the first address
 *   CP_ASYNC_WAIT           imm: groups that may be pending; sub 1: wait_all
 *   LDMATRIX                d x vector : address     8x8 of b16; FLAG_TRANS
 *   STMATRIX                : address, a x vector
 *   MMA WMMA_MMA            d... : a..., b..., c...  shape, type d, type_a, type_b, type2 c,
 *                           a_count and b_count operands; FLAG_A_COL, FLAG_B_COL
 *   WMMA_LOAD               d... : address, [stride] shape, sub: enum code_fragment, FLAG_A_COL
 *   WMMA_STORE              : address, d..., [stride]
 *
 * Between lanes and threads:
 *   BAR                     : id, [count]            sync; BARRIER_ARRIVE : id, count
 *   BAR_RED                 d or P : id, [count], P  boolean: POPC (d), AND, OR (P)
 *   BAR_WARP                : mask
 *   SHFL                    d, [P] : a, b, c, [mask with FLAG_SYNC]    sub: enum code_shfl
 *   VOTE                    P or d : P, [mask with FLAG_SYNC]          sub: enum code_vote
 *   MATCH                   d, [P] : a, mask         sub 0: any, 1: all
 *   REDUX                   d : a, mask              sub: enum code_atom
 *   ELECT                   d, P : mask
 *   MEMBAR FENCE            sem and scope (membar is SEM_SC); FENCE_PROXY: sub: enum code_proxy
 *
 * Control: a return from an inlined function is a BRA, one from the kernel is an EXIT.
 *   BRA                     target, FLAG_UNI
 *   BRX                     : index                  kernel->targets[target], imm of them
 *   NANOSLEEP               : a
 *   VPRINTF                 d : format, arguments    generic addresses
 *   ASSERTFAIL              : message, file, line (32 bits), function, size of a character
 *   GRIDDEPCONTROL          sub 0: launch_dependents, 1: wait
 *   UNSUPPORTED             stands for what the parser or the simulator does not know; no operands
 *
 * X(name)
 */
#define CODE_OPS(X)                                                                                \
    X(ADD) X(SUB) X(MUL) X(MAD) X(FMA) X(DIV) X(REM) X(NEG) X(ABS) X(MIN) X(MAX) X(SAD)            \
    X(ADDC) X(SUBC) X(MADC) X(MUL24) X(MAD24)                                                      \
    X(AND) X(OR) X(XOR) X(NOT) X(CNOT) X(SHL) X(SHR) X(SHF) X(LOP3) X(PRMT)                        \
    X(POPC) X(CLZ) X(BREV) X(BFIND) X(BFE) X(BFI) X(BMSK) X(SZEXT) X(FNS) X(DP4A) X(DP2A)          \
    X(VABSDIFF)                                                                                    \
    X(RCP) X(SQRT) X(RSQRT) X(SIN) X(COS) X(LG2) X(EX2) X(TANH) X(COPYSIGN) X(TESTP)               \
    X(SETP) X(SET) X(SELP) X(SLCT) X(MOV) X(CVT) X(CVT_PACK) X(CVTA)                               \
    X(ISSPACEP) X(SREG) X(SYMBOL)                                                                  \
    X(PACK) X(UNPACK)                                                                              \
    X(LD) X(ST) X(ATOM) X(RED) X(PREFETCH)                                                         \
    X(MULTIMEM_LD_REDUCE) X(MULTIMEM_ST) X(MULTIMEM_RED)                                           \
    X(BAR) X(BARRIER_ARRIVE) X(BAR_RED) X(BAR_WARP) X(SHFL) X(VOTE) X(MATCH)                       \
    X(REDUX) X(ELECT) X(ACTIVEMASK) X(MEMBAR) X(FENCE) X(FENCE_PROXY)                              \
    X(BRA) X(BRX) X(EXIT) X(TRAP) X(BRKPT) X(NANOSLEEP) X(VPRINTF) X(ASSERTFAIL)                   \
    X(GRIDDEPCONTROL) X(NOP)                                                                       \
    X(CP_ASYNC) X(CP_ASYNC_COMMIT) X(CP_ASYNC_WAIT) X(LDMATRIX) X(STMATRIX) X(MMA)                 \
    X(WMMA_LOAD) X(WMMA_STORE) X(WMMA_MMA) X(UNSUPPORTED)

enum code_op {
#define X(name) OP_##name,
    CODE_OPS(X)
#undef X
    OPS,
};
/* clang-format on */

enum code_cmp {
    CMP_NONE,
    CMP_EQ,
    CMP_NE,
    CMP_LT,
    CMP_LE,
    CMP_GT,
    CMP_GE,
    CMP_LO,
    CMP_LS,
    CMP_HI,
    CMP_HS,
    CMP_EQU,
    CMP_NEU,
    CMP_LTU,
    CMP_LEU,
    CMP_GTU,
    CMP_GEU,
    CMP_NUM,
    CMP_NAN,
};
enum code_bool { BOOL_NONE, BOOL_AND, BOOL_OR, BOOL_XOR, BOOL_POPC };
enum code_round {
    ROUND_NONE,
    ROUND_RN,
    ROUND_RZ,
    ROUND_RM,
    ROUND_RP,
    ROUND_RNA,
    ROUND_RNI,
    ROUND_RZI,
    ROUND_RMI,
    ROUND_RPI
};
enum code_atom {
    ATOM_NONE,
    ATOM_ADD,
    ATOM_MIN,
    ATOM_MAX,
    ATOM_AND,
    ATOM_OR,
    ATOM_XOR,
    ATOM_EXCH,
    ATOM_CAS,
    ATOM_INC,
    ATOM_DEC
};

enum code_shfl { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };
enum code_vote { VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT };
enum code_prmt { PRMT_INDEX, PRMT_F4E, PRMT_B4E, PRMT_RC8, PRMT_ECL, PRMT_ECR, PRMT_RC16 };
/* vabsdiff2 and 4: how many parts, whether they are signed, whether all are added to c. */
enum code_vabsdiff { VABSDIFF_PARTS = 7, VABSDIFF_SIGNED = 8, VABSDIFF_ADD = 16 };
enum { PACK_SIGNED = 128 };
enum code_testp {
    TESTP_FINITE,
    TESTP_INFINITE,
    TESTP_NUMBER,
    TESTP_NAN,
    TESTP_NORMAL,
    TESTP_SUBNORMAL
};
enum code_proxy {
    PROXY_ALIAS,
    PROXY_ASYNC,
    PROXY_ASYNC_GLOBAL,
    PROXY_ASYNC_SHARED,
    PROXY_TENSORMAP
};
enum code_fragment { FRAGMENT_A, FRAGMENT_B, FRAGMENT_C, FRAGMENT_D };
enum code_shape {
    SHAPE_NONE,
    SHAPE_M8N8K4,
    SHAPE_M8N8K16,
    SHAPE_M8N32K16,
    SHAPE_M16N8K4,
    SHAPE_M16N8K8,
    SHAPE_M16N8K16,
    SHAPE_M16N8K32,
    SHAPE_M16N16K8,
    SHAPE_M16N16K16,
    SHAPE_M32N8K16
};

enum code_flag {
    FLAG_FTZ = 1 << 0,
    FLAG_SAT = 1 << 1,  /* to [0, 1] or the integer type's range */
    FLAG_HI = 1 << 2,   /* mul, mad */
    FLAG_WIDE = 1 << 3, /* mul, mad; neither: .lo */
    FLAG_APPROX = 1 << 4,
    FLAG_FULL = 1 << 5,
    FLAG_CC = 1 << 6, /* writes the carry */
    FLAG_RELU = 1 << 7,
    FLAG_NAN = 1 << 8, /* min.NaN, max.NaN */
    FLAG_XORSIGN = 1 << 9,
    FLAG_ABS = 1 << 10,
    FLAG_LEFT = 1 << 11, /* shf.l; otherwise shf.r */
    FLAG_WRAP = 1 << 12, /* shf.wrap; otherwise .clamp */
    FLAG_SYNC = 1 << 13,
    FLAG_ALIGNED = 1 << 14,
    FLAG_UNI = 1 << 15,
    FLAG_NC = 1 << 16, /* ld.global.nc */
    FLAG_TO = 1 << 17, /* cvta.to.SPACE; otherwise from SPACE to generic */
    FLAG_SHIFTAMT = 1 << 18,
    FLAG_TRANS = 1 << 19,
    FLAG_SATFINITE = 1 << 20,
    FLAG_ADDR32 = 1 << 21, /* the address operand is 4 bytes */
    FLAG_A_COL = 1 << 22,  /* wmma, mma: column major; otherwise row major */
    FLAG_B_COL = 1 << 23,
};

struct insn;
struct warp; /* exec.c */

/* Runs one instruction for the lanes of `mask` (the active group, guard applied). */
typedef void insn_exec(struct warp *warp, const struct insn *insn, uint32_t mask);

struct insn {
    insn_exec *exec;     /* set by exec_bind */
    const int32_t *args; /* dst_count destinations, then src_count sources */
    uint16_t op;         /* enum code_op */
    uint8_t dst_count, src_count;
    uint8_t type, type2; /* enum code_type: of the operation; of the source where another */
    uint8_t space;       /* enum code_space */
    uint8_t sem, scope;
    uint8_t vector; /* elements of a memory access */
    uint8_t cmp, boolean, round;
    uint8_t sub;                                     /* what the operation's list above says */
    uint8_t shape, type_a, type_b, a_count, b_count; /* mma, wmma */
    bool guard_not;
    bool back_edge; /* a branch whose target is not after it */
    int16_t guard;  /* predicate that must be true; -1: none */
    uint32_t flags;
    uint32_t target;        /* bra: index of an insn; SREG, SYMBOL, BRX: see above */
    uint32_t line;          /* index of image->lines */
    uint32_t src_not;       /* bit i: source i is a predicate, to be negated */
    uint32_t arg_predicate; /* bit i: argument i (destinations first) is a predicate's number */
    int64_t imm;            /* memory: byte offset added to the address */
};

enum code_sreg {
    SREG_TID_X,
    SREG_TID_Y,
    SREG_TID_Z,
    SREG_NTID_X,
    SREG_NTID_Y,
    SREG_NTID_Z,
    SREG_CTAID_X,
    SREG_CTAID_Y,
    SREG_CTAID_Z,
    SREG_NCTAID_X,
    SREG_NCTAID_Y,
    SREG_NCTAID_Z,
    SREG_LANEID,
    SREG_WARPID,
    SREG_NWARPID,
    SREG_SMID,
    SREG_NSMID,
    SREG_GRIDID,
    SREG_LANEMASK_EQ,
    SREG_LANEMASK_LE,
    SREG_LANEMASK_LT,
    SREG_LANEMASK_GE,
    SREG_LANEMASK_GT,
    SREG_CLOCK,
    SREG_CLOCK_HI,
    SREG_CLOCK64,
    SREG_GLOBALTIMER,
    SREG_GLOBALTIMER_LO,
    SREG_GLOBALTIMER_HI,
    SREG_DYNAMIC_SMEM_SIZE,
    SREG_TOTAL_SMEM_SIZE,
    SREG_ENVREG1,
    SREG_ENVREG2,
    SREG_AGGR_SMEM_SIZE,
    SREG_CLUSTER_CTAID_X,
    SREG_CLUSTER_CTAID_Y,
    SREG_CLUSTER_CTAID_Z,
    SREG_CLUSTER_NCTAID_X,
    SREG_CLUSTER_NCTAID_Y,
    SREG_CLUSTER_NCTAID_Z,
    SREG_CLUSTER_CTARANK,
    SREG_CLUSTER_NCTARANK,
    SREG_IS_EXPLICIT_CLUSTER,
};

/* A source position: of inlined code the innermost one that is not in the toolkit's headers. */
struct code_line {
    const char *file; /* base name as in the PTX: "solution.cu"; of [0] "" */
    uint32_t line;
    uint32_t column;
};

struct code_relocation {
    uint64_t at;
    uint32_t symbol;
    int64_t addend;
};

enum symbol_space { SYMBOL_GLOBAL, SYMBOL_CONST };
struct code_symbol {
    char *name;
    enum symbol_space space;
    uint64_t size_bytes;
    uint32_t align_bytes;
    uint8_t *initial; /* size_bytes, or NULL: zeros */
    /* Words of `initial` that hold another symbol's address: 8 bytes at `at` get its address. */
    struct code_relocation *relocations;
    uint32_t relocation_count;
    bool is_visible;
};

struct code_param {
    uint32_t offset, size_bytes;
};

struct kernel {
    char *name;          /* mangled */
    char *demangled;     /* for people */
    struct image *image; /* that holds it */
    struct insn *insns;
    uint32_t insn_count;
    int32_t *args; /* of all insns */
    uint32_t arg_count;
    uint64_t *constants;
    uint32_t constant_count;
    uint32_t *targets; /* of the BRX: indexes of insns */
    uint32_t target_count;
    uint32_t slot_count, predicate_count;
    struct code_param *params;
    uint32_t param_count, param_bytes;
    uint32_t shared_bytes;     /* static */
    uint32_t dynamic_offset;   /* where dynamic shared memory starts: >= shared_bytes, aligned */
    uint32_t local_bytes;      /* per thread */
    uint32_t registers;        /* per thread, of the cubin's .nv.info; 0: unknown */
    uint32_t threads_max;      /* .maxntid's product; 0: none */
    uint32_t ntid_required[3]; /* .reqntid; 0: none */
    uint32_t ctas_min;         /* .minnctapersm; 0: none */
    char *unsupported; /* why it cannot be simulated, with op and source line; NULL: it can */
};

/* All that one fatbin holds: kernels and variables of its PTX. */
struct image {
    uint64_t hash; /* of the fatbin's bytes: how a client names it */
    struct kernel *kernels;
    uint32_t kernel_count;
    struct code_symbol *symbols;
    uint32_t symbol_count;
    struct code_line *lines; /* [0] is unknown */
    uint32_t line_count;
    char **files; /* that lines name */
    uint32_t file_count;
};

/* Parses one PTX text. An op or modifier that the parser does not know is kept as OP_UNSUPPORTED
 * and named in kernel->unsupported; text that is not PTX is ERR_INVALID. Free with image_close. */
enum status image_parse(struct image **image, const char *ptx, size_t size_bytes,
                        struct error *err);
void image_close(struct image *image);

/* A function's name as a person wrote it; allocated. */
char *image_demangle(const char *name);

/* The kernel called `name`, or NULL. */
const struct kernel *image_kernel(const struct image *image, const char *name);

/* fatbin.c: the images of an ELF file (its .nv_fatbin section), PTX of the highest architecture of
 * each fatbin, registers per thread from the cubins beside it. Hostile input is refused or skipped,
 * never trusted. */
struct image_set {
    struct image **images;
    uint32_t count;
};
enum status image_set_read(struct image_set *set, const void *elf, size_t size_bytes,
                           struct error *err);
void image_set_release(struct image_set *set);

/* FNV-1a 64 of a whole fatbin (header and payload): computed alike by the shim and by simd. */
uint64_t fatbin_hash(const void *fatbin, size_t size_bytes);
