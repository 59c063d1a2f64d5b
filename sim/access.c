#include "sim/access.h"

#include <immintrin.h>
#include <string.h>

#include "sim/exec.h"
#include "sim/look.h"
#include "sim/schedule.h"

/* Lanes that take no part get the address of one that does. */
static void read_addresses(struct warp *warp, const struct insn *insn, uint32_t mask,
                           const struct access_request *request, struct access *access)
{
    uint64_t *address = access->address;
    uint64_t offset = request->is_plain ? 0 : (uint64_t)insn->imm;

    if (insn->flags & FLAG_ADDR32 && !request->is_plain) {
        const uint32_t *a = SOURCE(uint32_t, request->source);
        LOOP_IS_PARALLEL EACH_LANE
        {
            address[lane] = (uint32_t)(a[lane] + (uint32_t)offset);
        }
    } else {
        const uint64_t *a = SOURCE(uint64_t, request->source);
        LOOP_IS_PARALLEL EACH_LANE
        {
            address[lane] = a[lane] + offset;
        }
    }
    if (mask != MASK_ALL) {
        uint64_t given = address[__builtin_ctz(mask)];
        LOOP_IS_PARALLEL EACH_LANE
        {
            address[lane] = mask >> lane & 1 ? address[lane] : given;
        }
    }
}

/* Where all lanes may be: `limit` is the highest offset from `base` at which an access fits. */
struct extent {
    uint64_t base, limit;
    uint8_t *host;
};
struct survey {
    bool is_misaligned, is_beyond; /* some lane */
};

/* Places all lanes in the extent. Good offsets and limits are below 2^63: the sign says beyond. */
static struct survey place_lanes(struct access *access, uint32_t size_bytes,
                                 const struct extent *extent)
{
    const __m256i base = _mm256_set1_epi64x((int64_t)extent->base);
    const __m256i limit = _mm256_set1_epi64x((int64_t)extent->limit);
    const __m256i host = _mm256_set1_epi64x((int64_t)extent->host);
    __m256i bits = _mm256_setzero_si256();
    __m256i beyond = _mm256_setzero_si256();

    for (int lane = 0; lane < WARP_LANES; lane += 4) {
        __m256i address = _mm256_loadu_si256((const __m256i *)(void *)&access->address[lane]);
        __m256i offset = _mm256_sub_epi64(address, base);
        bits = _mm256_or_si256(bits, address);
        beyond = _mm256_or_si256(beyond, offset);
        beyond = _mm256_or_si256(beyond, _mm256_sub_epi64(limit, offset));
        _mm256_storeu_si256((__m256i *)(void *)&access->at[lane], _mm256_add_epi64(host, offset));
    }
    return (struct survey){!_mm256_testz_si256(bits, _mm256_set1_epi64x(size_bytes - 1)),
                           _mm256_movemask_pd(_mm256_castsi256_pd(beyond)) != 0};
}

static bool fault_at(struct warp *warp, const struct insn *insn, enum fault_kind kind, int lane,
                     uint64_t address, uint32_t size_bytes)
{
    warp_fault(warp, insn,
               &(struct fault_place){
                   .kind = kind, .lane = lane, .address = address, .size_bytes = size_bytes});
    return false;
}

static void count(struct warp *warp, int owner, enum mechanism mechanism, uint64_t bytes)
{
    if (warp->traffic && owner >= 0) {
        bool is_nccl = warp->grid->launch.is_nccl;
        warp->traffic[owner][is_nccl ? MECHANISM_NCCL : mechanism] += bytes;
    }
}

static enum fault_kind denied(const struct region *region, enum access_kind kind)
{
    bool is_write = kind != ACCESS_LOAD;

    if (!region || !region->host) { /* or it is multicast memory */
        return FAULT_ILLEGAL_ADDRESS;
    }
    if (is_write && !(region->access & MAP_WRITE)) {
        return FAULT_READ_ONLY;
    }
    return region->access & MAP_READ ? FAULTS : FAULT_ILLEGAL_ADDRESS;
}

/* Shared, local and parameter memory: `size_limit` bytes from `window` in generic addresses. */
struct window {
    uint64_t base;
    uint64_t limit;
    uint8_t *host;
    uint64_t lane_bytes; /* from one lane's to the next's */
    enum fault_kind beyond;
};

static struct window window_of(const struct warp *warp, enum code_space space)
{
    const struct grid *grid = warp->grid;
    uint64_t local_bytes = grid->bound->kernel->local_bytes;

    switch (space) {
    case SPACE_SHARED:
        return (struct window){WINDOW_SHARED, grid->shared_bytes, warp->cta->shared, 0,
                               FAULT_SHARED_RANGE};
    case SPACE_LOCAL:
        return (struct window){WINDOW_LOCAL, local_bytes,
                               warp->cta->local + (uint64_t)warp->index * WARP_LANES * local_bytes,
                               local_bytes, FAULT_LOCAL_RANGE};
    default:
        return (struct window){WINDOW_PARAM, grid->bound->kernel->param_bytes, grid->params, 0,
                               FAULT_PARAM_RANGE};
    }
}

/* Which state space a generic address is in. */
static enum code_space space_at(uint64_t address)
{
    switch ((address - WINDOW_SHARED) >> 32) {
    case 0:
        return SPACE_SHARED;
    case 1:
        return SPACE_LOCAL;
    case 2:
        return SPACE_PARAM;
    default:
        return SPACE_GLOBAL;
    }
}

static bool is_window(enum code_space space)
{
    return space == SPACE_SHARED || space == SPACE_LOCAL || space == SPACE_PARAM;
}

/* The first lane that is not at a multiple of its size; there is one. */
static bool fault_misaligned(struct warp *warp, const struct insn *insn, uint32_t mask,
                             const struct access_request *request, const struct access *access)
{
    uint64_t base = is_window(request->space) ? window_of(warp, request->space).base : 0;
    int lane = __builtin_ctz(mask);

    while ((access->address[lane] & (request->size_bytes - 1)) == 0 && (mask &= mask - 1) != 0) {
        lane = __builtin_ctz(mask);
    }
    return fault_at(warp, insn, FAULT_MISALIGNED, lane, access->address[lane] + base,
                    request->size_bytes);
}

/* All lanes in one window; addresses are offsets into it. */
static bool resolve_window(struct warp *warp, const struct insn *insn, uint32_t mask,
                           const struct access_request *request, struct access *access)
{
    struct window window = window_of(warp, request->space);
    uint32_t first = (uint32_t)__builtin_ctz(mask);
    uint32_t size_bytes = request->size_bytes;
    struct extent extent = {0, window.limit - size_bytes, window.host};
    struct survey survey = place_lanes(access, size_bytes, &extent);

    if (survey.is_misaligned) {
        return fault_misaligned(warp, insn, mask, request, access);
    }
    if (survey.is_beyond) {
        for (uint32_t left = mask; left; left &= left - 1) {
            uint64_t address = access->address[__builtin_ctz(left)];
            if (address >= window.limit || size_bytes > window.limit - address) {
                return fault_at(warp, insn, window.beyond, __builtin_ctz(left),
                                address + window.base, size_bytes);
            }
        }
    }
    if (request->kind != ACCESS_LOAD && request->space == SPACE_PARAM) {
        return fault_at(warp, insn, FAULT_READ_ONLY, (int)first,
                        access->address[first] + window.base, size_bytes);
    }
    if (window.lane_bytes) {
        EACH_LANE
        {
            access->at[lane] += (uint64_t)lane * window.lane_bytes;
        }
    }
    return true;
}

static bool resolve_lane(struct warp *warp, const struct insn *insn, int lane,
                         const struct access_request *request, struct access *access)
{
    uint64_t address = access->address[lane];
    enum code_space space = space_at(address);
    uint32_t size_bytes = request->size_bytes;

    access->regions[lane] = NULL;
    if (space != SPACE_GLOBAL) {
        struct window window = window_of(warp, space);
        uint64_t offset = address - window.base;
        if (request->space != SPACE_GENERIC) {
            return fault_at(warp, insn, FAULT_ADDRESS_SPACE, lane, address, size_bytes);
        }
        if (offset + size_bytes > window.limit) {
            return fault_at(warp, insn, window.beyond, lane, address, size_bytes);
        }
        if (space == SPACE_PARAM && request->kind != ACCESS_LOAD) {
            return fault_at(warp, insn, FAULT_READ_ONLY, lane, address, size_bytes);
        }
        access->at[lane] = window.host + offset + (uint64_t)lane * window.lane_bytes;
        return true;
    }
    struct region *region = space_region(warp->space, address, size_bytes);
    enum fault_kind kind = denied(region, request->kind);
    if (kind != FAULTS) {
        return fault_at(warp, insn, kind, lane, address, size_bytes);
    }
    access->regions[lane] = region;
    access->at[lane] = region->host + (address - region->address);
    count(warp, region->owner, request->mechanism, size_bytes);
    return true;
}

static bool resolve_mixed(struct warp *warp, const struct insn *insn, uint32_t mask,
                          const struct access_request *request, struct access *access)
{
    access->is_mixed = true;
    for (uint32_t left = mask; left; left &= left - 1) {
        if (!resolve_lane(warp, insn, __builtin_ctz(left), request, access)) {
            return false;
        }
    }
    return true;
}

/* Global or generic: one region for all lanes, or lane by lane. */
static bool resolve_global(struct warp *warp, const struct insn *insn, uint32_t mask,
                           const struct access_request *request, struct access *access)
{
    uint32_t first = (uint32_t)__builtin_ctz(mask);
    uint32_t size_bytes = request->size_bytes;
    struct region *region = space_region(warp->space, access->address[first], size_bytes);
    struct extent extent = {0};

    if (region) {
        extent = (struct extent){region->address, region->size_bytes - size_bytes, region->host};
    }
    struct survey survey = place_lanes(access, size_bytes, &extent);
    if (survey.is_misaligned) {
        return fault_misaligned(warp, insn, mask, request, access);
    }
    if (survey.is_beyond || denied(region, request->kind) != FAULTS) {
        return resolve_mixed(warp, insn, mask, request, access);
    }
    access->region = region;
    count(warp, region->owner, request->mechanism,
          (uint64_t)size_bytes * (uint32_t)__builtin_popcount(mask));
    return true;
}

/* ---- the commonest: 32 lanes one behind the other, or loads of all from one address ---- */

/* The distance from lane to lane, where it is `size_bytes` or 0; otherwise -1. */
#define STEP_OF(name, type)                                                                        \
    static int64_t name(const type *a, uint32_t size_bytes)                                        \
    {                                                                                              \
        int shift = __builtin_ctz(size_bytes);                                                     \
        type first = a[0];                                                                         \
        type step = a[1] - first;                                                                  \
        type difference = 0;                                                                       \
        if ((step != size_bytes && step != 0) || a[WARP_LANES - 1] - first != step * 31) {         \
            return -1;                                                                             \
        }                                                                                          \
        type used = step ? ~(type)0 : 0;                                                           \
        EACH_LANE                                                                                  \
        {                                                                                          \
            difference |= (a[lane] - first) ^ ((type)lane << shift & used);                        \
        }                                                                                          \
        return difference ? -1 : (int64_t)step;                                                    \
    }
STEP_OF(step_of_32, uint32_t)
STEP_OF(step_of_64, uint64_t)

/* The next warp will ask for what lies behind, soon. */
static void fetch(const uint8_t *at)
{
    __builtin_prefetch(at);
    __builtin_prefetch(at + 64);
}

uint8_t *access_block(struct warp *warp, const struct access_request *request, uint64_t address,
                      uint64_t block_bytes, struct region **region)
{
    *region = NULL;
    if (is_window(request->space)) {
        struct window window = window_of(warp, request->space);
        bool is_inside = address < window.limit && block_bytes <= window.limit - address;
        bool is_constant = request->space == SPACE_PARAM && request->kind != ACCESS_LOAD;
        return is_inside && !is_constant && !window.lane_bytes ? window.host + address : NULL;
    }
    struct region *found = space_region(warp->space, address, block_bytes);
    if (denied(found, request->kind) != FAULTS) {
        return NULL;
    }
    *region = found;
    return found->host + (address - found->address);
}

void access_count(struct warp *warp, const struct region *region, enum mechanism mechanism,
                  uint64_t bytes)
{
    if (region) {
        count(warp, region->owner, mechanism, bytes);
    }
}

/* False: it is another case, or some lane faults. */
static bool resolve_brief(struct warp *warp, const struct insn *insn,
                          const struct access_request *request, struct access *access)
{
    bool is_narrow = insn->flags & FLAG_ADDR32;
    uint32_t size_bytes = request->size_bytes;
    uint64_t address = 0;
    int64_t step = -1;

    if (is_narrow) {
        const uint32_t *a = SOURCE(uint32_t, request->source);
        step = step_of_32(a, size_bytes);
        address = (uint32_t)(a[0] + (uint32_t)insn->imm);
    } else {
        const uint64_t *a = SOURCE(uint64_t, request->source);
        step = step_of_64(a, size_bytes);
        address = a[0] + (uint64_t)insn->imm;
    }
    if (step < 0 || address & (size_bytes - 1) || (step == 0 && request->kind != ACCESS_LOAD)) {
        return false;
    }
    uint64_t block_bytes = step ? (uint64_t)size_bytes * WARP_LANES : size_bytes;
    uint8_t *at = access_block(warp, request, address, block_bytes, &access->region);
    if (!at) {
        return false;
    }
    access_count(warp, access->region, request->mechanism, (uint64_t)size_bytes * WARP_LANES);
    fetch(at + block_bytes);
    access->at[0] = at;
    access->address[0] = address;
    access->is_contiguous = step != 0;
    access->is_uniform = step == 0;
    return true;
}

/* Shared memory by 32-bit addresses. False: some lane faults. */
static bool resolve_shared(struct warp *warp, const struct insn *insn, uint32_t mask,
                           const struct access_request *request, struct access *access)
{
    const uint32_t *a = SOURCE(uint32_t, request->source);
    uint32_t shared_bytes = warp->grid->shared_bytes;
    uint32_t size_bytes = request->size_bytes;
    uint8_t *host = warp->cta->shared;
    int first = __builtin_ctz(mask);
    uint32_t given = a[first];
    uint32_t offset[WARP_LANES];
    uint32_t highest = 0;
    uint32_t bits = 0;

    LOOP_IS_PARALLEL EACH_LANE
    {
        uint32_t value = (mask >> lane & 1 ? a[lane] : given) + (uint32_t)insn->imm;
        offset[lane] = value;
        highest = value > highest ? value : highest;
        bits |= value;
    }
    if (bits & (size_bytes - 1) || size_bytes > shared_bytes ||
        highest > shared_bytes - size_bytes) {
        return false;
    }
    LOOP_IS_PARALLEL EACH_LANE
    {
        access->at[lane] = host + offset[lane];
    }
    access->address[first] = offset[first];
    return true;
}

/* The short ways. False: neither goes, or some lane faults. */
static bool resolve_quickly(struct warp *warp, const struct insn *insn, uint32_t mask,
                            const struct access_request *request, struct access *access)
{
    if (mask == MASK_ALL && request->is_brief && resolve_brief(warp, insn, request, access)) {
        return true;
    }
    access->is_contiguous = false;
    access->is_uniform = false;
    return request->space == SPACE_SHARED && insn->flags & FLAG_ADDR32 &&
           resolve_shared(warp, insn, mask, request, access);
}

bool access_resolve(struct warp *warp, const struct insn *insn, uint32_t mask,
                    const struct access_request *request, struct access *access)
{
    access->region = NULL;
    access->is_mixed = false;
    access->writer = 0;
    if (!resolve_quickly(warp, insn, mask, request, access)) {
        read_addresses(warp, insn, mask, request, access);
        if (is_window(request->space) ? !resolve_window(warp, insn, mask, request, access)
                                      : !resolve_global(warp, insn, mask, request, access)) {
            return false;
        }
    }
    access_look(warp, insn, mask, request, access);
    if (request->kind != ACCESS_LOAD && (access->region || access->is_mixed)) {
        access->writer = engine_writer(warp, insn);
    }
    return true;
}

static void note_lane(struct warp *warp, struct region *region, const uint8_t *at,
                      uint32_t size_bytes, uint32_t writer)
{
    struct memory *memory = region->memory;

    if (!memory->writers || size_bytes > 4) {
        memory_note(memory, at, size_bytes, writer);
    } else {
        memory->writers[(uint64_t)(at - memory->host) / 4] = writer;
    }
    if (region->owner < 0) {
        warp->engine->host_changed = true;
    }
}

void access_wrote(struct warp *warp, const struct access *access, uint32_t mask,
                  uint32_t size_bytes)
{
    if (!access->region && !access->is_mixed) {
        return;
    }
    if (access->is_contiguous && access->region) {
        note_lane(warp, access->region, access->at[0], size_bytes * WARP_LANES, access->writer);
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct region *region = access->is_mixed ? access->regions[lane] : access->region;
        if (region) {
            note_lane(warp, region, access->at[lane], size_bytes, access->writer);
        }
    }
}

uint8_t *access_place(struct warp *warp, const struct insn *insn, int lane,
                      const struct access_request *request, uint64_t address)
{
    struct access access = {.is_mixed = true};

    access.address[lane] = address;
    if (address % request->size_bytes != 0) {
        fault_at(warp, insn, FAULT_MISALIGNED, lane, address, request->size_bytes);
        return NULL;
    }
    if (!resolve_lane(warp, insn, lane, request, &access)) {
        return NULL;
    }
    access_look(warp, insn, 1u << lane, request, &access);
    if (request->kind != ACCESS_LOAD) {
        access.writer = access.regions[lane] ? engine_writer(warp, insn) : 0;
        access_wrote(warp, &access, 1u << lane, request->size_bytes);
    }
    return access.at[lane];
}

bool access_read(struct warp *warp, int lane, uint64_t address, void *to, uint32_t size_bytes)
{
    enum code_space space = space_at(address);

    if (space != SPACE_GLOBAL) {
        struct window window = window_of(warp, space);
        uint64_t offset = address - window.base;
        if (offset + size_bytes > window.limit) {
            return false;
        }
        memcpy(to, window.host + offset + (uint64_t)lane * window.lane_bytes, size_bytes);
        return true;
    }
    const struct region *region = space_region(warp->space, address, size_bytes);
    if (!region || !(region->access & MAP_READ)) {
        return false;
    }
    memcpy(to, region->host + (address - region->address), size_bytes);
    return true;
}
