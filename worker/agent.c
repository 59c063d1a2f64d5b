#include "worker/agent.h"

#include "common/lease.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/connection.h"
#include "worker/leased.h"
#include "worker/loop.h"
#include "worker/pace.h"
#include "worker/schedules.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 100, CALL_MS = 10000, FAREWELL_MS = 2000, LEASE_WAIT_S = 25, LIFTED_MS = 5000 };

struct slot {
    struct agent *agent;
    struct leased *leased; /* NULL: it is free */
};

struct agent {
    struct agent_options options;
    struct connection *connection;
    struct fitness *fitness;
    struct loop_timer *tick;
    struct slot slots[SLOTS_MAX];
    struct api_request *request; /* hello or lease */
    struct api_request *telling; /* how fit the node is */
    struct worker_order told;    /* as the server knows it */
    struct worker_order telling_what;
    bool is_known, is_draining, is_held;
    int64_t next_ms, backoff_ms; /* of requests */
    int64_t tell_ms, tell_backoff_ms;
    enum status fatal;
    struct error fatal_error;
};

static struct api_request *post(struct agent *agent, const char *what, const struct buffer *body,
                                int64_t timeout_ms,
                                void (*done)(void *context, const struct api_reply *reply))
{
    struct buffer path = {0};

    buffer_printf(&path, "/v1/workers");
    if (what != NULL) {
        buffer_printf(&path, "/");
        api_path_append(&path, agent->options.name);
        buffer_printf(&path, "/%s", what);
    }
    struct api_request *request =
        connection_post(agent->connection, path.data, body, timeout_ms, done, agent);
    buffer_release(&path);
    return request;
}

static struct slot *find_slot(struct agent *agent)
{
    for (int i = 0; i < agent->options.slots; i++) {
        if (agent->slots[i].leased == NULL) {
            return &agent->slots[i];
        }
    }
    return NULL;
}

static bool is_empty(const struct agent *agent)
{
    for (int i = 0; i < agent->options.slots; i++) {
        if (agent->slots[i].leased != NULL) {
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

/* ---- who this worker is, and how fit ---- */

static void on_hello(void *context, const struct api_reply *reply)
{
    struct agent *agent = context;

    agent->request = NULL;
    if (reply->status == OK) {
        agent->is_known = true;
        agent->told = (struct worker_order){.state = WORKER_READY};
        agent->backoff_ms = 0;
        log_event(LOG_INFO, "worker.known", "name=%s server=%s", agent->options.name,
                  agent->options.server);
        step(agent);
    } else if (is_refused(reply)) {
        give_up(agent, reply);
    } else {
        log_event(LOG_WARN, "hello.failed", "error=%s", reply->error.message);
        agent->next_ms = pace_back_off(&agent->backoff_ms);
    }
}

static void send_hello(struct agent *agent)
{
    bool takes_turns = agent->options.device != DEVICE_SIM;
    struct device_offer device = {agent->options.device,
                                  agent->options.devices->ranks *
                                      (takes_turns ? 1 : agent->options.slots)};
    struct worker_hello hello = {.devices = &device, .device_count = 1, .version = WORKER_VERSION};
    struct buffer body = {0};

    (void)snprintf(hello.name, sizeof hello.name, "%s", agent->options.name);
    worker_hello_write(&hello, &body);
    agent->request = post(agent, NULL, &body, CALL_MS, on_hello);
    buffer_release(&body);
}

static struct worker_order wanted(const struct agent *agent)
{
    struct worker_order order = {.state = fitness_state(agent->fitness)};
    const char *reason = fitness_reason(agent->fitness);

    if (order.state == WORKER_READY && agent->is_draining) {
        order.state = WORKER_DRAINING;
        reason = "the worker was asked to end";
    }
    (void)snprintf(order.reason, sizeof order.reason, "%s", reason);
    return order;
}

static bool is_same(const struct worker_order *order, const struct worker_order *other)
{
    return order->state == other->state && strcmp(order->reason, other->reason) == 0;
}

static void on_told(void *context, const struct api_reply *reply)
{
    struct agent *agent = context;
    bool was_question = agent->telling_what.state == WORKER_READY;

    agent->telling = NULL;
    if (reply->status == OK || (reply->status == ERR_DENIED && was_question)) {
        agent->tell_backoff_ms = 0;
        bool is_lifted = reply->status == OK && was_question &&
                         fitness_state(agent->fitness) == WORKER_QUARANTINED;
        /* What an admin has set shows at the next request for a lease. */
        if (reply->status == OK || fitness_state(agent->fitness) != WORKER_QUARANTINED) {
            agent->told = agent->telling_what;
        }
        agent->tell_ms = clock_monotonic_ms() + (was_question ? LIFTED_MS : 0);
        if (is_lifted) {
            log_event(LOG_INFO, "worker.lifted", "name=%s", agent->options.name);
            fitness_lift(agent->fitness);
        }
        step(agent);
    } else {
        log_event(LOG_WARN, "state.failed", "error=%s", reply->error.message);
        agent->tell_ms = pace_back_off(&agent->tell_backoff_ms);
    }
}

/* Tells the server what it does not know yet; of a quarantine that it knows of, asks whether it was
 * lifted: only then may this worker call itself ready. */
static void tell(struct agent *agent)
{
    struct worker_order order = wanted(agent);
    struct buffer body = {0};

    if (!agent->is_known || agent->telling != NULL || clock_monotonic_ms() < agent->tell_ms) {
        return;
    }
    if (is_same(&order, &agent->told)) {
        if (order.state != WORKER_QUARANTINED) {
            return;
        }
        order = (struct worker_order){.state = WORKER_READY};
    }
    agent->telling_what = order;
    worker_order_write(&order, &body);
    agent->telling =
        post(agent, "state", &body, agent->is_draining ? FAREWELL_MS : CALL_MS, on_told);
    buffer_release(&body);
}

/* ---- leases ---- */

static void on_ended(void *context)
{
    struct slot *slot = context;

    leased_close(slot->leased);
    slot->leased = NULL;
    if (is_empty(slot->agent)) {
        fitness_idle(slot->agent->fitness);
    }
}

static void take_grant(struct agent *agent, const struct api_reply *reply)
{
    struct slot *slot = find_slot(agent);
    struct leased_options options = {.connection = agent->connection,
                                     .worker = agent->options.name,
                                     .settings = agent->options.settings,
                                     .fitness = agent->fitness,
                                     .ended = on_ended,
                                     .context = slot};
    struct lease_grant grant = {0};
    struct error err = {0};

    assert(slot != NULL);
    if (lease_grant_read(&grant, reply->body, reply->body_bytes, &err) != OK) {
        log_event(LOG_ERROR, "lease.malformed", "%s: %s", err.field, err.message);
        agent->next_ms = pace_back_off(&agent->backoff_ms);
        return;
    }
    agent->backoff_ms = 0;
    leased_open(&slot->leased, &options, &grant);
}

static void on_lease(void *context, const struct api_reply *reply)
{
    struct agent *agent = context;

    agent->request = NULL;
    if (reply->status == OK) {
        agent->is_held = false;
        if (reply->http_status == 200) {
            take_grant(agent, reply);
        }
        step(agent);
    } else if (reply->status == ERR_NOT_FOUND) {
        agent->is_known = false;
        agent->next_ms = pace_back_off(&agent->backoff_ms);
    } else if (reply->status == ERR_CONFLICT) {
        if (!agent->is_held) {
            log_event(LOG_WARN, "worker.held", "reason=\"%s\"", reply->error.message);
        }
        agent->is_held = true;
        agent->next_ms = pace_back_off(&agent->backoff_ms);
    } else if (is_refused(reply)) {
        give_up(agent, reply);
    } else {
        log_event(LOG_WARN, "lease.failed", "error=%s", reply->error.message);
        agent->next_ms = pace_back_off(&agent->backoff_ms);
    }
}

static void send_lease(struct agent *agent)
{
    struct lease_request request = {.kinds = 1U << agent->options.device,
                                    .gpus = agent->options.devices->ranks,
                                    .wait_s = LEASE_WAIT_S};
    struct buffer body = {0};

    lease_request_write(&request, &body);
    agent->request = post(agent, "lease", &body, LEASE_WAIT_S * 1000 + CALL_MS, on_lease);
    buffer_release(&body);
}

/* Whatever is due next with the server. */
static void step(struct agent *agent)
{
    bool is_ready = fitness_state(agent->fitness) == WORKER_READY && !agent->is_draining;

    if (agent->is_known && !is_ready && agent->request != NULL) {
        api_cancel(agent->request); /* for a lease */
        agent->request = NULL;
    }
    if (agent->is_draining && is_empty(agent) && agent->telling == NULL) {
        loop_stop();
        return;
    }
    tell(agent);
    if (agent->request != NULL || clock_monotonic_ms() < agent->next_ms || agent->is_draining ||
        !fitness_is_known(agent->fitness)) {
        return;
    }
    if (!agent->is_known) {
        send_hello(agent);
    } else if (is_ready && agent->told.state == WORKER_READY && agent->telling == NULL &&
               find_slot(agent) != NULL) {
        send_lease(agent);
    }
}

static void on_tick(void *context)
{
    struct agent *agent = context;

    for (int i = 0; i < agent->options.slots; i++) {
        if (agent->slots[i].leased != NULL) {
            leased_step(agent->slots[i].leased, clock_monotonic_ms());
        }
    }
    step(agent);
}

/* ---- the node ---- */

static bool is_busy(void *context)
{
    return !is_empty(context);
}

static void on_fitness(void *context)
{
    step(context);
}

static void on_failed(void *context)
{
    struct agent *agent = context;

    for (int i = 0; i < agent->options.slots; i++) {
        if (agent->slots[i].leased != NULL) {
            leased_fail(agent->slots[i].leased);
        }
    }
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
    agent->tell_ms = 0;
    tell(agent);
    step(agent);
}

static void release(struct agent *agent)
{
    loop_timer_close(agent->tick);
    for (int i = 0; i < agent->options.slots; i++) {
        struct leased *leased = agent->slots[i].leased;
        if (leased != NULL && leased_is_evaluated(leased)) {
            leased_close(leased);
        }
    }
    fitness_close(agent->fitness);
    connection_close(agent->connection);
    free(agent);
}

static enum status open_fitness(struct agent *agent, struct error *err)
{
    const struct agent_options *options = &agent->options;
    struct fitness_options fitness = {.gate = {.node = options->settings->node,
                                               .device = options->device,
                                               .first = options->devices,
                                               .disk_min_bytes = options->disk_min_bytes},
                                      .kmsg = options->kmsg,
                                      .has_events = options->device != DEVICE_SIM,
                                      .again_ms = FITNESS_AGAIN_MS,
                                      .limit_ms = FITNESS_LIMIT_MS,
                                      .is_busy = is_busy,
                                      .changed = on_fitness,
                                      .failed = on_failed,
                                      .context = agent};

    return fitness_open(&agent->fitness, &fitness, err);
}

enum status agent_run(const struct agent_options *options, struct error *err)
{
    struct agent *agent = xcalloc(1, sizeof *agent);

    agent->options = *options;
    for (int i = 0; i < options->slots; i++) {
        agent->slots[i].agent = agent;
    }
    enum status status = connection_open(&agent->connection, options->server, options->token, err);
    if (status == OK) {
        status = open_fitness(agent, err);
        if (status != OK) {
            connection_close(agent->connection);
        }
    }
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
