#include "sim/handles.h"

#include "common/mem.h"
#include "sim/wire.h"

#include <stdlib.h>

uint64_t handles_add(struct handles *handles, enum handle_kind kind, void *thing)
{
    if (handles->count == HANDLES_MAX) {
        return 0;
    }
    if (handles->count == handles->capacity) {
        handles->capacity = handles->capacity ? handles->capacity * 2 : 64;
        handles->rows = xrealloc(handles->rows, handles->capacity * sizeof *handles->rows);
    }
    handles->rows[handles->count] = (struct handle){.kind = kind, .thing = thing};
    return WIRE_IDS_FROM + handles->count++;
}

void *handles_find(const struct handles *handles, uint64_t id, enum handle_kind kind)
{
    if (id < WIRE_IDS_FROM || id - WIRE_IDS_FROM >= handles->count) {
        return NULL;
    }
    const struct handle *row = &handles->rows[id - WIRE_IDS_FROM];
    return row->kind == kind ? row->thing : NULL;
}

void handles_remove(struct handles *handles, uint64_t id)
{
    if (id >= WIRE_IDS_FROM && id - WIRE_IDS_FROM < handles->count) {
        handles->rows[id - WIRE_IDS_FROM] = (struct handle){.kind = HANDLE_NONE};
    }
}

void handles_release(struct handles *handles)
{
    free(handles->rows);
    *handles = (struct handles){0};
}
