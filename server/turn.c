#include "server/turn.h"

#include "common/log.h"
#include "server/polls.h"
#include "server/replies.h"
#include "server/routes.h"

enum { REOPEN_EVERY_MS = 1000 };

void turn_answer(struct call *call, enum status status, const struct error *err)
{
    if (status == OK) {
        call->http->location = call->location[0] != 0 ? call->location : NULL;
        http_answer(call->http, call->http_status, call->content_type);
        return;
    }
    if (status >= ERR_IO) {
        log_event(LOG_ERROR, "call.failed", "method=%s path=%s error=\"%s\"", call->http->method,
                  call->http->path, err->message);
    }
    http_refuse(call->http, err);
}

enum status turn_open(struct service *service, struct error *err)
{
    struct db *db = NULL;
    struct queue *queue = NULL;
    enum status status = db_open(&db, service->options.database, DB_WRITE, err);

    if (status == OK) {
        status = queue_open(&queue, db, service->options.ttl_ms, service->now, err);
    }
    if (status != OK) {
        db_close(db);
        return status;
    }
    queue_close(service->queue);
    db_close(service->writer);
    service->writer = db;
    service->queue = queue;
    return OK;
}

/* After a failed COMMIT: what we know of the database may be wrong. */
static void reopen(struct service *service)
{
    struct error err = {0};

    queue_close(service->queue);
    db_close(service->writer);
    service->queue = NULL;
    service->writer = NULL;
    if (turn_open(service, &err) == OK) {
        log_event(LOG_WARN, "db.reopened", "path=%s", service->options.database);
        return;
    }
    service->reopen_ms = service->now.boot_ms + REOPEN_EVERY_MS;
    log_event(LOG_ERROR, "db.reopen_failed", "path=%s error=\"%s\"", service->options.database,
              err.message);
}

/* Has a call handled, or answers it as when it was handled before. */
static enum status handle_once(struct call *call, struct error *err)
{
    enum status status = reply_find(call, err);

    if (status != OK || call->http_status != 0) {
        return status;
    }
    status = call->route->handle(call, err);
    return status == OK && call->http_status != 0 ? reply_keep(call, err) : status;
}

/* Runs one write in its savepoint. On a problem of its own the call is answered and its changes are
 * undone; what is returned is a problem of the whole turn. */
static enum status run_write(struct service *service, struct call *call, struct call_list *done,
                             struct error *err)
{
    struct error refusal = {0};
    enum status status = db_savepoint(service->writer, err);

    if (status != OK) {
        call_list_append(done, call);
        return status;
    }
    call->has_more = false;
    status = handle_once(call, &refusal);
    if (status == OK) {
        if (call->list == NULL) { /* it does not wait for something else */
            call_list_append(done, call);
        }
        return db_savepoint_keep(service->writer, err);
    }
    turn_answer(call, status, &refusal);
    return db_savepoint_undo(service->writer, err);
}

static enum status run_all(struct service *service, struct call_list *done, struct error *err)
{
    enum status status = db_begin(service->writer, err);

    while (status == OK && service->writes.first != NULL) {
        struct call *call = service->writes.first;
        call_list_remove(call);
        status = run_write(service, call, done, err);
    }
    if (status == OK) {
        status = queue_expire(service->queue, service->now, err);
    }
    if (status == OK) {
        status = polls_grant(service, done, err);
    }
    if (status == OK) {
        status = db_commit(service->writer, err);
    }
    return status;
}

static void refuse_all(struct call_list *list, const char *why)
{
    struct error err = {0};

    error_set(&err, ERR_UNAVAILABLE, "%s", why);
    while (list->first != NULL) {
        struct call *call = list->first;
        call_list_remove(call);
        http_refuse(call->http, &err);
    }
}

/* After the COMMIT: answers a call, or has the next part of it come. */
static void end_write(struct service *service, struct call *call)
{
    struct error err = {0};

    if (call->http_status != 0) {
        turn_answer(call, OK, &err);
    } else if (service->is_stopping) {
        turn_answer(call, error_set(&err, ERR_UNAVAILABLE, "the server stops"), &err);
    } else if (call->has_more) {
        call_list_append(&service->writes, call);
    } else {
        http_continue(call->http);
    }
}

void turn_run(struct service *service)
{
    struct call_list done = {0};
    struct error err = {0};

    if (service->writer == NULL && service->now.boot_ms >= service->reopen_ms) {
        reopen(service);
    }
    if (service->writer == NULL) {
        refuse_all(&service->writes, "the database cannot be written to at the moment");
        return;
    }
    if (service->writes.first == NULL && queue_expires_ms(service->queue) > service->now.boot_ms) {
        return;
    }
    if (run_all(service, &done, &err) != OK) {
        log_event(LOG_ERROR, "turn.failed", "error=\"%s\"", err.message);
        refuse_all(&done, "whether this was stored is not known: look before you repeat it");
        refuse_all(&service->writes, "the database cannot be written to at the moment");
        reopen(service);
        return;
    }
    while (done.first != NULL) {
        struct call *call = done.first;
        call_list_remove(call);
        end_write(service, call);
    }
    polls_notify(service);
}
