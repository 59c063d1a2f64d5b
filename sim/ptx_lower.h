/*
 * ptx_lower.h — what the files that make a kernel of parsed functions share.
 *
 * A lowering makes one kernel: it walks the entry and, at each call, the callee in its place
 * (a frame each). Registers become *values*, numbered per kernel, each of one kind; an argument is
 * a value's number or ~ of a constant's. slots_assign then gives the values their slots. Value 0 is
 * the predicate that is always true.
 */
#pragma once

#include "sim/ptx.h"

enum value_kind { VALUE_PREDICATE, VALUE_32, VALUE_64, VALUE_128, VALUE_KINDS };

enum {
    VALUES_MAX = 1 << 21,      /* of a kernel, before slots are assigned */
    IMAGE_INSNS_MAX = 1 << 20, /* of all kernels of an image; a target of a BRX counts as one */
    IMAGE_STEPS_MAX = 1 << 25, /* about a second; then less is known about values */
    INSN_ARGS_MAX = 32,
    CONSTANT_BUCKETS = 1 << 10,
};

/* Where a parameter or local variable of a frame lives: in local memory, or each accessed part of
 * it in a value of its own. */
struct cell {
    uint32_t offset, size_bytes;
    int32_t value;
};
struct storage {
    bool is_memory;
    uint32_t local_offset;
    struct cell *cells;
    uint32_t cell_count, cell_capacity;
};

struct fixup {
    uint32_t at; /* an insn, or with is_table one of kernel->targets */
    uint32_t label;
    bool is_table;
};

struct frame {
    struct frame *caller;
    const struct ptx_function *function;
    int32_t *values;           /* by register; -1: not yet used */
    struct storage **storages; /* by local_index; parameters have their caller's */
    struct storage *owned;
    uint32_t *label_at;
    struct fixup *fixups;
    uint32_t fixup_count, fixup_capacity;
    uint32_t *returns; /* insns that branch behind the inlined body */
    uint32_t return_count, return_capacity;
    uint32_t local_end; /* of local memory, with the callers' */
    uint32_t depth;
};

struct lowering {
    struct ptx_module *module;
    struct image *image;
    struct kernel *kernel;
    uint64_t insns_left; /* of the image */
    uint64_t steps_left; /* of walks over blocks, of the image */

    struct insn *insns;
    uint32_t *arg_starts; /* by insn, in args */
    uint32_t *guards;     /* by insn: a value; 0: none */
    uint32_t insn_count, insn_capacity, start_capacity, guard_capacity;
    int32_t *args;
    uint32_t arg_count, arg_capacity;
    uint8_t *kinds; /* by value */
    uint32_t value_count, value_capacity;
    uint64_t *constants;
    uint32_t *constant_next;
    uint32_t constant_count, constant_capacity, next_capacity;
    uint32_t constant_buckets[CONSTANT_BUCKETS];
    uint32_t *targets;
    uint32_t target_count, target_capacity;

    uint32_t *shared_at; /* by variable; PTX_NONE: not in this kernel */
    uint32_t *shared_used;
    uint32_t shared_used_count, shared_used_capacity;
    uint32_t *dynamic_constants; /* to which the dynamic part's offset is added at the end */
    uint32_t dynamic_count, dynamic_capacity;
    uint32_t dynamic_align;
    int32_t carry; /* value of CC, or -1 */
    bool is_full;  /* a limit was reached: nothing is added any more */
};

/* An instruction being put together. */
struct build {
    struct insn insn;
    int32_t guard; /* a value; 0: none */
    int32_t dst[INSN_ARGS_MAX], src[INSN_ARGS_MAX];
    uint32_t dst_count, src_count;
    uint32_t dst_predicates, src_predicates;
    /* After the instruction dst[i] is converted into this register, where PTX's is wider. */
    struct {
        int32_t from, to;
        uint8_t from_type, to_type;
    } after[INSN_ARGS_MAX];
    uint32_t after_count;
    bool is_bad; /* operands that the simulator does not know */
};

/* ptx_lower.c */
int32_t lower_value(struct lowering *lowering, enum value_kind kind);
int32_t lower_constant(struct lowering *lowering, uint64_t bits);
enum value_kind lower_kind(enum code_type type);
void lower_emit(struct lowering *lowering, const struct build *build);
/* Names what makes the kernel not simulable, unless something did before. */
void lower_refuse(struct lowering *lowering, struct slice what, uint32_t line);
void lower_body(struct lowering *lowering, struct frame *frame);

/* ptx_lower_operand.c: values of operands; build->is_bad where there is none. */
int32_t lower_register(struct lowering *lowering, struct frame *frame, uint32_t reg);
void lower_source(struct lowering *lowering, struct frame *frame, struct build *build,
                  const struct ptx_operand *operand, enum code_type type);
void lower_destination(struct lowering *lowering, struct frame *frame, struct build *build,
                       const struct ptx_operand *operand, enum code_type type);
void lower_address(struct lowering *lowering, struct frame *frame, struct build *build,
                   const struct ptx_operand *operand);
/* A 64-bit value of the operand, its offset added. */
void lower_wide_address(struct lowering *lowering, struct frame *frame, struct build *build,
                        const struct ptx_operand *operand);
void lower_move(struct lowering *lowering, int32_t to, int32_t from, enum code_type type,
                const struct build *like);
void lower_convert(struct lowering *lowering, int32_t to, enum code_type to_type, int32_t from,
                   enum code_type from_type, const struct build *like);

/* ptx_lower_check.c: what the letters of a pattern do not say about the operands holds. */
bool lower_is_complete(const struct build *build);

/* ptx_lower_walk.c */
bool lower_is_integer(enum code_type type);
/* Adds all operands, as the instruction's pattern has them. */
void lower_operands(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn,
                    struct build *build);
/* An access to a parameter that lives in values: moves from or to them. False: it is none. */
bool lower_cells(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn,
                 struct build *build);

/* ptx_lower_insn.c */
void lower_insn(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn);

/* ptx_lower_frame.c */
struct cell *storage_cell(struct lowering *lowering, struct storage *storage, uint32_t offset,
                          uint32_t size_bytes);
struct frame *frame_open(struct lowering *lowering, struct frame *caller,
                         const struct ptx_function *function);
void frame_close(struct frame *frame);

/* ptx_lower_call.c */
void lower_call(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn,
                const struct build *build);
/* Merges the accesses of each callee's parameters into those of the arguments. */
void calls_prepare(struct ptx_module *module);

/* ptx_simplify.c: drops moves, copies and what nobody reads. */
void code_simplify(struct lowering *lowering);

/* ptx_slots.c: gives each value a slot, in place; sets the kernel's counts. */
void slots_assign(struct lowering *lowering);
