/* exec_atom.c — atomics and reductions, one lane after the other in the order of the lanes. */
#include "sim/access.h"
#include "sim/exec.h"
#include "sim/half.h"
#include "sim/schedule.h"
#include "sim/stale.h"

#include <string.h>

enum { VECTOR_MAX = 8 };

struct quad {
    uint64_t low, high;
};

static bool resolve(struct warp *warp, const struct insn *insn, uint32_t mask,
                    uint32_t element_bytes, struct access *access)
{
    struct access_request request = {
        .kind = ACCESS_ATOMIC,
        .size_bytes = element_bytes * insn->vector,
        .space = insn->space,
        .mechanism = MECHANISM_SM_ATOMIC,
    };
    return access_resolve(warp, insn, mask, &request, access);
}

/* Whether it has set a flag, as a store does: one that counts is none, and a swap that fails writes
 * nothing. */
static bool sets_flag(const struct insn *insn, uint64_t changes)
{
    bool may_keep = insn->sub == ATOM_EXCH || insn->sub == ATOM_OR;

    return insn->vector == 1 && (may_keep || (insn->sub == ATOM_CAS && changes > 0));
}

static void finish(struct warp *warp, const struct insn *insn, uint32_t mask,
                   const struct access *access, uint32_t element_bytes, uint64_t changes)
{
    warp->engine->changes += changes;
    if (sets_flag(insn, changes)) {
        stale_stored(warp, mask, access, element_bytes, changes == 0);
    }
    if (changes || (access->region && access->region->is_undefined)) {
        access_wrote(warp, access, mask, element_bytes * insn->vector);
    }
    if (insn->op == OP_RED && warp->rests_after_store) {
        warp_yield(warp);
    }
}

/* What a spin on an atomic sees: what the first lane got. */
static void note_result(struct warp *warp, const struct insn *insn, uint32_t mask,
                        const struct access *access, uint64_t old)
{
    int lane = __builtin_ctz(mask);

    warp_spin(warp, insn, lane, access->address[lane], old);
}

/* `expression` of x, what is there, and y and z, the operands. */
#define ATOMIC(name, lane_type, type, expression)                                                  \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        struct access access;                                                                      \
        lane_type operands[VECTOR_MAX][WARP_LANES];                                                \
        uint64_t changes = 0;                                                                      \
        uint64_t seen = 0;                                                                         \
        if (!resolve(warp, insn, mask, sizeof(type), &access)) {                                   \
            return;                                                                                \
        }                                                                                          \
        for (int i = 0; i < insn->vector; i++) {                                                   \
            memcpy(operands[i], SOURCE(lane_type, 1 + i), sizeof(operands[i]));                    \
        }                                                                                          \
        const lane_type *c = insn->sub == ATOM_CAS ? SOURCE(lane_type, 2) : operands[0];           \
        bool is_watched = false;                                                                   \
        for (int i = 0; i < insn->vector; i++) {                                                   \
            __auto_type d = DESTINATION(lane_type, i);                                             \
            for (uint32_t left = mask; left; left &= left - 1) {                                   \
                int lane = __builtin_ctz(left);                                                    \
                __auto_type at = (type *)(void *)access.at[lane] + i;                              \
                type x = *at;                                                                      \
                type y = (type)operands[i][lane];                                                  \
                type z = (type)c[lane];                                                            \
                type value = (type)(expression);                                                   \
                (void)y;                                                                           \
                (void)z;                                                                           \
                changes += memcmp((void *)&value, (void *)&x, sizeof(value)) != 0;                 \
                *at = value;                                                                       \
                if (insn->op == OP_ATOM) {                                                         \
                    d[lane] = (lane_type)x;                                                        \
                }                                                                                  \
                if (!is_watched) {                                                                 \
                    memcpy(&seen, &x, sizeof(x));                                                  \
                    is_watched = true;                                                             \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        if (insn->op == OP_ATOM) {                                                                 \
            note_result(warp, insn, mask, &access, seen);                                          \
        }                                                                                          \
        finish(warp, insn, mask, &access, sizeof(type), changes);                                  \
    }

#define INTEGERS(bits, lane_type, type, signed_type)                                               \
    ATOMIC(add_##bits, lane_type, type, x + y)                                                     \
    ATOMIC(and_##bits, lane_type, type, x &y)                                                      \
    ATOMIC(or_##bits, lane_type, type, x | y)                                                      \
    ATOMIC(xor_##bits, lane_type, type, x ^ y)                                                     \
    ATOMIC(exch_##bits, lane_type, type, y)                                                        \
    ATOMIC(cas_##bits, lane_type, type, x == y ? z : x)                                            \
    ATOMIC(inc_##bits, lane_type, type, x >= y ? 0 : x + 1)                                        \
    ATOMIC(dec_##bits, lane_type, type, x == 0 || x > y ? y : x - 1)                               \
    ATOMIC(min_u##bits, lane_type, type, x < y ? x : y)                                            \
    ATOMIC(max_u##bits, lane_type, type, x > y ? x : y)                                            \
    ATOMIC(min_s##bits, lane_type, signed_type, x < y ? x : y)                                     \
    ATOMIC(max_s##bits, lane_type, signed_type, x > y ? x : y)
INTEGERS(32, uint32_t, uint32_t, int32_t)
INTEGERS(64, uint64_t, uint64_t, int64_t)
ATOMIC(cas_16, uint32_t, uint16_t, x == y ? z : x)
ATOMIC(exch_16, uint32_t, uint16_t, y)
ATOMIC(add_f64, double, double, x + y)

static float canonical(float value)
{
    return value == value ? value : float_of_bits(0x7fffffff);
}
ATOMIC(add_f32, float, float, canonical(x + y))

/* Two halves of a word, or one. */
#define PAIR(a, b, is_bf16, op)                                                                    \
    (half_combine((uint16_t)(a), (uint16_t)(b), is_bf16, op) |                                     \
     (uint32_t)half_combine((uint16_t)((a) >> 16), (uint16_t)((b) >> 16), is_bf16, op) << 16)
#define HALVES(name, is_bf16)                                                                      \
    ATOMIC(add_##name, uint32_t, uint16_t, half_combine(x, y, is_bf16, HALF_ADD))                  \
    ATOMIC(min_##name, uint32_t, uint16_t, half_combine(x, y, is_bf16, HALF_MIN))                  \
    ATOMIC(max_##name, uint32_t, uint16_t, half_combine(x, y, is_bf16, HALF_MAX))                  \
    ATOMIC(add_##name##x2, uint32_t, uint32_t, PAIR(x, y, is_bf16, HALF_ADD))                      \
    ATOMIC(min_##name##x2, uint32_t, uint32_t, PAIR(x, y, is_bf16, HALF_MIN))                      \
    ATOMIC(max_##name##x2, uint32_t, uint32_t, PAIR(x, y, is_bf16, HALF_MAX))
HALVES(f16, false)
HALVES(bf16, true)

static void swap_128(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct access access;
    uint64_t changes = 0;
    uint64_t seen = 0;

    if (!resolve(warp, insn, mask, sizeof(struct quad), &access)) {
        return;
    }
    struct quad *d = DESTINATION(struct quad, 0);
    const struct quad *b = SOURCE(struct quad, 1);
    const struct quad *c = insn->sub == ATOM_CAS ? SOURCE(struct quad, 2) : b;
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct quad *at = (struct quad *)(void *)access.at[lane];
        struct quad old = *at;
        bool is_taken =
            insn->sub != ATOM_CAS || (old.low == b[lane].low && old.high == b[lane].high);
        struct quad value = is_taken ? c[lane] : old;
        changes += value.low != old.low || value.high != old.high;
        seen = left == mask ? old.low : seen;
        *at = value;
        d[lane] = old;
    }
    note_result(warp, insn, mask, &access, seen);
    finish(warp, insn, mask, &access, sizeof(struct quad), changes);
}

/* clang-format off */
#define EACH_OF(op, suffix32, suffix64)                                                            \
    [TYPE_B32] = op##suffix32, [TYPE_U32] = op##suffix32, [TYPE_S32] = op##suffix32,               \
    [TYPE_B64] = op##suffix64, [TYPE_U64] = op##suffix64, [TYPE_S64] = op##suffix64
#define HALVES_OF(op) [TYPE_F16] = op##_f16, [TYPE_F16X2] = op##_f16x2, [TYPE_BF16] = op##_bf16,   \
    [TYPE_BF16X2] = op##_bf16x2
#define SIGNS_OF(op) [TYPE_U32] = op##_u32, [TYPE_S32] = op##_s32, [TYPE_U64] = op##_u64,          \
    [TYPE_S64] = op##_s64
static insn_exec *const handlers[][TYPES] = {
    [ATOM_ADD] = {EACH_OF(add, _32, _64), [TYPE_F32] = add_f32, [TYPE_F64] = add_f64,
                  HALVES_OF(add)},
    [ATOM_MIN] = {SIGNS_OF(min), HALVES_OF(min)},
    [ATOM_MAX] = {SIGNS_OF(max), HALVES_OF(max)},
    [ATOM_AND] = {EACH_OF(and, _32, _64)},
    [ATOM_OR] = {EACH_OF(or, _32, _64)},
    [ATOM_XOR] = {EACH_OF(xor, _32, _64)},
    [ATOM_EXCH] = {EACH_OF(exch, _32, _64), [TYPE_B16] = exch_16, [TYPE_B128] = swap_128},
    [ATOM_CAS] = {EACH_OF(cas, _32, _64), [TYPE_B16] = cas_16, [TYPE_U16] = cas_16,
                  [TYPE_B128] = swap_128},
    [ATOM_INC] = {EACH_OF(inc, _32, _64)},
    [ATOM_DEC] = {EACH_OF(dec, _32, _64)},
};
/* clang-format on */

insn_exec *find_atom(const struct insn *insn)
{
    if (!has_flags_only(insn, FLAG_ADDR32) || insn->sub > ATOM_DEC || insn->vector > VECTOR_MAX) {
        return NULL;
    }
    return handlers[insn->sub][insn->type];
}
