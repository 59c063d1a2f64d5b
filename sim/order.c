#include "sim/order.h"

#include "common/mem.h"
#include "sim/exec.h"
#include "sim/look.h"
#include "sim/schedule.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Larger copies and sets are not looked at: that would take as long as they do. */
enum { WORDS_FIRST = 64, WORDS_MAX = 4096, RANGE_BYTES_MAX = 64 << 20 };

/* A touch: lane, number, and which of the word's four bytes. */
#define TOUCH(lane, number, bytes) ((uint32_t)(lane) << 24 | (number) << 4 | (bytes))
#define TOUCH_LANE(touch) ((touch) >> 24)
#define TOUCH_NUMBER(touch) ((touch) >> 4 & ORDER_NUMBER_MAX)

/* A word through which order is passed on. */
struct word {
    const uint8_t *host; /* NULL: the place is free */
    struct clock *clock;
};

struct order {
    struct engine *engine;
    uint32_t *writes, *reads; /* of each word: a touch; 0: none. NULL: nothing was checked */
    size_t size_bytes;        /* of both */
    struct word *words;       /* open addressing, never more than half full */
    uint32_t word_count, word_capacity;
    bool is_unwatched; /* there was no room: nothing of it is checked */
};

void clock_join(const struct order_state *state, struct clock *clock, const struct clock *other)
{
    for (int i = 1; i < state->lane_count; i++) {
        clock->done[i] = clock->done[i] > other->done[i] ? clock->done[i] : other->done[i];
    }
}

const struct past *lane_past(const struct lane *lane, uint32_t number)
{
    const struct past *past = &lane->past[number % ORDER_PAST];

    return number && lane->number - number < ORDER_PAST && past->what[0] ? past : NULL;
}

bool order_is_whole(struct engine *engine)
{
    struct order_state *state = engine->order;

    for (int i = 0; i < engine->options.devices && !state->is_whole; i++) {
        for (const struct grid *grid = engine->devices[i].grids; grid; grid = grid->next) {
            if (grid->state == GRID_RUNNING && !grid->launch.order &&
                grid->launch.space->rank >= 0) {
                return false;
            }
        }
    }
    state->is_whole = true;
    return true;
}

static struct order *order_of(struct memory *memory)
{
    if (!memory->order) {
        memory->order = xcalloc(1, sizeof(*memory->order));
        memory->order->engine = memory->engine;
    }
    return memory->order;
}

void order_forget(struct order *order)
{
    if (!order) {
        return;
    }
    if (order->writes) {
        munmap(order->writes, order->size_bytes);
        order->engine->shadow_bytes -= order->size_bytes;
    }
    for (uint32_t i = 0; i < order->word_capacity; i++) {
        free(order->words[i].clock);
    }
    free(order->words);
    free(order);
}

/* ---- order that is passed on through memory ---- */

static struct word *find_word(const struct order *order, const uint8_t *host)
{
    uint64_t hash = (uint64_t)(uintptr_t)host * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32) & (order->word_capacity - 1);

    while (order->words[at].host && order->words[at].host != host) {
        at = (at + 1) & (order->word_capacity - 1);
    }
    return &order->words[at];
}

static void grow(struct order *order)
{
    struct order old = *order;

    order->word_capacity = old.word_capacity ? old.word_capacity * 2 : WORDS_FIRST;
    order->words = xcalloc(order->word_capacity, sizeof(*order->words));
    for (uint32_t i = 0; i < old.word_capacity; i++) {
        if (old.words[i].host) {
            *find_word(order, old.words[i].host) = old.words[i];
        }
    }
    free(old.words);
}

static void release(struct memory *memory, const uint8_t *host, struct work_order *work)
{
    struct order *order = order_of(memory);
    const struct order_state *state = memory->engine->order;

    if (order->word_count * 2 >= order->word_capacity && order->word_count < WORDS_MAX) {
        grow(order);
    }
    struct word *word = find_word(order, (const uint8_t *)((uintptr_t)host & ~(uintptr_t)3));
    if (!word->host) {
        if (order->word_count >= WORDS_MAX) {
            order->is_unwatched = true;
            return;
        }
        word->host = (const uint8_t *)((uintptr_t)host & ~(uintptr_t)3);
        word->clock = xcalloc(1, sizeof(*word->clock));
        order->word_count++;
    }
    clock_join(state, word->clock, &work->clock);
    if (word->clock->done[work->lane] < work->number) {
        word->clock->done[work->lane] = work->number;
    }
}

/* Was it a copy or a set? Those are no flags for who changes a word by an atomic. */
static bool is_bulk(const struct order_state *state, uint32_t touch)
{
    const struct past *past = lane_past(&state->lanes[TOUCH_LANE(touch)], TOUCH_NUMBER(touch));

    return past && past->what[0] && !past->is_nccl && strncmp(past->what, "kernel ", 7) != 0;
}

static void acquire(struct memory *memory, const uint8_t *host, struct work_order *work,
                    bool is_atomic)
{
    const struct order *order = memory->order;
    const uint8_t *at = (const uint8_t *)((uintptr_t)host & ~(uintptr_t)3);

    if (order && order->word_capacity) {
        const struct word *word = find_word(order, at);
        if (word->host) {
            clock_join(memory->engine->order, &work->clock, word->clock);
        }
    }
    /* A flag that was written plainly: whoever wrote it is done as far as that. */
    if (order && order->writes) {
        uint32_t touch = order->writes[(uint64_t)(at - memory->host) / 4];
        uint32_t *done = &work->clock.done[TOUCH_LANE(touch)];
        bool is_data = is_atomic && is_bulk(memory->engine->order, touch);
        *done = is_data || *done > TOUCH_NUMBER(touch) ? *done : TOUCH_NUMBER(touch);
    }
}

/* ---- bytes that are touched ---- */

/* What work does to a range; `other` becomes the touch that is not ordered before it. */
struct touching {
    struct work_order *work;
    struct memory *memory;
    bool is_write;
    uint32_t other;
    bool other_writes;
};

static bool open_touches(struct memory *memory)
{
    struct order *order = order_of(memory);
    struct engine *engine = memory->engine;
    size_t each_bytes = (memory->size_bytes / 4 + 2) * sizeof(uint32_t);

    if (order->writes || order->is_unwatched) {
        return !order->is_unwatched;
    }
    order->is_unwatched = 2 * each_bytes > ENGINE_SHADOW_BYTES_MAX - engine->shadow_bytes;
    void *touches = order->is_unwatched ? MAP_FAILED
                                        : mmap(NULL, 2 * each_bytes, PROT_READ | PROT_WRITE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (touches == MAP_FAILED) {
        order->is_unwatched = true;
        return false;
    }
    order->size_bytes = 2 * each_bytes;
    engine->shadow_bytes += order->size_bytes;
    order->writes = touches;
    order->reads = order->writes + each_bytes / sizeof(uint32_t);
    return true;
}

static bool is_unordered(const struct touching *touching, uint32_t touch)
{
    const struct work_order *work = touching->work;
    uint32_t lane = TOUCH_LANE(touch);

    return lane && lane != (uint32_t)work->lane && TOUCH_NUMBER(touch) > work->clock.done[lane] &&
           touching->memory->engine->order->lanes[lane].rank == work->rank;
}

static bool is_both_nccl(const struct touching *touching, uint32_t touch)
{
    const struct lane *lanes = touching->memory->engine->order->lanes;
    const struct past *mine = lane_past(&lanes[touching->work->lane], touching->work->number);
    const struct past *other = lane_past(&lanes[TOUCH_LANE(touch)], TOUCH_NUMBER(touch));

    return mine && other && mine->is_nccl && other->is_nccl;
}

static void take_other(struct touching *touching, uint32_t touch, uint32_t bytes, bool writes)
{
    if (!touching->other && touch & bytes && is_unordered(touching, touch) &&
        !is_both_nccl(touching, touch)) {
        touching->other = touch;
        touching->other_writes = writes;
    }
}

static void touch_word(struct touching *touching, uint64_t index, uint32_t bytes)
{
    struct order *order = touching->memory->order;
    const struct work_order *work = touching->work;
    uint32_t mine = TOUCH(work->lane, work->number, bytes);
    uint32_t *kept = touching->is_write ? &order->writes[index] : &order->reads[index];

    if ((*kept | bytes) == *kept && *kept >> 4 == mine >> 4) {
        return; /* and all was looked at then */
    }
    take_other(touching, order->writes[index], bytes, true);
    if (touching->is_write) {
        take_other(touching, order->reads[index], bytes, false);
    } else if (is_unordered(touching, *kept)) {
        return; /* two readers: the first one stays */
    }
    *kept = *kept >> 4 == mine >> 4 ? *kept | bytes : mine;
}

static void touch(struct touching *touching, const uint8_t *host, uint64_t size_bytes)
{
    uint64_t at = (uint64_t)(host - touching->memory->host);
    uint64_t end = at + size_bytes;

    for (uint64_t index = at / 4; index * 4 < end; index++) {
        uint32_t bytes = 15;
        if (index * 4 < at) {
            bytes &= 15u << (at & 3);
        }
        if (index * 4 + 4 > end) {
            bytes &= 15u >> (4 - (end & 3));
        }
        touch_word(touching, index, bytes);
    }
}

/* ---- reports ---- */

static char unordered[] = "unordered_access";
static char unforked[] = "unforked_work";

/* What is wrong, less the call. */
static char *problem(const struct touching *touching, const char *what, const char *where)
{
    const struct lane *lanes = touching->memory->engine->order->lanes;
    const struct work_order *work = touching->work;
    const char *mine = lanes[work->lane].stream;

    if (!touching->other) {
        return xasprintf(
            "%s on %s touches %s without being ordered behind %s, where the tensors of "
            "a call are ready",
            what, mine, where, lanes[work->run_lane].stream);
    }
    const struct lane *lane = &lanes[TOUCH_LANE(touching->other)];
    const struct past *past = lane_past(lane, TOUCH_NUMBER(touching->other));
    return xasprintf(
        "%s on %s %s %s, which %s on %s %s: no event or synchronisation orders the two", what, mine,
        touching->is_write ? "writes" : "reads", where, past ? past->what : "earlier work",
        lane->stream, touching->other_writes ? "writes" : "reads");
}

/* Of one line one is told; where there is none, the same words in another call are not. */
static bool is_told(const struct engine *engine, const struct note *given)
{
    for (uint32_t i = 0; i < engine->note_count; i++) {
        const struct note *note = &engine->notes[i];
        if (note->rank == given->rank && strcmp(note->kind, given->kind) == 0 &&
            strcmp(note->source, given->source) == 0 &&
            (note->source[0] ||
             strncmp(note->message, given->message, strlen(given->message)) == 0)) {
            return true;
        }
    }
    return false;
}

static void report(const struct touching *touching, const char *what, const char *where,
                   char *source)
{
    struct engine *engine = touching->memory->engine;
    const struct work_order *work = touching->work;
    char *text = problem(touching, what, where);
    char *message = xasprintf("%s (pkb_run %u)", text, work->call + 1);
    struct note note = {.kind = touching->other ? unordered : unforked,
                        .rank = work->rank,
                        .source = source,
                        .message = text};

    if (!is_told(engine, &note)) {
        engine_note(engine, work->rank, note.kind, source, message);
    }
    free(message);
    free(text);
}

static bool is_tensor(const struct region *region, int rank)
{
    const char *label = region->mapping.label;

    return region->owner == rank && label &&
           (strcmp(label, "inputs") == 0 || strcmp(label, "outputs") == 0);
}

/* Whether the work touches a tensor before its stream may. */
static bool is_too_early(const struct work_order *work, const struct region *region)
{
    return work->clock.done[work->run_lane] < work->run_end && is_tensor(region, work->rank);
}

/* ---- kernels ---- */

static void report_kernel(struct warp *warp, const struct insn *insn, const struct region *region,
                          const uint8_t *at, const struct touching *touching)
{
    char *kernel = kernel_text(warp->grid->bound->kernel);
    char *what = xasprintf("kernel %s", kernel);
    char *where = address_text(warp->space, region->address + (uint64_t)(at - region->host));
    char *source = source_of(warp->grid, insn);

    report(touching, what, where, source);
    free(source);
    free(where);
    free(what);
    free(kernel);
}

static void check_lane(struct warp *warp, const struct insn *insn, struct touching *touching,
                       struct region *region, const uint8_t *at, uint64_t size_bytes)
{
    struct work_order *work = touching->work;

    if (region->owner < 0 && touching->is_write) { /* host code may look at it, and go on */
        clock_join(warp->engine->order, work->host, &work->clock);
        work->host->done[work->lane] = work->number;
    }
    if (!work->is_checked || engine_has_noted(warp, insn, NOTED_ORDER)) {
        return;
    }
    bool is_early = is_too_early(work, region);
    touching->memory = region->memory;
    if (open_touches(region->memory)) {
        touch(touching, at, size_bytes);
    }
    if (is_early || touching->other) {
        engine_set_noted(warp, insn, NOTED_ORDER);
        report_kernel(warp, insn, region, at, touching);
    }
}

/* An atomic changes a word that a copy or a set has written. */
static void check_atomic(struct warp *warp, const struct insn *insn, struct region *region,
                         const uint8_t *at)
{
    struct memory *memory = region->memory;
    struct touching touching = {warp->order, memory, .is_write = true, .other_writes = true};

    if (!warp->order->is_checked || !memory->order || !memory->order->writes) {
        return;
    }
    touching.other = memory->order->writes[(uint64_t)(at - memory->host) / 4];
    if (is_unordered(&touching, touching.other) && is_bulk(warp->engine->order, touching.other) &&
        !engine_has_noted(warp, insn, NOTED_ORDER)) {
        engine_set_noted(warp, insn, NOTED_ORDER);
        report_kernel(warp, insn, region, at, &touching);
    }
}

/* Strong accesses and atomics pass order on. */
static void sync_lane(struct warp *warp, const struct insn *insn, enum access_kind kind,
                      struct region *region, const uint8_t *at)
{
    if (kind != ACCESS_STORE) {
        acquire(region->memory, at, warp->order, kind == ACCESS_ATOMIC);
    }
    if (kind == ACCESS_ATOMIC) {
        check_atomic(warp, insn, region, at);
    }
    if (kind != ACCESS_LOAD) {
        release(region->memory, at, warp->order);
    }
}

void order_access(struct warp *warp, const struct insn *insn, uint32_t mask,
                  const struct access_request *request, const struct access *access)
{
    bool is_sync = request->kind == ACCESS_ATOMIC || insn->sem != SEM_WEAK;
    struct touching touching = {.work = warp->order, .is_write = request->kind != ACCESS_LOAD};

    if (!is_sync && (access->is_contiguous || access->is_uniform) && access->region) {
        uint64_t size_bytes = (uint64_t)request->size_bytes * (access->is_uniform ? 1 : WARP_LANES);
        check_lane(warp, insn, &touching, access->region, access->at[0], size_bytes);
        return;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        struct region *region = access->is_mixed ? access->regions[lane] : access->region;
        const uint8_t *at = access->is_uniform ? access->at[0]
                            : access->is_contiguous
                                ? access->at[0] + (size_t)lane * request->size_bytes
                                : access->at[lane];
        if (!region) {
            continue;
        }
        if (is_sync) {
            sync_lane(warp, insn, request->kind, region, at);
        } else {
            check_lane(warp, insn, &touching, region, at, request->size_bytes);
        }
    }
}

void order_replica(struct warp *warp, struct memory *memory, const uint8_t *host, bool is_write)
{
    if (is_write) {
        release(memory, host, warp->order);
    } else {
        acquire(memory, host, warp->order, false);
    }
}

/* ---- copies, sets, frees, and words that a stream writes or waits for ---- */

/* The first piece of the range that is no good is told. */
void order_touch(struct space *space, struct work_order *work, const struct order_range *range)
{
    uint64_t address = range->address, left = range->size_bytes;
    struct touching touching = {.work = work, .is_write = range->is_write};
    char nowhere[] = "";

    while (left) {
        struct region *region = space_region(space, address, 1);
        if (!region || !region->host) {
            return;
        }
        uint64_t room = region->address + region->size_bytes - address;
        uint64_t piece = left < room ? left : room;
        touching.memory = region->memory;
        if (piece <= RANGE_BYTES_MAX && open_touches(region->memory)) {
            touch(&touching, region->host + (address - region->address), piece);
        }
        if (touching.other || is_too_early(work, region)) {
            char *where = address_text(space, address);
            report(&touching, range->what, where, nowhere);
            free(where);
            return;
        }
        address += piece;
        left -= piece;
    }
}

void order_wrote(struct space *space, struct work_order *work, uint64_t address)
{
    struct region *region = space_region(space, address, 4);

    if (region && region->host) {
        release(region->memory, region->host + (address - region->address), work);
    }
}

void order_waited(struct space *space, struct work_order *work, uint64_t address)
{
    struct region *region = space_region(space, address, 4);

    if (region && region->host) {
        acquire(region->memory, region->host + (address - region->address), work, false);
    }
}
