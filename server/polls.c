#include "server/polls.h"

#include "server/jobs.h"
#include "server/jobs_api.h"
#include "server/turn.h"
#include "server/workers.h"

#include <string.h>

enum { POSITIONS_EVERY_MS = 1000, ENDS_EVERY_MS = 50 };

static void keep(struct call *call, struct call_list *list, int wait_s)
{
    struct service *service = call->service;

    call->until_ms = service->now.boot_ms + (int64_t)wait_s * 1000;
    if (call->until_ms < service->ends_ms) {
        service->ends_ms = call->until_ms;
    }
    call_list_append(list, call);
}

static struct call_list *watches_of(struct service *service, const char *job_id)
{
    uint32_t hash = 2166136261;

    for (; *job_id != 0; job_id++) {
        hash = (hash ^ (unsigned char)*job_id) * 16777619;
    }
    return &service->watches[hash % WATCH_BUCKETS];
}

void poll_lease(struct call *call, int wait_s)
{
    keep(call, &call->service->leases, wait_s);
}

void poll_job(struct call *call, int wait_s)
{
    struct service *service = call->service;

    keep(call, watches_of(service, call->id), wait_s);
    if (service->positions_ms == INT64_MAX) {
        service->positions_ms = service->now.boot_ms + POSITIONS_EVERY_MS;
    }
}

enum status poll_grant(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct lease_wish wish = {
        .worker = call->id, .kinds = call->wish.kinds, .gpus = call->wish.gpus};
    struct lease_grant granted = {0};
    enum status status = queue_lease(service->queue, &wish, service->now, &granted, err);

    if (status == OK) {
        lease_grant_write(&granted, &call->http->answer);
        call_answer_json(call, 200);
        lease_grant_release(&granted);
    }
    return status;
}

/* Tries to grant a job to a call that waits; *fits is false if there is none for it. */
static enum status try_grant(struct call *call, struct call_list *done, bool *fits,
                             struct error *err)
{
    struct db *db = call->service->writer;
    struct error refusal = {0};
    enum status status = db_savepoint(db, err);

    if (status != OK) {
        return status;
    }
    status = poll_grant(call, &refusal);
    *fits = status != ERR_NOT_FOUND;
    if (!*fits) {
        return db_savepoint_keep(db, err);
    }
    call_list_remove(call);
    if (status == OK) {
        call_list_append(done, call);
        return db_savepoint_keep(db, err);
    }
    turn_answer(call, status, &refusal);
    return db_savepoint_undo(db, err);
}

enum status polls_grant(struct service *service, struct call_list *done, struct error *err)
{
    const struct call *without = NULL; /* the last one that no job fits */
    struct call *next = NULL;

    for (struct call *call = service->leases.first; call != NULL; call = next) {
        struct error refusal = {0};
        bool fits = true;
        next = call->next;
        if (without != NULL && call->wish.kinds == without->wish.kinds &&
            call->wish.gpus <= without->wish.gpus) {
            continue;
        }
        if (!http_client_is_there(call->http)) {
            call_list_remove(call);
            call_answer_empty(call, 204);
            turn_answer(call, OK, err);
            continue;
        }
        enum status status = worker_check(service->writer, call->id, &refusal);
        if (status != OK) {
            call_list_remove(call);
            turn_answer(call, status, &refusal);
            continue;
        }
        status = try_grant(call, done, &fits, err);
        if (status != OK) {
            return status;
        }
        without = fits ? without : call;
    }
    return OK;
}

/* Answers a watching call if its job has changed, or in any case. */
static void look(struct call *call, bool in_any_case)
{
    struct error err = {0};
    enum status status = jobs_look(call, in_any_case, &err);

    if (status != OK || call->http_status != 0) {
        call_list_remove(call);
        turn_answer(call, status, &err);
    }
}

void polls_notify(struct service *service)
{
    char job_id[ID_MAX];
    struct call *next = NULL;

    while (queue_take_change(service->queue, job_id)) {
        for (struct call *call = watches_of(service, job_id)->first; call != NULL; call = next) {
            next = call->next;
            if (strcmp(call->id, job_id) == 0) {
                look(call, false);
            }
        }
    }
}

static void end_leases(struct service *service, int64_t *ends_ms)
{
    struct error err = {0};
    struct call *next = NULL;

    for (struct call *call = service->leases.first; call != NULL; call = next) {
        next = call->next;
        if (call->until_ms > service->now.boot_ms && !service->is_stopping) {
            *ends_ms = call->until_ms < *ends_ms ? call->until_ms : *ends_ms;
            continue;
        }
        call_list_remove(call);
        call_answer_empty(call, 204);
        turn_answer(call, OK, &err);
    }
}

/* Looks at all watches; those of queued jobs may have another place now. */
static void end_watches(struct service *service, bool look_at_positions, int64_t *ends_ms)
{
    struct call *next = NULL;

    service->positions_ms = INT64_MAX;
    for (int i = 0; i < WATCH_BUCKETS; i++) {
        for (struct call *call = service->watches[i].first; call != NULL; call = next) {
            bool has_ended = call->until_ms <= service->now.boot_ms || service->is_stopping;
            next = call->next;
            if (has_ended || (look_at_positions && call->since[0] != 0)) {
                look(call, has_ended);
            }
            if (call->list != NULL) {
                *ends_ms = call->until_ms < *ends_ms ? call->until_ms : *ends_ms;
                service->positions_ms = service->now.boot_ms + POSITIONS_EVERY_MS;
            }
        }
    }
}

void polls_end(struct service *service)
{
    bool look_at_positions = service->positions_ms <= service->now.boot_ms;
    int64_t ends_ms = INT64_MAX;

    if (service->ends_ms > service->now.boot_ms && !look_at_positions && !service->is_stopping) {
        return;
    }
    end_leases(service, &ends_ms);
    end_watches(service, look_at_positions, &ends_ms);
    if (ends_ms != INT64_MAX && ends_ms < service->now.boot_ms + ENDS_EVERY_MS) {
        ends_ms = service->now.boot_ms + ENDS_EVERY_MS;
    }
    service->ends_ms = ends_ms;
}

int64_t polls_next_ms(const struct service *service)
{
    return service->ends_ms < service->positions_ms ? service->ends_ms : service->positions_ms;
}
