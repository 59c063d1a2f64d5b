#include "worker/agent.h"

#include "common/clock.h"
#include "common/lease.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/connection.h"
#include "worker/loop.h"
#include "worker/schedules.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICK_MS = 100,
    CALL_MS = 10000,
    LEASE_WAIT_S = 25,
    BACKOFF_FIRST_MS = 250,
    BACKOFF_MAX_MS = 10000,
};

struct agent;

enum slot_state { SLOT_FREE, SLOT_EVALUATING, SLOT_REPORTING, SLOT_ABANDONING };

struct slot {
    struct agent *agent;
    enum slot_state state;
    struct lease_grant grant;
    struct evaluation *evaluation;
    struct buffer report; /* the body to send */
    struct api_request *heartbeat, *reporting;
    enum job_stage told_stage;
    int64_t renewed_ms, ttl_ms;
    int64_t heartbeat_at_ms, report_at_ms, backoff_ms;
};

struct agent {
    struct agent_options options;
    struct connection *connection;
    struct loop_timer *tick;
    struct slot slots[SLOTS_MAX];
    struct api_request *request; /* hello or lease */
    bool is_known, is_draining;
    int64_t next_ms, backoff_ms;
    enum status fatal;
    struct error fatal_error;
};

static struct api_request *post(struct agent *agent, const char *path, const struct buffer *body,
                                int64_t timeout_ms,
                                void (*done)(void *context, const struct api_reply *reply),
                                void *context)
{
    struct api_call call = {.method = "POST",
                            .path = path,
                            .body = body->data,
                            .body_bytes = body->size_bytes,
                            .timeout_ms = timeout_ms,
                            .done = done,
                            .context = context};

    return api_start(connection_api(agent->connection), &call);
}

static char *job_path(const struct slot *slot, const char *what)
{
    struct buffer path = {0};

    buffer_printf(&path, "/v1/jobs/");
    api_path_append(&path, slot->grant.job.id);
    buffer_printf(&path, "/%s", what);
    return path.data;
}

static int64_t back_off(int64_t *backoff_ms)
{
    int64_t wait_ms = *backoff_ms == 0 ? BACKOFF_FIRST_MS : *backoff_ms;

    *backoff_ms = wait_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : wait_ms * 2;
    return clock_monotonic_ms() + wait_ms;
}

/* ---- a job in its slot ---- */

static void free_slot(struct slot *slot)
{
    struct agent *agent = slot->agent;

    if (slot->heartbeat != NULL) {
        api_cancel(slot->heartbeat);
    }
    if (slot->reporting != NULL) {
        api_cancel(slot->reporting);
    }
    evaluation_close(slot->evaluation);
    lease_grant_release(&slot->grant);
    buffer_release(&slot->report);
    *slot = (struct slot){.agent = agent};
}

/* The lease is lost: whatever still runs for it ends, and nothing is told. */
static void abandon(struct slot *slot, const char *why)
{
    log_event(LOG_WARN, "job.abandoned", "job=%s epoch=%lld why=%s", slot->grant.job.id,
              (long long)slot->grant.job.epoch, why);
    if (slot->state == SLOT_EVALUATING) {
        slot->state = SLOT_ABANDONING;
        evaluation_stop(slot->evaluation);
    } else if (slot->state == SLOT_REPORTING) {
        free_slot(slot);
    }
}

static void on_heartbeat(void *context, const struct api_reply *reply)
{
    struct slot *slot = context;

    slot->heartbeat = NULL;
    switch (reply->status) {
    case OK:
        slot->renewed_ms = clock_monotonic_ms();
        break;
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
        abandon(slot, "stale");
        break;
    default:
        /* Soon again; without luck the deadline decides. */
        slot->heartbeat_at_ms = clock_monotonic_ms() + slot->ttl_ms / 10;
        log_event(LOG_WARN, "heartbeat.failed", "job=%s error=%s", slot->grant.job.id,
                  reply->error.message);
        break;
    }
}

static void send_heartbeat(struct slot *slot)
{
    struct heartbeat heartbeat = {.epoch = slot->grant.job.epoch, .stage = slot->told_stage};
    struct buffer body = {0};
    char *path = job_path(slot, "heartbeat");

    (void)snprintf(heartbeat.worker, sizeof heartbeat.worker, "%s", slot->agent->options.name);
    heartbeat_write(&heartbeat, &body);
    slot->heartbeat_at_ms = clock_monotonic_ms() + slot->ttl_ms / 3;
    slot->heartbeat = post(slot->agent, path, &body, slot->ttl_ms / 3 + 1, on_heartbeat, slot);
    buffer_release(&body);
    free(path);
}

static void on_reported(void *context, const struct api_reply *reply)
{
    struct slot *slot = context;

    slot->reporting = NULL;
    switch (reply->status) {
    case OK:
        log_event(LOG_INFO, "job.reported", "job=%s epoch=%lld", slot->grant.job.id,
                  (long long)slot->grant.job.epoch);
        free_slot(slot);
        break;
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
        abandon(slot, "stale");
        break;
    case ERR_INVALID:
    case ERR_TOO_LARGE:
        log_event(LOG_ERROR, "job.refused", "job=%s error=%s", slot->grant.job.id,
                  reply->error.message);
        free_slot(slot);
        break;
    default:
        slot->report_at_ms = back_off(&slot->backoff_ms);
        log_event(LOG_WARN, "report.failed", "job=%s error=%s", slot->grant.job.id,
                  reply->error.message);
        break;
    }
}

static void send_report(struct slot *slot)
{
    char *path = job_path(slot, "result");

    slot->reporting = post(slot->agent, path, &slot->report, CALL_MS, on_reported, slot);
    free(path);
}

static void report(struct slot *slot, const struct result *result)
{
    struct result_report body = {.epoch = slot->grant.job.epoch};
    struct buffer json = {0};

    result_write(result, &json);
    (void)snprintf(body.worker, sizeof body.worker, "%s", slot->agent->options.name);
    body.result_json = json.data;
    result_report_write(&body, &slot->report);
    buffer_release(&json);
    log_event(LOG_INFO, "job.evaluated", "job=%s epoch=%lld verdict=%s build_ms=%lld run_ms=%lld",
              slot->grant.job.id, (long long)slot->grant.job.epoch, verdict_name(result->verdict),
              (long long)result->build_ms, (long long)result->run_ms);
    slot->state = SLOT_REPORTING;
    send_report(slot);
}

static void on_evaluated(void *context)
{
    struct slot *slot = context;

    if (slot->state == SLOT_ABANDONING) {
        free_slot(slot);
        return;
    }
    report(slot, evaluation_result(slot->evaluation));
    evaluation_close(slot->evaluation);
    slot->evaluation = NULL;
}

/* What cannot even start is reported too, so that the job does not go round in circles. */
static void report_trouble(struct slot *slot, const struct error *err)
{
    struct result result = {.rank = -1, .verdict = VERDICT_INTERNAL_ERROR};

    result.stage = xstrdup("start");
    result.message = xstrdup(err->message);
    report(slot, &result);
    result_release(&result);
}

static void start_job(struct slot *slot)
{
    const struct job *job = &slot->grant.job;
    char number[16];
    struct error err = {0};

    (void)snprintf(number, sizeof number, "%d", job->task_number);
    struct evaluation_job evaluation = {.task = task_find(number),
                                        .world = job->world,
                                        .dtype = job->dtype,
                                        .device = job->device,
                                        .seed = slot->grant.seed,
                                        .is_bench = job->device != DEVICE_SIM,
                                        .source = slot->grant.source,
                                        .source_bytes = slot->grant.source_bytes,
                                        .done = on_evaluated,
                                        .context = slot};
    slot->state = SLOT_EVALUATING;
    slot->ttl_ms = slot->grant.ttl_ms;
    slot->renewed_ms = clock_monotonic_ms();
    slot->told_stage = STAGE_BUILDING;
    log_event(LOG_INFO, "job.leased", "job=%s epoch=%lld task=%s world=%d", job->id,
              (long long)job->epoch, job->task, job->world);
    send_heartbeat(slot);
    enum status status = OK;
    if (evaluation.task == NULL || job->world < 1 || job->world > WORLD_MAX) {
        status = error_set(&err, ERR_UNAVAILABLE, "this worker has no task %d with a world of %d",
                           job->task_number, job->world);
    } else {
        status =
            evaluation_start(&slot->evaluation, slot->agent->options.settings, &evaluation, &err);
    }
    if (status != OK) {
        report_trouble(slot, &err);
    }
}

/* ---- leases ---- */

static struct slot *find_slot(struct agent *agent)
{
    for (int i = 0; i < agent->options.slots; i++) {
        if (agent->slots[i].state == SLOT_FREE) {
            return &agent->slots[i];
        }
    }
    return NULL;
}

static bool is_empty(const struct agent *agent)
{
    for (int i = 0; i < agent->options.slots; i++) {
        if (agent->slots[i].state != SLOT_FREE) {
            return false;
        }
    }
    return true;
}

static void step(struct agent *agent);

static void give_up(struct agent *agent, const struct api_reply *reply)
{
    agent->fatal = reply->status;
    agent->fatal_error = reply->error;
    loop_stop();
}

/* What a request for work failed of: true if it is of no use to go on. */
static bool is_refused(const struct api_reply *reply)
{
    return reply->status == ERR_UNAUTHENTICATED || reply->status == ERR_DENIED ||
           reply->status == ERR_INVALID;
}

static void on_hello(void *context, const struct api_reply *reply)
{
    struct agent *agent = context;

    agent->request = NULL;
    if (reply->status == OK) {
        agent->is_known = true;
        agent->backoff_ms = 0;
        log_event(LOG_INFO, "worker.known", "name=%s server=%s", agent->options.name,
                  agent->options.server);
        step(agent);
    } else if (is_refused(reply)) {
        give_up(agent, reply);
    } else {
        log_event(LOG_WARN, "hello.failed", "error=%s", reply->error.message);
        agent->next_ms = back_off(&agent->backoff_ms);
    }
}

static void send_hello(struct agent *agent)
{
    struct device_offer device = {agent->options.device,
                                  agent->options.gpus * agent->options.slots};
    struct worker_hello hello = {.devices = &device, .device_count = 1, .version = WORKER_VERSION};
    struct buffer body = {0};

    (void)snprintf(hello.name, sizeof hello.name, "%s", agent->options.name);
    worker_hello_write(&hello, &body);
    agent->request = post(agent, "/v1/workers", &body, CALL_MS, on_hello, agent);
    buffer_release(&body);
}

static void take_grant(struct agent *agent, const struct api_reply *reply)
{
    struct slot *slot = find_slot(agent);
    struct error err = {0};

    assert(slot != NULL);
    if (lease_grant_read(&slot->grant, reply->body, reply->body_bytes, &err) != OK) {
        log_event(LOG_ERROR, "lease.malformed", "%s: %s", err.field, err.message);
        agent->next_ms = back_off(&agent->backoff_ms);
        return;
    }
    agent->backoff_ms = 0;
    start_job(slot);
}

static void on_lease(void *context, const struct api_reply *reply)
{
    struct agent *agent = context;

    agent->request = NULL;
    if (reply->status == OK) {
        if (reply->http_status == 200) {
            take_grant(agent, reply);
        }
        step(agent);
    } else if (reply->status == ERR_NOT_FOUND) {
        agent->is_known = false;
        agent->next_ms = back_off(&agent->backoff_ms);
    } else if (is_refused(reply)) {
        give_up(agent, reply);
    } else {
        log_event(LOG_WARN, "lease.failed", "error=%s", reply->error.message);
        agent->next_ms = back_off(&agent->backoff_ms);
    }
}

static void send_lease(struct agent *agent)
{
    struct lease_request request = {
        .kinds = 1U << agent->options.device, .gpus = agent->options.gpus, .wait_s = LEASE_WAIT_S};
    struct buffer path = {0};
    struct buffer body = {0};

    buffer_printf(&path, "/v1/workers/");
    api_path_append(&path, agent->options.name);
    buffer_printf(&path, "/lease");
    lease_request_write(&request, &body);
    agent->request = post(agent, path.data, &body, LEASE_WAIT_S * 1000 + CALL_MS, on_lease, agent);
    buffer_release(&path);
    buffer_release(&body);
}

/* Whatever is due next with the server. */
static void step(struct agent *agent)
{
    if (agent->is_draining) {
        if (is_empty(agent)) {
            loop_stop();
        }
        return;
    }
    if (agent->request != NULL || clock_monotonic_ms() < agent->next_ms) {
        return;
    }
    if (!agent->is_known) {
        send_hello(agent);
    } else if (find_slot(agent) != NULL) {
        send_lease(agent);
    }
}

static void step_slot(struct slot *slot, int64_t now_ms)
{
    if (slot->state == SLOT_FREE || slot->state == SLOT_ABANDONING) {
        return;
    }
    /* A result that is there already is kept: only the server can say that it comes too late. */
    if (slot->state == SLOT_EVALUATING && now_ms - slot->renewed_ms >= slot->ttl_ms * 2 / 3) {
        abandon(slot, "not_renewed");
        return;
    }
    enum job_stage stage =
        slot->evaluation == NULL ? slot->told_stage : evaluation_stage(slot->evaluation);
    if (slot->heartbeat == NULL && (now_ms >= slot->heartbeat_at_ms || stage != slot->told_stage)) {
        slot->told_stage = stage;
        send_heartbeat(slot);
    }
    if (slot->state == SLOT_REPORTING && slot->reporting == NULL && now_ms >= slot->report_at_ms) {
        send_report(slot);
    }
}

static void on_tick(void *context)
{
    struct agent *agent = context;

    for (int i = 0; i < agent->options.slots; i++) {
        step_slot(&agent->slots[i], clock_monotonic_ms());
    }
    step(agent);
}

/* The first signal: no new jobs, the running ones end. The second: at once. */
static void on_signal(void *context)
{
    struct agent *agent = context;

    if (agent->is_draining) {
        log_event(LOG_WARN, "worker.stopped", "jobs are given up");
        loop_stop();
        return;
    }
    log_event(LOG_INFO, "worker.draining", "name=%s", agent->options.name);
    agent->is_draining = true;
    if (agent->request != NULL) {
        api_cancel(agent->request);
        agent->request = NULL;
    }
    step(agent);
}

static void release(struct agent *agent)
{
    loop_timer_close(agent->tick);
    for (int i = 0; i < agent->options.slots; i++) {
        if (agent->slots[i].state != SLOT_FREE && agent->slots[i].evaluation == NULL) {
            free_slot(&agent->slots[i]);
        }
    }
    connection_close(agent->connection);
    free(agent);
}

enum status agent_run(const struct agent_options *options, struct error *err)
{
    struct agent *agent = xcalloc(1, sizeof *agent);

    agent->options = *options;
    for (int i = 0; i < options->slots; i++) {
        agent->slots[i].agent = agent;
    }
    enum status status = connection_open(&agent->connection, options->server, options->token, err);
    if (status != OK) {
        free(agent);
        return status;
    }
    struct loop_signal *terminated = loop_signal_open(SIGTERM, on_signal, agent);
    struct loop_signal *interrupted = loop_signal_open(SIGINT, on_signal, agent);
    agent->tick = loop_timer_open(0, TICK_MS, on_tick, agent);
    loop_run();
    loop_signal_close(terminated);
    loop_signal_close(interrupted);
    if (agent->fatal != OK) {
        *err = agent->fatal_error;
        status = agent->fatal;
    }
    release(agent);
    return status;
}
