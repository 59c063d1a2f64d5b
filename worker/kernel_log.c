#include "worker/kernel_log.h"

#include "common/log.h"
#include "common/mem.h"
#include "worker/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A record of the kernel is shorter, and one read gives one; of a pipe it may give several. */
enum { RECORD_MAX = 16384 };

struct kernel_log {
    struct kernel_log_options options;
    int fd;
    struct loop_watch *watch;
    char text[RECORD_MAX]; /* what came and was not a whole line yet */
    size_t used;
    bool is_overlong; /* the line that comes is passed over to its end */
};

/* Lines that begin with a blank belong to the record before and say nothing of use. */
static void take_line(struct kernel_log *log, const char *line)
{
    struct xid xid = {0};

    if (xid_read_record(&xid, line)) {
        log->options.found(log->options.context, &xid);
    }
}

static void take_lines(struct kernel_log *log)
{
    char *line = log->text;
    char *end = NULL;

    while ((end = memchr(line, '\n', log->used - (size_t)(line - log->text))) != NULL) {
        *end = 0;
        if (!log->is_overlong) {
            take_line(log, line);
        }
        log->is_overlong = false;
        line = end + 1;
    }
    log->used -= (size_t)(line - log->text);
    memmove(log->text, line, log->used);
    if (log->used == sizeof log->text) {
        log->is_overlong = true;
        log->used = 0;
    }
}

void kernel_log_read(struct kernel_log *log)
{
    ssize_t size = 1;

    while (log->fd >= 0 && (size > 0 || errno == EPIPE || errno == EINTR)) {
        size = read(log->fd, log->text + log->used, sizeof log->text - log->used);
        if (size > 0) {
            log->used += (size_t)size;
            take_lines(log);
        } else if (size < 0 && errno == EPIPE) {
            log_event(LOG_WARN, "kernel_log.overrun", "path=%s", log->options.path);
            log->options.lost(log->options.context, false);
            errno = EPIPE;
        } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
            log_event(LOG_ERROR, "kernel_log.ended", "path=%s error=\"%s\"", log->options.path,
                      size == 0 ? "end of file" : strerror(errno));
            loop_watch_close(log->watch);
            log->watch = NULL;
            close(log->fd);
            log->fd = -1;
            log->options.lost(log->options.context, true);
        }
    }
}

static void on_ready(void *context, unsigned events)
{
    (void)events;
    kernel_log_read(context);
}

enum status kernel_log_open(struct kernel_log **log, const struct kernel_log_options *options,
                            struct error *err)
{
    struct stat info = {0};
    int flags = O_NONBLOCK | O_CLOEXEC | O_NOCTTY;

    if (stat(options->path, &info) == 0 && S_ISFIFO(info.st_mode)) {
        flags |= O_RDWR; /* so that it does not end with whoever writes */
    }
    int fd = open(options->path, flags);
    if (fd < 0) {
        return error_field(err, ERR_UNAVAILABLE, "kmsg",
                           "cannot read the kernel's log '%s': %m (it takes CAP_SYSLOG; --kmsg "
                           "none does without)",
                           options->path);
    }
    if (fstat(fd, &info) != 0 || !(S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode))) {
        close(fd);
        return error_field(err, ERR_UNAVAILABLE, "kmsg", "'%s' is no log of a kernel",
                           options->path);
    }
    (void)lseek(fd, 0, SEEK_END); /* a pipe has no end to go to */
    struct kernel_log *opened = xcalloc(1, sizeof *opened);
    opened->options = *options;
    opened->fd = fd;
    opened->watch = loop_watch_open(fd, LOOP_READ, on_ready, opened);
    *log = opened;
    return OK;
}

void kernel_log_close(struct kernel_log *log)
{
    if (log == NULL) {
        return;
    }
    loop_watch_close(log->watch);
    if (log->fd >= 0) {
        close(log->fd);
    }
    free(log);
}
