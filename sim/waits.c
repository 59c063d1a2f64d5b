/* waits.c — where the live warps stand, and what they wait for. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/exec.h"
#include "sim/schedule.h"
#include "sim/spin.h"

enum { ROWS_MAX = 256 };

struct rows {
    struct wait *waits;
    size_t count, capacity;
};

/* ---- the value that ends a spin ---- */

static enum code_cmp negated(enum code_cmp cmp)
{
    static const uint8_t opposite[] = {
        [CMP_EQ] = CMP_NE,   [CMP_NE] = CMP_EQ,   [CMP_LT] = CMP_GE,  [CMP_LE] = CMP_GT,
        [CMP_GT] = CMP_LE,   [CMP_GE] = CMP_LT,   [CMP_LO] = CMP_HS,  [CMP_LS] = CMP_HI,
        [CMP_HI] = CMP_LS,   [CMP_HS] = CMP_LO,   [CMP_EQU] = CMP_NE, [CMP_NEU] = CMP_EQ,
        [CMP_LTU] = CMP_GE,  [CMP_LEU] = CMP_GT,  [CMP_GTU] = CMP_LE, [CMP_GEU] = CMP_LT,
        [CMP_NUM] = CMP_NAN, [CMP_NAN] = CMP_NUM,
    };

    return opposite[cmp];
}

static enum code_cmp mirrored(enum code_cmp cmp)
{
    switch (cmp) {
    case CMP_LT:
        return CMP_GT;
    case CMP_LE:
        return CMP_GE;
    case CMP_GT:
        return CMP_LT;
    case CMP_GE:
        return CMP_LE;
    case CMP_LO:
        return CMP_HI;
    case CMP_LS:
        return CMP_HS;
    case CMP_HI:
        return CMP_LO;
    case CMP_HS:
        return CMP_LS;
    default:
        return cmp;
    }
}

static const char *sign_of(enum code_cmp cmp)
{
    switch (cmp) {
    case CMP_EQ:
        return "==";
    case CMP_NE:
        return "!=";
    case CMP_LT:
    case CMP_LO:
        return "<";
    case CMP_LE:
    case CMP_LS:
        return "<=";
    case CMP_GT:
    case CMP_HI:
        return ">";
    case CMP_GE:
    case CMP_HS:
        return ">=";
    default:
        return NULL;
    }
}

static char *number_text(uint64_t value, uint8_t type)
{
    double number;

    switch (type) {
    case TYPE_S8:
    case TYPE_S16:
    case TYPE_S32:
        return xasprintf("%d", (int32_t)value);
    case TYPE_S64:
        return xasprintf("%ld", (int64_t)value);
    case TYPE_F32:
        return xasprintf("%g", (double)((union {
                                   uint32_t bits;
                                   float value;
                               }){.bits = (uint32_t)value})
                                   .value);
    case TYPE_F64:
        memcpy(&number, &value, sizeof(number));
        return xasprintf("%g", number);
    default:
        return xasprintf("%lu", value);
    }
}

/* ">= 1", or NULL where it cannot be seen; `type` becomes the comparison's. */
static char *wanted_text(struct warp *warp, uint32_t load_pc, int lane, uint8_t *type)
{
    const struct kernel *kernel = warp->grid->bound->kernel;
    struct comparison comparison = spin_comparison(kernel, load_pc);
    const struct insn *setp = comparison.setp;

    if (!setp) {
        return NULL;
    }
    *type = setp->type;
    if (!comparison.branch || setp->boolean != BOOL_NONE) {
        return NULL;
    }
    bool goes_back = comparison.branch->target <= load_pc && comparison.branch->back_edge;
    bool while_true = goes_back == spin_is_taken_while(&comparison);
    uint64_t value = spin_operand(warp, &comparison, lane);
    enum code_cmp cmp = comparison.is_first ? setp->cmp : mirrored(setp->cmp);
    const char *sign = sign_of(while_true ? negated(cmp) : cmp);
    if (!sign) {
        return NULL;
    }
    char *number = number_text(value, setp->type);
    char *text = xasprintf("%s %s", sign, number);
    free(number);
    return text;
}

/* ---- rows ---- */

static bool is_same_text(const char *a, const char *b)
{
    return (!a && !b) || (a && b && strcmp(a, b) == 0);
}

/* Adds the row, or counts its warp in one that says the same. */
static void add_row(struct rows *rows, struct wait *wait)
{
    for (size_t i = 0; i < rows->count; i++) {
        struct wait *row = &rows->waits[i];
        if (row->rank == wait->rank && is_same_text(row->kernel, wait->kernel) &&
            is_same_text(row->source, wait->source) && is_same_text(row->address, wait->address) &&
            is_same_text(row->wanted, wait->wanted)) {
            row->warps++;
            wait_release(wait);
            return;
        }
    }
    if (rows->count == ROWS_MAX) {
        wait_release(wait);
        return;
    }
    if (rows->count == rows->capacity) {
        rows->capacity = rows->capacity ? rows->capacity * 2 : 16;
        rows->waits = xrealloc(rows->waits, rows->capacity * sizeof(*rows->waits));
    }
    rows->waits[rows->count++] = *wait;
}

static char *writer_text(const struct engine *engine, uint32_t writer)
{
    if (writer == 0) {
        return xstrdup("never written");
    }
    const struct writer *who = &engine->writers[writer];
    return who->rank < 0 ? xasprintf("judge, %s", who->what)
                         : xasprintf("rank %d, %s", who->rank, who->what);
}

static uint32_t bytes_of(uint8_t type)
{
    switch (type) {
    case TYPE_B8:
    case TYPE_U8:
    case TYPE_S8:
        return 1;
    case TYPE_B16:
    case TYPE_U16:
    case TYPE_S16:
        return 2;
    default:
        return spin_is_wide(type) || type == TYPE_B128 ? 8 : 4;
    }
}

static void describe_spin(struct warp *warp, const struct spin *spin, struct wait *wait)
{
    const struct insn *load = &warp->insns[spin->pc];
    struct region *region = space_region(warp->space, spin->address, 1);
    uint64_t value = spin->value;
    uint8_t type = load->type;

    wait->address = address_text(warp->space, spin->address);
    wait->wanted = wanted_text(warp, spin->pc, spin->lane, &type);
    if (region && region->host) {
        uint32_t size_bytes = bytes_of(load->type);
        const uint8_t *at = region->host + (spin->address - region->address);
        wait->owner = region->owner;
        wait->last_writer = writer_text(warp->engine, memory_writer(region, at));
        if (space_region(warp->space, spin->address, size_bytes)) {
            value = 0;
            memcpy(&value, at, size_bytes);
        }
    }
    wait->value = number_text(value, type);
}

static void describe_barrier(const struct warp *warp, const struct group *group, struct wait *wait)
{
    const struct cta *cta = warp->cta;
    const struct barrier *barrier = &cta->barriers[group->barrier];
    uint32_t expected = barrier->expected ? barrier->expected : cta->live_lanes;

    wait->address = xasprintf("barrier %d", group->barrier);
    wait->value = xasprintf("%u threads", barrier->lanes + barrier->arrived);
    wait->wanted = expected > cta->live_lanes ? xasprintf("%u threads, of which %u have exited",
                                                          expected, expected - cta->live_lanes)
                                              : xasprintf("%u threads", expected);
}

static void describe_group(struct warp *warp, const struct group *group, struct rows *rows)
{
    const struct grid *grid = warp->grid;
    const struct spin *spin = &group->spin;
    bool is_spin = group->state == GROUP_YIELDED && spin->address != 0;
    uint32_t pc = is_spin ? spin->pc : group->pc;
    struct wait wait = {
        .rank = grid->launch.space->rank < 0 ? -1 : grid->device->index,
        .where = xstrdup("kernel"),
        .kernel = kernel_text(grid->bound->kernel),
        .source = source_of(grid, &warp->insns[pc < grid->bound->kernel->insn_count ? pc : 0]),
        .cta = (int64_t)warp->cta->index,
        .warp = warp->index,
        .lanes = group->mask,
        .warps = 1,
        .owner = -1,
    };

    if (is_spin) {
        describe_spin(warp, spin, &wait);
    } else if (group->state == GROUP_BARRIER) {
        describe_barrier(warp, group, &wait);
    } else if (group->state == GROUP_CONVERGE) {
        wait.value = xasprintf("lanes %#x", group->mask);
        wait.wanted = xasprintf("lanes %#x", group->members & warp->live);
    }
    add_row(rows, &wait);
}

/* CTAs that cannot start while those that are resident stay. */
static bool has_unstarted(const struct grid *grid)
{
    return grid->ctas_started < grid->cta_count && grid->delay == 0;
}

static void describe_residency(struct grid *grid, struct rows *rows)
{
    uint64_t left = grid->cta_count - grid->ctas_started;

    if (!has_unstarted(grid)) {
        return;
    }
    char *name = kernel_text(grid->bound->kernel);
    struct wait wait = {
        .rank = grid->launch.space->rank < 0 ? -1 : grid->device->index,
        .where = xstrdup("residency"),
        .kernel = name,
        .source = xstrdup(""),
        .cta = (int64_t)grid->ctas_started,
        .warp = -1,
        .warps = (int64_t)(left * grid->warp_count),
        .owner = -1,
        .value = xasprintf("%u CTAs resident", grid->live_count),
        .wanted = xasprintf("%lu CTAs resident", grid->cta_count),
    };
    add_row(rows, &wait);
}

static char *residency_text(const struct grid *grid)
{
    uint64_t per_sm = DEVICE_CAPACITY / grid->cost;
    uint64_t sm_count = (uint64_t)grid->engine->options.sm_count;
    char *name = kernel_text(grid->bound->kernel);
    char *text = xasprintf(
        "rank %d: grid of %lu CTAs of %s, %lu can be resident (%lu SMs x %lu); those that "
        "are wait for CTA %lu and on, which never started",
        grid->device->index, grid->cta_count, name, per_sm * sm_count, sm_count, per_sm,
        grid->ctas_started);

    free(name);
    return text;
}

static const struct grid *first_unstarted(const struct engine *engine)
{
    for (int i = 0; i < engine->options.devices; i++) {
        for (const struct grid *grid = engine->devices[i].grids; grid; grid = grid->next) {
            if (grid->state == GRID_RUNNING && has_unstarted(grid)) {
                return grid;
            }
        }
    }
    return NULL;
}

char *engine_residency(struct engine *engine)
{
    enum { SWEEPS = 4096 };
    const uint64_t instructions_max = 100000000;
    const struct grid *grid = first_unstarted(engine);
    uint64_t traffic[WORLD_MAX][OWNERS][MECHANISMS];
    uint64_t fuel = engine->options.fuel;

    if (!grid) {
        return NULL;
    }
    char *text = residency_text(grid);
    for (int i = 0; i < engine->options.devices; i++) {
        memcpy(traffic[i], engine->devices[i].traffic, sizeof(traffic[i]));
    }
    engine->is_supposing = true;
    engine->is_watching = false;
    engine->options.fuel = engine->instructions + instructions_max;
    bool is_cause = engine_run(engine, SWEEPS) == ENGINE_RAN;
    engine->options.fuel = fuel;
    engine->is_supposing = false;
    for (int i = 0; i < engine->options.devices; i++) {
        memcpy(engine->devices[i].traffic, traffic[i], sizeof(traffic[i]));
    }
    if (!is_cause) {
        free(text);
        return NULL;
    }
    return text;
}

static int compare_ctas(const void *a, const void *b)
{
    const struct cta *const *first = a;
    const struct cta *const *second = b;

    return ((*first)->index > (*second)->index) - ((*first)->index < (*second)->index);
}

static void describe_grid(struct grid *grid, struct rows *rows)
{
    struct cta **ctas = xcalloc(grid->live_count + 1, sizeof(void *));

    if (grid->live_count) {
        memcpy(ctas, grid->live, grid->live_count * sizeof(void *));
    }
    qsort((void *)ctas, grid->live_count, sizeof(void *), compare_ctas);
    for (uint32_t i = 0; i < grid->live_count; i++) {
        barrier_note_stuck(ctas[i]);
        for (uint32_t k = 0; k < ctas[i]->warp_count; k++) {
            struct warp *warp = &ctas[i]->warps[k];
            for (uint32_t n = 0; n < warp->group_count; n++) {
                describe_group(warp, &warp->groups[n], rows);
            }
        }
    }
    free(ctas);
    describe_residency(grid, rows);
}

void engine_waits(struct engine *engine, struct wait **waits, size_t *count)
{
    struct rows rows = {0};

    for (int i = 0; i < engine->options.devices; i++) {
        for (struct grid *grid = engine->devices[i].grids; grid; grid = grid->next) {
            if (grid->state == GRID_RUNNING) {
                describe_grid(grid, &rows);
            }
        }
    }
    *waits = rows.waits;
    *count = rows.count;
}
