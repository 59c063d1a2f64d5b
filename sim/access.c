#include "sim/access.h"

#include <string.h>

#include "sim/exec.h"
#include "sim/schedule.h"

/* What resolving needs to know of all lanes. */
struct span {
    int64_t low, high; /* lowest and highest address */
    uint64_t bits;     /* the or of all */
    int first;         /* lane of the mask */
};

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

static struct span span_of(const struct access *access, uint32_t mask)
{
    const uint64_t *address = access->address;
    int64_t low = (int64_t)address[0];
    int64_t high = low;
    uint64_t bits = 0;

    EACH_LANE
    {
        int64_t value = (int64_t)address[lane];
        low = value < low ? value : low;
        high = value > high ? value : high;
        bits |= address[lane];
    }
    return (struct span){low, high, bits, __builtin_ctz(mask)};
}

static bool is_in_steps(const struct access *access, uint32_t size_bytes)
{
    const uint64_t *address = access->address;
    uint64_t difference = 0;

    EACH_LANE
    {
        difference |= address[lane] ^ (address[0] + (uint64_t)lane * size_bytes);
    }
    return difference == 0;
}

static bool fault_at(struct warp *warp, const struct insn *insn, enum fault_kind kind, int lane,
                     uint64_t address, uint32_t size_bytes)
{
    warp_fault(warp, insn,
               &(struct fault_place){
                   .kind = kind, .lane = lane, .address = address, .size_bytes = size_bytes});
    return false;
}

static void set_places(struct access *access, uint8_t *base)
{
    LOOP_IS_PARALLEL EACH_LANE
    {
        access->at[lane] = base + access->address[lane];
    }
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

/* All lanes in one window; addresses are offsets into it. */
static bool resolve_window(struct warp *warp, const struct insn *insn, uint32_t mask,
                           const struct access_request *request, struct access *access)
{
    struct window window = window_of(warp, request->space);
    struct span span = span_of(access, mask);

    if (span.low < 0 || (uint64_t)span.high + request->size_bytes > window.limit) {
        for (uint32_t left = mask; left; left &= left - 1) {
            int lane = __builtin_ctz(left);
            if (access->address[lane] + request->size_bytes > window.limit ||
                access->address[lane] >= window.limit) {
                return fault_at(warp, insn, window.beyond, lane,
                                access->address[lane] + window.base, request->size_bytes);
            }
        }
    }
    if (request->kind != ACCESS_LOAD && request->space == SPACE_PARAM) {
        return fault_at(warp, insn, FAULT_READ_ONLY, span.first,
                        access->address[span.first] + window.base, request->size_bytes);
    }
    set_places(access, window.host);
    if (window.lane_bytes) {
        EACH_LANE
        {
            access->at[lane] += (uint64_t)lane * window.lane_bytes;
        }
    } else {
        access->is_uniform = span.low == span.high;
    }
    access->is_contiguous = mask == MASK_ALL && !window.lane_bytes && !access->is_uniform &&
                            is_in_steps(access, request->size_bytes);
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
    struct span span = span_of(access, mask);
    uint64_t size_bytes = request->size_bytes;
    uint64_t extent = (uint64_t)(span.high - span.low) + size_bytes;
    struct region *region = space_region(warp->space, (uint64_t)span.low, extent);

    if (denied(region, request->kind) != FAULTS) {
        return resolve_mixed(warp, insn, mask, request, access);
    }
    access->region = region;
    access->is_uniform = span.low == span.high;
    access->is_contiguous = mask == MASK_ALL && extent == WARP_LANES * size_bytes &&
                            is_in_steps(access, request->size_bytes);
    set_places(access, region->host - region->address);
    count(warp, region->owner, request->mechanism, size_bytes * (uint32_t)__builtin_popcount(mask));
    return true;
}

static bool is_aligned(struct warp *warp, const struct insn *insn, uint32_t mask,
                       const struct access_request *request, const struct access *access)
{
    uint64_t low_bits = request->size_bytes - 1;
    uint64_t bits = 0;

    EACH_LANE
    {
        bits |= access->address[lane];
    }
    if ((bits & low_bits) == 0) {
        return true;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        if (access->address[lane] & low_bits) {
            uint64_t base = request->space == SPACE_SHARED  ? WINDOW_SHARED
                            : request->space == SPACE_LOCAL ? WINDOW_LOCAL
                                                            : 0;
            return fault_at(warp, insn, FAULT_MISALIGNED, lane, access->address[lane] + base,
                            request->size_bytes);
        }
    }
    return true;
}

bool access_resolve(struct warp *warp, const struct insn *insn, uint32_t mask,
                    const struct access_request *request, struct access *access)
{
    access->region = NULL;
    access->is_mixed = false;
    access->is_contiguous = false;
    access->is_uniform = false;
    read_addresses(warp, insn, mask, request, access);
    if (!is_aligned(warp, insn, mask, request, access)) {
        return false;
    }
    bool is_window = request->space == SPACE_SHARED || request->space == SPACE_LOCAL ||
                     request->space == SPACE_PARAM;
    if (is_window ? !resolve_window(warp, insn, mask, request, access)
                  : !resolve_global(warp, insn, mask, request, access)) {
        return false;
    }
    access->writer = 0;
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
