/*
 * space.h — a client's page table: which bytes of simulated memory it may reach, and where.
 *
 * Regions are sorted by address and do not overlap. A small cache indexed by the address makes a
 * lookup a load and a compare. Regions of the same bytes share a `struct memory`, which remembers
 * who wrote each 4-byte word last.
 */
#pragma once

#include "sim/engine.h"

enum { SPACE_REGIONS_MAX = 1 << 16, SPACE_CACHE = 1 << 6 };

/* Bytes that one or more clients map. `writers[i]` is the last writer of word i, 0: nobody; NULL
 * until something is written. */
struct memory {
    struct engine *engine;
    uint8_t *host;
    uint64_t size_bytes;
    uint32_t *writers;
    bool is_unwatched;   /* there was no room for it */
    bool is_whole;       /* every word has a writer */
    uint64_t checks;     /* of that: defined.c */
    struct flags *flags; /* words that are written as flags: stale.c; NULL: none */
    struct order *order; /* who touched it: order.c; NULL: nobody whose order is followed */
    int references;
    struct memory *next;
};

struct region {
    uint64_t address, size_bytes;
    uint8_t *host;
    int owner;
    int access;
    bool is_undefined; /* but for what has a writer */
    struct memory *memory;
    struct memory *replicas[WORLD_MAX]; /* of a multicast mapping: those of the members */
    struct mapping mapping;
};

struct space {
    struct engine *engine;
    int rank;
    struct region **regions;
    uint32_t region_count, region_capacity;
    struct region *cache[SPACE_CACHE];
    uint32_t workspaces; /* bit i: slot i of the grid workspaces is in use */
    uint8_t *workspace;  /* its bytes, mapped at SPACE_WORKSPACE */
    struct space *next;
};

/* Where cooperative grids find their barrier: private to the client, 64 bytes a live grid. */
#define SPACE_WORKSPACE 0x00006f0000000000u
enum { SPACE_WORKSPACES = 32, SPACE_WORKSPACE_BYTES = 64 };

/* The region that holds `address`, or NULL. */
struct region *space_region_slow(struct space *space, uint64_t address);

static inline uint32_t space_cache_index(uint64_t address)
{
    return (uint32_t)((address >> 20) * 0x9e3779b97f4a7c15u >> 58);
}

/* The region that holds all of [address, address + size_bytes), or NULL. */
static inline struct region *space_region(struct space *space, uint64_t address,
                                          uint64_t size_bytes)
{
    struct region *region = space->cache[space_cache_index(address)];

    if (!region || address - region->address >= region->size_bytes) {
        region = space_region_slow(space, address);
        if (!region) {
            return NULL;
        }
    }
    uint64_t offset = address - region->address;
    return size_bytes <= region->size_bytes - offset ? region : NULL;
}

/* Records that `writer` wrote these bytes. */
void memory_note(struct memory *memory, const uint8_t *host, uint64_t size_bytes, uint32_t writer);
/* The writer of the word at `host`; 0: nobody. */
uint32_t memory_writer(const struct region *region, const uint8_t *host);
