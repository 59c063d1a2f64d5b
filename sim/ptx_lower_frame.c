#include "sim/ptx_lower.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

struct cell *storage_cell(struct lowering *lowering, struct storage *storage, uint32_t offset,
                          uint32_t size_bytes)
{
    enum value_kind kind = size_bytes == 16 ? VALUE_128 : size_bytes == 8 ? VALUE_64 : VALUE_32;

    for (uint32_t i = 0; i < storage->cell_count; i++) {
        if (storage->cells[i].offset == offset && storage->cells[i].size_bytes == size_bytes) {
            return &storage->cells[i];
        }
    }
    ptx_grow(&storage->cells, &storage->cell_capacity, storage->cell_count, sizeof *storage->cells);
    storage->cells[storage->cell_count] =
        (struct cell){offset, size_bytes, lower_value(lowering, kind)};
    return &storage->cells[storage->cell_count++];
}

/* Gives the frame's own variables a place; its parameters get theirs from the call. */
static void place_locals(struct lowering *lowering, struct frame *frame)
{
    const struct ptx_function *function = frame->function;
    uint32_t param_count = function->return_count + function->param_count; /* the first ones */
    uint64_t end = frame->local_end;

    for (uint32_t i = 0; i < function->variable_count; i++) {
        const struct ptx_variable *variable =
            &lowering->module->variables[function->variable_start + i];
        uint64_t align = variable->align_bytes > 0 ? variable->align_bytes : 1;
        struct storage *storage = &frame->owned[variable->local_index];
        if (variable->space != SPACE_LOCAL && variable->space != SPACE_PARAM) {
            continue;
        }
        if (variable->local_index < param_count) {
            /* A kernel's parameters are no locals. */
            frame->storages[variable->local_index] = frame->caller != NULL ? storage : NULL;
            continue;
        }
        frame->storages[variable->local_index] = storage;
        storage->is_memory = variable->space == SPACE_LOCAL || variable->needs_memory;
        if (storage->is_memory) {
            end = (end + align - 1) / align * align;
            storage->local_offset = (uint32_t)end;
            end += variable->size_bytes;
        }
        if (end > CODE_LOCAL_BYTES_MAX) {
            lowering->is_full = true;
            return;
        }
    }
    frame->local_end = (uint32_t)end;
    if (frame->local_end > lowering->kernel->local_bytes) {
        lowering->kernel->local_bytes = (frame->local_end + 7) / 8 * 8;
    }
}

struct frame *frame_open(struct lowering *lowering, struct frame *caller,
                         const struct ptx_function *function)
{
    struct frame *frame = xcalloc(1, sizeof *frame);

    frame->caller = caller;
    frame->function = function;
    frame->depth = caller != NULL ? caller->depth + 1 : 0;
    frame->local_end = caller != NULL ? caller->local_end : 0;
    frame->values = xmalloc(function->register_count * sizeof *frame->values);
    memset(frame->values, 0xff, function->register_count * sizeof *frame->values);
    frame->storages = xcalloc(function->local_count, sizeof(void *));
    frame->owned = xcalloc(function->local_count, sizeof *frame->owned);
    place_locals(lowering, frame);
    return frame;
}

void frame_close(struct frame *frame)
{
    for (uint32_t i = 0; i < frame->function->local_count; i++) {
        free(frame->owned[i].cells);
    }
    free(frame->values);
    free(frame->storages);
    free(frame->owned);
    free(frame->fixups);
    free(frame->returns);
    free(frame);
}
