/* fault.c — errors of kernels: what a device reports, and where. */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "sim/exec.h"
#include "sim/schedule.h"

/* The CUresult that the client gets, the word and the sentence of the report. */
struct fault_type {
    int cuda_error;
    const char *kind, *message;
};
static const struct fault_type types[FAULTS] = {
    [FAULT_ILLEGAL_ADDRESS] = {700, "illegal_address", "an access outside of mapped memory"},
    [FAULT_READ_ONLY] = {700, "read_only", "a write to memory that is mapped read-only"},
    [FAULT_MISALIGNED] = {716, "misaligned_address",
                          "an address that is not a multiple of the access's size"},
    [FAULT_ADDRESS_SPACE] = {717, "address_space",
                             "an instruction for global memory got an address of another space"},
    [FAULT_SHARED_RANGE] = {700, "shared_range", "an access beyond the CTA's shared memory"},
    [FAULT_LOCAL_RANGE] = {700, "local_range", "an access beyond the thread's local memory"},
    [FAULT_PARAM_RANGE] = {700, "param_range", "an access beyond the kernel's parameters"},
    [FAULT_TRAP] = {719, "trap", "the kernel stopped itself"},
    [FAULT_ASSERT] = {710, "assert", "an assertion failed"},
    [FAULT_ILLEGAL_INSTRUCTION] = {715, "illegal_instruction", "an instruction is not valid"},
};

char *source_of(const struct grid *grid, const struct insn *insn)
{
    const struct image *image = grid->bound->kernel->image;
    const struct code_line *line = &image->lines[insn->line < image->line_count ? insn->line : 0];

    return line->file && line->file[0] ? xasprintf("%s:%u", line->file, line->line) : xstrdup("");
}

char *kernel_text(const struct kernel *kernel)
{
    return xstrdup(kernel->demangled ? kernel->demangled : kernel->name);
}

char *address_text(const struct space *space, uint64_t address)
{
    const struct mapping *mapping = space_find(space, address, 1);
    const char *windows[] = {"shared", "local", "param"};

    for (uint64_t i = 0; i < 3; i++) {
        if (address - WINDOW_SHARED - (i << 32) < (uint64_t)1 << 32) {
            return xasprintf("%s+%lu", windows[i], address - WINDOW_SHARED - (i << 32));
        }
    }
    if (!mapping) {
        return xasprintf("0x%lx", address);
    }
    uint64_t offset = address - mapping->address;
    if (mapping->owner < 0) {
        return xasprintf("host %s%s%#lx+%lu", mapping->label ? mapping->label : "",
                         mapping->label && mapping->label[0] ? " " : "", mapping->address, offset);
    }
    if (mapping->label && mapping->label[0]) {
        return xasprintf("rank %d %s+%lu", mapping->owner, mapping->label, offset);
    }
    return xasprintf("rank %d allocation %u+%lu", mapping->owner, mapping->allocation, offset);
}

/* Just outside of something: name it, that is the usual mistake. */
static char *message_of(const struct warp *warp, const struct fault_place *place)
{
    const struct fault_type *type = &types[place->kind];
    char *nearby = NULL;
    char *message = NULL;

    if (place->text) {
        return xstrdup(place->text);
    }
    if (place->kind == FAULT_TRAP || place->kind == FAULT_ILLEGAL_INSTRUCTION) {
        return xstrdup(type->message);
    }
    if (place->kind == FAULT_ILLEGAL_ADDRESS) {
        uint64_t before = 1;
        while (before <= (1u << 20) && !space_find(warp->space, place->address - before, 1)) {
            before *= 2;
        }
        if (before <= (1u << 20)) {
            nearby = address_text(warp->space, place->address - before);
        }
    }
    message = nearby
                  ? xasprintf("%s: %u bytes, behind %s", type->message, place->size_bytes, nearby)
                  : xasprintf("%s: %u bytes", type->message, place->size_bytes);
    free(nearby);
    return message;
}

void warp_fault(struct warp *warp, const struct insn *insn, const struct fault_place *place)
{
    struct grid *grid = warp->grid;
    bool has_address = place->kind != FAULT_TRAP && place->kind != FAULT_ASSERT &&
                       place->kind != FAULT_ILLEGAL_INSTRUCTION;

    warp->leave = LEAVE_FAULT;
    warp->stop_pc = 0;
    if (grid->fault) {
        return;
    }
    grid->cuda_error = types[place->kind].cuda_error;
    grid->fault = xcalloc(1, sizeof(*grid->fault));
    *grid->fault = (struct fault){
        .rank = grid->launch.space->rank < 0 ? -1 : grid->device->index,
        .kind = xstrdup(types[place->kind].kind),
        .kernel = kernel_text(grid->bound->kernel),
        .source = source_of(grid, insn),
        .cta = (int64_t)warp->cta->index,
        .warp = warp->index,
        .lane = place->lane,
        .address = has_address ? address_text(warp->space, place->address) : NULL,
        .message = message_of(warp, place),
    };
}
