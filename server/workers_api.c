#include "server/workers_api.h"

#include "common/log.h"
#include "common/mem.h"
#include "server/polls.h"
#include "server/service.h"
#include "server/workers.h"

#include <stdio.h>
#include <stdlib.h>

enum status workers_post(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct worker_hello hello = {0};
    struct worker_welcome welcome = {.ttl_ms = service->options.ttl_ms};
    enum status status =
        worker_hello_read(&hello, call->http->body.data, call->http->body.size_bytes, err);

    if (status == OK) {
        status = call_check_node(call, "name", hello.name, err);
    }
    if (status == OK) {
        status = worker_put(service->writer, &hello, service->now.wall_ms, err);
    }
    if (status == OK) {
        (void)snprintf(welcome.worker, sizeof welcome.worker, "%s", hello.name);
        worker_welcome_write(&welcome, &call->http->answer);
        call_answer_json(call, 200);
        log_event(LOG_INFO, "worker.registered", "worker=%s version=%s", hello.name, hello.version);
    }
    worker_hello_release(&hello);
    return status;
}

enum status workers_lease(struct call *call, struct error *err)
{
    struct service *service = call->service;
    enum status status =
        lease_request_read(&call->wish, call->http->body.data, call->http->body.size_bytes, err);

    if (status == OK) {
        status = call_check_node(call, "name", call->id, err);
    }
    if (status == OK) {
        status = worker_check(service->writer, call->id, err);
    }
    if (status != OK) {
        return status;
    }
    /* Who has waited longer comes first: then this one waits too, for the end of this turn. */
    if (service->leases.first == NULL || call->wish.wait_s == 0) {
        status = poll_grant(call, err);
    } else {
        status = ERR_NOT_FOUND;
    }
    if (status != ERR_NOT_FOUND) {
        return status;
    }
    if (call->wish.wait_s == 0) {
        call_answer_empty(call, 204);
    } else {
        poll_lease(call, call->wish.wait_s);
    }
    return OK;
}

/* A worker says how fit it is; an admin decides. */
enum status workers_state(struct call *call, struct error *err)
{
    struct service *service = call->service;
    struct worker_order order = {0};
    struct worker worker = {0};
    struct worker_change change = {.order = &order,
                                   .by = call->token.name,
                                   .is_own = call->token.role == ROLE_WORKER,
                                   .now_ms = service->now.wall_ms};
    enum status status =
        worker_order_read(&order, call->http->body.data, call->http->body.size_bytes, err);

    if (status == OK) {
        status = call_check_node(call, "name", call->id, err);
    }
    if (status == OK && order.state != WORKER_READY && order.reason[0] == 0) {
        status = error_field(err, ERR_INVALID, "reason", "say why the worker is to be %s",
                             worker_state_name(order.state));
    }
    if (status == OK) {
        status = worker_obey(service->writer, call->id, &change, err);
    }
    if (status == OK) {
        status = worker_get(service->writer, call->id, &worker, err);
    }
    if (status == OK) {
        worker_write(&worker, &call->http->answer);
        call_answer_json(call, 200);
        log_event(LOG_INFO, "worker.state", "worker=%s state=%s by=%s reason=\"%s\"", worker.name,
                  worker_state_name(worker.state), worker.state_by, worker.reason);
    }
    worker_release(&worker);
    return status;
}

enum status workers_list(struct call *call, struct error *err)
{
    struct worker *workers = xcalloc(WORKERS_LIST_MAX, sizeof *workers);
    struct buffer *answer = &call->http->answer;
    int count = 0;
    enum status status = worker_list(call->service->reader, workers, WORKERS_LIST_MAX, &count, err);

    buffer_printf(answer, "{\"workers\":[");
    for (int i = 0; i < count; i++) {
        buffer_printf(answer, "%s", i > 0 ? "," : "");
        worker_write(&workers[i], answer);
        worker_release(&workers[i]);
    }
    buffer_printf(answer, "]}");
    free(workers);
    if (status == OK) {
        call_answer_json(call, 200);
    }
    return status;
}
