#include "worker/driver_events.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/judge_call.h"
#include "worker/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_LINE_MS = 20000, LINE_MAX_BYTES = 512 };

struct driver_events {
    struct driver_events_options options;
    pid_t pid;
    int fd; /* -1: the child has ended */
    struct loop_watch *watch;
    char line[LINE_MAX_BYTES];
    size_t used;
};

/* "xid 0000:1b:00 79" */
static void take_line(struct driver_events *events, const char *line)
{
    static const char word[] = "xid ";
    struct xid xid = {0};
    const char *at = line + strlen(word);
    char *end = NULL;

    if (strncmp(line, word, strlen(word)) != 0 || !pci_address_read(&xid.gpu, at, &at) ||
        *at != ' ') {
        log_event(LOG_WARN, "driver_events.said", "line=\"%s\"", line);
        return;
    }
    long number = strtol(at, &end, 10);
    if (*end == 0 && number > 0 && number <= XID_MAX) {
        xid.number = (int)number;
        events->options.found(events->options.context, &xid);
    }
}

/* One line, if there is a whole one. */
static bool next_line(struct driver_events *events, char line[static LINE_MAX_BYTES])
{
    char *end = memchr(events->line, '\n', events->used);

    if (end == NULL) {
        events->used = events->used == sizeof events->line ? 0 : events->used;
        return false;
    }
    size_t length = (size_t)(end - events->line);
    memcpy(line, events->line, length);
    line[length] = 0;
    events->used -= length + 1;
    memmove(events->line, end + 1, events->used);
    return true;
}

/* False: the child has closed its end. */
static bool read_more(struct driver_events *events)
{
    ssize_t size = 0;

    do {
        size = read(events->fd, events->line + events->used, sizeof events->line - events->used);
    } while (size < 0 && errno == EINTR);
    events->used += size > 0 ? (size_t)size : 0;
    return size > 0 || (size < 0 && errno == EAGAIN);
}

/* A child that hangs in the driver cannot be waited for. */
static void end_child(struct driver_events *events)
{
    loop_watch_close(events->watch);
    events->watch = NULL;
    if (events->fd >= 0) {
        (void)kill(events->pid, SIGKILL);
        (void)waitpid(events->pid, NULL, WNOHANG);
        close(events->fd);
        events->fd = -1;
    }
}

static void on_ready(void *context, unsigned ready)
{
    struct driver_events *events = context;
    char line[LINE_MAX_BYTES];

    (void)ready;
    bool is_open = read_more(events);
    while (next_line(events, line)) {
        take_line(events, line);
    }
    if (!is_open) {
        log_event(LOG_ERROR, "driver_events.ended", "%s", "");
        end_child(events);
        events->options.lost(events->options.context);
    }
}

/* "watching N", or why it does not. */
static enum status await_first_line(struct driver_events *events, struct error *err)
{
    int64_t until_ms = clock_monotonic_ms() + FIRST_LINE_MS;
    char line[LINE_MAX_BYTES];

    while (!next_line(events, line)) {
        struct pollfd watched = {.fd = events->fd, .events = POLLIN};
        int64_t left_ms = until_ms - clock_monotonic_ms();
        if (left_ms <= 0 || poll(&watched, 1, (int)left_ms) == 0) {
            return error_set(err, ERR_UNAVAILABLE, "the driver does not answer within %d s",
                             FIRST_LINE_MS / 1000);
        }
        if (!read_more(events)) {
            return error_set(err, ERR_UNAVAILABLE, "pkb-judge --xids ended without a word");
        }
    }
    if (strncmp(line, "watching ", strlen("watching ")) != 0) {
        return error_set(err, ERR_UNAVAILABLE, "%s", line);
    }
    return OK;
}

enum status driver_events_open(struct driver_events **events,
                               const struct driver_events_options *options, struct error *err)
{
    struct driver_events *opened = xcalloc(1, sizeof *opened);

    opened->options = *options;
    enum status status = judge_call(options->node, "--xids", NULL, &opened->pid, &opened->fd, err);
    if (status != OK) {
        free(opened);
        return status;
    }
    status = await_first_line(opened, err);
    if (status != OK) {
        driver_events_close(opened);
        return status;
    }
    (void)fcntl(opened->fd, F_SETFL, O_NONBLOCK);
    opened->watch = loop_watch_open(opened->fd, LOOP_READ, on_ready, opened);
    *events = opened;
    return OK;
}

void driver_events_close(struct driver_events *events)
{
    if (events == NULL) {
        return;
    }
    end_child(events);
    free(events);
}
