/*
 * schedule.c — sweeps: in each, every warp that can run is visited once, in an order that the seed
 * decides, and so is how long it runs, how many CTAs start, and which ranks are slow for a while.
 */
#include "sim/schedule.h"

static const uint64_t cta_bytes_max = 2ull * GRID_BYTES_MAX; /* of all grids */

enum { STEPS_WATCHED = 4096, SLOWNESS_SWEEPS = 32, RANKS_ORDER = 8 };

uint64_t engine_random(struct engine *engine)
{
    uint64_t value = engine->random += 0x9e3779b97f4a7c15u;

    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

uint64_t engine_delay(struct engine *engine)
{
    static const uint8_t sweeps[] = {0, 0, 0, 1, 2, 3, 5, 8};

    return sweeps[engine_random(engine) % (sizeof(sweeps) / sizeof(*sweeps))];
}

static uint64_t below(struct engine *engine, uint64_t limit)
{
    return limit > 1 ? engine_random(engine) % limit : 0;
}

static void finish_warps(struct engine *engine, struct cta *cta)
{
    for (uint32_t i = 0; i < cta->warp_count; i++) {
        struct warp *warp = &cta->warps[i];
        engine->instructions += warp->threads;
        engine->ticks += warp->steps;
        warp->threads = 0;
        warp->steps = 0;
    }
}

/* How a device is run in one sweep. */
struct tempo {
    uint64_t steps_max; /* of a warp, at least */
    uint64_t starts;    /* CTAs that may start */
    bool rests_after_store;
};

static struct tempo choose_tempo(struct engine *engine)
{
    static const uint16_t starts[] = {1, 1, 2, 4, 16, 64, 256, 1024};

    if (engine->is_watching) {
        return (struct tempo){STEPS_WATCHED, UINT64_MAX, false};
    }
    return (struct tempo){(uint64_t)256 << below(engine, 9),
                          starts[below(engine, sizeof(starts) / sizeof(*starts))],
                          below(engine, 4) == 0};
}

/* Runs all warps of a CTA until each rests, waits or is gone. */
static void cta_visit(struct engine *engine, struct cta *cta, const struct tempo *tempo)
{
    struct grid *grid = cta->grid;
    uint32_t first = (uint32_t)below(engine, cta->warp_count);

    for (uint32_t i = 0; i < cta->warp_count && !grid->fault; i++) {
        struct warp *warp = &cta->warps[(first + i) % cta->warp_count];
        if (warp->live) {
            warp->steps_max = tempo->steps_max;
            warp->rests_after_store = tempo->rests_after_store;
            warp_visit(warp);
        }
    }
    while (cta->has_released && !grid->fault) {
        cta->has_released = false;
        for (uint32_t i = 0; i < cta->warp_count && !grid->fault; i++) {
            struct warp *warp = &cta->warps[(first + i) % cta->warp_count];
            if (warp->live) {
                warp_resume(warp);
            }
        }
    }
    finish_warps(engine, cta);
    if (grid->fault) {
        grid_end(grid, GRID_FAULTED);
        return;
    }
    if (engine->is_watching) {
        proof_cta_visited(engine, cta);
    }
    if (cta->live_warps == 0) {
        cta_end(cta);
        if (grid->ctas_done == grid->cta_count) {
            grid_end(grid, GRID_DONE);
        }
    }
}

static bool must_look(const struct engine *engine)
{
    return engine->has_event || engine->host_changed ||
           engine->instructions >= engine->options.fuel;
}

static void visit_live(struct engine *engine, struct grid *grid, const struct tempo *tempo)
{
    uint32_t count = grid->live_count;
    uint32_t first = (uint32_t)below(engine, count);

    /* A CTA that ends leaves its place to the last one, which may be left out this time. */
    for (uint32_t i = 0; i < count && grid->state == GRID_RUNNING && !must_look(engine); i++) {
        uint32_t at = (first + count - 1 - i) % count;
        if (at < grid->live_count) {
            cta_visit(engine, grid->live[at], tempo);
        }
    }
}

/* Many grids at once may have to wait for each other's memory, which hardware shares otherwise. */
static bool has_bytes(const struct engine *engine, const struct grid *grid)
{
    return grid->spare || engine->cta_bytes + grid->cta_bytes <= cta_bytes_max;
}

static void start_ctas(struct engine *engine, struct grid *grid, const struct tempo *tempo)
{
    const struct device *device = grid->device;
    uint64_t capacity = (uint64_t)DEVICE_CAPACITY * (uint64_t)engine->options.sm_count;
    uint64_t starts = tempo->starts;

    while (grid->state == GRID_RUNNING && grid->ctas_started < grid->cta_count && starts-- > 0 &&
           (engine->is_supposing || device->used + grid->cost <= capacity) &&
           has_bytes(engine, grid) && !must_look(engine)) {
        cta_visit(engine, cta_start(grid), tempo);
    }
}

static void visit_device(struct engine *engine, struct device *device)
{
    struct tempo tempo = choose_tempo(engine);

    for (struct grid *grid = device->grids; grid && !must_look(engine); grid = grid->next) {
        if (grid->state != GRID_RUNNING) {
            continue;
        }
        if (grid->delay > 0) {
            grid->delay--;
            proof_changed(engine);
            continue;
        }
        visit_live(engine, grid, &tempo);
        start_ctas(engine, grid, &tempo);
    }
}

static void choose_slow_devices(struct engine *engine)
{
    static const uint8_t sixteenths[] = {0, 0, 0, 0, 8, 15};

    for (int i = 0; i < engine->options.devices; i++) {
        engine->devices[i].skip = sixteenths[below(engine, sizeof(sixteenths))];
    }
}

/* False: it ended early, there is something to look at. */
static bool sweep(struct engine *engine)
{
    int order[WORLD_MAX] = {0};
    int count = engine->options.devices;

    if (engine->sweeps++ % SLOWNESS_SWEEPS == 0) {
        choose_slow_devices(engine);
    }
    for (int i = 0; i < count; i++) {
        int k = (int)below(engine, (uint64_t)i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (int i = 0; i < count; i++) {
        struct device *device = &engine->devices[order[i]];
        bool is_skipped = below(engine, 16) < device->skip && !engine->is_watching;
        if (!is_skipped) {
            visit_device(engine, device);
        }
        if (must_look(engine)) {
            return false;
        }
    }
    return true;
}

static bool is_live(const struct engine *engine)
{
    for (int i = 0; i < engine->options.devices; i++) {
        for (const struct grid *grid = engine->devices[i].grids; grid; grid = grid->next) {
            if (grid->state == GRID_RUNNING) {
                return true;
            }
        }
    }
    return false;
}

enum engine_outcome engine_run(struct engine *engine, int sweeps)
{
    if (!is_live(engine)) {
        return ENGINE_IDLE;
    }
    engine->has_event = false;
    engine->host_changed = false;
    for (int i = 0; i < sweeps; i++) {
        if (engine->instructions >= engine->options.fuel) {
            return ENGINE_NO_FUEL;
        }
        bool is_whole = sweep(engine);
        if (engine->has_event || engine->host_changed) {
            return ENGINE_RAN;
        }
        if (is_whole && proof_swept(engine)) {
            return ENGINE_STUCK;
        }
    }
    return engine->instructions >= engine->options.fuel ? ENGINE_NO_FUEL : ENGINE_SLICE;
}
