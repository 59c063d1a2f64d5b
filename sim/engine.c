#include "sim/engine.h"

#include <assert.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/exec.h"
#include "sim/order.h"
#include "sim/schedule.h"

enum { NOTES_MAX = 256 };

const char *mechanism_name(enum mechanism mechanism)
{
    static const char *const names[MECHANISMS] = {
        [MECHANISM_COPY_ENGINE] = "copy_engine",
        [MECHANISM_SM_LOAD] = "sm_load",
        [MECHANISM_SM_STORE] = "sm_store",
        [MECHANISM_SM_ATOMIC] = "sm_atomic",
        [MECHANISM_BULK] = "bulk",
        [MECHANISM_MULTIMEM_LOAD] = "multimem_load",
        [MECHANISM_MULTIMEM_STORE] = "multimem_store",
        [MECHANISM_NCCL] = "nccl",
    };

    return names[mechanism];
}

/* Grids and their CTAs come and go: what they leave is used again, not given back and zeroed by
 * the system, which takes longer than a small grid does. */
static void keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 256 << 20);
}

struct engine *engine_open(const struct engine_options *options)
{
    struct engine *engine = xcalloc(1, sizeof(*engine));

    assert(options->devices >= 1 && options->devices <= WORLD_MAX);
    keep_memory();
    engine->options = *options;
    engine->random = options->seed;
    for (int i = 0; i < options->devices; i++) {
        engine->devices[i].index = i;
    }
    engine->writer_capacity = 64;
    engine->writers = xcalloc(engine->writer_capacity, sizeof(*engine->writers));
    engine->writer_count = 1; /* 0: nobody */
    engine->order = xcalloc(1, sizeof(*engine->order));
    engine->order->lane_count = 1;
    return engine;
}

void engine_close(struct engine *engine)
{
    if (!engine) {
        return;
    }
    for (int i = 0; i < engine->options.devices; i++) {
        while (engine->devices[i].grids) {
            grid_release(engine->devices[i].grids);
        }
    }
    while (engine->spaces) {
        space_close(engine->spaces);
    }
    for (uint32_t i = 1; i < engine->writer_count; i++) {
        free(engine->writers[i].what);
    }
    for (uint32_t i = 0; i < engine->note_count; i++) {
        free(engine->notes[i].kind);
        free(engine->notes[i].source);
        free(engine->notes[i].message);
    }
    free(engine->notes);
    free(engine->order);
    free(engine->writers);
    free(engine);
}

struct order_state *engine_order(struct engine *engine)
{
    return engine->order;
}

/* ---- who wrote ---- */

static uint32_t add_writer(struct engine *engine, int rank, char *what)
{
    if (engine->writer_count == engine->writer_capacity) {
        engine->writer_capacity *= 2;
        engine->writers =
            xrealloc(engine->writers, engine->writer_capacity * sizeof(*engine->writers));
    }
    engine->writers[engine->writer_count] = (struct writer){rank, what};
    return engine->writer_count++;
}

uint32_t engine_writer(struct warp *warp, const struct insn *insn)
{
    struct grid *grid = warp->grid;
    struct bound *bound = grid->bound;
    const struct kernel *kernel = bound->kernel;
    size_t devices = (size_t)warp->engine->options.devices + 1;
    bool is_judge = warp->space->rank < 0;
    size_t device = is_judge ? devices - 1 : (size_t)grid->device->index;

    if (!bound->writers) {
        bound->writers = xcalloc(devices * kernel->insn_count, sizeof(*bound->writers));
    }
    uint32_t *writer =
        &bound->writers[device * kernel->insn_count + (size_t)(insn - kernel->insns)];
    if (*writer == 0) {
        char *name = kernel_text(kernel);
        char *source = source_of(grid, insn);
        *writer = add_writer(warp->engine, is_judge ? -1 : grid->device->index,
                             xasprintf("kernel %s%s%s", name, source[0] ? ", " : "", source));
        free(name);
        free(source);
    }
    return *writer;
}

static size_t place_of(const struct warp *warp, const struct insn *insn)
{
    const struct kernel *kernel = warp->grid->bound->kernel;

    return (size_t)warp->grid->device->index * kernel->insn_count + (size_t)(insn - kernel->insns);
}

bool engine_has_noted(const struct warp *warp, const struct insn *insn, enum noted what)
{
    const uint8_t *noted = warp->grid->bound->noted;

    return noted && noted[place_of(warp, insn)] & what;
}

void engine_set_noted(struct warp *warp, const struct insn *insn, enum noted what)
{
    struct bound *bound = warp->grid->bound;

    if (!bound->noted) {
        bound->noted = xcalloc((size_t)warp->engine->options.devices, bound->kernel->insn_count);
    }
    bound->noted[place_of(warp, insn)] |= (uint8_t)what;
}

uint32_t engine_copy_writer(struct engine *engine, int rank, const char *what)
{
    for (uint32_t i = 1; i < engine->writer_count; i++) {
        if (engine->writers[i].rank == rank && strcmp(engine->writers[i].what, what) == 0) {
            return i;
        }
    }
    return add_writer(engine, rank, xstrdup(what));
}

/* ---- copies ---- */

static struct region *find_access(struct space *space, uint64_t address, uint64_t size_bytes,
                                  int access)
{
    struct region *region = space_region(space, address, size_bytes);

    return region && (region->access & access) == access ? region : NULL;
}

/* What the judge writes is how memory starts: nobody's. */
static void note_bytes(struct space *space, struct region *region, uint64_t address,
                       uint64_t size_bytes, const char *what)
{
    uint32_t writer = space->rank < 0 ? 0 : engine_copy_writer(space->engine, space->rank, what);

    memory_note(region->memory, region->host + (address - region->address), size_bytes, writer);
    proof_changed(space->engine);
}

enum status engine_copy(struct engine *engine, struct space *space, uint64_t to, uint64_t from,
                        uint64_t size_bytes, struct error *err)
{
    struct region *target = find_access(space, to, size_bytes, MAP_WRITE);
    const struct region *source = find_access(space, from, size_bytes, MAP_READ);

    if (size_bytes == 0) {
        return OK;
    }
    if (!target || !source) {
        return error_set(err, ERR_INVALID, "%lu bytes at %#lx are not mapped%s", size_bytes,
                         target ? from : to, target ? "" : " for writing");
    }
    memmove(target->host + (to - target->address), source->host + (from - source->address),
            size_bytes);
    note_bytes(space, target, to, size_bytes, "copy");
    engine_note_traffic(engine, space->rank, source->owner, engine->copy_mechanism, size_bytes);
    engine_note_traffic(engine, space->rank, target->owner, engine->copy_mechanism, size_bytes);
    return OK;
}

enum status engine_set(struct engine *engine, struct space *space, uint64_t to, uint8_t value,
                       uint64_t size_bytes, struct error *err)
{
    struct region *target = find_access(space, to, size_bytes, MAP_WRITE);

    if (size_bytes == 0) {
        return OK;
    }
    if (!target) {
        return error_set(err, ERR_INVALID, "%lu bytes at %#lx are not mapped for writing",
                         size_bytes, to);
    }
    memset(target->host + (to - target->address), value, size_bytes);
    note_bytes(space, target, to, size_bytes, "memset");
    engine_note_traffic(engine, space->rank, target->owner, engine->copy_mechanism, size_bytes);
    return OK;
}

void engine_note_write(struct engine *engine, struct space *space, uint64_t to, uint64_t size_bytes)
{
    struct region *target = space_region(space, to, size_bytes);

    if (target && size_bytes) {
        note_bytes(space, target, to, size_bytes, "copy");
    }
    proof_changed(engine);
}

void engine_count_copies_as(struct engine *engine, enum mechanism mechanism)
{
    engine->copy_mechanism = mechanism;
}

void engine_note_traffic(struct engine *engine, int source, int owner, enum mechanism mechanism,
                         uint64_t bytes)
{
    if (source >= 0 && source < engine->options.devices && owner >= 0 &&
        owner < engine->options.devices) {
        engine->devices[source].traffic[owner][mechanism] += bytes;
    }
}

/* ---- reports ---- */

void engine_note(struct engine *engine, int rank, const char *kind, const char *source,
                 const char *message)
{
    for (uint32_t i = 0; i < engine->note_count; i++) {
        const struct note *note = &engine->notes[i];
        if (note->rank == rank && strcmp(note->kind, kind) == 0 &&
            strcmp(note->source, source) == 0 && strcmp(note->message, message) == 0) {
            return;
        }
    }
    if (engine->note_count == NOTES_MAX || engine->is_supposing) {
        return;
    }
    if (!engine->notes) {
        engine->notes = xcalloc(NOTES_MAX, sizeof(*engine->notes));
    }
    engine->notes[engine->note_count++] = (struct note){.kind = xstrdup(kind),
                                                        .rank = rank,
                                                        .source = xstrdup(source),
                                                        .message = xstrdup(message)};
}

void engine_report(const struct engine *engine, struct result *result)
{
    for (uint32_t i = 0; i < engine->note_count; i++) {
        const struct note *note = &engine->notes[i];
        result_add_finding(result, (struct finding){.kind = xstrdup(note->kind),
                                                    .rank = note->rank,
                                                    .source = xstrdup(note->source),
                                                    .message = xstrdup(note->message)});
    }
    for (int source = 0; source < engine->options.devices; source++) {
        for (int owner = 0; owner < engine->options.devices; owner++) {
            for (int i = 0; i < MECHANISMS; i++) {
                uint64_t bytes = engine->devices[source].traffic[owner][i];
                if (bytes) {
                    char *name = xstrdup(mechanism_name(i));
                    struct traffic traffic = {source, owner, name, bytes};
                    result_add_traffic(result, &traffic);
                    free(name);
                }
            }
        }
    }
}

uint64_t engine_instructions(const struct engine *engine)
{
    return engine->instructions;
}

int64_t engine_time_ns(const struct engine *engine)
{
    return (int64_t)engine->ticks;
}
