#include "worker/once.h"

#include "common/mem.h"
#include "worker/loop.h"
#include "worker/schedules.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct once {
    struct evaluation *evaluation;
    bool is_done, is_stopped;
};

static void on_done(void *context)
{
    struct once *once = context;

    once->is_done = true;
    loop_stop();
}

static void on_signal(void *context)
{
    struct once *once = context;

    once->is_stopped = true;
    if (!once->is_done) {
        evaluation_stop(once->evaluation);
    }
}

static enum status read_file(const char *file, size_t bytes_max, struct buffer *text,
                             struct error *err)
{
    enum status status = OK;
    ssize_t size = 1;

    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return error_set(err, ERR_NOT_FOUND, "cannot open '%s': %m", file);
    }
    while (status == OK && size > 0) {
        size = read(fd, buffer_reserve(text, bytes_max), bytes_max);
        if (size < 0) {
            status = error_set(err, ERR_IO, "cannot read '%s': %m", file);
        } else {
            text->size_bytes += (size_t)size;
        }
        if (text->size_bytes > bytes_max) {
            status = error_set(err, ERR_TOO_LARGE, "'%s' has over %zu bytes", file, bytes_max);
        }
    }
    close(fd);
    if (status == OK && text->size_bytes == 0) {
        status = error_set(err, ERR_INVALID, "'%s' is empty", file);
    }
    return status;
}

enum status once_read_replay(struct replay *replay, const char *file, struct error *err)
{
    struct result result = {.rank = -1};
    struct error not_result = {0};
    struct buffer json = {0};

    enum status status = read_file(file, RESULT_JSON_MAX_BYTES, &json, err);
    if (status == OK && replay_read(replay, json.data, json.size_bytes, err) != OK) {
        bool is_result = result_read(&result, json.data, json.size_bytes, &not_result) == OK;
        if (is_result && result.replay != NULL) {
            *replay = *result.replay;
        } else {
            status = error_set(err, ERR_INVALID, "'%s' is no replay: %s", file,
                               is_result ? "a result without one" : err->message);
        }
    }
    result_release(&result);
    buffer_release(&json);
    return status;
}

static enum status print_result(const struct result *result, struct error *err)
{
    struct buffer json = {0};
    enum status status = OK;

    result_write(result, &json);
    if (puts(json.data) < 0 || fflush(stdout) != 0) {
        status = error_set(err, ERR_IO, "cannot write the result: %m");
    }
    buffer_release(&json);
    return status;
}

enum status once_run(const struct evaluation_settings *settings, const struct once_options *options,
                     struct error *err)
{
    struct evaluation_job job = options->job;
    struct once once = {0};
    struct buffer source = {0};
    struct loop_signal *terminated = NULL, *interrupted = NULL;

    enum status status = read_file(options->file, SOURCE_MAX_BYTES, &source, err);
    if (status != OK) {
        goto out;
    }
    if (options->replay != NULL) {
        status = schedules_fit(options->replay, source.data, source.size_bytes, err);
    }
    if (status != OK) {
        goto out;
    }
    job.source = source.data;
    job.source_bytes = source.size_bytes;
    job.done = on_done;
    job.context = &once;
    terminated = loop_signal_open(SIGTERM, on_signal, &once);
    interrupted = loop_signal_open(SIGINT, on_signal, &once);
    status = evaluation_start(&once.evaluation, settings, &job, err);
    if (status != OK) {
        goto out;
    }
    while (!once.is_done) {
        loop_run();
    }
    status = once.is_stopped ? error_set(err, ERR_TIMEOUT, "stopped by a signal")
                             : print_result(evaluation_result(once.evaluation), err);
out:
    loop_signal_close(terminated);
    loop_signal_close(interrupted);
    evaluation_close(once.evaluation);
    buffer_release(&source);
    return status;
}
