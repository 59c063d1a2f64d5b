#include "worker/gate.h"

#include "common/log.h"
#include "common/mem.h"
#include "worker/judge_call.h"
#include "worker/loop.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct gate {
    struct gate_options options;
    struct gate_question question;
    enum status status; /* of what was looked at so far */
    struct error error;
    struct loop_timer *timer;
    /* pkb-judge, which looks at the GPUs */
    pid_t pid;
    int answer, process; /* -1: it does not run */
    struct loop_watch *watch;
};

static enum status check_processes(const struct gate *gate, struct error *err)
{
    uid_t uid_base = gate->options.node->uid_base;
    int count = 0;

    if ((gate->options.node->waived >> LAYER_UID & 1) != 0) {
        return OK;
    }
    if (gate->question.slot == NULL) {
        enum status status = slots_sweep(uid_base, &count, err);
        return status == ERR_UNAVAILABLE ? error_set(err, ERR_CONFLICT, "%s", err->message)
                                         : status;
    }
    pid_t pid = slot_find_process(gate->question.slot, uid_base);
    return pid == 0 ? OK
                    : error_set(err, ERR_CONFLICT, "process %d of a job that has ended lives on",
                                (int)pid);
}

static enum status check_disk(const struct gate *gate, struct error *err)
{
    const char *directory = gate->options.node->work_dir;
    struct statvfs disk = {0};

    if (statvfs(directory, &disk) != 0) {
        return error_set(err, ERR_LIMIT, "the work directory '%s' is out of reach: %m", directory);
    }
    int64_t free_bytes = (int64_t)disk.f_bavail * (int64_t)disk.f_frsize;
    if (free_bytes < gate->options.disk_min_bytes) {
        return error_set(err, ERR_LIMIT, "%lld MiB are free for '%s', and %lld MiB are needed",
                         (long long)(free_bytes >> 20), directory,
                         (long long)(gate->options.disk_min_bytes >> 20));
    }
    if (disk.f_files > 0 && disk.f_favail == 0) {
        return error_set(err, ERR_LIMIT, "no more files can be made in '%s'", directory);
    }
    return OK;
}

static void finish(struct gate *gate)
{
    loop_timer_close(gate->timer);
    loop_watch_close(gate->watch);
    gate->timer = NULL;
    gate->watch = NULL;
    gate->question.done(gate->question.context, gate->status, &gate->error);
}

static void on_looked(void *context, unsigned events)
{
    struct gate *gate = context;
    char answer[DEVICES_ANSWER_MAX];
    struct devices now = {0};
    int wait_status = 0;

    (void)events;
    ssize_t size = read(gate->answer, answer, sizeof answer - 1);
    answer[size < 0 ? 0 : size] = 0;
    (void)waitpid(gate->pid, &wait_status, 0);
    close(gate->process);
    gate->process = -1;
    gate->status =
        devices_understand(answer, wait_status, gate->options.device, &now, &gate->error);
    if (gate->status == OK) {
        gate->status = devices_compare(gate->options.first, &now, &gate->error);
    }
    finish(gate);
}

/* One that hangs in the driver may not even die. */
static void end_look(struct gate *gate)
{
    if (gate->process >= 0) {
        (void)kill(gate->pid, SIGKILL);
        (void)waitpid(gate->pid, NULL, WNOHANG);
        close(gate->process);
        gate->process = -1;
    }
}

static void on_late(void *context)
{
    struct gate *gate = context;

    end_look(gate);
    gate->status = error_set(&gate->error, ERR_UNAVAILABLE, "the GPUs do not answer within %d s",
                             DEVICES_WAIT_MS / 1000);
    finish(gate);
}

static void on_known(void *context)
{
    finish(context);
}

static enum status look_at_gpus(struct gate *gate, struct error *err)
{
    enum status status =
        judge_call(gate->options.node, "--devices", device_kind_name(gate->options.device),
                   &gate->pid, &gate->answer, err);

    if (status != OK) {
        return ERR_UNAVAILABLE;
    }
    gate->process = (int)syscall(SYS_pidfd_open, gate->pid, 0);
    if (gate->process < 0) {
        (void)kill(gate->pid, SIGKILL);
        (void)waitpid(gate->pid, NULL, 0);
        return error_set(err, ERR_UNAVAILABLE, "cannot watch pkb-judge: %m");
    }
    gate->watch = loop_watch_open(gate->process, LOOP_READ, on_looked, gate);
    gate->timer = loop_timer_open(DEVICES_WAIT_MS, 0, on_late, gate);
    return OK;
}

void gate_open(struct gate **gate, const struct gate_options *options,
               const struct gate_question *question)
{
    struct gate *opened = xcalloc(1, sizeof *opened);

    opened->options = *options;
    opened->question = *question;
    opened->answer = opened->process = -1;
    opened->status = check_processes(opened, &opened->error);
    if (opened->status == OK) {
        opened->status = check_disk(opened, &opened->error);
    }
    if (opened->status == OK && question->has_gpus && options->device != DEVICE_SIM) {
        opened->status = look_at_gpus(opened, &opened->error);
    }
    if (opened->timer == NULL) {
        opened->timer = loop_timer_open(0, 0, on_known, opened);
    }
    *gate = opened;
}

void gate_close(struct gate *gate)
{
    if (gate == NULL) {
        return;
    }
    loop_timer_close(gate->timer);
    loop_watch_close(gate->watch);
    end_look(gate);
    if (gate->answer >= 0) {
        close(gate->answer);
    }
    free(gate);
}
