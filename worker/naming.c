#include "worker/naming.h"

#include "common/mem.h"
#include "worker/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The run of that case and variant; NULL: there is none. */
static struct run *find_run(const struct result *result, const struct task *task, int world,
                            enum dtype dtype)
{
    struct run *run = NULL;
    struct error err = {0};

    for (int i = 0; result->case_name != NULL && i < task_case_count(task); i++) {
        if (strcmp(task_case_name(task, i), result->case_name) != 0) {
            continue;
        }
        for (int variant = 0; variant < task_variant_count(task, i); variant++) {
            struct run_choice choice = {
                .case_index = i, .variant = variant, .world = world, .dtype = dtype};
            const char *name = result->variant == NULL ? "" : result->variant;
            if (strcmp(task_variant_name(task, i, variant), name) == 0) {
                return run_open(&run, task, &choice, &err) == OK ? run : NULL;
            }
        }
    }
    return NULL;
}

static char *name_of(const struct run *run, int rank, bool is_output, uint64_t offset)
{
    const struct plan *plan = run_plan(run, rank);
    const struct tensor_spec *specs = is_output ? plan->outputs : plan->inputs;
    struct layouts layouts;
    int tensor = -1;

    layouts_make(&layouts, run);
    const struct layout *layout = is_output ? &layouts.outputs : &layouts.inputs;
    if (offset >= layout->arena_bytes) {
        return NULL;
    }
    uint64_t within = offset % layout->slot_bytes;
    while (tensor + 1 < layout->count && layout->offsets[tensor + 1] <= within) {
        tensor++;
    }
    if (tensor < 0) {
        return NULL;
    }
    uint64_t distance = within - layout->offsets[tensor];
    char entry[16] = "";
    if (specs[tensor].list_index >= 0) {
        (void)snprintf(entry, sizeof entry, "[%d]", specs[tensor].list_index);
    }
    return xasprintf("rank %d %s %s%s+%" PRIu64 "%s (slot %" PRIu64 ")", rank,
                     is_output ? "output" : "input", specs[tensor].name, entry, distance,
                     distance < specs[tensor].size_bytes ? "" : ", past its end",
                     offset / layout->slot_bytes);
}

static void rename_address(char **address, const struct run *run)
{
    char part[16] = "";
    uint64_t offset = 0;
    int rank = -1;
    int used = 0;

    if (*address == NULL ||
        sscanf(*address, "rank %d %15[a-z]+%" SCNu64 "%n", &rank, part, &offset, &used) != 3 ||
        (*address)[used] != 0 || rank < 0 || rank >= run_world(run)) {
        return;
    }
    bool is_output = strcmp(part, "outputs") == 0;
    if (!is_output && strcmp(part, "inputs") != 0) {
        return;
    }
    char *name = name_of(run, rank, is_output, offset);
    if (name != NULL) {
        free(*address);
        *address = name;
    }
}

void naming_apply(struct result *result, const struct task *task, int world, enum dtype dtype)
{
    struct run *run = find_run(result, task, world, dtype);

    if (run == NULL) {
        return;
    }
    for (size_t i = 0; i < result->wait_count; i++) {
        rename_address(&result->waits[i].address, run);
    }
    for (size_t i = 0; i < result->fault_count; i++) {
        rename_address(&result->faults[i].address, run);
    }
    run_close(run);
}
