#include "sim/space.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/mem.h"
#include "sim/core.h"
#include "sim/look.h"
#include "sim/schedule.h"
#include "sim/stale.h"

/* The index of the first region that ends beyond `address`. */
static uint32_t position(const struct space *space, uint64_t address)
{
    uint32_t low = 0;
    uint32_t high = space->region_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const struct region *region = space->regions[middle];
        if (region->address + region->size_bytes <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct region *space_region_slow(struct space *space, uint64_t address)
{
    uint32_t at = position(space, address);

    if (at == space->region_count || space->regions[at]->address > address) {
        return NULL;
    }
    space->cache[space_cache_index(address)] = space->regions[at];
    return space->regions[at];
}

static struct memory *memory_open(struct engine *engine, uint8_t *host, uint64_t size_bytes)
{
    for (struct memory *memory = engine->memories; memory; memory = memory->next) {
        if (memory->host == host && memory->size_bytes == size_bytes) {
            memory->references++;
            return memory;
        }
    }
    struct memory *memory = xcalloc(1, sizeof(*memory));
    memory->engine = engine;
    memory->host = host;
    memory->size_bytes = size_bytes;
    memory->references = 1;
    memory->next = engine->memories;
    engine->memories = memory;
    return memory;
}

static size_t shadow_bytes(const struct memory *memory)
{
    return (memory->size_bytes / 4 + 2) * sizeof(*memory->writers);
}

static void memory_close(struct engine *engine, struct memory *memory)
{
    struct memory **link = &engine->memories;

    if (--memory->references > 0) {
        return;
    }
    while (*link != memory) {
        link = &(*link)->next;
    }
    *link = memory->next;
    if (memory->writers) {
        munmap(memory->writers, shadow_bytes(memory));
        engine->shadow_bytes -= shadow_bytes(memory);
    }
    flags_release(memory->flags);
    order_forget(memory->order);
    free(memory);
}

/* One piece of memory that is mapped in many overlapping pieces has a shadow of each. */
static uint32_t *shadow_open(const struct memory *memory)
{
    struct engine *engine = memory->engine;
    size_t size_bytes = shadow_bytes(memory);

    if (size_bytes > ENGINE_SHADOW_BYTES_MAX - engine->shadow_bytes) {
        return NULL;
    }
    void *shadow = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (shadow == MAP_FAILED) {
        return NULL;
    }
    engine->shadow_bytes += size_bytes;
    return shadow;
}

void memory_note(struct memory *memory, const uint8_t *host, uint64_t size_bytes, uint32_t writer)
{
    uint64_t offset = (uint64_t)(host - memory->host);

    if (size_bytes == 0 || memory->is_unwatched) {
        return;
    }
    if (!memory->writers && writer == 0) {
        return; /* nobody wrote there, and so it stays */
    }
    if (!memory->writers) {
        memory->writers = shadow_open(memory);
        memory->is_unwatched = !memory->writers;
        if (memory->is_unwatched) {
            return;
        }
    }
    uint32_t *word = memory->writers + offset / 4;
    for (const uint32_t *end = memory->writers + (offset + size_bytes + 3) / 4; word < end;
         word++) {
        *word = writer;
    }
    __builtin_prefetch(word, 1); /* the next warp's, which will be here soon */
}

uint32_t memory_writer(const struct region *region, const uint8_t *host)
{
    const struct memory *memory = region->memory;

    return memory->writers ? memory->writers[(uint64_t)(host - memory->host) / 4] : 0;
}

struct space *space_open(struct engine *engine, int rank)
{
    struct space *space = xcalloc(1, sizeof(*space));
    struct space **link = &engine->spaces;
    struct error err = {0};

    space->engine = engine;
    space->rank = rank;
    space->workspace = xcalloc(SPACE_WORKSPACES, SPACE_WORKSPACE_BYTES);
    while (*link) {
        link = &(*link)->next;
    }
    *link = space;
    struct mapping mapping = {.address = SPACE_WORKSPACE,
                              .size_bytes = (uint64_t)SPACE_WORKSPACES * SPACE_WORKSPACE_BYTES,
                              .host = space->workspace,
                              .owner = rank < 0 ? 0 : rank,
                              .access = MAP_READ | MAP_WRITE,
                              .label = "grid barrier"};
    enum status status = space_map(space, &mapping, &err);
    assert(status == OK);
    return space;
}

static void region_close(struct space *space, struct region *region)
{
    memory_close(space->engine, region->memory);
    for (int i = 0; i < WORLD_MAX; i++) {
        if (region->replicas[i]) {
            memory_close(space->engine, region->replicas[i]);
        }
    }
    free(region);
}

void space_close(struct space *space)
{
    if (!space) {
        return;
    }
    struct space **link = &space->engine->spaces;

    engine_end_grids(space->engine, space);
    while (*link != space) {
        link = &(*link)->next;
    }
    *link = space->next;
    for (uint32_t i = 0; i < space->region_count; i++) {
        region_close(space, space->regions[i]);
    }
    free(space->regions);
    free(space->workspace);
    free(space);
}

static void forget_cache(struct space *space)
{
    memset(space->cache, 0, sizeof(space->cache));
}

enum status space_map(struct space *space, const struct mapping *mapping, struct error *err)
{
    uint64_t end = mapping->address + mapping->size_bytes;
    uint32_t at = position(space, mapping->address);

    if (mapping->size_bytes == 0 || end <= mapping->address ||
        (end > WINDOW_SHARED && mapping->address < WINDOWS_END)) {
        return error_set(err, ERR_INVALID, "%#lx bytes at %#lx are outside global memory",
                         mapping->size_bytes, mapping->address);
    }
    if (at < space->region_count && space->regions[at]->address < end) {
        return error_set(err, ERR_CONFLICT, "something is mapped at %#lx already",
                         space->regions[at]->address);
    }
    if (space->region_count == SPACE_REGIONS_MAX) {
        return error_set(err, ERR_TOO_LARGE, "more than %d mappings", SPACE_REGIONS_MAX);
    }
    if (space->region_count == space->region_capacity) {
        space->region_capacity = space->region_capacity ? space->region_capacity * 2 : 64;
        space->regions = xrealloc(space->regions, space->region_capacity * sizeof(void *));
    }
    struct region *region = xcalloc(1, sizeof(*region));
    region->address = mapping->address;
    region->size_bytes = mapping->size_bytes;
    region->host = mapping->host;
    region->owner = mapping->owner;
    region->access = mapping->host ? mapping->access : 0; /* multicast: by multimem only */
    region->is_undefined = mapping->starts_undefined && space->rank >= 0;
    region->mapping = *mapping;
    region->memory = memory_open(space->engine, mapping->host, mapping->size_bytes);
    for (int i = 0; i < WORLD_MAX; i++) {
        if (mapping->replicas[i]) {
            region->replicas[i] =
                memory_open(space->engine, mapping->replicas[i], mapping->size_bytes);
        }
    }
    memmove(&space->regions[at + 1], &space->regions[at],
            (space->region_count - at) * sizeof(void *));
    space->regions[at] = region;
    space->region_count++;
    forget_cache(space);
    return OK;
}

enum status space_unmap(struct space *space, uint64_t address, struct error *err)
{
    uint32_t at = position(space, address);

    if (at == space->region_count || space->regions[at]->address != address) {
        return error_set(err, ERR_NOT_FOUND, "nothing is mapped at %#lx", address);
    }
    region_close(space, space->regions[at]);
    space->region_count--;
    memmove(&space->regions[at], &space->regions[at + 1],
            (space->region_count - at) * sizeof(void *));
    forget_cache(space);
    return OK;
}

const struct mapping *space_find(const struct space *space, uint64_t address, uint64_t size_bytes)
{
    uint32_t at = position(space, address);

    if (at == space->region_count || space->regions[at]->address > address) {
        return NULL;
    }
    const struct region *region = space->regions[at];
    uint64_t offset = address - region->address;
    return size_bytes <= region->size_bytes - offset ? &region->mapping : NULL;
}
