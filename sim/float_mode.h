/*
 * float_mode.h — an instruction's rounding and flushing, set in the processor for a loop.
 *
 * The loop's operands and results are memory, and both functions are barriers for the compiler, so
 * no arithmetic moves across them.
 */
#pragma once

#include "sim/exec.h"

#include <immintrin.h>

enum {
    MODE_DOWN = 0x2000,
    MODE_UP = 0x4000,
    MODE_TO_ZERO = 0x6000,
    MODE_FLUSH = 0x8040, /* subnormal operands and results become zeros of their sign */
    MODE_BITS = 0xe040,
};

static inline uint32_t mode_set(enum code_round round, bool flushes)
{
    static const uint16_t bits[] = {[ROUND_NONE] = 0,
                                    [ROUND_RN] = 0,
                                    [ROUND_RZ] = MODE_TO_ZERO,
                                    [ROUND_RM] = MODE_DOWN,
                                    [ROUND_RP] = MODE_UP};
    uint32_t saved = _mm_getcsr();

    _mm_setcsr((saved & ~(uint32_t)MODE_BITS) | bits[round] | (flushes ? MODE_FLUSH : 0));
    __asm__ volatile("" ::: "memory");
    return saved;
}

static inline uint32_t mode_enter(const struct insn *insn)
{
    return mode_set(insn->round, insn->flags & FLAG_FTZ);
}

static inline void mode_leave(uint32_t saved)
{
    __asm__ volatile("" ::: "memory");
    _mm_setcsr(saved);
}
