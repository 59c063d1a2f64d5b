#include "worker/leased.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/pace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_MS = 10000 };

enum leased_state { LEASED_EVALUATING, LEASED_LEAVING, LEASED_REPORTING };

struct leased {
    struct leased_options options;
    enum leased_state state;
    struct lease_grant grant;
    struct evaluation *evaluation; /* until the node has been looked at */
    struct gate *gate;
    bool is_abandoned;    /* the lease is lost: nothing is told */
    int failures;         /* of the node's GPUs when it began */
    struct buffer report; /* the body to send */
    struct api_request *heartbeat, *reporting;
    enum job_stage told_stage;
    int64_t renewed_ms, ttl_ms;
    int64_t heartbeat_at_ms, report_at_ms, backoff_ms;
};

static struct api_request *post(struct leased *leased, const char *what, const struct buffer *body,
                                int64_t timeout_ms,
                                void (*done)(void *context, const struct api_reply *reply))
{
    struct buffer path = {0};

    buffer_printf(&path, "/v1/jobs/");
    api_path_append(&path, leased->grant.job.id);
    buffer_printf(&path, "/%s", what);
    struct api_request *request =
        connection_post(leased->options.connection, path.data, body, timeout_ms, done, leased);
    buffer_release(&path);
    return request;
}

/* The last that is done with it. */
static void end(struct leased *leased)
{
    leased->options.ended(leased->options.context);
}

/* The lease is lost: whatever still runs for it ends. */
static void abandon(struct leased *leased, const char *why)
{
    log_event(LOG_WARN, "job.abandoned", "job=%s epoch=%lld why=%s", leased->grant.job.id,
              (long long)leased->grant.job.epoch, why);
    leased->is_abandoned = true;
    if (leased->state == LEASED_EVALUATING) {
        evaluation_stop(leased->evaluation);
    } else if (leased->state == LEASED_REPORTING) {
        end(leased);
    }
}

static void on_heartbeat(void *context, const struct api_reply *reply)
{
    struct leased *leased = context;

    leased->heartbeat = NULL;
    switch (reply->status) {
    case OK:
        leased->renewed_ms = clock_monotonic_ms();
        break;
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
        if (!leased->is_abandoned) {
            abandon(leased, "stale");
        }
        break;
    default:
        /* Soon again; without luck the deadline decides. */
        leased->heartbeat_at_ms = clock_monotonic_ms() + leased->ttl_ms / 10;
        log_event(LOG_WARN, "heartbeat.failed", "job=%s error=%s", leased->grant.job.id,
                  reply->error.message);
        break;
    }
}

static void send_heartbeat(struct leased *leased)
{
    struct heartbeat heartbeat = {.epoch = leased->grant.job.epoch, .stage = leased->told_stage};
    struct buffer body = {0};

    (void)snprintf(heartbeat.worker, sizeof heartbeat.worker, "%s", leased->options.worker);
    heartbeat_write(&heartbeat, &body);
    leased->heartbeat_at_ms = clock_monotonic_ms() + leased->ttl_ms / 3;
    leased->heartbeat = post(leased, "heartbeat", &body, leased->ttl_ms / 3 + 1, on_heartbeat);
    buffer_release(&body);
}

/* ---- the report ---- */

static void on_reported(void *context, const struct api_reply *reply)
{
    struct leased *leased = context;

    leased->reporting = NULL;
    switch (reply->status) {
    case OK:
        log_event(LOG_INFO, "job.reported", "job=%s epoch=%lld", leased->grant.job.id,
                  (long long)leased->grant.job.epoch);
        end(leased);
        break;
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
        abandon(leased, "stale");
        break;
    case ERR_INVALID:
    case ERR_TOO_LARGE:
        log_event(LOG_ERROR, "job.refused", "job=%s error=%s", leased->grant.job.id,
                  reply->error.message);
        end(leased);
        break;
    default:
        leased->report_at_ms = pace_back_off(&leased->backoff_ms);
        log_event(LOG_WARN, "report.failed", "job=%s error=%s", leased->grant.job.id,
                  reply->error.message);
        break;
    }
}

static void send_report(struct leased *leased)
{
    leased->reporting = post(leased, "result", &leased->report, CALL_MS, on_reported);
}

static void report(struct leased *leased, const struct result *result)
{
    struct result_report body = {.epoch = leased->grant.job.epoch};
    struct buffer json = {0};

    result_write(result, &json);
    (void)snprintf(body.worker, sizeof body.worker, "%s", leased->options.worker);
    body.result_json = json.data;
    result_report_write(&body, &leased->report);
    buffer_release(&json);
    log_event(LOG_INFO, "job.evaluated", "job=%s epoch=%lld verdict=%s build_ms=%lld run_ms=%lld",
              leased->grant.job.id, (long long)leased->grant.job.epoch,
              verdict_name(result->verdict), (long long)result->build_ms,
              (long long)result->run_ms);
    leased->state = LEASED_REPORTING;
    send_report(leased);
}

/* `reason` NULL: what cannot even start, so that the job does not go round in circles. */
static void report_trouble(struct leased *leased, const char *reason, const char *message)
{
    struct result result = {.rank = -1, .verdict = VERDICT_INTERNAL_ERROR};

    result.stage = xstrdup("start");
    result.reason = reason == NULL ? NULL : xstrdup(reason);
    result.message = xstrdup(message);
    report(leased, &result);
    result_release(&result);
}

/* ---- the evaluation, and what it leaves ---- */

static bool has_failed(const struct leased *leased)
{
    return fitness_failures(leased->options.fitness) != leased->failures;
}

static void conclude(struct leased *leased, enum status looked, const struct error *err)
{
    const struct result *result = evaluation_result(leased->evaluation);

    if (leased->is_abandoned) {
        end(leased);
        return;
    }
    if (has_failed(leased)) {
        report_trouble(leased, NODE_FAULT_REASON, fitness_failure(leased->options.fitness));
    } else if (looked == ERR_UNAVAILABLE && result->verdict != VERDICT_ACCEPTED) {
        /* It may have failed because of the GPU. What was right was right on any. */
        report_trouble(leased, NODE_FAULT_REASON, err->message);
    } else {
        report(leased, result);
    }
    evaluation_close(leased->evaluation);
    leased->evaluation = NULL;
}

static void on_looked(void *context, enum status status, const struct error *err)
{
    struct leased *leased = context;
    struct error kept = *err; /* it is the gate's */

    gate_close(leased->gate);
    leased->gate = NULL;
    fitness_conclude(leased->options.fitness, status, &kept);
    conclude(leased, status, &kept);
}

static void on_evaluated(void *context)
{
    struct leased *leased = context;
    const struct result *result = evaluation_result(leased->evaluation);
    bool was_built_only = result->stage != NULL && strcmp(result->stage, "build") == 0;
    struct gate_question question = {.slot = evaluation_slot(leased->evaluation),
                                     .has_gpus = !was_built_only,
                                     .done = on_looked,
                                     .context = leased};
    struct error none = {0};

    leased->state = LEASED_LEAVING;
    if (fitness_state(leased->options.fitness) == WORKER_QUARANTINED) {
        conclude(leased, OK, &none); /* a broken GPU may not even answer */
    } else {
        fitness_look(leased->options.fitness, &question, &leased->gate);
    }
}

void leased_fail(struct leased *leased)
{
    if (leased->state == LEASED_EVALUATING) {
        evaluation_stop(leased->evaluation);
    }
}

void leased_open(struct leased **leased, const struct leased_options *options,
                 const struct lease_grant *grant)
{
    struct leased *opened = xcalloc(1, sizeof *opened);
    const struct job *job = &opened->grant.job;
    char number[16];
    struct error err = {0};
    enum status status = OK;

    opened->options = *options;
    opened->grant = *grant;
    (void)snprintf(number, sizeof number, "%d", job->task_number);
    struct evaluation_job evaluation = {.task = task_find(number),
                                        .world = job->world,
                                        .dtype = job->dtype,
                                        .device = job->device,
                                        .seed = opened->grant.seed,
                                        .is_bench = job->device != DEVICE_SIM,
                                        .source = opened->grant.source,
                                        .source_bytes = opened->grant.source_bytes,
                                        .done = on_evaluated,
                                        .context = opened};
    opened->failures = fitness_failures(options->fitness);
    opened->ttl_ms = opened->grant.ttl_ms;
    opened->renewed_ms = clock_monotonic_ms();
    opened->told_stage = STAGE_BUILDING;
    *leased = opened;
    log_event(LOG_INFO, "job.leased", "job=%s epoch=%lld task=%s world=%d", job->id,
              (long long)job->epoch, job->task, job->world);
    send_heartbeat(opened);
    if (evaluation.task == NULL || job->world < 1 || job->world > WORLD_MAX) {
        status = error_set(&err, ERR_UNAVAILABLE, "this worker has no task %d with a world of %d",
                           job->task_number, job->world);
    } else {
        status = evaluation_start(&opened->evaluation, options->settings, &evaluation, &err);
    }
    if (status != OK) {
        report_trouble(opened, NULL, err.message);
    }
}

void leased_step(struct leased *leased, int64_t now_ms)
{
    if (leased->is_abandoned) {
        return;
    }
    /* A result that is there already is kept: only the server can say that it comes too late. */
    if (leased->state == LEASED_EVALUATING &&
        now_ms - leased->renewed_ms >= leased->ttl_ms * 2 / 3) {
        abandon(leased, "not_renewed");
        return;
    }
    enum job_stage stage =
        leased->evaluation == NULL ? leased->told_stage : evaluation_stage(leased->evaluation);
    if (leased->heartbeat == NULL &&
        (now_ms >= leased->heartbeat_at_ms || stage != leased->told_stage)) {
        leased->told_stage = stage;
        send_heartbeat(leased);
    }
    if (leased->state == LEASED_REPORTING && leased->reporting == NULL &&
        now_ms >= leased->report_at_ms) {
        send_report(leased);
    }
}

bool leased_is_evaluated(const struct leased *leased)
{
    return leased->state != LEASED_EVALUATING;
}

void leased_close(struct leased *leased)
{
    if (leased == NULL) {
        return;
    }
    if (leased->heartbeat != NULL) {
        api_cancel(leased->heartbeat);
    }
    if (leased->reporting != NULL) {
        api_cancel(leased->reporting);
    }
    gate_close(leased->gate);
    evaluation_close(leased->evaluation);
    lease_grant_release(&leased->grant);
    buffer_release(&leased->report);
    free(leased);
}
