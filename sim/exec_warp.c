/* exec_warp.c — what lanes of a warp tell each other. */
#include "sim/exec.h"
#include "sim/schedule.h"

#include "common/mem.h"

#include <stdlib.h>

/* Once for each instruction and device. */
static void note_once(struct warp *warp, const struct insn *insn, enum noted what, char *message)
{
    if (!engine_has_noted(warp, insn, what)) {
        char *source = source_of(warp->grid, insn);
        engine_set_noted(warp, insn, what);
        engine_note(warp->engine, warp->space->rank,
                    what == NOTED_LANES ? "shfl_mask" : "member_mask", source, message);
        free(source);
    }
    free(message);
}

/* What is undefined about the member mask `wanted` of the lanes `same`, while `mask` execute. */
static void check_members(struct warp *warp, const struct insn *insn, uint32_t mask, uint32_t same,
                          uint32_t wanted)
{
    if (same & ~wanted) {
        note_once(warp, insn, NOTED_MEMBERS,
                  xasprintf("lanes %#x name the mask %#x, in which they are not (block %lu, warp "
                            "%u)",
                            same & ~wanted, wanted, warp->cta->index, warp->index));
    } else if (wanted & mask & ~same) {
        note_once(warp, insn, NOTED_MEMBERS,
                  xasprintf("lanes %#x name the mask %#x, but lanes %#x of it name another one "
                            "(block %lu, warp %u)",
                            same, wanted, wanted & mask & ~same, warp->cta->index, warp->index));
    }
}

/* Lanes of one member mask wait until all of them that live are there. Returns those of `mask`
 * that go on now; `members[lane]` is each lane's mask. */
static uint32_t converged(struct warp *warp, const struct insn *insn, uint32_t mask,
                          const uint32_t *members)
{
    uint32_t ready = 0;

    for (uint32_t left = mask; left;) {
        uint32_t wanted = members[__builtin_ctz(left)];
        uint32_t same = 0;
        EACH_LANE
        {
            same |= (uint32_t)(members[lane] == wanted) << lane;
        }
        same &= left;
        left &= ~same;
        check_members(warp, insn, mask, same, wanted);
        if (wanted & warp->live & ~mask) {
            warp_wait(warp, same, GROUP_CONVERGE)->members = wanted;
        } else {
            ready |= same;
        }
    }
    return ready;
}

/* The lanes that go on, of an instruction whose last source is a member mask. */
static uint32_t meet(struct warp *warp, const struct insn *insn, uint32_t mask, int source)
{
    if (!(insn->flags & FLAG_SYNC) && insn->src_count <= source) {
        return mask;
    }
    const uint32_t *members = SOURCE(uint32_t, source);
    uint32_t first = members[__builtin_ctz(mask)];
    if (insn->args[insn->dst_count + source] < 0 && (first & warp->live & ~mask) == 0) {
        if (mask & ~first) {
            check_members(warp, insn, mask, mask, first);
        }
        return mask;
    }
    return converged(warp, insn, mask, members);
}

/* Calls `run(warp, insn, lanes)` for the lanes of each member mask apart. */
static void for_each_team(struct warp *warp, const struct insn *insn, uint32_t mask,
                          const uint32_t *members, insn_exec *run)
{
    while (mask) {
        uint32_t wanted = members ? members[__builtin_ctz(mask)] : 0;
        uint32_t same = MASK_ALL;
        if (members) {
            same = 0;
            EACH_LANE
            {
                same |= (uint32_t)(members[lane] == wanted) << lane;
            }
        }
        run(warp, insn, mask & same);
        mask &= ~same;
    }
}

static void report_lanes(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    note_once(warp, insn, NOTED_LANES,
              xasprintf("shfl reads a lane that does not take part: lanes %#x execute it (block "
                        "%lu, warp %u)",
                        mask, warp->cta->index, warp->index));
}

/* Which lane each one reads, as the PTX manual's pseudocode has it. */
static uint32_t shfl_source(uint32_t sub, uint32_t lane, uint32_t b, uint32_t c, bool *is_valid)
{
    uint32_t segment = c >> 8 & 31;
    uint32_t highest = (lane & segment) | (c & 31 & ~segment);
    uint32_t offset = b & 31;
    int32_t from = 0;

    switch (sub) {
    case SHFL_UP:
        from = (int32_t)lane - (int32_t)offset;
        *is_valid = from >= (int32_t)highest;
        break;
    case SHFL_DOWN:
        from = (int32_t)(lane + offset);
        *is_valid = from <= (int32_t)highest;
        break;
    case SHFL_BFLY:
        from = (int32_t)(lane ^ offset);
        *is_valid = from <= (int32_t)highest;
        break;
    default:
        from = (int32_t)((lane & segment) | (offset & ~segment));
        *is_valid = from <= (int32_t)highest;
        break;
    }
    return *is_valid ? (uint32_t)from & 31 : lane;
}

static void shfl(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const uint32_t *a = SOURCE(uint32_t, 0);
    const uint32_t *b = SOURCE(uint32_t, 1);
    const uint32_t *c = SOURCE(uint32_t, 2);
    uint32_t *d = DESTINATION(uint32_t, 0);
    uint32_t value[WARP_LANES];
    uint32_t valid = 0;
    uint32_t read = 0;

    mask = meet(warp, insn, mask, 3);
    EACH_LANE
    {
        bool is_valid;
        uint32_t from = shfl_source(insn->sub, (uint32_t)lane, b[lane], c[lane], &is_valid);
        value[lane] = a[from];
        valid |= (uint32_t)is_valid << lane;
        read |= mask >> lane & 1 ? 1u << from : 0;
    }
    FOR_LANES(uint32_t, result = value[lane])
    if (insn->dst_count == 2) {
        write_predicate(warp, insn->args[1], valid, mask);
    }
    if (read & ~mask) {
        report_lanes(warp, insn, mask);
    }
}

static void vote_team(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t value = source_predicate(warp, insn, 0) & mask;
    bool verdict = false;

    switch (insn->sub) {
    case VOTE_BALLOT: {
        uint32_t *d = DESTINATION(uint32_t, 0);
        FOR_LANES(uint32_t, result = value)
        return;
    }
    case VOTE_ALL:
        verdict = value == mask;
        break;
    case VOTE_ANY:
        verdict = value != 0;
        break;
    default:
        verdict = value == 0 || value == mask;
        break;
    }
    write_predicate(warp, insn->args[0], verdict ? MASK_ALL : 0, mask);
}

static const uint32_t *members_of(struct warp *warp, const struct insn *insn, int source)
{
    return insn->src_count > source && insn->args[insn->dst_count + source] >= 0
               ? SOURCE(uint32_t, source)
               : NULL; /* one constant: all lanes are one team */
}

static void vote(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    mask = meet(warp, insn, mask, 1);
    for_each_team(warp, insn, mask, members_of(warp, insn, 1), vote_team);
}

#define MATCH(name, lane_type)                                                                     \
    static void name(struct warp *warp, const struct insn *insn, uint32_t mask)                    \
    {                                                                                              \
        __auto_type a = SOURCE(lane_type, 0);                                                      \
        uint32_t value[WARP_LANES];                                                                \
        uint32_t *d = DESTINATION(uint32_t, 0);                                                    \
        EACH_LANE                                                                                  \
        {                                                                                          \
            uint32_t same = 0;                                                                     \
            for (int other = 0; other < WARP_LANES; other++) {                                     \
                same |= (uint32_t)(a[other] == a[lane]) << other;                                  \
            }                                                                                      \
            value[lane] = insn->sub == 0 ? same & mask : (same & mask) == mask ? mask : 0;         \
        }                                                                                          \
        FOR_LANES(uint32_t, result = value[lane])                                                  \
        if (insn->dst_count == 2) {                                                                \
            uint32_t is_whole = value[__builtin_ctz(mask)] == mask ? MASK_ALL : 0;                 \
            write_predicate(warp, insn->args[1], is_whole, mask);                                  \
        }                                                                                          \
    }
MATCH(match_team_32, uint32_t)
MATCH(match_team_64, uint64_t)

static void match_32(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    mask = meet(warp, insn, mask, 1);
    for_each_team(warp, insn, mask, members_of(warp, insn, 1), match_team_32);
}

static void match_64(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    mask = meet(warp, insn, mask, 1);
    for_each_team(warp, insn, mask, members_of(warp, insn, 1), match_team_64);
}

static uint32_t reduced(const struct insn *insn, uint32_t x, uint32_t y)
{
    bool is_signed = insn->type == TYPE_S32;
    bool is_less = is_signed ? (int32_t)x < (int32_t)y : x < y;

    switch (insn->sub) {
    case ATOM_ADD:
        return x + y;
    case ATOM_MIN:
        return is_less ? x : y;
    case ATOM_MAX:
        return is_less ? y : x;
    case ATOM_AND:
        return x & y;
    case ATOM_OR:
        return x | y;
    default:
        return x ^ y;
    }
}

static void redux_team(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const uint32_t *a = SOURCE(uint32_t, 0);
    uint32_t *d = DESTINATION(uint32_t, 0);
    uint32_t value = a[__builtin_ctz(mask)];

    for (uint32_t left = mask & (mask - 1); left; left &= left - 1) {
        value = reduced(insn, value, a[__builtin_ctz(left)]);
    }
    FOR_LANES(uint32_t, result = value)
}

static void redux(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    mask = meet(warp, insn, mask, 1);
    for_each_team(warp, insn, mask, members_of(warp, insn, 1), redux_team);
}

static void elect_team(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t leader = (uint32_t)__builtin_ctz(mask);
    uint32_t *d = DESTINATION(uint32_t, 0);

    FOR_LANES(uint32_t, result = leader)
    write_predicate(warp, insn->args[1], 1u << leader, mask);
}

static void elect(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    mask = meet(warp, insn, mask, 0);
    for_each_team(warp, insn, mask, members_of(warp, insn, 0), elect_team);
}

static void activemask(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t *d = DESTINATION(uint32_t, 0);

    FOR_LANES(uint32_t, result = mask)
}

static void bar_warp(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    meet(warp, insn, mask, 0);
}

insn_exec *find_warp(const struct insn *insn)
{
    bool is_64 = insn->type == TYPE_B64 || insn->type == TYPE_U64 || insn->type == TYPE_S64;
    bool is_word = insn->type == TYPE_U32 || insn->type == TYPE_S32 || insn->type == TYPE_B32;

    if (!has_flags_only(insn, FLAG_SYNC | FLAG_ALIGNED)) {
        return NULL;
    }
    switch (insn->op) {
    case OP_SHFL:
        return shfl;
    case OP_VOTE:
        return vote;
    case OP_MATCH:
        return is_64 ? match_64 : match_32;
    case OP_REDUX:
        return is_word && insn->sub <= ATOM_XOR && insn->sub != ATOM_NONE ? redux : NULL;
    case OP_ELECT:
        return elect;
    case OP_ACTIVEMASK:
        return activemask;
    default:
        return bar_warp;
    }
}
