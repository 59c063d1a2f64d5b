#include "server/service.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "server/polls.h"
#include "server/routes.h"
#include "server/task_rows.h"
#include "server/turn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SWEEP_EVERY_MS = 5000, STOP_MAX_MS = 3000 };

static void on_begin(void *context, struct http_request *http)
{
    struct service *service = context;
    struct error err = {0};
    char allow[64];
    struct call *call = xcalloc(1, sizeof *call);

    call->service = service;
    call->http = http;
    http->owner = call;
    enum status status = route_find(call, allow, sizeof allow, &err);
    if (status == ERR_INVALID) {
        http_refuse_method(http, allow);
        return;
    }
    if (status == OK) {
        status = route_check(call, service->now.wall_ms, service->reader, &err);
    }
    if (status != OK) {
        turn_answer(call, status, &err);
    }
}

static void on_part(void *context, struct http_request *http)
{
    struct service *service = context;

    call_list_append(&service->writes, http->owner);
}

static void on_complete(void *context, struct http_request *http)
{
    struct service *service = context;
    struct call *call = http->owner;
    struct error err = {0};

    if (call->route->body != BODY_NONE) {
        if (call->route->body == BODY_EMPTY && http->body.size_bytes > 0) {
            turn_answer(call, error_set(&err, ERR_INVALID, "no body is expected here"), &err);
            return;
        }
        call_list_append(&service->writes, call);
        return;
    }
    enum status status = call->route->handle(call, &err);
    if (status != OK || call->http_status != 0) {
        turn_answer(call, status, &err);
    }
}

static void on_end(void *context, struct http_request *http)
{
    struct call *call = http->owner;

    (void)context;
    if (call != NULL) {
        call_list_remove(call);
        free(call);
    }
}

static void read_clocks(struct service *service)
{
    service->now.boot_ms = clock_boot_ms();
    service->now.wall_ms = clock_wall_ms();
}

/* Long polls cannot be answered by a stopping server later, so they all end now. */
static void stop(struct service *service)
{
    log_event(LOG_INFO, "server.stopping", "port=%d", http_port(service->http));
    service->is_stopping = true;
    http_stop(service->http);
}

/* What came, what is due, and what follows from it. */
static void run_turn(struct service *service)
{
    read_clocks(service);
    http_run(service->http);
    read_clocks(service);
    turn_run(service);
    polls_end(service);
}

static int64_t earlier(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

static int poll_timeout_ms(struct service *service)
{
    int64_t now_ms = clock_boot_ms();
    int64_t next_ms = earlier(polls_next_ms(service), now_ms + SWEEP_EVERY_MS);
    int64_t http_ms = http_timeout_ms(service->http);

    if (http_has_resumed(service->http) || service->writes.first != NULL) {
        return 0;
    }
    if (service->queue == NULL) {
        next_ms = earlier(next_ms, service->reopen_ms);
    } else {
        next_ms = earlier(next_ms, queue_expires_ms(service->queue));
    }
    int64_t timeout_ms = next_ms > now_ms ? next_ms - now_ms : 0;
    if (http_ms >= 0) {
        timeout_ms = earlier(timeout_ms, http_ms);
    }
    return (int)timeout_ms;
}

static enum status loop(struct service *service, int signals, struct error *err)
{
    int64_t sweep_ms = 0;
    int64_t give_up_ms = INT64_MAX;
    struct signalfd_siginfo signal = {0};
    struct pollfd fds[] = {{.fd = http_fd(service->http), .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};

    while (!service->is_stopping ||
           (http_request_count(service->http) > 0 && clock_monotonic_ms() < give_up_ms)) {
        if (poll(fds, 2, poll_timeout_ms(service)) < 0 && errno != EINTR) {
            return error_set(err, ERR_IO, "cannot poll: %m");
        }
        if (fds[1].revents != 0 && read(signals, &signal, sizeof signal) == sizeof signal &&
            !service->is_stopping) {
            give_up_ms = clock_monotonic_ms() + STOP_MAX_MS;
            stop(service);
        }
        run_turn(service);
        if (clock_monotonic_ms() >= sweep_ms) {
            http_sweep(service->http, clock_monotonic_ms());
            sweep_ms = clock_monotonic_ms() + SWEEP_EVERY_MS;
        }
    }
    /* A last turn for what came since; nothing is kept any more. */
    run_turn(service);
    return OK;
}

static enum status open_signals(int *signals, struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of a write */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
        (*signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)) < 0) {
        return error_set(err, ERR_IO, "cannot watch signals: %m");
    }
    return OK;
}

/* Two servers on one database would both lease its jobs. The lock is on a file of its own, since
 * closing the database's would drop SQLite's locks. */
static enum status lock_database(const char *path, int *lock, struct error *err)
{
    char *lock_path = xasprintf("%s-server", path);
    int fd = open(lock_path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    enum status status = OK;

    if (fd < 0) {
        status = error_set(err, ERR_IO, "cannot open '%s': %m", lock_path);
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        status = error_set(err, ERR_CONFLICT, "another pkb-server runs on '%s'", path);
        close(fd);
    } else {
        *lock = fd;
    }
    free(lock_path);
    return status;
}

/* Written elsewhere and renamed, so that who waits for the file never reads half of it; a pipe that
 * somebody reads is written to. */
static enum status write_port(const char *path, int port, struct error *err)
{
    struct stat found = {0};
    bool is_pipe = stat(path, &found) == 0 && S_ISFIFO(found.st_mode);
    char *new_path = xasprintf("%s%s", path, is_pipe ? "" : ".new");
    FILE *file = fopen(new_path, "we");
    enum status status = OK;

    if (file == NULL || fprintf(file, "%d\n", port) < 0) {
        status = error_set(err, ERR_IO, "cannot write '%s': %m", new_path);
    }
    if (file != NULL && fclose(file) != 0 && status == OK) {
        status = error_set(err, ERR_IO, "cannot write '%s': %m", new_path);
    }
    if (status == OK && !is_pipe && rename(new_path, path) != 0) {
        status = error_set(err, ERR_IO, "cannot rename '%s': %m", new_path);
    }
    free(new_path);
    return status;
}

enum status service_run(const struct service_options *options, struct error *err)
{
    struct service *service = xcalloc(1, sizeof *service);
    struct http_hooks hooks = {service, route_body_max, on_begin, on_part, on_complete, on_end};
    int lock = -1;
    int signals = -1;
    enum status status = OK;

    service->options = *options;
    service->ends_ms = INT64_MAX;
    service->positions_ms = INT64_MAX;
    read_clocks(service);
    status = open_signals(&signals, err);
    if (status == OK) {
        status = lock_database(options->database, &lock, err);
    }
    if (status == OK) {
        status = turn_open(service, err);
    }
    if (status == OK) {
        status = task_rows_store(service->writer, err);
    }
    if (status == OK) {
        status = db_open(&service->reader, options->database, DB_READ, err);
    }
    if (status == OK) {
        status = http_open(&service->http, options->listen, &hooks, err);
    }
    if (status == OK && options->port_file != NULL) {
        status = write_port(options->port_file, http_port(service->http), err);
    }
    if (status == OK) {
        log_event(LOG_INFO, "server.started", "port=%d database=%s", http_port(service->http),
                  options->database);
        status = loop(service, signals, err);
    }

    http_close(service->http);
    db_close(service->reader);
    queue_close(service->queue);
    db_close(service->writer);
    if (lock >= 0) {
        close(lock);
    }
    if (signals >= 0) {
        close(signals);
    }
    free(service);
    return status;
}
