/*
 * report.h — the table that the field quotes, counted from attempts: Correct@k and Fast@k for each
 * model, speedups, failures, mechanisms, families.
 *
 * report_open, report_add_task for each task of the table, report_add for each attempt, then
 * report_count, which makes every total anew from the attempts; report_write.h writes them.
 *
 * Correct@k in the order of attempts is the number of tasks that one of a model's first k attempts
 * solved; Fast@k that one of them solved faster than the baseline. Beside it stands the unbiased
 * estimate: the expectation over all choices of k of a task's judged attempts, summed over the
 * tasks that have so many.
 */
#pragma once

#include "server/facts.h"

enum { MODELS_MAX = 100, TASK_NUMBER_MAX = 999, THRESHOLDS_MAX = 8 };

struct report;

struct report *report_open(void);
void report_close(struct report *report);

/* A task of the table; again: nothing. The texts are copied. */
void report_add_task(struct report *report, int number, const char *family);

struct attempt {
    const char *model; /* copied; of at most MODELS_MAX */
    int task_number;   /* one that was added */
    int number;        /* 1..ATTEMPT_MAX; of a model and task each once */
    enum outcome outcome;
    bool is_faster;
    double speedup; /* 0: not timed */
    double target_percent;
    unsigned mechanisms;
};

void report_add(struct report *report, const struct attempt *attempt);

/* Of one model, over all tasks or those of one family. Arrays are by k - 1, report_k(..) long. */
struct totals {
    const char *model;
    const char *family; /* NULL: all tasks */
    int tasks;
    int attempts;
    int *correct, *fast;
    int *above[THRESHOLDS_MAX];               /* solved with a speedup beyond a threshold */
    double *correct_estimate, *fast_estimate; /* expected numbers of tasks */
    int *estimated_tasks;                     /* of so many */
    int solved, timed;                        /* tasks by any attempt, and those with a speedup */
    double geomean_speedup, median_speedup;   /* of the best one of each timed task */
    double target_percent;                    /* mean over the same */
    int first[OUTCOMES], all[OUTCOMES];       /* of first attempts, of all */
    int mechanisms[MECHANISMS_MAX];           /* correct attempts that used it */
};

/* `thresholds` are the p of fast_p, at most THRESHOLDS_MAX. */
void report_count(struct report *report, const double *thresholds, int threshold_count);

/* After report_count. The totals of model i over all tasks come first, then those by family. */
int report_k(const struct report *report); /* the highest attempt; 0: there are none */
int report_task_count(const struct report *report);
int report_thresholds(const struct report *report, const double **thresholds);
const struct totals *report_totals(const struct report *report, int *count);
