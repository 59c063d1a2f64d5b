/*
 * proof.c — the proof that nothing can move any more.
 *
 * After a few sweeps without a CTA that started or ended, stores compare what they overwrite, and
 * each CTA's registers are hashed after its visit. A CTA that comes back to a state it has been in,
 * while no word of memory changed in between, goes round for ever, whatever the length of its
 * round. When that is true of all, nothing can change. A snapshot is renewed at growing distances,
 * so that a round of any length is found.
 */
#include "sim/schedule.h"

enum { SWEEPS_BEFORE_WATCHING = 4 };

void proof_changed(struct engine *engine)
{
    engine->changes++;
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    return hash ^ hash >> 32;
}

static uint64_t hash_words(uint64_t hash, const void *bytes, size_t size_bytes)
{
    const uint64_t *words = bytes;
    uint64_t part[4] = {hash, 1, 2, 3};
    size_t count = size_bytes / sizeof(*words);

    for (size_t i = 0; i + 4 <= count; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            part[k] = mixed(part[k], words[i + k]);
        }
    }
    return mixed(mixed(mixed(part[0], part[1]), part[2]), part[3]);
}

/* Registers, and where the lanes stand; memory is watched by comparison. */
static uint64_t state_of(const struct cta *cta)
{
    const struct kernel *kernel = cta->grid->bound->kernel;
    uint64_t hash = cta->live_warps;

    for (int i = 0; i < BARRIERS; i++) {
        hash = mixed(hash, cta->barriers[i].arrived + ((uint64_t)cta->barriers[i].lanes << 32));
    }
    for (uint32_t i = 0; i < cta->warp_count; i++) {
        const struct warp *warp = &cta->warps[i];
        for (uint32_t k = 0; k < warp->group_count; k++) {
            const struct group *group = &warp->groups[k];
            hash = mixed(hash, (uint64_t)group->pc << 32 | group->mask);
            hash = mixed(hash, group->state);
        }
        hash = hash_words(hash, warp->slots, (size_t)kernel->slot_count * SLOT_BYTES);
        for (uint32_t k = 0; k < kernel->predicate_count; k++) {
            hash = mixed(hash, warp->predicates[k]);
        }
    }
    return hash;
}

void proof_cta_visited(const struct engine *engine, struct cta *cta)
{
    cta->state = state_of(cta);
    if (engine->has_snapshot && cta->state == cta->snapshot) {
        cta->has_returned = true;
    }
}

/* Takes snapshots of all CTAs, or of those only that have not returned to theirs. */
static void take_snapshot(struct engine *engine, bool of_all)
{
    for (int i = 0; i < engine->options.devices; i++) {
        for (struct grid *grid = engine->devices[i].grids; grid; grid = grid->next) {
            for (uint32_t k = 0; k < grid->live_count; k++) {
                struct cta *cta = grid->live[k];
                if (of_all || !cta->has_returned) {
                    cta->snapshot = cta->state;
                    cta->has_returned = false;
                }
            }
        }
    }
    engine->has_snapshot = true;
    engine->age = 0;
}

static bool have_all_returned(const struct engine *engine)
{
    for (int i = 0; i < engine->options.devices; i++) {
        for (const struct grid *grid = engine->devices[i].grids; grid; grid = grid->next) {
            for (uint32_t k = 0; k < grid->live_count; k++) {
                if (!grid->live[k]->has_returned) {
                    return false;
                }
            }
        }
    }
    return true;
}

bool proof_swept(struct engine *engine)
{
    if (engine->progress != engine->progress_seen) {
        engine->progress_seen = engine->progress;
        engine->quiet_sweeps = 0;
        engine->is_watching = false;
        engine->has_snapshot = false;
        return false;
    }
    if (++engine->quiet_sweeps < SWEEPS_BEFORE_WATCHING) {
        return false;
    }
    if (!engine->is_watching) {
        engine->is_watching = true;
        engine->has_snapshot = false;
        return false;
    }
    if (!engine->has_snapshot || engine->changes != engine->changes_seen) {
        engine->changes_seen = engine->changes;
        engine->window = 1;
        take_snapshot(engine, true);
        return false;
    }
    if (have_all_returned(engine)) {
        return true;
    }
    if (++engine->age >= engine->window) {
        engine->window *= 2;
        take_snapshot(engine, false);
    }
    return false;
}
