/*
 * engine.h — all simulated GPUs of one evaluation: memory as each client sees it, grids, the
 * scheduler, the proof that nothing can move, and what was transferred.
 *
 * Single-threaded and deterministic: the same seed and the same calls give the same run. Device i
 * is rank i's. The caller (simd.c) owns streams and events and decides when to run.
 */
#pragma once

#include "common/error.h"
#include "common/job.h"
#include "common/result.h"
#include "sim/code.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct space; /* a client's page table */
struct grid;

enum mechanism {
    MECHANISM_COPY_ENGINE,
    MECHANISM_SM_LOAD,
    MECHANISM_SM_STORE,
    MECHANISM_SM_ATOMIC,
    MECHANISM_BULK,
    MECHANISM_MULTIMEM_LOAD,
    MECHANISM_MULTIMEM_STORE,
    MECHANISM_NCCL,
    MECHANISMS,
};
const char *mechanism_name(enum mechanism mechanism);

/* What the engine remembers about mapped memory at most: who wrote what, as much again. What comes
 * later is not watched. */
#define ENGINE_SHADOW_BYTES_MAX (32ull << 30)

struct engine_options {
    int devices;   /* 1..WORLD_MAX */
    uint64_t seed; /* permutes ranks, CTAs and warps */
    uint64_t fuel; /* thread-instructions for the whole evaluation */
    int sm_count;  /* per device; 132 */
    int shared_per_sm_bytes, threads_per_sm, ctas_per_sm, registers_per_sm;
};
struct engine *engine_open(const struct engine_options *options);
void engine_close(struct engine *engine);

/* ---- memory ---- */

/* Windows of the generic address space that are not global memory; the same on every client. */
#define WINDOW_SHARED 0x0000700000000000u /* a CTA's shared memory, 16 MiB */
#define WINDOW_LOCAL 0x0000700100000000u  /* a thread's local memory, 16 MiB */
#define WINDOWS_END 0x0000700800000000u   /* from here on memory may lie again */

enum { MAP_READ = 1, MAP_WRITE = 2 };

/*
 * A multicast mapping has no `host`: replicas[i] is where the bytes on device i lie, NULL where
 * that device takes no part. Only multimem instructions may use it; to all else it is an illegal
 * address.
 */
struct mapping {
    uint64_t address, size_bytes; /* as the client sees it; bytes, not pages: the bound of access */
    uint8_t *host;                /* where simd has the bytes */
    int owner;                    /* device whose memory it is; -1: host memory */
    int access;                   /* MAP_READ | MAP_WRITE */
    uint32_t allocation;          /* number that names it in reports */
    bool starts_undefined;        /* the client may not rely on what is there at first */
    const char *label;            /* "", or what reports call it: "symm 0", "input x"; borrowed */
    uint8_t *replicas[WORLD_MAX]; /* of a multicast mapping; all NULL: it is none */
};
struct space *space_open(struct engine *engine,
                         int rank);    /* rank: -1 for the judge (not counted) */
void space_close(struct space *space); /* ends its grids */
enum status space_map(struct space *space, const struct mapping *mapping, struct error *err);
/* Removes the mapping that starts at `address`. ERR_NOT_FOUND where none does. */
enum status space_unmap(struct space *space, uint64_t address, struct error *err);
/* The mapping that holds [address, address + size_bytes), or NULL. */
const struct mapping *space_find(const struct space *space, uint64_t address, uint64_t size_bytes);

/* Copies and sets by simd: memory changes (for the proof and last writers), traffic is counted.
 * ERR_INVALID where a range is not mapped with that access. */
enum status engine_copy(struct engine *engine, struct space *space, uint64_t to, uint64_t from,
                        uint64_t size_bytes, struct error *err);
enum status engine_set(struct engine *engine, struct space *space, uint64_t to, uint8_t value,
                       uint64_t size_bytes, struct error *err);
/* The caller wrote bytes of `space` itself (host copies, memset of other widths). */
void engine_note_write(struct engine *engine, struct space *space, uint64_t to,
                       uint64_t size_bytes);
/* What engine_copy and engine_set count as from now on; the copy engine at first. */
void engine_count_copies_as(struct engine *engine, enum mechanism mechanism);
void engine_note_traffic(struct engine *engine, int source, int owner, enum mechanism mechanism,
                         uint64_t bytes);

/* ---- modules: an image's variables on one device of one client ---- */
struct module;
/* `addresses[i]` is where symbol i lies in `space`; the caller has mapped and filled them. */
struct module *module_open(struct space *space, const struct image *image,
                           const uint64_t *addresses);
void module_close(struct module *module);
/* What keeps `kernel` from being simulated, with its name and source line; NULL: nothing does. */
const char *module_unsupported(struct module *module, const struct kernel *kernel);

/* ---- grids ---- */
struct work_order;
struct launch {
    const struct kernel *kernel;
    struct module *module;
    struct space *space;
    int device;
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared_bytes;
    bool is_cooperative;
    bool is_nccl;             /* its traffic counts as NCCL's */
    uint32_t call;            /* the pkb_run of its process in which it was queued, from 0 */
    const void *params;       /* kernel->param_bytes, copied */
    struct work_order *order; /* order.h; lives as long as the grid; NULL: it is not followed */
};
/* Checks what a driver checks (sizes, shared memory, cooperative fit): ERR_INVALID. A kernel that
 * cannot be simulated: ERR_UNAVAILABLE with its `unsupported` text. */
enum status engine_launch(struct engine *engine, struct grid **grid, const struct launch *launch,
                          struct error *err);
void grid_release(struct grid *grid); /* also ends it */

enum grid_state { GRID_RUNNING, GRID_DONE, GRID_FAULTED };
enum grid_state grid_state(const struct grid *grid);
/* What went wrong: owned by the grid. `cuda_error`: the CUresult that the client gets. */
const struct fault *grid_fault(const struct grid *grid, int *cuda_error);
/* Text that the kernel printed so far is appended to `text`, and forgotten. */
void grid_take_output(struct grid *grid, struct buffer *text);

enum engine_outcome {
    ENGINE_IDLE,    /* no grid is live */
    ENGINE_RAN,     /* some grid ended, faulted, or host memory changed: look, then go on */
    ENGINE_STUCK,   /* proven: no live grid can change anything any more */
    ENGINE_NO_FUEL, /* the fuel is used up */
    ENGINE_SLICE,   /* nothing of these yet after `sweeps` sweeps */
};
/* Runs live grids until something that the caller must see, or `sweeps` whole sweeps. */
enum engine_outcome engine_run(struct engine *engine, int sweeps);

/* After ENGINE_STUCK or ENGINE_NO_FUEL: where the live warps stand, one row per rank and place.
 * `waits` is allocated, its strings too (wait_release in result.h). */
void engine_waits(struct engine *engine, struct wait **waits, size_t *count);

/* After ENGINE_STUCK: what is wrong with a grid whose CTAs cannot all be resident, where some grid
 * would end if they could: that is tried. The caller frees it; NULL: that is not the cause. Nothing
 * but reports may follow. */
char *engine_residency(struct engine *engine);

/* Findings and traffic so far, appended in a fixed order to `result`. */
void engine_report(const struct engine *engine, struct result *result);
uint64_t engine_instructions(const struct engine *engine); /* thread-instructions so far */
int64_t engine_time_ns(const struct engine *engine);       /* simulated, for events and clocks */

/* Occupancy: CTAs of this shape that fit one SM. */
int engine_occupancy(const struct engine *engine, const struct kernel *kernel, int threads,
                     uint32_t dynamic_shared_bytes);
