#include "sim/defined.h"

#include "common/mem.h"
#include "sim/exec.h"
#include "sim/schedule.h"

#include <stdlib.h>

/* A NaN as one word and as two halves, and no usual integer. */
#define UNDEFINED_WORD UINT32_C(0xffedffed)

void defined_forget(uint8_t *bytes, size_t size_bytes)
{
    uint32_t *words = (uint32_t *)(void *)bytes;

    for (size_t i = 0; i < size_bytes / sizeof(*words); i++) {
        words[i] = UNDEFINED_WORD;
    }
}

static bool has_pattern(const uint8_t *at, uint64_t size_bytes)
{
    const uint32_t *words = (const uint32_t *)((uintptr_t)at & ~(uintptr_t)3);
    uint64_t count = (((uintptr_t)at & 3) + size_bytes + 3) / 4;
    uint32_t found = 0;

    for (uint64_t i = 0; i < count; i++) {
        found |= words[i] == UNDEFINED_WORD;
    }
    return found;
}

/* Whether some word has no writer. */
static bool has_gap(const uint32_t *writers, uint64_t count)
{
    uint32_t found = 0;

    for (uint64_t i = 0; i < count; i++) {
        found |= writers[i] == 0;
    }
    return found;
}

/* Memory does not become undefined again: what was found to be whole need not be looked at. Tried
 * at growing distances, since most memory is written soon. */
static bool is_whole(struct memory *memory)
{
    enum { BLOCK = 4096 };
    uint64_t count = memory->size_bytes / 4;

    if (memory->is_whole || memory->is_unwatched) {
        return true;
    }
    if (!memory->writers || (memory->checks & (memory->checks + 1)) != 0) {
        memory->checks++;
        return false;
    }
    memory->checks++;
    for (uint64_t i = 0; i < count; i += BLOCK) {
        if (has_gap(&memory->writers[i], count - i < BLOCK ? count - i : BLOCK)) {
            return false;
        }
    }
    memory->is_whole = true;
    return true;
}

/* The same of a CTA's shared memory. */
static bool is_shared_whole(struct cta *cta)
{
    if ((cta->checks & (cta->checks + 1)) == 0) {
        cta->is_whole = !has_pattern(cta->shared, cta->grid->shared_bytes);
    }
    cta->checks++;
    return cta->is_whole;
}

static bool has_no_writer(const struct region *region, const uint8_t *at, uint64_t size_bytes)
{
    const struct memory *memory = region->memory;
    uint64_t offset = (uint64_t)(at - memory->host);

    if (!region->is_undefined || memory->is_unwatched) {
        return false;
    }
    return !memory->writers ||
           has_gap(&memory->writers[offset / 4], (offset + size_bytes - 1) / 4 - offset / 4 + 1);
}

static bool lanes_have_pattern(const struct access *access, uint32_t size_bytes)
{
    uint32_t found = 0;

    for (uint32_t word = 0; word < (size_bytes + 3) / 4; word++) {
        EACH_LANE
        {
            uintptr_t at = (uintptr_t)access->at[lane] & ~(uintptr_t)3;
            found |= ((const uint32_t *)at)[word] == UNDEFINED_WORD;
        }
    }
    return found;
}

static bool lanes_have_gap(const struct access *access, uint32_t size_bytes)
{
    const struct memory *memory = access->region->memory;
    uint32_t found = !memory->writers;

    for (uint32_t word = 0; word < (size_bytes + 3) / 4 && !found; word++) {
        EACH_LANE
        {
            uint64_t offset = (uint64_t)(access->at[lane] - memory->host);
            found |= memory->writers[offset / 4 + word] == 0;
        }
    }
    return found;
}

/* False: nothing is undefined. Lanes that take no part have an address of one that does. */
static bool may_be_undefined(struct warp *warp, const struct access_request *request,
                             const struct access *access)
{
    bool is_block = access->is_contiguous || access->is_uniform;
    uint64_t block_bytes = (uint64_t)request->size_bytes * (access->is_uniform ? 1 : WARP_LANES);

    if (access->is_mixed) {
        return true;
    }
    if (!access->region) {
        if (request->space == SPACE_SHARED && is_shared_whole(warp->cta)) {
            return false;
        }
        return is_block ? has_pattern(access->at[0], block_bytes)
                        : lanes_have_pattern(access, request->size_bytes);
    }
    if (is_whole(access->region->memory)) {
        return false;
    }
    return is_block ? has_no_writer(access->region, access->at[0], block_bytes)
                    : lanes_have_gap(access, request->size_bytes);
}

/* Where one lane reads, or, of a contiguous or uniform access, where all do. */
struct reading {
    const struct region *region; /* NULL: not global memory */
    const uint8_t *at;
    uint64_t size_bytes;
};

static bool is_in(const uint8_t *at, const uint8_t *bytes, uint64_t size_bytes)
{
    return at >= bytes && at < bytes + size_bytes;
}

static uint64_t local_bytes(const struct warp *warp)
{
    return warp->grid->bound->kernel->local_bytes;
}

static uint64_t address_of(const struct warp *warp, const struct reading *reading)
{
    if (reading->region) {
        return reading->region->address + (uint64_t)(reading->at - reading->region->host);
    }
    if (is_in(reading->at, warp->cta->shared, warp->grid->shared_bytes)) {
        return WINDOW_SHARED + (uint64_t)(reading->at - warp->cta->shared);
    }
    return WINDOW_LOCAL + (uint64_t)(reading->at - warp->cta->local) % local_bytes(warp);
}

static bool is_undefined(const struct warp *warp, const struct reading *reading)
{
    uint64_t threads = (uint64_t)warp->grid->warp_count * WARP_LANES;

    if (reading->region) {
        return has_no_writer(reading->region, reading->at, reading->size_bytes);
    }
    return (is_in(reading->at, warp->cta->shared, warp->grid->shared_bytes) ||
            is_in(reading->at, warp->cta->local, threads * local_bytes(warp))) &&
           has_pattern(reading->at, reading->size_bytes);
}

static void report(struct warp *warp, const struct insn *insn, int lane,
                   const struct reading *reading)
{
    char *kernel = kernel_text(warp->grid->bound->kernel);
    char *source = source_of(warp->grid, insn);
    char *where = address_text(warp->space, address_of(warp, reading));
    char *message = xasprintf("%s reads what nothing has written: %s (block %lu, warp %u, lane %d)",
                              kernel, where, warp->cta->index, warp->index, lane);

    engine_note(warp->engine, warp->space->rank, "uninitialised_read", source, message);
    free(message);
    free(where);
    free(source);
    free(kernel);
}

void defined_check(struct warp *warp, const struct insn *insn, uint32_t mask,
                   const struct access_request *request, const struct access *access)
{
    bool is_block = access->is_contiguous || access->is_uniform;

    if (!may_be_undefined(warp, request, access) || warp->space->rank < 0 ||
        engine_has_noted(warp, insn, NOTED_UNDEFINED)) {
        return;
    }
    for (uint32_t left = is_block ? 1 : mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct reading reading = {
            .region = access->is_mixed ? access->regions[lane] : access->region,
            .at = access->at[lane],
            .size_bytes = (uint64_t)request->size_bytes * (access->is_contiguous ? WARP_LANES : 1)};
        if (!is_undefined(warp, &reading)) {
            continue;
        }
        reading.size_bytes = request->size_bytes;
        while (access->is_contiguous && !is_undefined(warp, &reading)) {
            reading.at += request->size_bytes;
            lane++;
        }
        engine_set_noted(warp, insn, NOTED_UNDEFINED);
        report(warp, insn, access->is_uniform ? __builtin_ctz(mask) : lane, &reading);
        return;
    }
}
