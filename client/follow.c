#include "client/follow.h"

#include "client/show.h"
#include "common/api.h"
#include "common/clock.h"
#include "common/job.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POLL_S = 25, POLL_TIMEOUT_MS = (POLL_S + 15) * 1000, PAUSE_MS = 500 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
}

/* Interrupts come in only while we wait for something. */
struct signals {
    struct sigaction action;
    sigset_t mask;
};

static void signals_take(struct signals *before)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    sigset_t blocked;

    interrupted = 0;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, &before->mask);
    sigaction(SIGINT, &action, &before->action);
}

static void signals_restore(const struct signals *before)
{
    sigaction(SIGINT, &before->action, NULL);
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

/* The line that a person sees; `shown` is what stands there now. */
struct progress {
    bool is_terminal;
    struct buffer shown;
};

static void progress_show(struct progress *progress, const char *text)
{
    if (progress->shown.data != NULL && strcmp(progress->shown.data, text) == 0) {
        return;
    }
    progress->shown.size_bytes = 0;
    buffer_append(&progress->shown, text, strlen(text));
    (void)fprintf(stderr, progress->is_terminal ? "\r\033[K%s" : "%s\n", text);
    (void)fflush(stderr);
}

static void progress_end(struct progress *progress)
{
    if (progress->is_terminal && progress->shown.size_bytes > 0) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
    buffer_release(&progress->shown);
}

static void show_where(struct progress *progress, const struct job *job)
{
    struct buffer text = {0};

    buffer_printf(&text, "%s: ", job->id);
    show_progress(job, &text);
    progress_show(progress, text.data);
    buffer_release(&text);
}

/* One long poll; `job` is what it said. */
static enum status ask(struct client *client, const char *path, struct buffer *body,
                       struct job *job, struct error *err)
{
    const struct client_call call = {
        .path = path, .timeout_ms = POLL_TIMEOUT_MS, .stop = &interrupted};

    body->size_bytes = 0;
    enum status status = client_call(client, &call, body, err);
    if (status != OK) {
        return status;
    }
    if (job_read(job, NULL, body->data, body->size_bytes, err) != OK) {
        return error_set(err, ERR_PROTOCOL, "the server's job cannot be read: %s", err->message);
    }
    return OK;
}

/* Whether the server may come back: it is gone, not merely unhappy with us. */
static bool is_away(enum status status, int64_t since_ms)
{
    return (status == ERR_UNAVAILABLE || status == ERR_TIMEOUT) && interrupted == 0 &&
           clock_monotonic_ms() - since_ms < FOLLOW_AWAY_MAX_MS;
}

static void pause_a_little(void)
{
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    sigset_t none;

    sigemptyset(&none);
    (void)ppoll(NULL, 0, &pause, &none);
}

static enum status follow(struct client *client, const char *id, struct progress *progress,
                          struct buffer *body, struct error *err)
{
    struct job job = {.state = JOB_QUEUED};
    struct buffer path = {0};
    char version[JOB_VERSION_MAX] = "";
    int64_t answered_ms = clock_monotonic_ms();
    enum status status = OK;

    while (status == OK && (job.state == JOB_QUEUED || job.state == JOB_LEASED)) {
        path.size_bytes = 0;
        buffer_printf(&path, "/v1/jobs/");
        api_path_append(&path, id);
        if (version[0] != 0) {
            buffer_printf(&path, "?wait=%d&since=", POLL_S);
            api_path_append(&path, version);
        }
        status = ask(client, path.data, body, &job, err);
        if (status == OK) {
            answered_ms = clock_monotonic_ms();
            job_version(&job, version);
            show_where(progress, &job);
        } else if (is_away(status, answered_ms)) {
            progress_show(progress, err->message);
            pause_a_little();
            version[0] = 0;
            status = OK;
        }
    }
    buffer_release(&path);
    return status;
}

enum status follow_job(struct client *client, const char *id, struct buffer *body,
                       struct error *err)
{
    struct progress progress = {.is_terminal = isatty(STDERR_FILENO) == 1};
    struct signals before;

    signals_take(&before);
    enum status status = follow(client, id, &progress, body, err);
    progress_end(&progress);
    signals_restore(&before);
    if (status != OK && interrupted != 0) {
        return error_set(err, ERR_UNAVAILABLE,
                         "interrupted; the job goes on, 'pkb status %s --wait' follows it", id);
    }
    return status;
}
