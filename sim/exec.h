/*
 * exec.h — how handlers of instructions are written and found.
 *
 * A handler runs one instruction for the lanes of a mask: plain loops over 32 lanes that the
 * compiler turns into vectors. All lanes are computed; only those of the mask are written. Two
 * operands of one size are the same slots or disjoint ones, so the loops carry nothing.
 *
 * Each family of operations exports one finder: the handler for an instruction, or NULL where it
 * has none for that operation, type or modifier.
 */
#pragma once

#include "sim/core.h"

#define MASK_ALL 0xffffffffu

#ifdef __clang__
#define LOOP_IS_PARALLEL /* it checks at run time */
#else
#define LOOP_IS_PARALLEL _Pragma("GCC ivdep")
#endif
#define EACH_LANE for (int lane = 0; lane < WARP_LANES; lane++)

/* Fills handlers and constants of a kernel. False: something has no handler; `bound` says what. */
bool exec_bind(struct bound *bound);
void bound_release(struct bound *bound);

insn_exec *find_integer(const struct insn *insn);
insn_exec *find_bits(const struct insn *insn);
insn_exec *find_float(const struct insn *insn);
insn_exec *find_half(const struct insn *insn);
insn_exec *find_math(const struct insn *insn);
insn_exec *find_compare(const struct insn *insn);
insn_exec *find_cvt(const struct insn *insn);
insn_exec *find_move(const struct insn *insn);
insn_exec *find_memory(const struct insn *insn);
insn_exec *find_atom(const struct insn *insn);
insn_exec *find_multimem(const struct insn *insn);
insn_exec *find_matrix(const struct insn *insn);
insn_exec *find_fragment(const struct insn *insn);
insn_exec *find_async(const struct insn *insn);
insn_exec *find_warp(const struct insn *insn);
insn_exec *find_control(const struct insn *insn);

/* ---- operands ---- */

static inline void *slot_of(const struct warp *warp, int32_t arg)
{
    return warp->slots + (size_t)arg * SLOT_BYTES;
}

static inline const void *source_4(const struct warp *warp, int32_t arg)
{
    return arg >= 0 ? warp->slots + (size_t)arg * SLOT_BYTES
                    : warp->constants + (size_t)~arg * CONSTANT_BYTES;
}

static inline const void *source_8(const struct warp *warp, int32_t arg)
{
    return arg >= 0 ? warp->slots + (size_t)arg * SLOT_BYTES
                    : warp->constants + (size_t)~arg * CONSTANT_BYTES + SLOT_BYTES;
}

/* Source `i` as 32 lanes of `lane_type`. */
#define SOURCE(lane_type, i)                                                                       \
    ((const lane_type *)(sizeof(lane_type) == 8                                                    \
                             ? source_8(warp, insn->args[insn->dst_count + (i)])                   \
                             : source_4(warp, insn->args[insn->dst_count + (i)])))
#define DESTINATION(lane_type, i) ((lane_type *)slot_of(warp, insn->args[i]))

/* Predicate source `i` as a mask, negated where the instruction says so. */
static inline uint32_t source_predicate(const struct warp *warp, const struct insn *insn, int i)
{
    uint32_t value = warp->predicates[insn->args[insn->dst_count + i]];

    return insn->src_not >> i & 1 ? ~value : value;
}

static inline void write_predicate(struct warp *warp, int32_t arg, uint32_t value, uint32_t mask)
{
    warp->predicates[arg] = (warp->predicates[arg] & ~mask) | (value & mask);
}

static inline bool has_flags_only(const struct insn *insn, uint32_t flags)
{
    return (insn->flags & ~flags) == 0;
}

/* ---- loops ---- */

/* Runs `statement`, which sets `result` of `lane_type` from `lane`, and writes it to d[lane]. */
#define FOR_LANES(lane_type, statement)                                                            \
    if (mask == MASK_ALL) {                                                                        \
        LOOP_IS_PARALLEL EACH_LANE                                                                 \
        {                                                                                          \
            lane_type result;                                                                      \
            statement;                                                                             \
            d[lane] = result;                                                                      \
        }                                                                                          \
    } else {                                                                                       \
        LOOP_IS_PARALLEL EACH_LANE                                                                 \
        {                                                                                          \
            lane_type result;                                                                      \
            statement;                                                                             \
            d[lane] = mask >> lane & 1 ? result : d[lane];                                         \
        }                                                                                          \
    }

/* Handlers of one, two and three sources of the same size: `expression` of x, y, z. */
#define EXEC_UNARY(name, lane_type, type, expression)                                              \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        FOR_LANES(lane_type, type x = (type)a[lane]; result = (lane_type)(expression))             \
    }
#define EXEC_BINARY(name, lane_type, type, expression)                                             \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        __auto_type b = SOURCE(lane_type, 1);                                                      \
        FOR_LANES(lane_type, type x = (type)a[lane]; type y = (type)b[lane];                       \
                  result = (lane_type)(expression))                                                \
    }
#define EXEC_TERNARY(name, lane_type, type, expression)                                            \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        __auto_type d = DESTINATION(lane_type, 0);                                                 \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        __auto_type b = SOURCE(lane_type, 1);                                                      \
        __auto_type c = SOURCE(lane_type, 2);                                                      \
        FOR_LANES(lane_type, type x = (type)a[lane]; type y = (type)b[lane];                       \
                  type z = (type)c[lane]; result = (lane_type)(expression))                        \
    }

/* ---- faults, in fault.c ---- */

enum fault_kind {
    FAULT_ILLEGAL_ADDRESS,
    FAULT_READ_ONLY,
    FAULT_MISALIGNED,
    FAULT_ADDRESS_SPACE,
    FAULT_SHARED_RANGE,
    FAULT_LOCAL_RANGE,
    FAULT_PARAM_RANGE,
    FAULT_TRAP,
    FAULT_ASSERT,
    FAULT_ILLEGAL_INSTRUCTION,
    FAULTS,
};
struct fault_place {
    enum fault_kind kind;
    int lane;
    uint64_t address;
    uint32_t size_bytes;
    const char *text; /* a message of its own, or NULL */
};
/* Ends the grid with this error, unless it has one. */
void warp_fault(struct warp *warp, const struct insn *insn, const struct fault_place *place);
