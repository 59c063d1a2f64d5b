/* The second half of object.h: where a client sees the bytes. */
#include "sim/object.h"

#include "common/log.h"
#include "common/mem.h"
#include "sim/machine.h"
#include "sim/wire.h"

#include <stdlib.h>
#include <string.h>

enum { LOWEST_ADDRESS = 1 << 16 };

/* The first row that ends beyond `address`. */
static size_t lower_bound(const struct regions *regions, uint64_t address)
{
    size_t low = 0, high = regions->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct region *row = &regions->rows[middle];
        if (row->address + row->size_bytes <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_allowed(uint64_t address, uint64_t size_bytes)
{
    const uint64_t highest = 1ull << 47;

    if (!size_bytes || address < LOWEST_ADDRESS || size_bytes > highest ||
        address > highest - size_bytes) {
        return false;
    }
    return address + size_bytes <= WINDOW_SHARED || address >= WINDOWS_END;
}

static enum status map(struct client *client, struct region *region, struct error *err)
{
    const struct object *object = region->object;
    struct mapping mapping = {.address = region->address,
                              .size_bytes = region->size_bytes,
                              .owner = object->device,
                              .access = region->access,
                              .allocation = object->allocation,
                              .starts_undefined = object->starts_undefined,
                              .label = region->label};

    if (!object->is_multicast) {
        mapping.host = object->host + region->offset_bytes;
    }
    for (int device = 0; device < WORLD_MAX; device++) {
        const struct member *member = &object->members[device];
        uint64_t end = region->offset_bytes + region->size_bytes;
        if (member->object && member->at_bytes <= region->offset_bytes &&
            end <= member->at_bytes + member->size_bytes) {
            mapping.replicas[device] = member->object->host + member->offset_bytes +
                                       (region->offset_bytes - member->at_bytes);
        }
    }
    return space_map(client->space, &mapping, err);
}

/* How reports call what lies at this place of a rank's window. */
static const char *label(const struct client *client, const struct region *region)
{
    static const char *const symmetric[] = {"symm 0", "symm 1", "symm 2", "symm 3", "symm 4",
                                            "symm 5", "symm 6", "symm 7", "symm"};
    const size_t names = sizeof symmetric / sizeof *symmetric;
    uint64_t rank = (region->address - WIRE_RANK_BASE) / WIRE_RANK_STRIDE;
    uint64_t first = WIRE_RANK_BASE + rank * WIRE_RANK_STRIDE + WIRE_RANK_SYMMETRIC;

    if (region->kind == REGION_HOST) {
        return "pinned host memory";
    }
    if (region->object->is_multicast) {
        return "multicast";
    }
    if (region->kind != REGION_VIRTUAL || region->address < WIRE_RANK_BASE || rank >= WORLD_MAX) {
        return "";
    }
    if (region->address < first) {
        return region->address < first - WIRE_RANK_OUTPUTS ? "inputs" : "outputs";
    }
    if (region->address == first) {
        return "signal";
    }
    size_t index = 0;
    for (size_t i = 0; i < client->regions.count; i++) {
        uint64_t address = client->regions.rows[i].address;
        index += address > first && address < region->address;
    }
    return symmetric[index < names ? index : names - 1];
}

enum status region_add(struct client *client, struct region region, struct error *err)
{
    struct regions *regions = &client->regions;
    enum status status = OK;

    if (!is_allowed(region.address, region.size_bytes)) {
        return error_set(err, ERR_INVALID, "no memory may lie at %#lx", region.address);
    }
    if (regions->count == REGIONS_MAX) {
        return error_set(err, ERR_LIMIT, "more than %d allocations", REGIONS_MAX);
    }
    size_t at = lower_bound(regions, region.address);
    if (at < regions->count && regions->rows[at].address < region.address + region.size_bytes) {
        return error_set(err, ERR_CONFLICT, "memory lies at %#lx already", region.address);
    }
    region.label = label(client, &region);
    if (region.access) {
        status = map(client, &region, err);
        if (status) {
            return status;
        }
    }
    if (regions->count == regions->capacity) {
        regions->capacity = regions->capacity ? regions->capacity * 2 : 64;
        regions->rows = xrealloc(regions->rows, regions->capacity * sizeof *regions->rows);
    }
    memmove(&regions->rows[at + 1], &regions->rows[at],
            (regions->count - at) * sizeof *regions->rows);
    regions->rows[at] = region;
    regions->count++;
    region.object->references++;
    return OK;
}

enum status region_add_private(struct client *client, struct object *object, enum region_kind kind,
                               uint64_t *address, struct error *err)
{
    const uint64_t align = 512, gap = 512; /* so that what runs over an end is found out */
    uint64_t end = WIRE_PRIVATE_BASE + ((uint64_t)client->index + 1) * WIRE_PRIVATE_STRIDE;

    if (object->size_bytes > end - client->private_next ||
        end - client->private_next - object->size_bytes < align + gap) {
        return error_set(err, ERR_LIMIT, "no addresses are left");
    }
    enum status status = region_add(client,
                                    (struct region){.address = client->private_next,
                                                    .size_bytes = object->size_bytes,
                                                    .object = object,
                                                    .kind = kind,
                                                    .access = MAP_READ | MAP_WRITE},
                                    err);
    if (!status) {
        *address = client->private_next;
        client->private_next += (object->size_bytes + gap + align - 1) / align * align;
    }
    return status;
}

struct region *region_find(const struct client *client, uint64_t address)
{
    size_t at = lower_bound(&client->regions, address);

    if (at == client->regions.count || client->regions.rows[at].address > address) {
        return NULL;
    }
    return &client->regions.rows[at];
}

static void unmap(struct client *client, const struct region *region)
{
    struct error err = {0};

    if (region->access && space_unmap(client->space, region->address, &err)) {
        log_event(LOG_ERROR, "simd.unmap", "message=%s", err.message); /* tables disagree */
    }
}

enum status region_remove(struct client *client, uint64_t address, struct error *err)
{
    struct regions *regions = &client->regions;
    struct region *region = region_find(client, address);

    if (!region || region->address != address) {
        return error_set(err, ERR_NOT_FOUND, "no memory starts at %#lx", address);
    }
    unmap(client, region);
    struct object *object = region->object;
    size_t at = (size_t)(region - regions->rows);
    regions->count--;
    memmove(region, region + 1, (regions->count - at) * sizeof *region);
    object_release(object);
    return OK;
}

enum status region_set_access(struct client *client, struct region *region, int access,
                              struct error *err)
{
    if (access == region->access) {
        return OK;
    }
    unmap(client, region);
    region->access = access;
    enum status status = access ? map(client, region, err) : OK;
    if (status) {
        region->access = 0;
    }
    return status;
}

void regions_remap(struct client *client, const struct object *object)
{
    struct error err = {0};

    for (size_t i = 0; i < client->regions.count; i++) {
        struct region *region = &client->regions.rows[i];
        if (region->object == object && region->access) {
            unmap(client, region);
            if (map(client, region, &err)) {
                region->access = 0;
            }
        }
    }
}

void regions_release(struct client *client)
{
    struct regions *regions = &client->regions;

    while (regions->count) {
        struct region *region = &regions->rows[--regions->count];
        unmap(client, region);
        object_release(region->object);
    }
    free(regions->rows);
    *regions = (struct regions){0};
}

bool region_is_private(const struct client *client, uint64_t address, uint64_t size_bytes)
{
    const struct region *region = region_find(client, address);

    return region && !region->object->is_shared &&
           size_bytes <= region->address + region->size_bytes - address;
}
