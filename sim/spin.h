/*
 * spin.h — loops that wait for a value in memory, as a kernel's code shows them: the comparison
 * that decides about what a load gave, and the branch that closes or leaves the loop.
 *
 * What is too clever for this is said not to be seen; nothing is guessed.
 */
#pragma once

#include "sim/core.h"

/* The comparison that follows a load, of what it loaded; copies are followed. */
struct comparison {
    const struct insn *setp;   /* NULL: none is seen */
    const struct insn *branch; /* on what it says; NULL: another branch comes first */
    int32_t other;             /* with what it compares: a slot, or a constant */
    bool is_first;             /* what was loaded is the first operand */
    bool is_other_kept;        /* the other operand is the same when the load runs */
};
struct comparison spin_comparison(const struct kernel *kernel, uint32_t load_pc);

/* Whether the branch is taken while the comparison is true. */
bool spin_is_taken_while(const struct comparison *comparison);

/* Whether the load is in a loop that `value`, of the load's type, ends for this lane. */
bool spin_is_ended_by(const struct warp *warp, uint32_t load_pc, int lane, uint64_t value);

/* The other operand's value now. */
uint64_t spin_operand(const struct warp *warp, const struct comparison *comparison, int lane);
bool spin_is_wide(uint8_t type);
