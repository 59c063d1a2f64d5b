#include "tests/answers.h"

#include "tasks/oracle_round.h"
#include "tests/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};

void take_the_next_ranks_answer(struct audit *audit)
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
void swap_rows_and_columns(struct audit *audit)
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

void leave_last_element(struct audit *audit)
{
    const struct tensor *out = &audit->out[audit->run->world - 1][0];
    size_t size_bytes = dtype_size_bytes(out->spec->dtype);

    memset((char *)out->data + out->spec->size_bytes - size_bytes, AUDIT_POISON, size_bytes);
}

/* Neighbouring elements swapped where they differ: once, on one rank. */
void swap_two_elements(struct audit *audit)
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

static bool applies(const struct answer *answer, const struct run *run)
{
    return strcmp(answer->task, run->task->name) == 0 && run->world >= answer->world_min &&
           (answer->variant == NULL || strcmp(answer->variant, run_variant(run)) == 0);
}

/* Most traps change the last rank's output, so that must exist. Judges every trap that has other
 * bits than the right answer, and counts the refusals of each. */
static void refuse_at(const struct task *task, const struct run_choice *choice,
                      const struct answer *traps, size_t count, int *refusals)
{
    struct run *run = open_choice(task, choice);
    struct audit audit;

    audit_open(&audit, run, 31, 4);
    for (size_t i = 0; i < count && audit.out[choice->world - 1][0].data != NULL; i++) {
        if (!applies(&traps[i], run)) {
            continue;
        }
        if (judge_answer(&audit, &traps[i]) != JUDGED_RIGHT) {
            refusals[i]++;
        } else if (!audit_is_right(&audit)) {
            fail_msg("%s %s, %s, world %d, %s: '%s' is accepted", traps[i].task, run_case(run),
                     run_variant(run), run->world, dtype_name(run->dtype), traps[i].name);
        }
    }
    audit_close(&audit);
    run_close(run);
}

static void accept_seed(const struct run *run, uint64_t seed, const struct answer *honest,
                        size_t count, double *margins)
{
    struct audit audit;

    audit_open(&audit, run, seed, 4);
    for (size_t i = 0; i < count; i++) {
        if (!applies(&honest[i], run)) {
            continue;
        }
        if (judge_answer(&audit, &honest[i]) != JUDGED_RIGHT) {
            fail_msg("%s %s, %s, world %d, %s, seed %d: '%s' is refused", honest[i].task,
                     run_case(run), run_variant(run), run->world, dtype_name(run->dtype), (int)seed,
                     honest[i].name);
        }
        if (margins != NULL) {
            margins[i] = fmax(margins[i], audit_margin(&audit));
        }
    }
    audit_close(&audit);
}

void accept_at(const struct task *task, const struct run_choice *choice,
               const struct answer *honest, size_t count, double *margins)
{
    struct run *run = open_choice(task, choice);

    /* A bound that refuses an honest answer for one seed of a hundred is too narrow. */
    for (uint32_t i = 0; i < batch_count(1, 20); i++) {
        accept_seed(run, 31 + i, honest, count, i == 0 ? margins : NULL);
    }
    run_close(run);
}

struct choices {
    struct run_choice at[CASES_MAX * VARIANTS_MAX * 4];
    int count;
};

/* Every check case of a task, in every variant and world, with one dtype. */
static void list_choices(const struct task *task, enum dtype dtype, struct choices *choices)
{
    choices->count = 0;
    for (int i = 0; i < task_case_count(task) * RANKS_MAX; i++) {
        struct run_choice choice = {.case_index = i / RANKS_MAX, .dtype = dtype};
        choice.world = i % RANKS_MAX + 1;
        if (strncmp(task_case_name(task, choice.case_index), "check", 5) != 0 ||
            !task_case_allows_world(task, choice.case_index, choice.world)) {
            continue;
        }
        for (; choice.variant < task_variant_count(task, choice.case_index); choice.variant++) {
            choices->at[choices->count++] = choice;
        }
    }
}

static bool is_first_of_its_task(const struct answer *answers, size_t i)
{
    return i == 0 || strcmp(answers[i].task, answers[i - 1].task) != 0;
}

void refuse_everywhere(const struct answer *traps, size_t count)
{
    int *refusals = calloc(count, sizeof(*refusals));
    struct choices choices;

    assert_non_null(refusals);
    for (size_t i = 0; i < count; i++) {
        const struct task *task = task_find(traps[i].task);
        for (int d = 0; d < 3 && is_first_of_its_task(traps, i); d++) {
            list_choices(task, dtypes[d], &choices);
            for (int k = 0; k < choices.count; k++) {
                refuse_at(task, &choices.at[k], traps, count, refusals);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (refusals[i] == 0) {
            fail_msg("%s: '%s' is nowhere another answer", traps[i].task, traps[i].name);
        }
    }
    free(refusals);
}

/* What tests/margins.tsv says of a row; -1: nothing. */
static double stored_margin(const char *row)
{
    FILE *file = fopen("tests/margins.tsv", "r");
    char line[256];
    double margin = -1;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, row, strlen(row)) == 0) {
            margin = strtod(line + strlen(row), NULL);
        }
    }
    (void)fclose(file);
    return margin;
}

/* Prints the margins of one task and dtype; returns how many are not what is stored. */
static int compare_margins(const char *task, enum dtype dtype, const struct answer *honest,
                           size_t count, const double *margins)
{
    int differ = 0;

    for (size_t i = 0; i < count; i++) {
        char row[192];
        if (strcmp(honest[i].task, task) != 0 || margins[i] == 0) {
            continue;
        }
        (void)snprintf(row, sizeof(row), "%s\t%s\t%s\t", task, honest[i].name, dtype_name(dtype));
        bool same = fabs(stored_margin(row) - margins[i]) < 0.0006;
        print_message("# margin%s\t%s%.3f\n", same ? "" : " not stored", row, margins[i]);
        differ += !same;
    }
    return differ;
}

/* Of one task and dtype. */
static int accept_dtype(const char *name, enum dtype dtype, const struct answer *honest,
                        size_t count)
{
    double *margins = calloc(count, sizeof(*margins));
    struct choices choices;

    assert_non_null(margins);
    list_choices(task_find(name), dtype, &choices);
    for (int k = 0; k < choices.count; k++) {
        accept_at(task_find(name), &choices.at[k], honest, count, margins);
    }
    int differ = compare_margins(name, dtype, honest, count, margins);
    free(margins);
    return differ;
}

void accept_everywhere(const struct answer *honest, size_t count)
{
    int differ = 0;

    for (size_t i = 0; i < count; i++) {
        for (int d = 0; d < 3 && is_first_of_its_task(honest, i); d++) {
            differ += accept_dtype(honest[i].task, dtypes[d], honest, count);
        }
    }
    assert_int_equal(differ, 0);
}
