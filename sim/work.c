#include "sim/work.h"

#include "sim/client.h"
#include "sim/machine.h"
#include "sim/report.h"

#include <cuda.h>
#include <string.h>

/* Where the bytes at `address` lie; *size_bytes is cut to what lies there in one piece. */
static uint8_t *bytes_at(const struct client *client, uint64_t address, uint64_t *size_bytes,
                         int access)
{
    const struct region *region = region_find(client, address);

    if (!region || region->object->is_multicast || (region->access & access) != access) {
        return NULL;
    }
    uint64_t offset = address - region->address;
    if (*size_bytes > region->size_bytes - offset) {
        *size_bytes = region->size_bytes - offset;
    }
    return region->object->host + region->offset_bytes + offset;
}

static bool is_mapped(const struct client *client, uint64_t address, uint64_t size_bytes,
                      int access)
{
    while (size_bytes) {
        uint64_t piece = size_bytes;
        if (!bytes_at(client, address, &piece, access)) {
            return false;
        }
        address += piece;
        size_bytes -= piece;
    }
    return true;
}

uint64_t work_span_bytes(uint64_t pitch_bytes, uint64_t width_bytes, uint64_t height)
{
    uint64_t span = 0;

    if (!width_bytes || !height || (height > 1 && pitch_bytes < width_bytes) ||
        __builtin_mul_overflow(pitch_bytes, height - 1, &span) ||
        __builtin_add_overflow(span, width_bytes, &span)) {
        return 0;
    }
    return span;
}

/* Rows, not the span: what lies between rows need not be mapped. */
static bool rows_are_mapped(const struct client *client, uint64_t address, uint64_t pitch_bytes,
                            uint64_t width_bytes, uint64_t height, int access)
{
    uint64_t span = work_span_bytes(pitch_bytes, width_bytes, height);

    if (!span || address > UINT64_MAX - span) {
        return false;
    }
    if (is_mapped(client, address, span, access)) {
        return true;
    }
    for (uint64_t row = 0; row < height; row++) {
        if (!is_mapped(client, address + row * pitch_bytes, width_bytes, access)) {
            return false;
        }
    }
    return true;
}

bool work_copy_is_mapped(const struct client *client, const struct wire_copy *copy)
{
    return (copy->kind == WIRE_COPY_STAGED_OUT ||
            rows_are_mapped(client, copy->to, copy->to_pitch_bytes, copy->width_bytes, copy->height,
                            MAP_WRITE)) &&
           (copy->kind == WIRE_COPY_STAGED_IN ||
            rows_are_mapped(client, copy->from, copy->from_pitch_bytes, copy->width_bytes,
                            copy->height, MAP_READ));
}

bool work_set_is_mapped(const struct client *client, const struct wire_set *set)
{
    return rows_are_mapped(client, set->to, set->pitch_bytes, set->width_bytes, set->height,
                           MAP_WRITE);
}

uint8_t *work_word(const struct client *client, const struct wire_value *value, int access)
{
    uint64_t size_bytes = value->width_bytes;
    uint8_t *word = bytes_at(client, value->address, &size_bytes, access);

    return word && size_bytes == value->width_bytes ? word : NULL;
}

static uint64_t load(const uint8_t *word, uint32_t width_bytes)
{
    if (width_bytes == 4) {
        return __atomic_load_n((const uint32_t *)word, __ATOMIC_SEQ_CST);
    }
    return __atomic_load_n((const uint64_t *)word, __ATOMIC_SEQ_CST);
}

/* A word that is gone counts as reached: the client's own doing. */
static bool value_is_reached(const struct client *client, const struct wire_value *value)
{
    const uint8_t *word = work_word(client, value, MAP_READ);

    if (!word) {
        return true;
    }
    uint64_t now = load(word, value->width_bytes);
    switch ((enum wire_compare)value->compare) {
    case WIRE_GEQ:
        return value->width_bytes == 4 ? (int32_t)((uint32_t)now - (uint32_t)value->value) >= 0
                                       : (int64_t)(now - value->value) >= 0;
    case WIRE_EQ:
        return now == value->value;
    case WIRE_AND:
        return (now & value->value) != 0;
    case WIRE_NOR:
        return value->width_bytes == 4 ? (uint32_t) ~(now | value->value) != 0
                                       : ~(now | value->value) != 0;
    case WIRE_COMPARES:
        break;
    }
    return true;
}

bool work_is_ready(const struct client *client, const struct item *item)
{
    switch (item->kind) {
    case ITEM_WAIT_EVENT:
        return item->event->completed >= item->record;
    case ITEM_WAIT_VALUE:
        return value_is_reached(client, &item->value);
    default:
        return true;
    }
}

static bool copy_is_local(const struct client *client, const struct wire_copy *copy)
{
    uint64_t to = work_span_bytes(copy->to_pitch_bytes, copy->width_bytes, copy->height);
    uint64_t from = work_span_bytes(copy->from_pitch_bytes, copy->width_bytes, copy->height);

    return (copy->kind == WIRE_COPY_STAGED_OUT || region_is_private(client, copy->to, to)) &&
           (copy->kind == WIRE_COPY_STAGED_IN || region_is_private(client, copy->from, from));
}

bool work_is_local(const struct client *client, const struct item *item)
{
    bool is_judge = client->rank < 0;

    switch (item->kind) {
    case ITEM_COPY:
        return is_judge || copy_is_local(client, &item->copy);
    case ITEM_SET:
        return is_judge ||
               region_is_private(
                   client, item->set.to,
                   work_span_bytes(item->set.pitch_bytes, item->set.width_bytes, item->set.height));
    case ITEM_WRITE_VALUE:
        return is_judge || region_is_private(client, item->value.address, item->value.width_bytes);
    case ITEM_FREE:
    case ITEM_RECORD:
    case ITEM_WAIT_EVENT:
        return true;
    case ITEM_KERNEL:
    case ITEM_HOST:
    case ITEM_WAIT_VALUE:
        break;
    }
    return false;
}

/* One row between mapped memory and the host's bytes. */
static bool move_row(struct client *client, const struct item *item, uint64_t address,
                     uint8_t *host, uint64_t size_bytes)
{
    struct engine *engine = client->machine->engine;
    bool to_device = item->copy.kind == WIRE_COPY_STAGED_IN;
    enum mechanism mechanism = item->is_nccl ? MECHANISM_NCCL : MECHANISM_COPY_ENGINE;

    while (size_bytes) {
        uint64_t piece = size_bytes;
        uint8_t *bytes = bytes_at(client, address, &piece, to_device ? MAP_WRITE : MAP_READ);
        if (!bytes) {
            return false;
        }
        int owner = region_find(client, address)->object->device;
        if (to_device) {
            memcpy(bytes, host, piece);
            engine_note_write(engine, client->space, address, piece);
        } else {
            memcpy(host, bytes, piece);
        }
        if (client->rank >= 0 && owner >= 0) {
            engine_note_traffic(engine, client->rank, owner, mechanism, piece);
        }
        address += piece;
        host += piece;
        size_bytes -= piece;
    }
    return true;
}

static bool copy_row(struct client *client, struct item *item, uint64_t row)
{
    const struct wire_copy *copy = &item->copy;
    uint64_t to = copy->to + row * copy->to_pitch_bytes;
    uint64_t from = copy->from + row * copy->from_pitch_bytes;
    uint64_t width = copy->width_bytes;
    struct error err = {0};

    switch ((enum wire_copy_kind)copy->kind) {
    case WIRE_COPY_STAGED_IN:
        return move_row(client, item, to,
                        (copy->wait ? item->channel->staging : item->bytes) + row * width, width);
    case WIRE_COPY_STAGED_OUT:
        return move_row(client, item, from, item->channel->staging + row * width, width);
    case WIRE_COPY_MAPPED:
        return !engine_copy(client->machine->engine, client->space, to, from, width, &err);
    case WIRE_COPY_KINDS:
        break;
    }
    return false;
}

static int run_copy(struct client *client, struct item *item)
{
    struct wire_copy *copy = &item->copy;
    bool is_dense =
        copy->width_bytes == copy->to_pitch_bytes && copy->width_bytes == copy->from_pitch_bytes;

    if (is_dense) {
        copy->width_bytes *= copy->height;
        copy->height = 1;
    }
    for (uint64_t row = 0; row < copy->height; row++) {
        if (!copy_row(client, item, row)) {
            report_fault_call(client, "illegal_address", "a copy of memory that was unmapped");
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
    }
    return CUDA_SUCCESS;
}

static bool set_row(struct client *client, const struct wire_set *set, uint64_t to)
{
    struct engine *engine = client->machine->engine;
    struct error err = {0};
    uint8_t pattern[8];

    if (set->element_bytes == 1) {
        return !engine_set(engine, client->space, to, (uint8_t)set->value, set->width_bytes, &err);
    }
    for (size_t i = 0; i < sizeof pattern; i += set->element_bytes) {
        memcpy(pattern + i, &set->value, set->element_bytes);
    }
    for (uint64_t at = 0; at < set->width_bytes;) {
        uint64_t piece = set->width_bytes - at;
        uint8_t *bytes = bytes_at(client, to + at, &piece, MAP_WRITE);
        if (!bytes) {
            return false;
        }
        for (uint64_t i = 0; i < piece; i++) {
            bytes[i] = pattern[(at + i) % sizeof pattern];
        }
        engine_note_write(engine, client->space, to + at, piece);
        at += piece;
    }
    return true;
}

static int run_set(struct client *client, const struct wire_set *set)
{
    for (uint64_t row = 0; row < set->height; row++) {
        if (!set_row(client, set, set->to + row * set->pitch_bytes)) {
            report_fault_call(client, "illegal_address", "a set of memory that was unmapped");
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
    }
    return CUDA_SUCCESS;
}

static int run_kernel(struct client *client, struct item *item)
{
    struct error err = {0};

    item->launch.params = item->bytes;
    if (engine_launch(client->machine->engine, &item->grid, &item->launch, &err)) {
        report_fault_call(client, "launch_failure", err.message);
        return CUDA_ERROR_LAUNCH_FAILED;
    }
    return CUDA_SUCCESS;
}

static int run_write_value(struct client *client, const struct wire_value *value)
{
    uint8_t *word = work_word(client, value, MAP_WRITE);

    if (!word) {
        report_fault_call(client, "illegal_address", "a write of memory that was unmapped");
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (value->width_bytes == 4) {
        __atomic_store_n((uint32_t *)word, (uint32_t)value->value, __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n((uint64_t *)word, value->value, __ATOMIC_SEQ_CST);
    }
    engine_note_write(client->machine->engine, client->space, value->address, value->width_bytes);
    return CUDA_SUCCESS;
}

int work_run(struct client *client, struct item *item)
{
    struct error err = {0};

    engine_count_copies_as(client->machine->engine,
                           item->is_nccl ? MECHANISM_NCCL : MECHANISM_COPY_ENGINE);
    switch (item->kind) {
    case ITEM_KERNEL:
        return run_kernel(client, item);
    case ITEM_COPY:
        return run_copy(client, item);
    case ITEM_SET:
        return run_set(client, &item->set);
    case ITEM_FREE:
        return region_remove(client, item->address, &err) ? CUDA_ERROR_ILLEGAL_ADDRESS : 0;
    case ITEM_RECORD:
        item->event->completed = item->record;
        item->event->time_ns = engine_time_ns(client->machine->engine);
        break;
    case ITEM_WRITE_VALUE:
        return run_write_value(client, &item->value);
    case ITEM_HOST:
        item->host = HOST_DUE;
        break;
    case ITEM_WAIT_EVENT:
    case ITEM_WAIT_VALUE:
        break;
    }
    return CUDA_SUCCESS;
}
