/*
 * ptx_ops.h — the instructions of PTX as a table: names, modifiers, shape of the operands.
 *
 * ptx_decode turns the words of one instruction into a `struct insn` without operands. A new
 * instruction or modifier is a row in ptx_ops.c or ptx_modifiers.c. What no row allows is not
 * guessed: the decoder says false and the instruction becomes OP_UNSUPPORTED.
 *
 * A pattern says what the operands are, one letter each, in PTX's order:
 *   d destination of `type`      D the same, twice as wide with FLAG_WIDE    x of 32 bits    p a
 * predicate v vector destination         F fragment destination   / the next one is a second one:
 * d|p a source of `type`           A as D                   b of `type2`     u of 32 bits q
 * predicate, maybe negated   e u or q                 U an address of any kind, as 64 bits V vector
 * source              f fragment source (1..16 registers) m [address], with its offset in imm M a
 * second [address] i constant, into imm         k constant, into vector  n constant that means
 * nothing here ? the next one may be absent L label                  T name of a list of labels z a
 * constant zero, and no more operands are looked at
 */
#pragma once

#include "sim/code.h"
#include "sim/ptx_lex.h"

/* Operations that only the parser knows. */
enum { PTX_CALL = OPS, PTX_RET, PTX_MOV };

enum { PTX_MODIFIERS_MAX = 24, PTX_TYPES_MAX = 4 };

/* What kind of thing a modifier says; a row allows a set of these. Flags are kinds of their own:
 * their bit is that of enum code_flag. */
#define KIND_ROUND (1ull << 32)
#define KIND_CMP (1ull << 33)
#define KIND_BOOL (1ull << 34)
#define KIND_ATOM (1ull << 35)
#define KIND_SPACE (1ull << 36)
#define KIND_SEM (1ull << 37)
#define KIND_SCOPE (1ull << 38)
#define KIND_VECTOR (1ull << 39)
#define KIND_MATRICES (1ull << 40) /* .x1 .x2 .x4 */
#define KIND_CACHE (1ull << 41)
#define KIND_SHFL (1ull << 42)
#define KIND_VOTE (1ull << 43)
#define KIND_PRMT (1ull << 44)
#define KIND_TESTP (1ull << 45)
#define KIND_MATCH (1ull << 46)
#define KIND_SHAPE (1ull << 47)
#define KIND_LAYOUT (1ull << 48)
#define KIND_ACC (1ull << 49)
#define KIND_LO (1ull << 50)    /* mul.lo, shf.r, .clamp, .inc: what no flag says otherwise */
#define KIND_NOFTZ (1ull << 51) /* atom.add.noftz: always so here */
#define KIND_M8N8 (1ull << 52)
#define KIND_PROXY (1ull << 53)
#define KIND_POLICY (1ull << 54) /* .L2::cache_hint: one more operand, which means nothing here */
#define KIND_TYPE (1ull << 55)

struct ptx_modifier {
    const char *name;
    uint64_t kind;
    uint32_t value;
};

struct ptx_op {
    const char *name; /* with the modifiers that are part of it */
    uint16_t op;
    uint8_t sub;
    const char *pattern;
    uint64_t types, types2; /* bits of enum code_type; 0: none may be given */
    uint64_t kinds;
};

struct ptx_decoded {
    struct insn insn;
    const char *pattern;
    bool has_policy;
    bool is_known;
};

/* `words`: the operation and its modifiers, each with its dot but the first. */
struct ptx_decoded ptx_decode(const struct slice *words, uint32_t count);

/* The modifier of one of these kinds, or NULL. */
const struct ptx_modifier *ptx_modifier_find(struct slice name, uint64_t kinds);

/* The type called .s32 and so on, or TYPE_NONE. */
enum code_type ptx_type(struct slice name);
/* Bytes of one value; TYPE_PRED: 0. */
uint32_t ptx_type_size_bytes(enum code_type type);
bool ptx_type_is_signed(enum code_type type);
bool ptx_type_is_float(enum code_type type);

/* All rows, for tests. */
extern const struct ptx_op ptx_ops[];
extern const uint32_t ptx_op_count;
