#include "sim/stale.h"

#include "common/mem.h"
#include "sim/exec.h"
#include "sim/schedule.h"
#include "sim/spin.h"

#include <stdlib.h>
#include <string.h>

/* Of one memory; words beyond so many are not watched. */
enum { FLAGS_FIRST = 64, FLAGS_MAX = 1 << 14 };

static const char KIND[] = "signal_pads_not_reset";

struct flag {
    const uint8_t *host; /* NULL: the place is free */
    uint64_t value;
    uint32_t size_bytes;
    uint32_t writer;
    int rank;      /* whose store gave it this value */
    uint32_t call; /* of that rank */
    struct {
        char *source, *text; /* NULL: no wait was ended by it */
        int rank;
        uint32_t call;
    } wait;
};

/* Open addressing; never more than half full. */
struct flags {
    struct flag *rows;
    uint32_t count, capacity;
};

void flags_release(struct flags *flags)
{
    for (uint32_t i = 0; flags && i < flags->capacity; i++) {
        free(flags->rows[i].wait.source);
        free(flags->rows[i].wait.text);
    }
    if (flags) {
        free(flags->rows);
    }
    free(flags);
}

/* The place of the word at `host`, or the free one where it would be. */
static struct flag *find(const struct flags *flags, const uint8_t *host)
{
    uint64_t hash = (uint64_t)(uintptr_t)host * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32) & (flags->capacity - 1);

    while (flags->rows[at].host && flags->rows[at].host != host) {
        at = (at + 1) & (flags->capacity - 1);
    }
    return &flags->rows[at];
}

static void grow(struct flags *flags)
{
    struct flags old = *flags;

    flags->capacity = old.capacity ? old.capacity * 2 : FLAGS_FIRST;
    flags->rows = xcalloc(flags->capacity, sizeof(*flags->rows));
    for (uint32_t i = 0; i < old.capacity; i++) {
        if (old.rows[i].host) {
            *find(flags, old.rows[i].host) = old.rows[i];
        }
    }
    free(old.rows);
}

/* The word's row, a new one if need be; NULL where it is not watched. */
static struct flag *take(struct memory *memory, const uint8_t *host)
{
    struct flags *flags = memory->flags;

    if (!flags) {
        flags = memory->flags = xcalloc(1, sizeof(*flags));
    }
    if (flags->count * 2 >= flags->capacity && flags->capacity < FLAGS_MAX * 2) {
        grow(flags);
    }
    struct flag *flag = find(flags, host);
    if (!flag->host && flags->count == FLAGS_MAX) {
        return NULL;
    }
    flags->count += !flag->host;
    flag->host = host;
    return flag;
}

static void forget_wait(struct flag *flag)
{
    free(flag->wait.source);
    free(flag->wait.text);
    flag->wait.source = flag->wait.text = NULL;
}

static bool is_reported(const struct engine *engine, const struct flag *flag)
{
    for (uint32_t i = 0; i < engine->note_count; i++) {
        const struct note *note = &engine->notes[i];
        if (note->rank == flag->wait.rank && strcmp(note->kind, KIND) == 0 &&
            strcmp(note->source, flag->wait.source) == 0) {
            return true;
        }
    }
    return false;
}

/* Each line once for each rank. */
static void report(struct engine *engine, const struct flag *flag)
{
    if (is_reported(engine, flag)) {
        return;
    }
    const struct writer *writer = &engine->writers[flag->writer];
    char *message = xasprintf(
        "%s was ended by the %lu that rank %d (%s) left there in pkb_run %u; in pkb_run %u, for "
        "which it was to wait, rank %d wrote %lu only after that: reset the flag, or count up",
        flag->wait.text, flag->value, flag->rank, writer->what, flag->call + 1, flag->wait.call + 1,
        flag->rank, flag->value);

    engine_note(engine, flag->wait.rank, KIND, flag->wait.source, message);
    free(message);
}

static uint64_t value_at(const uint8_t *at, uint32_t size_bytes)
{
    uint64_t value = 0;

    memcpy(&value, at, size_bytes);
    return value;
}

/* Where the access of a lane is. */
static const uint8_t *place(const struct access *access, int lane, uint32_t size_bytes)
{
    if (access->is_uniform) {
        return access->at[0];
    }
    return access->is_contiguous ? access->at[0] + (size_t)lane * size_bytes : access->at[lane];
}

static struct region *region_of(const struct access *access, int lane)
{
    return access->is_mixed ? access->regions[lane] : access->region;
}

static void store_word(struct warp *warp, const struct region *region, const uint8_t *at,
                       const struct flag *now, bool is_same)
{
    struct memory *memory = region->memory;
    struct flag *flag = memory->references > 1 ? take(memory, at) : NULL;

    if (!flag) {
        return;
    }
    bool is_stale = is_same && flag->wait.text && flag->wait.call == now->call &&
                    flag->rank == now->rank && flag->call < now->call &&
                    flag->value == now->value && flag->size_bytes == now->size_bytes &&
                    flag->writer == memory_writer(region, at);
    if (is_stale) {
        report(warp->engine, flag);
    }
    forget_wait(flag);
    flag->value = now->value;
    flag->size_bytes = now->size_bytes;
    flag->writer = now->writer;
    flag->rank = now->rank;
    flag->call = now->call;
}

void stale_store(struct warp *warp, uint32_t mask, const struct access *access, uint32_t size_bytes,
                 bool is_same)
{
    struct flag now = {.size_bytes = size_bytes,
                       .writer = access->writer,
                       .rank = warp->space->rank,
                       .call = warp->grid->launch.call};

    if (now.rank < 0 || size_bytes > sizeof(now.value)) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        const struct region *region = region_of(access, lane);
        const uint8_t *at = place(access, lane, size_bytes);
        if (region) {
            now.value = value_at(at, size_bytes);
            store_word(warp, region, at, &now, is_same);
        }
    }
}

static void note_wait(struct warp *warp, const struct insn *insn, int lane, struct flag *flag,
                      const struct region *region)
{
    char *kernel = kernel_text(warp->grid->bound->kernel);
    char *where =
        address_text(warp->space, region->address + (uint64_t)(flag->host - region->host));

    forget_wait(flag);
    flag->wait.rank = warp->space->rank;
    flag->wait.call = warp->grid->launch.call;
    flag->wait.source = source_of(warp->grid, insn);
    flag->wait.text = xasprintf("the wait of %s for %s (block %lu, warp %u, lane %d)", kernel,
                                where, warp->cta->index, warp->index, lane);
    free(where);
    free(kernel);
}

static void poll_word(struct warp *warp, const struct insn *insn, int lane,
                      const struct region *region, const uint8_t *at)
{
    struct flag *flag = region->memory->flags ? find(region->memory->flags, at) : NULL;
    uint32_t call = warp->grid->launch.call;

    if (!flag || !flag->host || flag->rank == warp->space->rank || flag->call >= call ||
        (flag->wait.text && flag->wait.call == call) ||
        flag->value != value_at(at, flag->size_bytes) ||
        flag->writer != memory_writer(region, at)) {
        return;
    }
    if (spin_is_ended_by(warp, (uint32_t)(insn - warp->insns), lane, flag->value)) {
        note_wait(warp, insn, lane, flag, region);
    }
}

void stale_poll(struct warp *warp, const struct insn *insn, uint32_t mask,
                const struct access *access, uint32_t size_bytes)
{
    if (warp->space->rank < 0) {
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        const struct region *region = region_of(access, lane);
        if (region) {
            poll_word(warp, insn, lane, region, place(access, lane, size_bytes));
        }
        if (access->is_uniform) {
            break;
        }
    }
}
