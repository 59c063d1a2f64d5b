/*
 * exec_multimem.c — reductions over, and stores to, the replicas of a multicast mapping. They are
 * combined in the order of the devices.
 */
#include "sim/exec.h"
#include "sim/half.h"
#include "sim/look.h"
#include "sim/schedule.h"

#include <string.h>

enum { VECTOR_MAX = 8 };

/* The replicas of one lane's element. */
struct target {
    struct region *region;
    uint64_t offset;
};

static bool fault_at(struct warp *warp, const struct insn *insn, enum fault_kind kind, int lane,
                     uint64_t address, uint32_t size_bytes)
{
    warp_fault(warp, insn,
               &(struct fault_place){
                   .kind = kind, .lane = lane, .address = address, .size_bytes = size_bytes});
    return false;
}

static bool has_replica(const struct region *region)
{
    for (int i = 0; i < WORLD_MAX; i++) {
        if (region->mapping.replicas[i]) {
            return true;
        }
    }
    return false;
}

/* Finds and counts what a lane reaches. False: it is a fault. */
static bool reach(struct warp *warp, const struct insn *insn, int lane, uint32_t size_bytes,
                  struct target *target)
{
    uint64_t address = SOURCE(uint64_t, 0)[lane] + (uint64_t)insn->imm;
    bool is_load = insn->op == OP_MULTIMEM_LD_REDUCE;
    enum mechanism mechanism = is_load ? MECHANISM_MULTIMEM_LOAD : MECHANISM_MULTIMEM_STORE;
    struct region *region = space_region(warp->space, address, size_bytes);

    if (address % size_bytes != 0) {
        return fault_at(warp, insn, FAULT_MISALIGNED, lane, address, size_bytes);
    }
    if (!region || !has_replica(region)) {
        return fault_at(warp, insn, FAULT_ILLEGAL_ADDRESS, lane, address, size_bytes);
    }
    if (!(region->mapping.access & (is_load ? MAP_READ : MAP_WRITE))) {
        return fault_at(warp, insn, FAULT_READ_ONLY, lane, address, size_bytes);
    }
    target->region = region;
    target->offset = address - region->address;
    for (int i = 0; warp->traffic && i < WORLD_MAX; i++) {
        if (region->mapping.replicas[i]) {
            warp->traffic[i][warp->grid->launch.is_nccl ? MECHANISM_NCCL : mechanism] += size_bytes;
        }
    }
    return true;
}

/* ---- combining: elements of at most 8 bytes, in the low bits ---- */

static bool is_bf16(uint8_t type)
{
    return type == TYPE_BF16 || type == TYPE_BF16X2;
}

static uint64_t combine_integers(const struct insn *insn, uint64_t a, uint64_t b)
{
    bool is_signed = insn->type == TYPE_S32 || insn->type == TYPE_S64;
    bool is_narrow = insn->type == TYPE_S32;
    int64_t x = is_narrow ? (int32_t)a : (int64_t)a;
    int64_t y = is_narrow ? (int32_t)b : (int64_t)b;
    bool is_less = is_signed ? x < y : a < b;

    switch (insn->sub) {
    case ATOM_ADD:
        return a + b;
    case ATOM_MIN:
        return is_less ? a : b;
    case ATOM_MAX:
        return is_less ? b : a;
    case ATOM_AND:
        return a & b;
    case ATOM_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static uint64_t combine_halves(const struct insn *insn, uint64_t a, uint64_t b)
{
    enum half_op op = insn->sub == ATOM_ADD   ? HALF_ADD
                      : insn->sub == ATOM_MIN ? HALF_MIN
                                              : HALF_MAX;
    uint64_t value = 0;

    for (int shift = 0; shift < 32; shift += 16) {
        uint16_t half =
            half_combine((uint16_t)(a >> shift), (uint16_t)(b >> shift), is_bf16(insn->type), op);
        value |= (uint64_t)half << shift;
    }
    return value;
}

static uint64_t combine_f32(const struct insn *insn, uint64_t a, uint64_t b)
{
    (void)insn;
    return bits_of_float(float_of_bits((uint32_t)a) + float_of_bits((uint32_t)b));
}

static uint64_t combine_f64(const struct insn *insn, uint64_t a, uint64_t b)
{
    double x;
    double y;

    (void)insn;
    memcpy(&x, &a, sizeof(x));
    memcpy(&y, &b, sizeof(y));
    x += y;
    memcpy(&a, &x, sizeof(a));
    return a;
}

struct kind {
    uint32_t size_bytes;
    uint64_t (*combine)(const struct insn *insn, uint64_t a, uint64_t b);
};
static const struct kind kinds[TYPES] = {
    [TYPE_B32] = {4, combine_integers}, [TYPE_U32] = {4, combine_integers},
    [TYPE_S32] = {4, combine_integers}, [TYPE_B64] = {8, combine_integers},
    [TYPE_U64] = {8, combine_integers}, [TYPE_S64] = {8, combine_integers},
    [TYPE_F16] = {2, combine_halves},   [TYPE_BF16] = {2, combine_halves},
    [TYPE_F16X2] = {4, combine_halves}, [TYPE_BF16X2] = {4, combine_halves},
    [TYPE_F32] = {4, combine_f32},      [TYPE_F64] = {8, combine_f64},
};

static uint64_t read_element(const uint8_t *at, uint32_t size_bytes)
{
    uint64_t value = 0;

    memcpy(&value, at, size_bytes);
    return value;
}

static uint64_t reduced(const struct insn *insn, const struct target *target, uint64_t at)
{
    const struct kind *kind = &kinds[insn->type];
    uint64_t value = 0;
    bool is_first = true;

    for (int i = 0; i < WORLD_MAX; i++) {
        const uint8_t *replica = target->region->mapping.replicas[i];
        if (replica) {
            uint64_t element = read_element(replica + at, kind->size_bytes);
            value = is_first ? element : kind->combine(insn, value, element);
            is_first = false;
        }
    }
    return value;
}

/* A sum in f32 of all replicas' halves, rounded once. */
static uint64_t reduced_wide(const struct insn *insn, const struct target *target, uint64_t at)
{
    const struct format *format = is_bf16(insn->type) ? &format_bf16 : &format_f16;
    struct rounding nearest = {ROUND_RN, false};
    uint32_t size_bytes = kinds[insn->type].size_bytes;
    uint64_t value = 0;

    for (uint32_t part = 0; part < size_bytes; part += 2) {
        float sum = -0.0f;
        for (int i = 0; i < WORLD_MAX; i++) {
            const uint8_t *replica = target->region->mapping.replicas[i];
            if (replica) {
                uint16_t half = (uint16_t)read_element(replica + at + part, 2);
                sum += is_bf16(insn->type) ? float_of_bf16(half) : float_of_f16(half);
            }
        }
        value |= (uint64_t)format_round(format, sum, 0, &nearest) << (8 * part);
    }
    return value;
}

static void multimem_load(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t size_bytes = kinds[insn->type].size_bytes;
    bool is_wide = insn->type2 == TYPE_F32 && insn->sub == ATOM_ADD;

    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct target target;
        uint64_t values[VECTOR_MAX] = {0};
        if (!reach(warp, insn, lane, size_bytes * insn->vector, &target)) {
            return;
        }
        for (uint32_t i = 0; i < insn->vector; i++) {
            uint64_t at = target.offset + (uint64_t)i * size_bytes;
            values[i] = is_wide ? reduced_wide(insn, &target, at) : reduced(insn, &target, at);
        }
        for (int i = 0; i < insn->vector; i++) {
            if (size_bytes == 8) {
                DESTINATION(uint64_t, i)[lane] = values[i];
            } else {
                DESTINATION(uint32_t, i)[lane] = (uint32_t)values[i];
            }
        }
        if (left == mask && insn->sem != SEM_WEAK) {
            warp_spin(warp, insn, lane, target.region->address + target.offset, values[0]);
        }
    }
}

/* Writes one element to all replicas, combined with what is there or plainly. */
static void write_replicas(struct warp *warp, const struct insn *insn, const struct target *target,
                           uint64_t at, uint64_t value)
{
    const struct kind *kind = &kinds[insn->type];
    uint32_t writer = engine_writer(warp, insn);

    for (int i = 0; i < WORLD_MAX; i++) {
        uint8_t *replica = target->region->mapping.replicas[i];
        if (!replica) {
            continue;
        }
        uint64_t old = read_element(replica + at, kind->size_bytes);
        uint64_t combined = insn->op == OP_MULTIMEM_RED ? kind->combine(insn, old, value) : value;
        memcpy(replica + at, &combined, kind->size_bytes);
        if (warp->order && insn->sem != SEM_WEAK) {
            order_replica(warp, target->region->replicas[i], replica + at, true);
        }
        if (memcmp(&combined, &old, kind->size_bytes) != 0) {
            warp->engine->changes++;
            memory_note(target->region->replicas[i], replica + at, kind->size_bytes, writer);
        }
    }
}

static void multimem_write(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    uint32_t size_bytes = kinds[insn->type].size_bytes;

    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct target target;
        if (!reach(warp, insn, lane, size_bytes * insn->vector, &target)) {
            return;
        }
        for (int i = 0; i < insn->vector; i++) {
            uint64_t value =
                size_bytes == 8 ? SOURCE(uint64_t, i + 1)[lane] : SOURCE(uint32_t, i + 1)[lane];
            write_replicas(warp, insn, &target, target.offset + (uint64_t)i * size_bytes, value);
        }
    }
    if (insn->sem != SEM_WEAK && warp->rests_after_store) {
        warp_yield(warp);
    }
}

static bool is_float(uint8_t type)
{
    return type == TYPE_F32 || type == TYPE_F64;
}

insn_exec *find_multimem(const struct insn *insn)
{
    const struct kind *kind = &kinds[insn->type];
    bool is_store = insn->op == OP_MULTIMEM_ST;
    bool is_half = kind->combine == combine_halves;

    if (insn->flags || !kind->combine || insn->vector > VECTOR_MAX) {
        return NULL;
    }
    if (!is_store &&
        (insn->sub == ATOM_NONE || insn->sub > ATOM_XOR || (is_half && insn->sub > ATOM_MAX) ||
         (is_float(insn->type) && insn->sub != ATOM_ADD))) {
        return NULL;
    }
    if (insn->type2 != TYPE_NONE && insn->type2 != TYPE_F32) {
        return NULL;
    }
    return insn->op == OP_MULTIMEM_LD_REDUCE ? multimem_load : multimem_write;
}
