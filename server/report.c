#include "server/report.h"

#include "common/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAMILIES_MAX = 64 };

struct row {
    int model, task, number;
    enum outcome outcome;
    bool is_faster;
    double speedup, target_percent;
    unsigned mechanisms;
};

struct report {
    char models[MODELS_MAX][NAME_MAX_BYTES];
    int model_count;
    char families[FAMILIES_MAX][NAME_MAX_BYTES];
    int family_tasks[FAMILIES_MAX];
    int family_count;
    int family_of[TASK_NUMBER_MAX + 1]; /* by task; -1: not in the table */
    int task_count;
    struct row *rows; /* after report_count by model, task, number */
    size_t row_count, row_capacity;
    int k;
    double thresholds[THRESHOLDS_MAX];
    int threshold_count;
    struct totals *totals;
    int totals_count;
};

struct report *report_open(void)
{
    struct report *report = xcalloc(1, sizeof *report);

    for (int i = 0; i <= TASK_NUMBER_MAX; i++) {
        report->family_of[i] = -1;
    }
    return report;
}

static void release_totals(struct totals *totals)
{
    free(totals->correct);
    free(totals->fast);
    free(totals->correct_estimate);
    free(totals->fast_estimate);
    free(totals->estimated_tasks);
    for (int i = 0; i < THRESHOLDS_MAX; i++) {
        free(totals->above[i]);
    }
}

void report_close(struct report *report)
{
    if (report == NULL) {
        return;
    }
    for (int i = 0; i < report->totals_count; i++) {
        release_totals(&report->totals[i]);
    }
    free(report->totals);
    free(report->rows);
    free(report);
}

void report_add_task(struct report *report, int number, const char *family)
{
    int found = 0;

    assert(number >= 1 && number <= TASK_NUMBER_MAX);
    if (report->family_of[number] >= 0) {
        return;
    }
    while (found < report->family_count && strcmp(report->families[found], family) != 0) {
        found++;
    }
    assert(found < FAMILIES_MAX);
    if (found == report->family_count) {
        (void)snprintf(report->families[found], NAME_MAX_BYTES, "%s", family);
        report->family_count++;
    }
    report->family_of[number] = found;
    report->family_tasks[found]++;
    report->task_count++;
}

static int find_model(struct report *report, const char *name)
{
    /* Attempts of one model mostly come together. */
    for (int i = report->model_count - 1; i >= 0; i--) {
        if (strcmp(report->models[i], name) == 0) {
            return i;
        }
    }
    assert(report->model_count < MODELS_MAX);
    (void)snprintf(report->models[report->model_count], NAME_MAX_BYTES, "%s", name);
    return report->model_count++;
}

void report_add(struct report *report, const struct attempt *attempt)
{
    assert(report->family_of[attempt->task_number] >= 0);
    assert(attempt->number >= 1 && attempt->number <= ATTEMPT_MAX);
    if (report->row_count == report->row_capacity) {
        report->row_capacity = report->row_capacity == 0 ? 1024 : 2 * report->row_capacity;
        report->rows = xrealloc(report->rows, report->row_capacity * sizeof report->rows[0]);
    }
    report->rows[report->row_count++] = (struct row){.model = find_model(report, attempt->model),
                                                     .task = attempt->task_number,
                                                     .number = attempt->number,
                                                     .outcome = attempt->outcome,
                                                     .is_faster = attempt->is_faster,
                                                     .speedup = attempt->speedup,
                                                     .target_percent = attempt->target_percent,
                                                     .mechanisms = attempt->mechanisms};
}

static int compare_rows(const void *left, const void *right)
{
    const struct row *a = left;
    const struct row *b = right;

    if (a->model != b->model) {
        return a->model < b->model ? -1 : 1;
    }
    if (a->task != b->task) {
        return a->task < b->task ? -1 : 1;
    }
    return (a->number > b->number) - (a->number < b->number);
}

/* Adds one task to the tasks that are solved at each k from `number` on; 0: never. */
static void solve(int *by_k, int number, int k_max)
{
    for (int k = number; number > 0 && k <= k_max; k++) {
        by_k[k - 1]++;
    }
}

/* The chance that of k out of n attempts one is among the c good ones. */
static double chance(int n, int c, int k)
{
    double none = 1;

    for (int i = 0; i < k; i++) {
        none *= (double)(n - c - i > 0 ? n - c - i : 0) / (n - i);
    }
    return 1 - none;
}

/* What a model's attempts at one task come to. */
struct tries {
    int judged, correct, fast;
    int first_correct, first_fast; /* the first attempt that was; 0: none */
    int first_above[THRESHOLDS_MAX];
    double speedup, target_percent; /* of the fastest */
};

static void add_try(const struct report *report, struct totals *totals, struct tries *tries,
                    const struct row *row)
{
    totals->attempts++;
    totals->all[row->outcome]++;
    totals->first[row->outcome] += row->number == 1;
    tries->judged += row->outcome != OUTCOME_PENDING && row->outcome != OUTCOME_OURS;
    if (row->outcome != OUTCOME_CORRECT) {
        return;
    }
    tries->correct++;
    tries->first_correct = tries->first_correct == 0 ? row->number : tries->first_correct;
    if (row->is_faster) {
        tries->fast++;
        tries->first_fast = tries->first_fast == 0 ? row->number : tries->first_fast;
    }
    for (int i = 0; i < report->threshold_count; i++) {
        if (row->speedup > report->thresholds[i] && tries->first_above[i] == 0) {
            tries->first_above[i] = row->number;
        }
    }
    for (int i = 0; i < MECHANISMS_MAX; i++) {
        totals->mechanisms[i] += (int)(row->mechanisms >> i & 1);
    }
    if (row->speedup > tries->speedup) {
        tries->speedup = row->speedup;
        tries->target_percent = row->target_percent;
    }
}

static void add_tries(const struct report *report, struct totals *totals, const struct tries *tries,
                      double *speedups)
{
    solve(totals->correct, tries->first_correct, report->k);
    solve(totals->fast, tries->first_fast, report->k);
    for (int i = 0; i < report->threshold_count; i++) {
        solve(totals->above[i], tries->first_above[i], report->k);
    }
    for (int k = 1; k <= report->k && k <= tries->judged; k++) {
        totals->estimated_tasks[k - 1]++;
        totals->correct_estimate[k - 1] += chance(tries->judged, tries->correct, k);
        totals->fast_estimate[k - 1] += chance(tries->judged, tries->fast, k);
    }
    totals->solved += tries->first_correct > 0;
    if (tries->speedup > 0) {
        speedups[totals->timed++] = tries->speedup;
        totals->geomean_speedup += log(tries->speedup);
        totals->target_percent += tries->target_percent;
    }
}

static int compare_numbers(const void *left, const void *right)
{
    const double *a = left;
    const double *b = right;

    return (*a > *b) - (*a < *b);
}

static void end_speedups(struct totals *totals, double *speedups)
{
    int count = totals->timed;

    if (count == 0) {
        return;
    }
    qsort(speedups, (size_t)count, sizeof speedups[0], compare_numbers);
    totals->median_speedup = (speedups[(count - 1) / 2] + speedups[count / 2]) / 2;
    totals->geomean_speedup = exp(totals->geomean_speedup / count);
    totals->target_percent /= count;
}

/* Counts the rows of one model, of all tasks or of one family (-1: all). */
static void count_rows(const struct report *report, const struct row *rows, size_t row_count,
                       int family, struct totals *totals)
{
    size_t k_max = report->k > 0 ? (size_t)report->k : 1;
    double *speedups = xcalloc((size_t)report->task_count + 1, sizeof *speedups);

    *totals =
        (struct totals){.model = report->models[rows[0].model],
                        .family = family < 0 ? NULL : report->families[family],
                        .tasks = family < 0 ? report->task_count : report->family_tasks[family],
                        .correct = xcalloc(k_max, sizeof(int)),
                        .fast = xcalloc(k_max, sizeof(int)),
                        .correct_estimate = xcalloc(k_max, sizeof(double)),
                        .fast_estimate = xcalloc(k_max, sizeof(double)),
                        .estimated_tasks = xcalloc(k_max, sizeof(int))};
    for (int i = 0; i < report->threshold_count; i++) {
        totals->above[i] = xcalloc(k_max, sizeof(int));
    }
    for (size_t i = 0; i < row_count;) {
        struct tries tries = {0};
        int task = rows[i].task;
        bool counts = family < 0 || report->family_of[task] == family;
        for (; i < row_count && rows[i].task == task; i++) {
            if (counts) {
                add_try(report, totals, &tries, &rows[i]);
            }
        }
        if (counts) {
            add_tries(report, totals, &tries, speedups);
        }
    }
    end_speedups(totals, speedups);
    free(speedups);
}

void report_count(struct report *report, const double *thresholds, int threshold_count)
{
    size_t end = 0;

    assert(threshold_count <= THRESHOLDS_MAX && report->totals == NULL);
    for (int i = 0; i < threshold_count; i++) {
        report->thresholds[i] = thresholds[i];
    }
    report->threshold_count = threshold_count;
    if (report->row_count > 0) {
        qsort(report->rows, report->row_count, sizeof report->rows[0], compare_rows);
    }
    for (size_t i = 0; i < report->row_count; i++) {
        report->k = report->rows[i].number > report->k ? report->rows[i].number : report->k;
    }
    report->totals = xcalloc((size_t)report->model_count * (size_t)(report->family_count + 1) + 1,
                             sizeof report->totals[0]);
    for (size_t start = 0; start < report->row_count; start = end) {
        while (end < report->row_count && report->rows[end].model == report->rows[start].model) {
            end++;
        }
        for (int family = -1; family < report->family_count; family++) {
            count_rows(report, &report->rows[start], end - start, family,
                       &report->totals[report->totals_count++]);
        }
    }
}

int report_k(const struct report *report)
{
    return report->k;
}

int report_task_count(const struct report *report)
{
    return report->task_count;
}

int report_thresholds(const struct report *report, const double **thresholds)
{
    *thresholds = report->thresholds;
    return report->threshold_count;
}

const struct totals *report_totals(const struct report *report, int *count)
{
    *count = report->totals_count;
    return report->totals;
}
