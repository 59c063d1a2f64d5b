#include "client/show.h"

#include "common/utf8.h"

#include <inttypes.h>
#include <string.h>

enum { LOG_LINES_SHOWN = 40, BYTES_WIDTH = 16 };

static bool is_printable(const char *text, size_t length)
{
    unsigned char first = (unsigned char)text[0];
    bool is_c1 = length == 2 && first == 0xc2 && (unsigned char)text[1] < 0xa0;

    return length > 0 && !is_c1 && (first >= ' ' || first == '\n' || first == '\t') &&
           first != 0x7f;
}

void show_text(const char *text, struct buffer *to)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t length = utf8_length(text, left);
        if (is_printable(text, length)) {
            buffer_append(to, text, length);
        } else {
            length = 1;
            buffer_printf(to, "\\x%02x", (unsigned char)text[0]);
        }
        text += length;
        left -= length;
    }
}

/* `before`, then the text; nothing where there is none. */
static void show_part(const char *before, const char *text, struct buffer *to)
{
    if (text != NULL && text[0] != 0) {
        buffer_printf(to, "%s", before);
        show_text(text, to);
    }
}

void show_progress(const struct job *job, struct buffer *to)
{
    switch (job->state) {
    case JOB_QUEUED:
        if (job->queue_position > 0) {
            buffer_printf(to, "queued, %d ahead", job->queue_position);
        } else {
            buffer_printf(to, "queued, next");
        }
        break;
    case JOB_LEASED:
        buffer_printf(to, "%s", job->stage == STAGE_NONE ? "starting" : job_stage_name(job->stage));
        show_part(" on ", job->worker, to);
        break;
    case JOB_DONE:
        buffer_printf(to, "done");
        show_part(": ", job->verdict, to);
        break;
    default:
        buffer_printf(to, "%s", job_state_name(job->state));
        break;
    }
}

/* ---- the parts of a result ---- */

static void show_mismatch(const struct mismatch *mismatch, struct buffer *to)
{
    buffer_printf(to, "\n  output ");
    show_text(mismatch->output == NULL ? "?" : mismatch->output, to);
    if (mismatch->rank >= 0) {
        buffer_printf(to, " of rank %d", mismatch->rank);
    }
    buffer_printf(to, ": %" PRIu64 " of %" PRIu64 " elements are wrong\n  first at ", mismatch->bad,
                  mismatch->total);
    show_text(mismatch->index == NULL ? "?" : mismatch->index, to);
    show_part(": expected ", mismatch->expected, to);
    show_part(", got ", mismatch->got, to);
    show_part(", allowed error ", mismatch->bound, to);
    buffer_printf(to, "\n");
}

/* ", cta 3, warp 0": where in a grid. */
static void show_place(int64_t cta, int64_t warp, struct buffer *to)
{
    if (cta >= 0) {
        buffer_printf(to, ", cta %" PRId64, cta);
    }
    if (warp >= 0) {
        buffer_printf(to, ", warp %" PRId64, warp);
    }
}

static void show_rank(int rank, struct buffer *to)
{
    if (rank >= 0) {
        buffer_printf(to, "  rank %d:", rank);
    } else {
        buffer_printf(to, "  no rank:");
    }
}

static void show_wait(const struct wait *wait, struct buffer *to)
{
    show_rank(wait->rank, to);
    show_part(" in ", wait->kernel != NULL ? wait->kernel : wait->where, to);
    show_part(", ", wait->source, to);
    show_place(wait->cta, wait->warp, to);
    if (wait->warps > 1) {
        buffer_printf(to, " and %" PRId64 " more", wait->warps - 1);
    }
    show_part(", reads ", wait->address, to);
    if (wait->owner >= 0) {
        buffer_printf(to, " (memory of rank %d)", wait->owner);
    }
    show_part(" = ", wait->value, to);
    show_part(", waits for ", wait->wanted, to);
    show_part(", last writer: ", wait->last_writer, to);
    buffer_printf(to, "\n");
}

static void show_fault(const struct fault *fault, struct buffer *to)
{
    show_rank(fault->rank, to);
    show_part(" ", fault->kind, to);
    show_part(" in ", fault->kernel, to);
    show_part(", ", fault->source, to);
    show_place(fault->cta, fault->warp, to);
    if (fault->kernel != NULL && fault->lane >= 0) {
        buffer_printf(to, ", lane %d", fault->lane);
    }
    show_part(", at ", fault->address, to);
    show_part(": ", fault->message, to);
    buffer_printf(to, "\n");
}

static void show_finding(const struct finding *finding, struct buffer *to)
{
    buffer_printf(to, "  finding");
    show_part(": ", finding->kind, to);
    if (finding->rank >= 0) {
        buffer_printf(to, ", rank %d", finding->rank);
    }
    show_part(", ", finding->source, to);
    show_part(": ", finding->message, to);
    buffer_printf(to, "\n");
}

/* The last lines of a log. */
static void show_tail(const char *title, const char *log, struct buffer *to)
{
    size_t size_bytes = log == NULL ? 0 : strlen(log);
    size_t start = size_bytes;
    int lines = 0;

    while (start > 0 &&
           (log[start - 1] != '\n' || start == size_bytes || lines < LOG_LINES_SHOWN)) {
        start--;
        lines += start > 0 && log[start - 1] == '\n';
    }
    if (size_bytes == 0) {
        return;
    }
    buffer_printf(to, "\n%s%s:\n", title, start > 0 ? " (its end; 'pkb log' shows all)" : "");
    show_text(log + start, to);
    if (log[size_bytes - 1] != '\n') {
        buffer_printf(to, "\n");
    }
}

/* ---- traffic ---- */

/* One matrix: rows are the ranks that moved bytes, columns the ranks whose memory it was. */
static void show_mechanism(const struct result *result, const char *mechanism, int world,
                           struct buffer *to)
{
    uint64_t bytes[RESULT_RANKS_MAX][RESULT_RANKS_MAX] = {0};

    for (size_t i = 0; i < result->traffic_count; i++) {
        const struct traffic *row = &result->traffic[i];
        if (strcmp(row->mechanism, mechanism) == 0 && row->source >= 0 && row->source < world &&
            row->owner >= 0 && row->owner < world) {
            bytes[row->source][row->owner] += row->bytes;
        }
    }
    buffer_printf(to, "  ");
    show_text(mechanism, to);
    buffer_printf(to, "\n           ");
    for (int owner = 0; owner < world; owner++) {
        buffer_printf(to, "%*s of rank %d", BYTES_WIDTH - (int)strlen(" of rank 0"), "", owner);
    }
    for (int source = 0; source < world; source++) {
        buffer_printf(to, "\n  by rank %d", source);
        for (int owner = 0; owner < world; owner++) {
            buffer_printf(to, "%*" PRIu64, BYTES_WIDTH, bytes[source][owner]);
        }
    }
    buffer_printf(to, "\n");
}

static bool was_shown(const struct result *result, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(result->traffic[i].mechanism, result->traffic[index].mechanism) == 0) {
            return true;
        }
    }
    return false;
}

static void show_traffic(const struct result *result, int world, struct buffer *to)
{
    if (result->traffic_count > 0) {
        buffer_printf(to,
                      "\nbytes moved, by the rank that moved them and the owner of the memory:\n");
    }
    for (size_t i = 0; i < result->traffic_count; i++) {
        if (!was_shown(result, i)) {
            show_mechanism(result, result->traffic[i].mechanism, world, to);
        }
    }
}

/* ---- times ---- */

static void show_timing(const struct timing *timing, struct buffer *to)
{
    const struct regime *latency = &timing->latency;

    buffer_printf(to, "\n");
    show_part("", timing->case_name, to);
    show_part(" ", timing->variant, to);
    buffer_printf(to, ": %.2f us (%.2f to %.2f; p10 %.2f, p90 %.2f; %d iterations)\n",
                  latency->median_us, latency->low_us, latency->high_us, latency->p10_us,
                  latency->p90_us, latency->iterations);
    if (timing->throughput.median_us > 0) {
        buffer_printf(to, "  back to back: %.2f us a call\n", timing->throughput.median_us);
    }
    if (timing->baseline_us > 0) {
        buffer_printf(to, "  baseline: %.2f us, so %.2f times as fast%s\n", timing->baseline_us,
                      timing->speedup, timing->is_faster ? "" : " (not faster)");
    }
    if (timing->target_us > 0) {
        buffer_printf(to, "  %.0f %% of the roofline of %.2f us\n", timing->target_percent,
                      timing->target_us);
    }
}

/* ---- the report ---- */

static void show_head(const struct job *job, const struct result *result, struct buffer *to)
{
    buffer_printf(to, "%s", verdict_name(result->verdict));
    show_part(" (", result->reason, to);
    buffer_printf(to, "%s", result->reason != NULL && result->reason[0] != 0 ? ")" : "");
    show_part(": ", result->message, to);
    buffer_printf(to, "\n  %s: task %03d ", job->id, job->task_number);
    show_text(job->task, to);
    buffer_printf(to, ", %d ranks, %s, %s", job->world, dtype_name(job->dtype),
                  device_kind_name(job->device));
    show_part(", on ", job->worker, to);
    buffer_printf(to, "; build %.2f s, run %.2f s\n", (double)result->build_ms / 1000,
                  (double)result->run_ms / 1000);
    if (result->verdict != VERDICT_ACCEPTED) {
        show_part("  stage ", result->stage, to);
        show_part(", case ", result->case_name, to);
        show_part(", variant ", result->variant, to);
        if (result->rank >= 0) {
            buffer_printf(to, ", rank %d", result->rank);
        }
        buffer_printf(to, "\n");
    }
    if (result->replay != NULL) {
        buffer_printf(to,
                      "  schedule seed %" PRIu64 "; tried: %d; to repeat it: pkb status --replay\n",
                      result->replay->schedule_seed, result->schedules);
    }
    for (size_t i = 0; i < result->flag_count; i++) {
        show_part(i == 0 ? "  flags: " : ", ", result->flags[i], to);
    }
    buffer_printf(to, "%s", result->flag_count > 0 ? "\n" : "");
}

void show_job(const struct job *job, const struct result *result, struct buffer *to)
{
    if (result == NULL) {
        buffer_printf(to, "%s: ", job->id);
        show_progress(job, to);
        buffer_printf(to, "\n");
        return;
    }
    show_head(job, result, to);
    if (result->mismatch != NULL) {
        show_mismatch(result->mismatch, to);
    }
    for (size_t i = 0; i < result->fault_count; i++) {
        buffer_printf(to, "%s", i == 0 ? "\n" : "");
        show_fault(&result->faults[i], to);
    }
    for (size_t i = 0; i < result->wait_count; i++) {
        buffer_printf(to, "%s", i == 0 ? "\nwhere the ranks wait:\n" : "");
        show_wait(&result->waits[i], to);
    }
    for (size_t i = 0; i < result->finding_count; i++) {
        buffer_printf(to, "%s", i == 0 ? "\n" : "");
        show_finding(&result->findings[i], to);
    }
    for (size_t i = 0; i < result->timing_count; i++) {
        show_timing(&result->timings[i], to);
    }
    show_traffic(result, job->world, to);
    if (result->verdict == VERDICT_COMPILE_ERROR || result->verdict == VERDICT_LINK_ERROR) {
        show_tail("build log", result->build_log, to);
    } else if (result->verdict != VERDICT_ACCEPTED) {
        show_tail("run log", result->run_log, to);
    }
}
