/* exec_move.c — moves, vectors packed into registers, addresses and special registers. */
#include "sim/exec.h"
#include "sim/schedule.h"

#include <string.h>

struct quad {
    uint64_t low, high;
};

EXEC_UNARY(mov_32, uint32_t, uint32_t, x)
EXEC_UNARY(mov_64, uint64_t, uint64_t, x)

static void mov_128(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct quad *d = DESTINATION(struct quad, 0);
    const struct quad *a = SOURCE(struct quad, 0);

    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        d[lane] = a[lane];
    }
}

static void mov_predicate(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    write_predicate(warp, insn->args[0], source_predicate(warp, insn, 0), mask);
}

/* ---- addresses ---- */

static uint64_t window_base(const struct insn *insn)
{
    switch (insn->space) {
    case SPACE_SHARED:
        return WINDOW_SHARED;
    case SPACE_LOCAL:
        return WINDOW_LOCAL;
    case SPACE_PARAM:
        return WINDOW_PARAM;
    default:
        return 0; /* global and constant memory is where generic addresses say */
    }
}

static void cvta_64(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint64_t base = window_base(insn);
    uint64_t added = insn->flags & FLAG_TO ? 0 - base : base;
    uint64_t *d = DESTINATION(uint64_t, 0);
    const uint64_t *a = SOURCE(uint64_t, 0);

    FOR_LANES(uint64_t, result = a[lane] + added)
}

static void isspacep(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const uint64_t *a = SOURCE(uint64_t, 0);
    uint64_t base = window_base(insn);
    uint32_t value = 0;

    EACH_LANE
    {
        bool is_inside =
            base ? a[lane] - base < WINDOW_BYTES : a[lane] - WINDOW_SHARED >= (uint64_t)3 << 32;
        value |= (uint32_t)is_inside << lane;
    }
    write_predicate(warp, insn->args[0], value, mask);
}

static void symbol(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint64_t address = warp->grid->module->addresses[insn->target] + (uint64_t)insn->imm;
    uint64_t *d = DESTINATION(uint64_t, 0);

    FOR_LANES(uint64_t, result = address)
}

/* ---- vectors in one register ---- */

#define BY_LANE                                                                                    \
    for (uint32_t left = mask, lane = 0; left && (lane = (uint32_t)__builtin_ctz(left), 1);        \
         left &= left - 1)

#define PACK(name, from_type, count, part_lane)                                                    \
    static void pack_##name(struct warp *warp, const struct insn *insn, uint32_t mask)             \
    {                                                                                              \
        __auto_type d = DESTINATION(from_type, 0);                                                 \
        for (int i = 0; i < (count); i++) {                                                        \
            __auto_type a = SOURCE(part_lane, i);                                                  \
            BY_LANE                                                                                \
            {                                                                                      \
                d[lane * (count) + (uint32_t)i] = (from_type)a[lane];                              \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void unpack_##name(struct warp *warp, const struct insn *insn, uint32_t mask)           \
    {                                                                                              \
        const from_type *a = sizeof(from_type) * (count) == 4 ? source_4(warp, insn->args[count])  \
                                                              : source_8(warp, insn->args[count]); \
        for (int i = 0; i < (count); i++) {                                                        \
            __auto_type d = DESTINATION(part_lane, i);                                             \
            BY_LANE                                                                                \
            {                                                                                      \
                d[lane] = a[lane * (count) + (uint32_t)i];                                         \
            }                                                                                      \
        }                                                                                          \
    }
PACK(4x8, uint8_t, 4, uint32_t)
PACK(4x16, uint16_t, 4, uint32_t)
PACK(8x8, uint8_t, 8, uint32_t)
PACK(2x64, uint64_t, 2, uint64_t)
PACK(4x32, uint32_t, 4, uint32_t)

/* Halves of a register; a destination may be the source's slot, so all is read before a write. */
#define PACK_TWO(name, lane_type, bits)                                                            \
    static void pack_##name(struct warp *warp, const struct insn *insn, uint32_t mask)             \
    {                                                                                              \
        const lane_type part = (lane_type)(((uint64_t)1 << (bits)) - 1);                           \
        typeof(lane_type) *d = DESTINATION(lane_type, 0);                                          \
        const uint32_t *a = SOURCE(uint32_t, 0);                                                   \
        const uint32_t *b = SOURCE(uint32_t, 1);                                                   \
        FOR_LANES(lane_type, result = (a[lane] & part) | (b[lane] & part) << (bits))               \
    }                                                                                              \
    static void unpack_##name(struct warp *warp, const struct insn *insn, uint32_t mask)           \
    {                                                                                              \
        const lane_type part = (lane_type)(((uint64_t)1 << (bits)) - 1);                           \
        lane_type a[WARP_LANES];                                                                   \
        memcpy(a, SOURCE(lane_type, 0), sizeof(a));                                                \
        uint32_t *d = DESTINATION(uint32_t, 0);                                                    \
        FOR_LANES(uint32_t, result = (uint32_t)(a[lane] & part))                                   \
        d = DESTINATION(uint32_t, 1);                                                              \
        FOR_LANES(uint32_t, result = (uint32_t)(a[lane] >> (bits)&part))                           \
    }
PACK_TWO(2x8, uint32_t, 8)
PACK_TWO(2x16, uint32_t, 16)
PACK_TWO(2x32, uint64_t, 32)

/* ---- special registers ---- */

static void sreg_thread(struct warp *warp, const struct insn *insn, uint32_t value[WARP_LANES])
{
    const uint32_t *block = warp->grid->launch.block;

    EACH_LANE
    {
        uint32_t thread = warp->index * WARP_LANES + (uint32_t)lane;
        switch (insn->target) {
        case SREG_TID_X:
            value[lane] = thread % block[0];
            break;
        case SREG_TID_Y:
            value[lane] = thread / block[0] % block[1];
            break;
        default:
            value[lane] = thread / block[0] / block[1];
            break;
        }
    }
}

static void sreg_lane(const struct insn *insn, uint32_t value[WARP_LANES])
{
    EACH_LANE
    {
        uint32_t bit = 1u << lane;
        switch (insn->target) {
        case SREG_LANEMASK_EQ:
            value[lane] = bit;
            break;
        case SREG_LANEMASK_LE:
            value[lane] = bit | (bit - 1);
            break;
        case SREG_LANEMASK_LT:
            value[lane] = bit - 1;
            break;
        case SREG_LANEMASK_GE:
            value[lane] = ~(bit - 1);
            break;
        case SREG_LANEMASK_GT:
            value[lane] = ~(bit | (bit - 1));
            break;
        default:
            value[lane] = (uint32_t)lane;
            break;
        }
    }
}

static uint64_t workspace_address(const struct grid *grid)
{
    return grid->workspace < 0
               ? 0
               : SPACE_WORKSPACE + (uint64_t)grid->workspace * SPACE_WORKSPACE_BYTES;
}

/* Clocks move on with the schedule, and with each look at them. */
static uint64_t sreg_time(struct warp *warp)
{
    return warp->engine->ticks += 8;
}

/* What is the same on all lanes. */
static uint64_t sreg_uniform(struct warp *warp, const struct insn *insn)
{
    const struct grid *grid = warp->grid;
    const struct launch *launch = &grid->launch;

    switch (insn->target) {
    case SREG_NTID_X:
    case SREG_NTID_Y:
    case SREG_NTID_Z:
        return launch->block[insn->target - SREG_NTID_X];
    case SREG_CTAID_X:
    case SREG_CTAID_Y:
    case SREG_CTAID_Z:
        return warp->cta->id[insn->target - SREG_CTAID_X];
    case SREG_NCTAID_X:
    case SREG_NCTAID_Y:
    case SREG_NCTAID_Z:
        return launch->grid[insn->target - SREG_NCTAID_X];
    case SREG_WARPID:
        return warp->index;
    case SREG_NWARPID:
        return grid->warp_count;
    case SREG_SMID:
        return warp->cta->index % (uint64_t)warp->engine->options.sm_count;
    case SREG_NSMID:
        return (uint64_t)warp->engine->options.sm_count;
    case SREG_GRIDID:
        return grid->serial;
    case SREG_CLOCK:
    case SREG_CLOCK64:
    case SREG_GLOBALTIMER:
    case SREG_GLOBALTIMER_LO:
        return sreg_time(warp);
    case SREG_CLOCK_HI:
    case SREG_GLOBALTIMER_HI:
        return sreg_time(warp) >> 32;
    case SREG_DYNAMIC_SMEM_SIZE:
        return launch->dynamic_shared_bytes;
    case SREG_TOTAL_SMEM_SIZE:
        return grid->shared_bytes;
    case SREG_ENVREG1:
        return workspace_address(grid) >> 32;
    case SREG_ENVREG2:
        return (uint32_t)workspace_address(grid);
    case SREG_AGGR_SMEM_SIZE:
        return grid->shared_bytes + SHARED_RESERVED_BYTES;
    case SREG_CLUSTER_NCTAID_X:
    case SREG_CLUSTER_NCTAID_Y:
    case SREG_CLUSTER_NCTAID_Z:
    case SREG_CLUSTER_NCTARANK:
        return 1;
    default: /* the place in a cluster of one, and whether there is one */
        return 0;
    }
}

static bool is_of_thread(uint32_t target)
{
    return target <= SREG_TID_Z;
}

static bool is_of_lane(uint32_t target)
{
    return target == SREG_LANEID || (target >= SREG_LANEMASK_EQ && target <= SREG_LANEMASK_GT);
}

static void sreg_32(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t *d = DESTINATION(uint32_t, 0);
    uint32_t value[WARP_LANES];

    if (is_of_thread(insn->target)) {
        sreg_thread(warp, insn, value);
    } else if (is_of_lane(insn->target)) {
        sreg_lane(insn, value);
    } else {
        uint32_t given = (uint32_t)sreg_uniform(warp, insn);
        EACH_LANE
        {
            value[lane] = given;
        }
    }
    FOR_LANES(uint32_t, result = value[lane])
}

static void sreg_64(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint64_t *d = DESTINATION(uint64_t, 0);
    uint64_t value = sreg_uniform(warp, insn);

    FOR_LANES(uint64_t, result = value)
}

/* ---- */

static int bytes_of(uint8_t type)
{
    switch (type) {
    case TYPE_B8:
    case TYPE_U8:
    case TYPE_S8:
        return 1;
    case TYPE_B16:
    case TYPE_U16:
    case TYPE_S16:
    case TYPE_F16:
    case TYPE_BF16:
        return 2;
    case TYPE_B64:
    case TYPE_U64:
    case TYPE_S64:
    case TYPE_F64:
        return 8;
    case TYPE_B128:
        return 16;
    case TYPE_PRED:
    case TYPE_NONE:
        return 0;
    default:
        return 4;
    }
}

struct pairing {
    int part_bytes, count;
    insn_exec *pack, *unpack;
};
static const struct pairing pairings[] = {
    {1, 2, pack_2x8, unpack_2x8},   {1, 4, pack_4x8, unpack_4x8},   {1, 8, pack_8x8, unpack_8x8},
    {2, 2, pack_2x16, unpack_2x16}, {2, 4, pack_4x16, unpack_4x16}, {4, 2, pack_2x32, unpack_2x32},
    {8, 2, pack_2x64, unpack_2x64}, {4, 4, pack_4x32, unpack_4x32},
};

static insn_exec *find_pairing(const struct insn *insn)
{
    bool is_pack = insn->op == OP_PACK;
    int part_bytes = bytes_of(is_pack ? insn->type2 : insn->type);
    int count = is_pack ? insn->src_count : insn->dst_count;

    for (size_t i = 0; i < sizeof(pairings) / sizeof(*pairings); i++) {
        if (pairings[i].part_bytes == part_bytes && pairings[i].count == count) {
            return is_pack ? pairings[i].pack : pairings[i].unpack;
        }
    }
    return NULL;
}

insn_exec *find_move(const struct insn *insn)
{
    int bytes = bytes_of(insn->type);

    if (!has_flags_only(insn, insn->op == OP_CVTA ? FLAG_TO : 0)) {
        return NULL;
    }
    switch (insn->op) {
    case OP_MOV:
        return insn->type == TYPE_PRED ? mov_predicate
               : bytes == 16           ? mov_128
               : bytes == 8            ? mov_64
                                       : mov_32;
    case OP_CVTA:
        return cvta_64;
    case OP_ISSPACEP:
        return isspacep;
    case OP_SREG:
        return bytes == 8 ? sreg_64 : sreg_32;
    case OP_SYMBOL:
        return symbol;
    default:
        return find_pairing(insn);
    }
}
