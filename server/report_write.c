#include "server/report_write.h"

#include "common/json_write.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* ---- JSON ---- */

static void json_ints(struct buffer *text, const char *key, const int *values, int count)
{
    buffer_printf(text, ",\"%s\":[", key);
    for (int i = 0; i < count; i++) {
        buffer_printf(text, "%s%d", i > 0 ? "," : "", values[i]);
    }
    buffer_printf(text, "]");
}

static void json_doubles(struct buffer *text, const char *key, const double *values, int count)
{
    buffer_printf(text, ",\"%s\":[", key);
    for (int i = 0; i < count; i++) {
        buffer_printf(text, "%s%.6g", i > 0 ? "," : "", values[i]);
    }
    buffer_printf(text, "]");
}

/* A figure that there is only where something was timed. */
static void json_timed(struct buffer *text, const char *key, const struct totals *totals,
                       double value)
{
    if (totals->timed > 0) {
        buffer_printf(text, ",\"%s\":%.6g", key, value);
    } else {
        buffer_printf(text, ",\"%s\":null", key);
    }
}

static void json_outcomes(struct buffer *text, const char *key, const int counts[OUTCOMES])
{
    buffer_printf(text, ",\"%s\":{", key);
    for (int i = 0; i < OUTCOMES; i++) {
        buffer_printf(text, "%s\"%s\":%d", i > 0 ? "," : "", outcome_name((enum outcome)i),
                      counts[i]);
    }
    buffer_printf(text, "}");
}

/* The keys of one model or family, behind its name. */
static void json_totals(const struct report *report, const struct totals *totals,
                        struct buffer *text)
{
    const double *thresholds = NULL;
    int k = report_k(report);
    int threshold_count = report_thresholds(report, &thresholds);

    buffer_printf(text, ",\"tasks\":%d,\"attempts\":%d,\"solved\":%d,\"timed\":%d", totals->tasks,
                  totals->attempts, totals->solved, totals->timed);
    json_ints(text, "correct", totals->correct, k);
    json_ints(text, "fast", totals->fast, k);
    json_doubles(text, "correct_estimate", totals->correct_estimate, k);
    json_doubles(text, "fast_estimate", totals->fast_estimate, k);
    json_ints(text, "estimated_tasks", totals->estimated_tasks, k);
    buffer_printf(text, ",\"fast_p\":[");
    for (int i = 0; i < threshold_count; i++) {
        buffer_printf(text, "%s{\"p\":%.6g", i > 0 ? "," : "", thresholds[i]);
        json_ints(text, "tasks", totals->above[i], k);
        buffer_printf(text, "}");
    }
    buffer_printf(text, "]");
    json_timed(text, "geomean_speedup", totals, totals->geomean_speedup);
    json_timed(text, "median_speedup", totals, totals->median_speedup);
    json_timed(text, "target_percent", totals, totals->target_percent);
    json_outcomes(text, "first_attempts", totals->first);
    json_outcomes(text, "all_attempts", totals->all);
    buffer_printf(text, ",\"mechanisms\":{");
    for (int i = 0; i < MECHANISMS_MAX; i++) {
        buffer_printf(text, "%s\"%s\":%d", i > 0 ? "," : "", facts_mechanism(i),
                      totals->mechanisms[i]);
    }
    buffer_printf(text, "}");
}

void report_write_json(const struct report *report, const char *head, struct buffer *text)
{
    int count = 0;
    const struct totals *totals = report_totals(report, &count);
    const char *family_comma = "";

    buffer_printf(text, "{%s\"tasks\":%d,\"k\":%d,\"models\":[", head, report_task_count(report),
                  report_k(report));
    for (int i = 0; i < count; i++) {
        if (totals[i].family == NULL) {
            buffer_printf(text, "%s{\"model\":", i > 0 ? "]}," : "");
            json_write_text(text, totals[i].model, SIZE_MAX);
            json_totals(report, &totals[i], text);
            buffer_printf(text, ",\"families\":[");
            family_comma = "";
        } else {
            buffer_printf(text, "%s{\"family\":", family_comma);
            json_write_text(text, totals[i].family, SIZE_MAX);
            json_totals(report, &totals[i], text);
            buffer_printf(text, "}");
            family_comma = ",";
        }
    }
    buffer_printf(text, "%s]}", count > 0 ? "]}" : "");
}

/* ---- CSV (RFC 4180) ---- */

static void csv_text(struct buffer *text, const char *value)
{
    buffer_append(text, "\"", 1);
    while (*value != 0) {
        size_t length = strcspn(value, "\"");
        buffer_append(text, value, length);
        value += length;
        if (*value != 0) {
            buffer_append(text, "\"\"", 2);
            value++;
        }
    }
    buffer_append(text, "\",", 2);
}

static void csv_line(struct buffer *text, const struct totals *totals, const char *measure, int k,
                     double value)
{
    csv_text(text, totals->model);
    csv_text(text, totals->family == NULL ? "" : totals->family);
    buffer_printf(text, "%s,", measure);
    if (k > 0) {
        buffer_printf(text, "%d", k);
    }
    buffer_printf(text, ",%.9g\r\n", value);
}

static void csv_by_k(const struct report *report, const struct totals *totals, struct buffer *text)
{
    const double *thresholds = NULL;
    int threshold_count = report_thresholds(report, &thresholds);
    char measure[64];

    for (int k = 1; k <= report_k(report); k++) {
        csv_line(text, totals, "correct", k, totals->correct[k - 1]);
        csv_line(text, totals, "fast", k, totals->fast[k - 1]);
        csv_line(text, totals, "correct_estimate", k, totals->correct_estimate[k - 1]);
        csv_line(text, totals, "fast_estimate", k, totals->fast_estimate[k - 1]);
        csv_line(text, totals, "estimated_tasks", k, totals->estimated_tasks[k - 1]);
        for (int i = 0; i < threshold_count; i++) {
            (void)snprintf(measure, sizeof measure, "fast_p_%.6g", thresholds[i]);
            csv_line(text, totals, measure, k, totals->above[i][k - 1]);
        }
    }
}

void report_write_csv(const struct report *report, struct buffer *text)
{
    int count = 0;
    const struct totals *all = report_totals(report, &count);
    char measure[64];

    buffer_printf(text, "model,family,measure,k,value\r\n");
    for (int i = 0; i < count; i++) {
        const struct totals *totals = &all[i];
        csv_line(text, totals, "tasks", 0, totals->tasks);
        csv_line(text, totals, "attempts", 0, totals->attempts);
        csv_line(text, totals, "solved", 0, totals->solved);
        csv_line(text, totals, "timed", 0, totals->timed);
        csv_by_k(report, totals, text);
        if (totals->timed > 0) {
            csv_line(text, totals, "geomean_speedup", 0, totals->geomean_speedup);
            csv_line(text, totals, "median_speedup", 0, totals->median_speedup);
            csv_line(text, totals, "target_percent", 0, totals->target_percent);
        }
        for (int k = 0; k < OUTCOMES; k++) {
            (void)snprintf(measure, sizeof measure, "first_%s", outcome_name((enum outcome)k));
            csv_line(text, totals, measure, 0, totals->first[k]);
            (void)snprintf(measure, sizeof measure, "all_%s", outcome_name((enum outcome)k));
            csv_line(text, totals, measure, 0, totals->all[k]);
        }
        for (int k = 0; k < MECHANISMS_MAX; k++) {
            (void)snprintf(measure, sizeof measure, "mechanism_%s", facts_mechanism(k));
            csv_line(text, totals, measure, 0, totals->mechanisms[k]);
        }
    }
}

/* ---- Markdown ---- */

/* A name in a cell, with what Markdown or HTML would take for its own set apart. */
static void cell_name(struct buffer *text, const char *name)
{
    for (; *name != 0; name++) {
        buffer_printf(text, strchr("\\`*_{}[]<>|#&~", *name) != NULL ? "\\%c" : "%c", *name);
    }
}

/* "28 -> 36": at the first and the last k. */
static void cell_range(struct buffer *text, const int *by_k, int k)
{
    if (k > 1) {
        buffer_printf(text, " | %d -> %d", by_k[0], by_k[k - 1]);
    } else {
        buffer_printf(text, " | %d", by_k[0]);
    }
}

static void cell_estimate(struct buffer *text, const double *by_k, int k)
{
    if (k > 1) {
        buffer_printf(text, " | %.1f -> %.1f", by_k[0], by_k[k - 1]);
    } else {
        buffer_printf(text, " | %.1f", by_k[0]);
    }
}

static void markdown_headline(const struct report *report, const struct totals *all, int count,
                              struct buffer *text)
{
    const double *thresholds = NULL;
    int threshold_count = report_thresholds(report, &thresholds);
    int k = report_k(report);

    buffer_printf(text, "Of %d tasks, k = 1 -> %d; est.: the unbiased estimate.\n\n",
                  report_task_count(report), k);
    buffer_printf(text, "| model | Correct@k | est. | Fast@k | est.");
    for (int i = 0; i < threshold_count; i++) {
        buffer_printf(text, " | fast_%.6g", thresholds[i]);
    }
    buffer_printf(text, " | geomean | median | of target |\n|---|---|---|---|---");
    for (int i = 0; i < threshold_count; i++) {
        buffer_printf(text, "|---");
    }
    buffer_printf(text, "|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        const struct totals *totals = &all[i];
        if (totals->family != NULL) {
            continue;
        }
        buffer_printf(text, "| ");
        cell_name(text, totals->model);
        cell_range(text, totals->correct, k);
        cell_estimate(text, totals->correct_estimate, k);
        cell_range(text, totals->fast, k);
        cell_estimate(text, totals->fast_estimate, k);
        for (int p = 0; p < threshold_count; p++) {
            cell_range(text, totals->above[p], k);
        }
        if (totals->timed > 0) {
            buffer_printf(text, " | %.2fx | %.2fx | %.1f %% |\n", totals->geomean_speedup,
                          totals->median_speedup, totals->target_percent);
        } else {
            buffer_printf(text, " | - | - | - |\n");
        }
    }
}

static void markdown_outcomes(const struct totals *all, int count, struct buffer *text)
{
    buffer_printf(text, "\nFirst attempts:\n\n| model");
    for (int i = 0; i < OUTCOMES; i++) {
        buffer_printf(text, " | %s", outcome_name((enum outcome)i));
    }
    buffer_printf(text, " |\n|---");
    for (int i = 0; i < OUTCOMES; i++) {
        buffer_printf(text, "|---");
    }
    buffer_printf(text, "|\n");
    for (int i = 0; i < count; i++) {
        int sum = 0;
        if (all[i].family != NULL) {
            continue;
        }
        for (int k = 0; k < OUTCOMES; k++) {
            sum += all[i].first[k];
        }
        buffer_printf(text, "| ");
        cell_name(text, all[i].model);
        for (int k = 0; k < OUTCOMES; k++) {
            buffer_printf(text, " | %d (%.0f %%)", all[i].first[k],
                          sum == 0 ? 0 : 100.0 * all[i].first[k] / sum);
        }
        buffer_printf(text, " |\n");
    }
}

static void markdown_mechanisms(const struct totals *all, int count, struct buffer *text)
{
    buffer_printf(text, "\nMechanisms of correct attempts:\n\n| model");
    for (int i = 0; i < MECHANISMS_MAX; i++) {
        buffer_printf(text, " | %s", facts_mechanism(i));
    }
    buffer_printf(text, " |\n|---");
    for (int i = 0; i < MECHANISMS_MAX; i++) {
        buffer_printf(text, "|---");
    }
    buffer_printf(text, "|\n");
    for (int i = 0; i < count; i++) {
        if (all[i].family != NULL) {
            continue;
        }
        buffer_printf(text, "| ");
        cell_name(text, all[i].model);
        for (int k = 0; k < MECHANISMS_MAX; k++) {
            buffer_printf(text, " | %d", all[i].mechanisms[k]);
        }
        buffer_printf(text, " |\n");
    }
}

void report_write_markdown(const struct report *report, struct buffer *text)
{
    int count = 0;
    const struct totals *all = report_totals(report, &count);
    int k = report_k(report);

    if (count == 0) {
        buffer_printf(text, "No attempts.\n");
        return;
    }
    markdown_headline(report, all, count, text);
    markdown_outcomes(all, count, text);
    markdown_mechanisms(all, count, text);
    buffer_printf(text,
                  "\n| family | model | tasks | Correct@k | Fast@k |\n|---|---|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        if (all[i].family == NULL) {
            continue;
        }
        buffer_printf(text, "| ");
        cell_name(text, all[i].family);
        buffer_printf(text, " | ");
        cell_name(text, all[i].model);
        buffer_printf(text, " | %d", all[i].tasks);
        cell_range(text, all[i].correct, k);
        cell_range(text, all[i].fast, k);
        buffer_printf(text, " |\n");
    }
}
