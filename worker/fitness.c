#include "worker/fitness.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/driver_events.h"
#include "worker/kernel_log.h"
#include "worker/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fitness {
    struct fitness_options options;
    struct kernel_log *log;
    struct driver_events *events;
    int watches;       /* of the two */
    struct gate *gate; /* of a look of our own */
    struct loop_timer *again;
    enum worker_state state;
    char reason[REASON_MAX_BYTES];
    int64_t drained_ms; /* since when it drains */
    bool is_known;
    int failures;
    char failure[REASON_MAX_BYTES];
};

static void set_state(struct fitness *fitness, enum worker_state state, const char *reason)
{
    if (state == fitness->state && strcmp(reason, fitness->reason) == 0) {
        return;
    }
    if (state == WORKER_DRAINING && fitness->state != WORKER_DRAINING) {
        fitness->drained_ms = clock_monotonic_ms();
    }
    fitness->state = state;
    (void)snprintf(fitness->reason, sizeof fitness->reason, "%s", reason);
    log_event(state == WORKER_READY ? LOG_INFO : LOG_ERROR, "node.state", "state=%s reason=\"%s\"",
              worker_state_name(state), reason);
    if (fitness->is_known) {
        fitness->options.changed(fitness->options.context);
    }
}

/* ---- the gate ---- */

static void look(void *context);

static void look_after(struct fitness *fitness, int64_t after_ms)
{
    loop_timer_close(fitness->again);
    fitness->again = loop_timer_open(after_ms, 0, look, fitness);
}

static void drain(struct fitness *fitness, const char *reason)
{
    if (fitness->state == WORKER_QUARANTINED) {
        return;
    }
    set_state(fitness, WORKER_DRAINING, reason);
    if (clock_monotonic_ms() - fitness->drained_ms >= fitness->options.limit_ms) {
        set_state(fitness, WORKER_QUARANTINED, reason);
    } else {
        look_after(fitness, fitness->options.again_ms);
    }
}

static void on_looked(void *context, enum status status, const struct error *err)
{
    struct fitness *fitness = context;
    bool was_known = fitness->is_known;

    gate_close(fitness->gate);
    fitness->gate = NULL;
    fitness->is_known = true;
    if (status != OK) {
        drain(fitness, err->message);
    } else if (fitness->state == WORKER_DRAINING) {
        set_state(fitness, WORKER_READY, "");
    }
    if (!was_known) {
        fitness->options.changed(fitness->options.context);
    }
}

/* A job that is timed has the GPUs alone. */
static void look(void *context)
{
    struct fitness *fitness = context;
    struct gate_question question = {.has_gpus = true, .done = on_looked, .context = fitness};

    if (fitness->gate != NULL) {
        return;
    }
    if (fitness->options.gate.device != DEVICE_SIM &&
        fitness->options.is_busy(fitness->options.context)) {
        look_after(fitness, fitness->options.again_ms);
    } else {
        gate_open(&fitness->gate, &fitness->options.gate, &question);
    }
}

void fitness_look(const struct fitness *fitness, const struct gate_question *question,
                  struct gate **gate)
{
    gate_open(gate, &fitness->options.gate, question);
}

void fitness_conclude(struct fitness *fitness, enum status status, const struct error *err)
{
    if (status != OK) {
        drain(fitness, err->message);
    }
}

void fitness_idle(struct fitness *fitness)
{
    if (fitness->state == WORKER_DRAINING && fitness->gate == NULL) {
        look_after(fitness, 0);
    }
}

void fitness_lift(struct fitness *fitness)
{
    if (fitness->state == WORKER_QUARANTINED) {
        set_state(fitness, WORKER_DRAINING, "it is looked at again");
        look_after(fitness, 0);
    }
}

/* ---- the driver's errors ---- */

static bool is_ours(const struct fitness *fitness, const struct pci_address *gpu)
{
    const struct devices *devices = fitness->options.gate.first;

    for (int i = 0; i < devices->gpu_count; i++) {
        if (pci_address_equals(&devices->gpu[i].pci, gpu)) {
            return true;
        }
    }
    return devices->gpu_count == 0; /* nothing is known about the GPUs */
}

static void on_xid(void *context, const struct xid *xid)
{
    struct fitness *fitness = context;
    const struct xid_cause *cause = xid_cause(xid->number);
    char gpu[PCI_TEXT_MAX];
    char reason[REASON_MAX_BYTES];

    if (!is_ours(fitness, &xid->gpu)) {
        return;
    }
    pci_address_write(&xid->gpu, gpu);
    (void)snprintf(reason, sizeof reason, "Xid %d of GPU %s: %s", xid->number, gpu, cause->text);
    log_event(cause->action == XID_CONTINUE ? LOG_INFO : LOG_ERROR, "node.xid",
              "gpu=%s xid=%d fault=%s action=%s cause=\"%s\"", gpu, xid->number,
              xid_fault_name(cause->fault), xid_action_name(cause->action), cause->text);
    bool is_failure = cause->action == XID_RETRY || cause->action == XID_RESET;
    if (is_failure) {
        fitness->failures++;
        (void)snprintf(fitness->failure, sizeof fitness->failure, "%s", reason);
    }
    if (cause->action == XID_FINISH || cause->action == XID_RESET) {
        set_state(fitness, WORKER_QUARANTINED, reason);
    }
    if (cause->action == XID_RETRY) {
        drain(fitness, reason);
        look(fitness);
    }
    if (is_failure) {
        fitness->options.failed(fitness->options.context);
    }
}

/* Of two that tell of errors, one is enough. */
static void lose_watch(struct fitness *fitness)
{
    if (--fitness->watches == 0) {
        set_state(fitness, WORKER_QUARANTINED, "the driver's errors cannot be seen any more");
    }
}

static void on_lost_records(void *context, bool has_ended)
{
    struct fitness *fitness = context;

    if (has_ended) {
        lose_watch(fitness);
    }
    look(fitness);
}

static void on_lost_events(void *context)
{
    lose_watch(context);
    look(context);
}

static enum status watch_errors(struct fitness *fitness, struct error *err)
{
    struct kernel_log_options log = {.path = fitness->options.kmsg,
                                     .found = on_xid,
                                     .lost = on_lost_records,
                                     .context = fitness};
    struct driver_events_options events = {.node = fitness->options.gate.node,
                                           .found = on_xid,
                                           .lost = on_lost_events,
                                           .context = fitness};
    enum status status = OK;

    if (fitness->options.kmsg != NULL) {
        status = kernel_log_open(&fitness->log, &log, err);
    }
    fitness->watches = status == OK && fitness->log != NULL ? 1 : 0;
    if (status == OK && fitness->options.has_events) {
        status = driver_events_open(&fitness->events, &events, err);
        if (status != OK && fitness->log != NULL) {
            log_event(LOG_WARN, "driver_events.missing", "error=\"%s\"", err->message);
            return OK;
        }
        fitness->watches++;
    }
    return status;
}

enum status fitness_open(struct fitness **fitness, const struct fitness_options *options,
                         struct error *err)
{
    struct fitness *opened = xcalloc(1, sizeof *opened);

    opened->options = *options;
    enum status status = watch_errors(opened, err);
    if (status != OK) {
        fitness_close(opened);
        return status;
    }
    look(opened);
    *fitness = opened;
    return OK;
}

void fitness_close(struct fitness *fitness)
{
    if (fitness == NULL) {
        return;
    }
    loop_timer_close(fitness->again);
    gate_close(fitness->gate);
    driver_events_close(fitness->events);
    kernel_log_close(fitness->log);
    free(fitness);
}

bool fitness_is_known(const struct fitness *fitness)
{
    return fitness->is_known;
}

enum worker_state fitness_state(const struct fitness *fitness)
{
    return fitness->state;
}

const char *fitness_reason(const struct fitness *fitness)
{
    return fitness->reason;
}

int fitness_failures(const struct fitness *fitness)
{
    return fitness->failures;
}

const char *fitness_failure(const struct fitness *fitness)
{
    return fitness->failure;
}
