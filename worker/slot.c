#include "worker/slot.h"

#include "common/log.h"
#include "common/mem.h"
#include "worker/process.h"
#include "worker/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { SWEEP_MS = 2000 };

char *slot_name(const struct slot_lease *slot, uid_t uid_base)
{
    return xasprintf("pkb-slot-%u-%d", (unsigned)uid_base, slot->number);
}

/* ERR_CONFLICT: another holds it. */
static enum status take(struct slot_lease *slot, int number, uid_t uid_base, struct error *err)
{
    int lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    /* A name without a file, which one socket at a time can have. */
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct slot_lease taken = {.number = number, .lock = lock};
    enum status status = OK;

    if (lock < 0) {
        return error_set(err, ERR_IO, "cannot make a socket: %m");
    }
    char *text = slot_name(&taken, uid_base);
    size_t length = strlen(text);
    memcpy(name.sun_path + 1, text, length);
    free(text);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (bind(lock, (struct sockaddr *)&name, size) == 0) {
        *slot = taken;
        return OK;
    }
    status = errno == EADDRINUSE ? error_set(err, ERR_CONFLICT, "slot %d is taken", number)
                                 : error_set(err, ERR_IO, "cannot take a slot: %m");
    close(lock);
    return status;
}

enum status slot_take(struct slot_lease *slot, uid_t uid_base, struct error *err)
{
    for (int number = 0; number < SANDBOX_SLOTS_MAX; number++) {
        enum status status = take(slot, number, uid_base, err);
        if (status != ERR_CONFLICT) {
            return status;
        }
    }
    return error_set(err, ERR_LIMIT, "all %d slots of this machine are taken", SANDBOX_SLOTS_MAX);
}

void slot_release(struct slot_lease *slot)
{
    if (slot->lock >= 0) {
        close(slot->lock);
    }
    slot->lock = -1;
}

/* The next process of users `first` to `last` after those that were given before; 0: no more. */
static pid_t next_process(DIR *processes, uid_t first, uid_t last, uid_t *uid)
{
    const struct dirent *entry = NULL;

    while ((entry = readdir(processes)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && process_uid(pid, uid) && *uid >= first && *uid <= last) {
            return pid;
        }
    }
    return 0;
}

pid_t slot_find_process(const struct slot_lease *slot, uid_t uid_base)
{
    uid_t first = uid_base + (uid_t)(slot->number * SANDBOX_POLICIES);
    DIR *processes = opendir("/proc");
    uid_t uid = 0;
    pid_t pid = 0;

    if (processes != NULL) {
        pid = next_process(processes, first, first + SANDBOX_POLICIES - 1, &uid);
        (void)closedir(processes);
    }
    return pid;
}

/* Does anybody hold a slot with that user, also one of another base? Where the system does not
 * tell, it may be. */
static bool is_held(uid_t uid)
{
    static const char name[] = "@pkb-slot-";
    FILE *sockets = fopen("/proc/net/unix", "re");
    char line[512];
    bool is_taken = sockets == NULL;

    while (!is_taken && fgets(line, sizeof line, sockets) != NULL) {
        const char *at = strstr(line, name);
        char *end = NULL;
        if (at != NULL) {
            uid_t first = (uid_t)strtoul(at + strlen(name), &end, 10);
            first += *end == '-' ? (uid_t)strtoul(end + 1, NULL, 10) * SANDBOX_POLICIES : 0;
            is_taken = uid >= first && uid - first < SANDBOX_POLICIES;
        }
    }
    if (sockets != NULL) {
        (void)fclose(sockets);
    }
    return is_taken;
}

/* In a slot that nobody holds: what its last holder has not ended by then. */
static enum status end_process(pid_t pid, uid_t uid, int *count, struct error *err)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    enum status status = OK;
    uid_t now = 0;

    if (fd < 0) {
        return OK;
    }
    if (process_uid(pid, &now) && now == uid) { /* and not another under the same number */
        log_event(LOG_WARN, "slot.leftover", "pid=%d uid=%u", (int)pid, (unsigned)uid);
        ++*count;
        (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        if (poll(&watched, 1, SWEEP_MS) != 1) {
            status =
                error_set(err, ERR_UNAVAILABLE,
                          "process %d, left by a worker that was killed, does not end", (int)pid);
        }
    }
    close(fd);
    return status;
}

enum status slots_sweep(uid_t uid_base, int *count, struct error *err)
{
    uid_t last = uid_base + (uid_t)(SANDBOX_SLOTS_MAX * SANDBOX_POLICIES) - 1;
    DIR *processes = opendir("/proc");
    enum status status = OK;
    uid_t uid = 0;
    pid_t pid = 0;

    *count = 0;
    if (processes == NULL) {
        return error_set(err, ERR_UNAVAILABLE, "cannot read /proc: %m");
    }
    while (status == OK && (pid = next_process(processes, uid_base, last, &uid)) != 0) {
        struct slot_lease slot = {.lock = -1};
        if (is_held(uid)) {
            continue; /* of a job that runs */
        }
        status = take(&slot, (int)((uid - uid_base) / SANDBOX_POLICIES), uid_base, err);
        if (status == OK) {
            status = end_process(pid, uid, count, err);
        } else if (status == ERR_CONFLICT) {
            status = OK; /* of a job that has just begun */
        }
        slot_release(&slot);
    }
    (void)closedir(processes);
    return status;
}
