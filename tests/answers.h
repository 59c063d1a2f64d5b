/*
 * answers.h — answers to tasks made on the CPU, for the audits: the table's row, the verdict on
 * one, and what is wrong with any output in the wrong place.
 */
#pragma once

#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One answer of a task: `write` fills the outputs, which hold the right answer. */
struct answer {
    const char *task, *name;
    void (*write)(struct audit *audit);
    int world_min;       /* in smaller worlds it is right */
    const char *variant; /* where only one variant tells; NULL: all */
};

static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};

static void take_the_next_ranks_answer(struct audit *audit)
{
    struct audit right;
    int world = audit->run->world;

    audit_open(&right, audit->run, audit->seed, audit->call);
    audit_write(&right, AUDIT_RIGHT);
    for (int rank = 0; rank < world; rank++) {
        const struct tensor *out = &audit->out[rank][0];
        memcpy(out->data, right.out[(rank + 1) % world][0].data, out->spec->size_bytes);
    }
    audit_close(&right);
}

static void copy_element(const struct tensor *to, int64_t i, const struct tensor *from, int64_t k)
{
    size_t size_bytes = dtype_size_bytes(to->spec->dtype);
    memcpy((char *)to->data + (size_t)i * size_bytes,
           (const char *)from->data + (size_t)k * size_bytes, size_bytes);
}

/* Rows and columns of the last two dimensions swapped, in the first block of the last rank. */
static void swap_rows_and_columns(struct audit *audit)
{
    struct audit right;
    const struct tensor *out = &audit->out[audit->run->world - 1][0];
    int64_t rows = out->spec->shape[out->spec->dims - 2];
    int64_t columns = out->spec->shape[out->spec->dims - 1];

    audit_open(&right, audit->run, audit->seed, audit->call);
    audit_write(&right, AUDIT_RIGHT);
    for (int64_t i = 0; i < rows * columns; i++) {
        copy_element(out, i, &right.out[audit->run->world - 1][0], i % rows * columns + i / rows);
    }
    audit_close(&right);
}

static void leave_last_element(struct audit *audit)
{
    const struct tensor *out = &audit->out[audit->run->world - 1][0];
    size_t size_bytes = dtype_size_bytes(out->spec->dtype);

    memset((char *)out->data + out->spec->size_bytes - size_bytes, AUDIT_POISON, size_bytes);
}

/* Neighbouring elements swapped where they differ: once, on one rank. */
static void swap_two_elements(struct audit *audit)
{
    const struct tensor *out = &audit->out[audit->run->world - 1][0];
    size_t size_bytes = dtype_size_bytes(out->spec->dtype);
    char *data = out->data;
    char kept[16];

    while (memcmp(data, data + size_bytes, size_bytes) == 0) {
        data += size_bytes;
    }
    memcpy(kept, data, size_bytes);
    memmove(data, data + size_bytes, size_bytes);
    memcpy(data + size_bytes, kept, size_bytes);
}

static struct run *open_choice(const struct task *task, const struct run_choice *choice)
{
    struct error err = {0};
    struct run *run = NULL;

    assert_int_equal(run_open(&run, task, choice, &err), OK);
    return run;
}

/* Of the right answer as `answer` changes it. */
static enum judgement judge_answer(struct audit *audit, const struct answer *answer)
{
    struct verdict_detail detail;

    audit_write(audit, AUDIT_RIGHT);
    answer->write(audit);
    return audit_judge(audit, &detail);
}

static void refuse_all(struct run *run, const struct answer *traps, size_t count)
{
    struct audit audit;

    audit_open(&audit, run, 31, 4);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(traps[i].task, run->task->name) != 0 || run->world < traps[i].world_min ||
            (traps[i].variant != NULL && strcmp(traps[i].variant, run_variant(run)) != 0)) {
            continue;
        }
        if (judge_answer(&audit, &traps[i]) == JUDGED_RIGHT) {
            fail_msg("%s, %s, world %d, %s: '%s' is accepted", traps[i].task, run_variant(run),
                     run->world, dtype_name(run->dtype), traps[i].name);
        }
    }
    audit_close(&audit);
}

/* Every trap of a table at the first case of its task, in every variant, world and dtype. */
static void refuse_everywhere(const struct answer *traps, size_t count)
{
    for (size_t first = 0; first < count; first++) {
        const struct task *task = task_find(traps[first].task);
        if (first > 0 && strcmp(traps[first].task, traps[first - 1].task) == 0) {
            continue; /* done with the first trap of this task */
        }
        for (int i = 0; i < task_variant_count(task, 0) * 12; i++) {
            struct run_choice choice = {0, i / 12, 1 << (i / 3 % 4), dtypes[i % 3]};
            struct run *run = open_choice(task, &choice);
            refuse_all(run, traps, count);
            run_close(run);
        }
    }
}
