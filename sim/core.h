/*
 * core.h — what runs: engine, devices, grids, CTAs and warps, as the interpreter's files share
 * them. Nobody else includes it.
 *
 * A warp's lanes are split into groups that stand at the same instruction. One group is active;
 * its pc and mask are in the warp, those of the others in `groups`. Whatever ends the straight run
 * of a group (a split, a wait, a yield, a fault) sets `leave` and stop_pc = 0.
 */
#pragma once

#include "sim/space.h"

#include "common/buffer.h"
#include "common/job.h"

enum {
    BARRIERS = 16,
    WARPS_MAX = 32, /* per CTA */
    SLOT_BYTES = 128,
    CONSTANT_BYTES = 384, /* 32 lanes of 4 bytes, then 32 of 8 */
    OUTPUT_MAX_BYTES = 1 << 20,
    PRINT_COST = 20000, /* thread-instructions of fuel that a printed line takes */
    SHARED_MAX_BYTES = 227 << 10,
    SHARED_RESERVED_BYTES = 1024, /* of each CTA, for the system */
    GRID_BYTES_MAX = 1 << 30,     /* of all CTAs of a grid that fit the device at once */
    ASYNC_COPIES_MAX = 1 << 20,   /* that wait in all warps; what is beyond is copied at once */
    OWNERS = WORLD_MAX + 1,       /* the last: host memory */
};

#define WINDOW_BYTES (16u << 20)
/* Kernel parameters in the generic address space. */
#define WINDOW_PARAM 0x0000700200000000u

enum leave { LEAVE_NONE, LEAVE_SELECT, LEAVE_YIELD, LEAVE_BLOCK, LEAVE_FAULT };

enum group_state { GROUP_READY, GROUP_YIELDED, GROUP_BARRIER, GROUP_CONVERGE };

/* The last strong load or atomic of a group: what a spin waits for. */
struct spin {
    uint32_t pc;
    int lane;
    uint64_t address;
    uint64_t value;
    uint32_t repeats; /* times in a row that it gave the same */
};

struct group {
    uint32_t pc;
    uint32_t mask;
    uint8_t state;
    uint8_t barrier;
    uint32_t members; /* of GROUP_CONVERGE */
    struct spin spin;
};

/* A cp.async of one lane that is on its way: what it read, and where it will be. */
struct async_copy {
    uint32_t group; /* of the lane: commits before it */
    uint32_t shared_at;
    uint8_t lane;
    uint8_t size_bytes;
    uint8_t bytes[16];
};

struct warp {
    const struct insn *insns;
    uint8_t *slots;
    uint32_t *predicates;
    const uint8_t *constants;
    uint32_t pc;     /* of the active group's next instruction */
    uint32_t active; /* its lanes */
    uint32_t
        stop_pc;   /* leave the straight run here: another group stands there, or `leave` is set */
    uint32_t live; /* lanes that have not exited */
    enum leave leave;
    bool rests_after_store; /* a strong one: what comes later may be too late for others */
    bool is_strong;         /* a strong access since the last back edge */
    uint32_t edges;         /* back edges with strong accesses in this visit */
    uint64_t steps;         /* instructions in this visit */
    uint64_t steps_max;
    uint64_t threads; /* thread-instructions, moved to the engine after each visit */
    struct spin spin;
    uint32_t current; /* index of the active group; group_count: there is none */
    uint32_t group_count;
    struct group groups[WARP_LANES];
    struct cta *cta;
    struct grid *grid;
    struct engine *engine;
    struct space *space;
    struct work_order *order;        /* NULL: it is not followed */
    uint64_t (*traffic)[MECHANISMS]; /* [owner][MECHANISMS] of the device; NULL: not counted */
    uint32_t index;                  /* in the CTA */
    struct async_copy *copies;       /* in the order in which they were issued */
    uint32_t copy_count, copy_capacity;
    uint32_t commits[WARP_LANES]; /* groups that each lane has closed */
};

struct barrier {
    uint32_t arrived;  /* threads, as barriers count them: a whole warp is 32 */
    uint32_t expected; /* 0: all live threads */
    uint32_t lanes;    /* that wait */
    uint32_t popc;
    bool all, any;
};

struct cta {
    struct grid *grid;
    uint64_t index; /* linear */
    uint32_t id[3];
    uint8_t *shared;
    uint8_t *local;
    uint32_t warp_count, live_warps, live_lanes;
    struct barrier barriers[BARRIERS];
    uint32_t barriers_waiting; /* groups that wait at any */
    bool has_released;         /* a barrier let groups go */
    uint64_t snapshot, state;  /* proof.c */
    bool has_returned;
    bool is_whole;     /* all of its shared memory was written */
    uint32_t checks;   /* of that: defined.c */
    uint32_t position; /* in the grid's `live` */
    struct cta *next;  /* of the spare ones */
    struct warp warps[];
};

/* What is reported of an instruction once for each device. */
enum noted {
    NOTED_UNDEFINED = 1,
    NOTED_BARRIER = 2,
    NOTED_MEMBERS = 4,
    NOTED_LANES = 8,
    NOTED_ORDER = 16
};

/* A kernel ready to run: handlers are in its insns, constants broadcast. */
struct bound {
    const struct kernel *kernel;
    uint8_t *constants;
    uint8_t *noted;    /* [device * insn_count + insn]: enum noted, what was reported of it */
    uint32_t *writers; /* [device * insn_count + insn]: the name of a store; 0: not yet used */
    char *unsupported; /* what has no handler; NULL: nothing */
    bool is_bound;
};

/* The programs of one image, shared by the modules of all clients. */
struct binding {
    const struct image *image;
    struct bound *bounds;
    uint32_t kernel_count;
    int references;
    struct binding *next;
};

struct module {
    struct space *space;
    struct binding *binding;
    uint64_t *addresses;
};

struct grid {
    struct engine *engine;
    struct device *device;
    struct launch launch;
    struct bound *bound;
    struct module *module;
    uint8_t *params;
    uint64_t serial;
    uint32_t warp_count, thread_count; /* per CTA */
    uint32_t shared_bytes;
    uint64_t cta_count, ctas_started, ctas_done;
    uint64_t cost; /* of a CTA, in parts of the device's capacity */
    size_t cta_bytes;
    struct cta **live; /* CTAs that have started and not ended */
    uint32_t live_count, live_capacity;
    struct cta *spare; /* memory to use again */
    uint64_t delay;    /* sweeps before the first CTA starts */
    int workspace;     /* of a cooperative grid; -1: none */
    enum grid_state state;
    struct fault *fault;
    int cuda_error;
    struct buffer output;
    bool is_output_cut;
    struct grid *next; /* of the device */
};

enum { DEVICE_CAPACITY = 720720 }; /* of one SM: divisible by every number of CTAs to 16 */

struct device {
    int index;
    struct grid *grids; /* in the order of their launch */
    uint64_t used;
    uint64_t traffic[OWNERS][MECHANISMS];
    uint32_t skip; /* how many sweeps in 16 leave this device out */
};

/* Who wrote: a kernel's instruction or a copy. */
struct writer {
    int rank;
    char *what; /* "kernel k, solution.cu:21", "copy" */
};

struct note {
    char *kind, *source, *message;
    int rank;
};

struct engine {
    enum mechanism copy_mechanism; /* what copies count as */
    struct engine_options options;
    struct device devices[WORLD_MAX];
    struct space *spaces;
    struct memory *memories;
    uint64_t shadow_bytes; /* of the memories */
    struct binding *bindings;
    struct writer *writers;
    uint32_t writer_count, writer_capacity;
    struct note *notes;
    uint32_t note_count;
    struct order_state *order; /* of all work; made with the engine */
    uint64_t random;
    uint64_t serial;
    uint64_t instructions;
    uint64_t cta_bytes;    /* of the memory of all CTAs, with the spare ones */
    uint32_t async_copies; /* that wait, of all warps */
    uint64_t ticks;
    uint64_t sweeps;
    /* proof.c */
    bool is_supposing; /* CTAs start whatever is resident, nothing is noted: waits.c */
    bool is_watching;  /* stores compare, so that `changes` is exact */
    uint64_t changes;  /* of memory, at least; exactly while watching */
    uint64_t progress; /* CTAs that started or ended */
    uint64_t progress_seen, changes_seen;
    uint64_t quiet_sweeps, window, age;
    bool has_snapshot;
    bool host_changed; /* a store to host memory */
    bool has_event;    /* a grid ended or faulted */
};
