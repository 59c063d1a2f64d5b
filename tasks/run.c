#include "tasks/declare.h"

#include "common/mem.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The point that a further point is named after: "check" for "check/empty". */
static const struct task_case *base_of(const struct task *task, const struct task_case *point)
{
    size_t length = strcspn(point->name, "/");

    for (int i = 0; i < task_case_count(task); i++) {
        const char *name = task->cases[i].name;
        if (strlen(name) == length && strncmp(name, point->name, length) == 0) {
            return &task->cases[i];
        }
    }
    assert(!"a further point without the point it is named after");
    return NULL;
}

static void set_numbers(struct run *run)
{
    const struct task_case *base = base_of(run->task, run->point);

    for (int i = 0; i < PARAMS_MAX; i++) {
        int64_t dim = run->point->dim[i] != 0 ? run->point->dim[i] : base->dim[i];
        run->dim[i] = dim == ZERO ? 0 : dim;
        run->real[i] = run->point->real[i] != 0 ? run->point->real[i] : base->real[i];
        if (run->task->params[i].type == PARAM_FP32) {
            run->real[i] = (float)run->real[i];
        }
    }
    if (run->task->derive != NULL) {
        run->task->derive(run);
    }
}

static void write_params(struct run *run)
{
    for (int i = 0; i < PARAMS_MAX && run->task->params[i].name != NULL; i++) {
        switch (run->task->params[i].type) {
        case PARAM_INT64:
            buffer_append(&run->params, &run->dim[i], sizeof(run->dim[i]));
            break;
        case PARAM_FP32:
        case PARAM_FP64:
            buffer_append(&run->params, &run->real[i], sizeof(run->real[i]));
            break;
        case PARAM_LIST:
            buffer_append(&run->params, run->list[i], sizeof(run->list[i]));
            break;
        case PARAM_GRID:
            buffer_append(&run->params, run->grid[i], sizeof(run->grid[i]));
            break;
        }
    }
}

static enum status check_choice(const struct task *task, const struct run_choice *choice,
                                struct error *err)
{
    if (!task_allows_world(task, choice->world)) {
        return error_field(err, ERR_INVALID, "world", "task '%s' runs in worlds of %s", task->name,
                           task_worlds_text(task));
    }
    if (!task_allows_dtype(task, choice->dtype)) {
        return error_field(err, ERR_INVALID, "dtype", "task '%s' allows %s", task->name,
                           task_dtypes_text(task));
    }
    if (choice->case_index < 0 || choice->case_index >= task_case_count(task)) {
        return error_field(err, ERR_INVALID, "case", "task '%s' has %d cases, not a number %d",
                           task->name, task_case_count(task), choice->case_index);
    }
    const char *name = task_case_name(task, choice->case_index);
    if (!task_case_allows_world(task, choice->case_index, choice->world)) {
        return error_field(err, ERR_INVALID, "case", "case '%s' of task '%s' needs another world",
                           name, task->name);
    }
    if (task_variant_index(task, choice->case_index, choice->variant) < 0) {
        return error_field(
            err, ERR_INVALID, "variant", "case '%s' of task '%s' has %d variants, not a number %d",
            name, task->name, task_variant_count(task, choice->case_index), choice->variant);
    }
    return OK;
}

enum status run_open(struct run **run, const struct task *task, const struct run_choice *choice,
                     struct error *err)
{
    enum status status = check_choice(task, choice, err);

    if (status != OK) {
        return status;
    }
    struct run *opened = xcalloc(1, sizeof(*opened));
    opened->task = task;
    opened->point = &task->cases[choice->case_index];
    opened->variant = task_variant_index(task, choice->case_index, choice->variant);
    opened->world = choice->world;
    opened->dtype = choice->dtype;
    set_numbers(opened);
    write_params(opened);
    for (int rank = 0; rank < opened->world; rank++) {
        struct plan *plan = &opened->plans[rank];
        plan->working = opened->dtype;
        task->declare(opened, rank, plan);
        for (int i = 0; i < plan->output_count; i++) {
            assert(strcmp(task->outputs[i].name, plan->outputs[i].name) == 0);
        }
    }
    *run = opened;
    return OK;
}

void run_close(struct run *run)
{
    if (run != NULL) {
        buffer_release(&run->params);
        free(run);
    }
}

int run_world(const struct run *run)
{
    return run->world;
}

enum dtype run_dtype(const struct run *run)
{
    return run->dtype;
}

const char *run_case(const struct run *run)
{
    return run->point->name;
}

const char *run_variant(const struct run *run)
{
    const char *name = run->task->variants[run->variant].name;
    return name != NULL ? name : "";
}

const struct plan *run_plan(const struct run *run, int rank)
{
    assert(rank >= 0 && rank < run->world);
    return &run->plans[rank];
}

const void *run_params(const struct run *run, size_t *size_bytes)
{
    *size_bytes = run->params.size_bytes;
    return run->params.data;
}

void run_fill(const struct run *run, uint64_t seed, int call, struct tensor *const *in)
{
    const struct trial trial = {.seed = seed, .call = call};

    run->task->fill(run, &trial, in);
}

bool run_at(const struct run *run, const char *case_name)
{
    return strcmp(run->point->name, case_name) == 0;
}

bool run_in_class(const struct run *run, const char *class_name)
{
    size_t length = strlen(class_name);
    char next = 0;

    if (strncmp(run->point->name, class_name, length) != 0) {
        return false;
    }
    next = run->point->name[length];
    return next == 0 || next == '/';
}

const struct tolerance_row *run_tolerance(const struct run *run, int output)
{
    const struct output_rule *rule = &run->task->outputs[output];

    if (rule->tolerance == NULL || (rule->exact_variants & SET_OF(run->variant)) != 0) {
        return NULL;
    }
    switch (run->dtype) {
    case DTYPE_BF16:
        return &rule->tolerance->bf16;
    case DTYPE_FP16:
        return &rule->tolerance->fp16;
    default:
        return &rule->tolerance->fp32;
    }
}

double run_element_bytes(const struct run *run)
{
    return (double)dtype_size_bytes(run->dtype);
}

double run_floor_bytes(const struct run *run, int output)
{
    const struct tolerance_row *row = run_tolerance(run, output);
    enum dtype dtype = run->plans[0].outputs[output].dtype;

    if (row == NULL) {
        return (double)dtype_size_bytes(dtype);
    }
    double bits = log2(2 * M_PI * M_E) / 2 - log2(2 * (row->a + 4 * row->r));
    return fmax(bits, 0) / 8;
}

struct work run_work(const struct run *run)
{
    struct work work = {0};

    run->task->work(run, &work);
    return work;
}
