/* exec_memory.c — loads and stores. */
#include "sim/access.h"
#include "sim/exec.h"
#include "sim/schedule.h"
#include "sim/stale.h"

#include <string.h>

/* Vectors that LOAD_BLOCK and STORE_BLOCK can move. */
static bool is_block(const struct insn *insn)
{
    return insn->type != TYPE_B128 && insn->vector <= 4;
}

static bool resolve(struct warp *warp, const struct insn *insn, uint32_t mask,
                    uint32_t element_bytes, struct access *access)
{
    bool is_load = insn->op == OP_LD;
    struct access_request request = {
        .kind = is_load ? ACCESS_LOAD : ACCESS_STORE,
        .is_brief = is_block(insn) && (is_load || !warp->engine->is_watching),
        .size_bytes = element_bytes * insn->vector,
        .space = insn->space,
        .mechanism = is_load ? MECHANISM_SM_LOAD : MECHANISM_SM_STORE,
    };
    return access_resolve(warp, insn, mask, &request, access);
}

/* What a spin would see: the first lane's first element. */
static void note_strong(struct warp *warp, const struct insn *insn, uint32_t mask,
                        const struct access *access, uint32_t size_bytes)
{
    int lane = __builtin_ctz(mask);
    uint64_t value = 0;

    memcpy(&value, access->at[lane], size_bytes < 8 ? size_bytes : 8);
    warp_spin(warp, insn, lane, access->address[lane], value);
    if (warp->spin.repeats == 0 && insn->vector == 1) {
        stale_polled(warp, insn, mask, access, size_bytes);
    }
}

/* Element i of lane l of a contiguous access lies at l * vector + i. */
#define LOAD_BLOCK(lane_type, type)                                                                \
    {                                                                                              \
        const type *from = (const type *)access.at[0];                                             \
        if (insn->vector == 1) {                                                                   \
            typeof(lane_type) *d0 = DESTINATION(lane_type, 0);                                     \
            LOOP_IS_PARALLEL EACH_LANE                                                             \
            {                                                                                      \
                d0[lane] = (lane_type)from[lane];                                                  \
            }                                                                                      \
        } else if (insn->vector == 2) {                                                            \
            typeof(lane_type) *d0 = DESTINATION(lane_type, 0);                                     \
            typeof(lane_type) *d1 = DESTINATION(lane_type, 1);                                     \
            LOOP_IS_PARALLEL EACH_LANE                                                             \
            {                                                                                      \
                d0[lane] = (lane_type)from[(ptrdiff_t)lane * 2];                                   \
                d1[lane] = (lane_type)from[(ptrdiff_t)lane * 2 + 1];                               \
            }                                                                                      \
        } else {                                                                                   \
            typeof(lane_type) *d0 = DESTINATION(lane_type, 0);                                     \
            typeof(lane_type) *d1 = DESTINATION(lane_type, 1);                                     \
            typeof(lane_type) *d2 = DESTINATION(lane_type, 2);                                     \
            typeof(lane_type) *d3 = DESTINATION(lane_type, 3);                                     \
            LOOP_IS_PARALLEL EACH_LANE                                                             \
            {                                                                                      \
                d0[lane] = (lane_type)from[(ptrdiff_t)lane * 4];                                   \
                d1[lane] = (lane_type)from[(ptrdiff_t)lane * 4 + 1];                               \
                d2[lane] = (lane_type)from[(ptrdiff_t)lane * 4 + 2];                               \
                d3[lane] = (lane_type)from[(ptrdiff_t)lane * 4 + 3];                               \
            }                                                                                      \
        }                                                                                          \
    }

/* Keeps the compiler from putting a vector together of words from 32 places: that takes longer. */
#define ONE_BY_ONE(value) __asm__("" : "+r"(value))

#define LOAD_LANES(lane_type, type)                                                                \
    for (int i = 0; i < insn->vector; i++) {                                                       \
        typeof(lane_type) *d = DESTINATION(lane_type, i);                                          \
        if (access.is_uniform) {                                                                   \
            type value = ((const type *)access.at[0])[i];                                          \
            LOOP_IS_PARALLEL EACH_LANE                                                             \
            {                                                                                      \
                d[lane] = (lane_type)value;                                                        \
            }                                                                                      \
        } else if (mask == MASK_ALL) {                                                             \
            _Pragma("GCC unroll 8") EACH_LANE                                                      \
            {                                                                                      \
                lane_type value = (lane_type)((const type *)access.at[lane])[i];                   \
                ONE_BY_ONE(value);                                                                 \
                d[lane] = value;                                                                   \
            }                                                                                      \
        } else {                                                                                   \
            for (uint32_t left = mask; left; left &= left - 1) {                                   \
                int lane = __builtin_ctz(left);                                                    \
                d[lane] = (lane_type)((const type *)access.at[lane])[i];                           \
            }                                                                                      \
        }                                                                                          \
    }

#define LOAD(name, lane_type, type)                                                                \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        struct access access;                                                                      \
        if (!resolve(warp, insn, mask, sizeof(type), &access)) {                                   \
            return;                                                                                \
        }                                                                                          \
        if (insn->sem != SEM_WEAK) {                                                               \
            note_strong(warp, insn, mask, &access, sizeof(type));                                  \
        }                                                                                          \
        if (access.is_contiguous) {                                                                \
            LOAD_BLOCK(lane_type, type)                                                            \
        } else {                                                                                   \
            LOAD_LANES(lane_type, type)                                                            \
        }                                                                                          \
    }

/* Elements of 16 bytes may lie at any multiple of 16 on the device, but not in a slot's vectors. */
struct quad {
    uint64_t low, high;
};

LOAD(load_u8, uint32_t, uint8_t)
LOAD(load_s8, int32_t, int8_t)
LOAD(load_u16, uint32_t, uint16_t)
LOAD(load_s16, int32_t, int16_t)
LOAD(load_32, uint32_t, uint32_t)
LOAD(load_64, uint64_t, uint64_t)

static void load_128(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct access access;

    if (!resolve(warp, insn, mask, sizeof(struct quad), &access)) {
        return;
    }
    if (insn->sem != SEM_WEAK) {
        note_strong(warp, insn, mask, &access, sizeof(struct quad));
    }
    for (int i = 0; i < insn->vector; i++) {
        struct quad *d = DESTINATION(struct quad, i);
        for (uint32_t left = mask; left; left &= left - 1) {
            int lane = __builtin_ctz(left);
            d[lane] = ((const struct quad *)access.at[lane])[i];
        }
    }
}

/* A store changes memory only where the bytes differ; looked at only while a proof is tried. */
#define STORE_LANES(type)                                                                          \
    for (uint32_t left = mask; left; left &= left - 1) {                                           \
        int lane = __builtin_ctz(left);                                                            \
        __auto_type to = (type *)access.at[lane] + i;                                              \
        type value = (type)a[lane];                                                                \
        changes += memcmp(to, &value, sizeof(value)) != 0;                                         \
        *to = value;                                                                               \
    }

static void finish_store(struct warp *warp, const struct insn *insn, uint32_t mask,
                         const struct access *access, uint32_t size_bytes, uint64_t changes)
{
    warp->engine->changes += changes;
    bool may_define = access->region && access->region->is_undefined;
    if (insn->sem != SEM_WEAK && insn->vector == 1) {
        stale_stored(warp, mask, access, size_bytes, changes == 0);
    }
    if (changes || !warp->engine->is_watching || may_define) {
        access_wrote(warp, access, mask, size_bytes);
    }
    if (insn->sem != SEM_WEAK && warp->rests_after_store) {
        warp_yield(warp);
    }
}

#define STORE_BLOCK(lane_type, type)                                                               \
    {                                                                                              \
        typeof(type) *to = (type *)access.at[0];                                                   \
        const lane_type *a0 = SOURCE(lane_type, 1);                                                \
        if (insn->vector == 1) {                                                                   \
            LOOP_IS_PARALLEL EACH_LANE                                                             \
            {                                                                                      \
                to[lane] = (type)a0[lane];                                                         \
            }                                                                                      \
        } else if (insn->vector == 2) {                                                            \
            const lane_type *a1 = SOURCE(lane_type, 2);                                            \
            LOOP_IS_PARALLEL EACH_LANE                                                             \
            {                                                                                      \
                to[(ptrdiff_t)lane * 2] = (type)a0[lane];                                          \
                to[(ptrdiff_t)lane * 2 + 1] = (type)a1[lane];                                      \
            }                                                                                      \
        } else {                                                                                   \
            const lane_type *a1 = SOURCE(lane_type, 2);                                            \
            const lane_type *a2 = SOURCE(lane_type, 3);                                            \
            const lane_type *a3 = SOURCE(lane_type, 4);                                            \
            LOOP_IS_PARALLEL EACH_LANE                                                             \
            {                                                                                      \
                to[(ptrdiff_t)lane * 4] = (type)a0[lane];                                          \
                to[(ptrdiff_t)lane * 4 + 1] = (type)a1[lane];                                      \
                to[(ptrdiff_t)lane * 4 + 2] = (type)a2[lane];                                      \
                to[(ptrdiff_t)lane * 4 + 3] = (type)a3[lane];                                      \
            }                                                                                      \
        }                                                                                          \
        changes = 1;                                                                               \
    }

#define STORE(name, lane_type, type)                                                               \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        struct access access;                                                                      \
        uint64_t changes = 0;                                                                      \
        if (!resolve(warp, insn, mask, sizeof(type), &access)) {                                   \
            return;                                                                                \
        }                                                                                          \
        if (access.is_contiguous) {                                                                \
            STORE_BLOCK(lane_type, type)                                                           \
        } else {                                                                                   \
            for (int i = 0; i < insn->vector; i++) {                                               \
                const lane_type *a = SOURCE(lane_type, i + 1);                                     \
                STORE_LANES(type)                                                                  \
            }                                                                                      \
        }                                                                                          \
        finish_store(warp, insn, mask, &access, sizeof(type) * insn->vector, changes);             \
    }
STORE(store_8, uint32_t, uint8_t)
STORE(store_16, uint32_t, uint16_t)
STORE(store_32, uint32_t, uint32_t)
STORE(store_64, uint64_t, uint64_t)

static void store_128(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct access access;
    uint64_t changes = 0;

    if (!resolve(warp, insn, mask, sizeof(struct quad), &access)) {
        return;
    }
    for (int i = 0; i < insn->vector; i++) {
        const struct quad *a = SOURCE(struct quad, i + 1);
        STORE_LANES(struct quad)
    }
    finish_store(warp, insn, mask, &access, (uint32_t)sizeof(struct quad) * insn->vector, changes);
}

/* clang-format off */
#define WORDS_OF(op) [TYPE_B32] = op##_32, [TYPE_U32] = op##_32, [TYPE_S32] = op##_32,             \
        [TYPE_F32] = op##_32, [TYPE_F16X2] = op##_32, [TYPE_BF16X2] = op##_32,                     \
        [TYPE_B64] = op##_64, [TYPE_U64] = op##_64, [TYPE_S64] = op##_64, [TYPE_F64] = op##_64,    \
        [TYPE_B128] = op##_128
static insn_exec *const loads[TYPES] = {
    [TYPE_B8] = load_u8, [TYPE_U8] = load_u8, [TYPE_S8] = load_s8,
    [TYPE_B16] = load_u16, [TYPE_U16] = load_u16, [TYPE_S16] = load_s16,
    [TYPE_F16] = load_u16, [TYPE_BF16] = load_u16, WORDS_OF(load),
};
static insn_exec *const stores[TYPES] = {
    [TYPE_B8] = store_8, [TYPE_U8] = store_8, [TYPE_S8] = store_8,
    [TYPE_B16] = store_16, [TYPE_U16] = store_16, [TYPE_S16] = store_16,
    [TYPE_F16] = store_16, [TYPE_BF16] = store_16, WORDS_OF(store),
};
/* clang-format on */

insn_exec *find_memory(const struct insn *insn)
{
    if (!has_flags_only(insn, FLAG_NC | FLAG_ADDR32)) {
        return NULL;
    }
    return insn->op == OP_LD ? loads[insn->type] : stores[insn->type];
}
