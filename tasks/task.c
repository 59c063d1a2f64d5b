#include "tasks/task.h"

#include "tasks/declare.h"
#include "tasks/table.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const unsigned every_world = SET_OF(1) | SET_OF(2) | SET_OF(4) | SET_OF(8);
static const unsigned every_dtype = SET_OF(DTYPE_BF16) | SET_OF(DTYPE_FP16) | SET_OF(DTYPE_FP32);

static unsigned worlds_of(const struct task *task)
{
    return task->worlds != 0 ? task->worlds : every_world;
}

static unsigned dtypes_of(const struct task *task)
{
    return task->dtypes != 0 ? task->dtypes : every_dtype;
}

const struct task *task_find(const char *number_or_name)
{
    for (int i = 0; i < task_count; i++) {
        char number[16];
        char padded[16];
        (void)snprintf(number, sizeof(number), "%d", tasks[i]->number);
        (void)snprintf(padded, sizeof(padded), "%03d", tasks[i]->number);
        bool has_number = strncmp(number_or_name, padded, 3) == 0 && number_or_name[3] == '_';
        const char *name = has_number ? number_or_name + 4 : number_or_name;
        if (strcmp(name, tasks[i]->name) == 0 || strcmp(number_or_name, number) == 0 ||
            strcmp(number_or_name, padded) == 0) {
            return tasks[i];
        }
    }
    return NULL;
}

int task_number(const struct task *task)
{
    return task->number;
}

const char *task_name(const struct task *task)
{
    return task->name;
}

const char *task_summary(const struct task *task)
{
    return task->summary;
}

const char *task_family(const struct task *task)
{
    return task->family;
}

bool task_allows_world(const struct task *task, int world)
{
    return world > 0 && world <= RANKS_MAX && (worlds_of(task) & SET_OF(world)) != 0;
}

bool task_allows_dtype(const struct task *task, enum dtype dtype)
{
    return dtype < DTYPE_COUNT && (dtypes_of(task) & SET_OF(dtype)) != 0;
}

/* "1, 2, 4": the numbers of a set, or the dtypes of that number. */
static void set_text(char *text, size_t size_bytes, unsigned set, bool are_dtypes)
{
    size_t used = 0;

    for (int number = 0; number < 32; number++) {
        if ((set & SET_OF(number)) == 0) {
            continue;
        }
        const char *comma = used > 0 ? ", " : "";
        if (are_dtypes) {
            used += (size_t)snprintf(text + used, size_bytes - used, "%s%s", comma,
                                     dtype_name((enum dtype)number));
        } else {
            used += (size_t)snprintf(text + used, size_bytes - used, "%s%d", comma, number);
        }
        assert(used < size_bytes);
    }
}

const char *task_worlds_text(const struct task *task)
{
    static char texts[SET_OF(RANKS_MAX + 1)][32];
    unsigned set = worlds_of(task);

    assert(set < SET_OF(RANKS_MAX + 1));
    set_text(texts[set], sizeof(texts[set]), set, false);
    return texts[set];
}

const char *task_dtypes_text(const struct task *task)
{
    static char texts[SET_OF(DTYPE_FP32 + 1)][32];
    unsigned set = dtypes_of(task);

    assert(set < SET_OF(DTYPE_FP32 + 1));
    set_text(texts[set], sizeof(texts[set]), set, true);
    return texts[set];
}

static const char *text_of(const struct task *task, const char *const *texts)
{
    for (int i = 0; i < task_count; i++) {
        if (tasks[i] == task) {
            return texts[i];
        }
    }
    return "";
}

const char *task_statement(const struct task *task)
{
    return text_of(task, task_statements);
}

const char *task_baseline(const struct task *task)
{
    return text_of(task, task_baselines);
}

int task_case_count(const struct task *task)
{
    int count = 0;

    while (count < CASES_MAX && task->cases[count].name != NULL) {
        count++;
    }
    return count;
}

const char *task_case_name(const struct task *task, int index)
{
    assert(index >= 0 && index < task_case_count(task));
    return task->cases[index].name;
}

bool task_case_allows_world(const struct task *task, int case_index, int world)
{
    assert(case_index >= 0 && case_index < task_case_count(task));
    unsigned worlds = task->cases[case_index].worlds;
    return task_allows_world(task, world) && (worlds == 0 || (worlds & SET_OF(world)) != 0);
}

static unsigned case_class(const struct task *task, int case_index)
{
    switch (task->cases[case_index].name[0]) {
    case 'c':
        return AT_CHECK;
    case 'b':
        return AT_BENCH;
    default:
        return AT_LARGE;
    }
}

int task_variant_index(const struct task *task, int case_index, int number)
{
    int left = number;

    if (task->variants[0].name == NULL) {
        return number == 0 ? 0 : -1;
    }
    for (int i = 0; left >= 0 && i < VARIANTS_MAX && task->variants[i].name != NULL; i++) {
        if ((task->variants[i].classes & case_class(task, case_index)) != 0 && left-- == 0) {
            return i;
        }
    }
    return -1;
}

int task_variant_count(const struct task *task, int case_index)
{
    int count = 0;

    while (task_variant_index(task, case_index, count) >= 0) {
        count++;
    }
    return count;
}

const char *task_variant_name(const struct task *task, int case_index, int variant)
{
    int index = task_variant_index(task, case_index, variant);

    assert(index >= 0);
    return task->variants[index].name != NULL ? task->variants[index].name : "";
}
