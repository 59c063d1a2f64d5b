#include "worker/tensors.h"

#include "worker/keystream.h"
#include "worker/layout.h"

#include <assert.h>
#include <string.h>

static uint64_t align(uint64_t size_bytes)
{
    return (size_bytes + TENSOR_ALIGN_BYTES - 1) / TENSOR_ALIGN_BYTES * TENSOR_ALIGN_BYTES;
}

/* The largest of all ranks, so that offsets are equal. */
static uint64_t size_everywhere(const struct run *run, bool is_output, int tensor)
{
    uint64_t size_bytes = 0;

    for (int rank = 0; rank < run_world(run); rank++) {
        const struct plan *plan = run_plan(run, rank);
        const struct tensor_spec *spec = is_output ? &plan->outputs[tensor] : &plan->inputs[tensor];
        size_bytes = spec->size_bytes > size_bytes ? spec->size_bytes : size_bytes;
    }
    return size_bytes;
}

static void make(struct layout *layout, const struct run *run, bool is_output)
{
    const struct plan *plan = run_plan(run, 0);
    uint64_t offset = RED_ZONE_BYTES;

    *layout = (struct layout){.count = is_output ? plan->output_count : plan->input_count};
    for (int i = 0; i < layout->count; i++) {
        layout->offsets[i] = offset;
        offset = align(offset + size_everywhere(run, is_output, i)) + RED_ZONE_BYTES;
    }
    layout->slot_bytes = offset;
    layout->arena_bytes = offset * CHANNEL_SLOTS;
}

void layouts_make(struct layouts *layouts, const struct run *run)
{
    make(&layouts->inputs, run, false);
    make(&layouts->outputs, run, true);
}

uint64_t layout_slot(const struct layout *layout, int slot)
{
    assert(slot >= 0);
    assert(slot < CHANNEL_SLOTS);
    return (uint64_t)slot * layout->slot_bytes;
}

static void describe(const struct layout *layout, const struct tensor_spec *specs,
                     uint64_t window_offset, uint64_t offsets[CHANNEL_SLOTS][PLAN_TENSORS_MAX])
{
    for (int slot = 0; slot < CHANNEL_SLOTS; slot++) {
        for (int i = 0; i < layout->count; i++) {
            offsets[slot][i] = specs[i].elements == 0
                                   ? UINT64_MAX
                                   : window_offset + layout_slot(layout, slot) + layout->offsets[i];
        }
    }
}

enum status layouts_describe(const struct layouts *layouts, const struct run *run, int rank,
                             struct run_body *body, struct error *err)
{
    const struct plan *plan = run_plan(run, rank);
    size_t params_bytes = 0;
    const void *params = run_params(run, &params_bytes);

    if (params_bytes > RUN_PARAMS_MAX) {
        return error_set(err, ERR_INTERNAL, "parameters have %zu bytes", params_bytes);
    }
    *body = (struct run_body){.input_count = layouts->inputs.count,
                              .output_count = layouts->outputs.count,
                              .params_bytes = params_bytes};
    if (params_bytes > 0) {
        memcpy(body->params, params, params_bytes);
    }
    describe(&layouts->inputs, plan->inputs, WINDOW_INPUTS, body->inputs);
    describe(&layouts->outputs, plan->outputs, WINDOW_OUTPUTS, body->outputs);
    return OK;
}

/* The finalizer of splitmix64: each word of the pattern looks unlike its neighbours. */
static uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

uint64_t red_zone_key(uint64_t seed, uint64_t number)
{
    const uint32_t key[KEYSTREAM_KEY_WORDS] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t block[KEYSTREAM_BLOCK_WORDS];

    keystream_block(key, number, 0, block);
    return (uint64_t)block[1] << 32 | block[0];
}

void red_zone_write(uint8_t *to, uint64_t offset, uint64_t size_bytes, uint64_t key)
{
    assert(offset % 8 == 0);
    assert(size_bytes % 8 == 0);
    for (uint64_t at = 0; at < size_bytes; at += 8) {
        uint64_t word = mix(key ^ (offset + at));
        memcpy(to + at, &word, sizeof word);
    }
}

void layout_tensors(const struct layout *layout, const struct tensor_spec *specs, uint8_t *image,
                    struct tensor *tensors)
{
    for (int i = 0; i < layout->count; i++) {
        tensors[i].spec = &specs[i];
        tensors[i].data = specs[i].elements == 0 ? NULL : image + layout->offsets[i];
    }
}

void layout_poison(const struct layout *layout, const struct tensor_spec *specs, uint8_t *image,
                   uint8_t poison)
{
    for (int i = 0; i < layout->count; i++) {
        memset(image + layout->offsets[i], poison, specs[i].size_bytes);
    }
}

/* The first byte of [offset, end), a part of the zone, that is not the pattern's, or `end`. */
static uint64_t first_changed(const struct red_zone *zone, uint64_t offset, uint64_t end)
{
    uint64_t start = offset / 8 * 8;

    for (uint64_t at = start; at < end; at += 8) {
        const uint8_t *found = zone->bytes + (at - zone->offset);
        uint64_t word = mix(zone->key ^ at);
        uint8_t bytes[8];
        memcpy(bytes, &word, sizeof bytes);
        if (at >= offset && end - at >= 8 && memcmp(found, bytes, 8) == 0) {
            continue;
        }
        for (uint64_t i = 0; i < 8; i++) {
            if (at + i >= offset && at + i < end && found[i] != bytes[i]) {
                return at + i;
            }
        }
    }
    return end;
}

/* The changed byte lies between the end of one tensor, or the arena's start, and another tensor. */
static struct trespass blame(int gap, int count, uint64_t behind_bytes, uint64_t before_bytes)
{
    if (gap == 0 || before_bytes < behind_bytes) {
        return (struct trespass){.slot = gap / count,
                                 .tensor = gap % count,
                                 .is_before = true,
                                 .distance_bytes = before_bytes};
    }
    return (struct trespass){
        .slot = (gap - 1) / count, .tensor = (gap - 1) % count, .distance_bytes = behind_bytes};
}

bool layout_find_trespass(const struct layout *layout, const struct tensor_spec *specs,
                          const uint8_t *arena, uint64_t size_bytes, uint64_t key,
                          struct trespass *trespass)
{
    const struct red_zone whole = {.bytes = arena, .size_bytes = size_bytes, .key = key};
    int gaps = CHANNEL_SLOTS * layout->count;
    uint64_t start = 0;

    for (int gap = 0; gap < gaps; gap++) {
        int tensor = gap % layout->count;
        uint64_t end = layout_slot(layout, gap / layout->count) + layout->offsets[tensor];
        uint64_t at = first_changed(&whole, start, end);
        if (at < end) {
            *trespass = blame(gap, layout->count, at - start, end - at);
            return true;
        }
        start = end + specs[tensor].size_bytes;
    }
    uint64_t at = first_changed(&whole, start, size_bytes);
    if (at < size_bytes && gaps > 0) {
        *trespass = blame(gaps, layout->count, at - start, UINT64_MAX);
        return true;
    }
    return false;
}

bool layout_find_trespass_behind(const struct layout *layout, const struct tensor_spec *specs,
                                 const struct red_zone *zone, struct trespass *trespass)
{
    int last = layout->count - 1;
    uint64_t end = zone->offset + zone->size_bytes;
    uint64_t at = first_changed(zone, zone->offset, end);

    if (at == end || last < 0) {
        return false;
    }
    uint64_t tensors_end =
        layout_slot(layout, CHANNEL_SLOTS - 1) + layout->offsets[last] + specs[last].size_bytes;
    *trespass = blame(CHANNEL_SLOTS * layout->count, layout->count, at - tensors_end, UINT64_MAX);
    return true;
}
