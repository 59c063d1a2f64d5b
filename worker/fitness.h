/*
 * fitness.h — may this node take a job? What the gate and the driver's errors say of it.
 *
 * A node is ready while it passes the gate. One that does not is draining: it is looked at again
 * and again, and ready once it passes; after too long it is quarantined. An error of a GPU that
 * takes a reset quarantines it at once. Quarantine ends by fitness_lift, and then only through the
 * gate. Runs on the loop; the callbacks come from there.
 */
#pragma once

#include "common/lease.h"
#include "worker/gate.h"

struct fitness;

struct fitness_options {
    struct gate_options gate;
    const char *kmsg;               /* NULL: the kernel's log is not watched */
    bool has_events;                /* the driver's events are watched */
    int64_t again_ms;               /* so often a draining node is looked at */
    int64_t limit_ms;               /* so long it may drain */
    bool (*is_busy)(void *context); /* a job runs: GPUs are left alone until fitness_idle */
    void (*changed)(void *context); /* what the functions below return */
    void (*failed)(void *context);  /* a GPU failed: what runs on it is lost */
    void *context;
};

enum {
    FITNESS_AGAIN_MS = 10 * 1000,
    FITNESS_LIMIT_MS = 600 * 1000,
    FITNESS_DISK_MIB = 1024,
};

/* ERR_UNAVAILABLE: the driver's errors cannot be watched. Looks at the node for the first time. */
enum status fitness_open(struct fitness **fitness, const struct fitness_options *options,
                         struct error *err);
void fitness_close(struct fitness *fitness); /* NULL: nothing */

/* False until the first look has ended. */
bool fitness_is_known(const struct fitness *fitness);
enum worker_state fitness_state(const struct fitness *fitness);
const char *fitness_reason(const struct fitness *fitness); /* "" where it is ready */

/* How often a GPU has failed under whatever ran, and how it did last. */
int fitness_failures(const struct fitness *fitness);
const char *fitness_failure(const struct fitness *fitness);

/* Looks at the slot that a job leaves; question->done hands its answer on to fitness_conclude. */
void fitness_look(const struct fitness *fitness, const struct gate_question *question,
                  struct gate **gate);
void fitness_conclude(struct fitness *fitness, enum status status, const struct error *err);
/* No job runs any more. */
void fitness_idle(struct fitness *fitness);

/* A person says that a quarantined node is well again: it is looked at. */
void fitness_lift(struct fitness *fitness);
