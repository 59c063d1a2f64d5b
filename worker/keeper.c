#include "worker/keeper.h"

#include "worker/init.h"
#include "worker/sandbox.h"
#include "worker/shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT_MAX = 2 + BOX_PROGRAMS_MAX };

/* Programs that share a sandbox, or one without. */
struct group {
    struct sandbox *sandbox; /* NULL: none */
    int first, count;
    pid_t wrapper; /* 0: the program is our own child */
    int control;   /* to pkb-init; -1: none */
    struct cgroup_hits told;
};

struct keeper {
    int control, signals;
    int count;
    pid_t pids[BOX_PROGRAMS_MAX]; /* 0: ended, or not known yet */
    bool has_ended[BOX_PROGRAMS_MAX];
    struct group groups[BOX_PROGRAMS_MAX];
    int group_count;
};

static void tell(const struct keeper *keeper, const struct box_event *event)
{
    /* That the worker is gone is noticed by the receiving side. */
    (void)!send(keeper->control, event, sizeof *event, MSG_NOSIGNAL);
}

static void tell_hits(const struct keeper *keeper, struct group *group)
{
    struct cgroup_hits hits = {0};

    if (group->sandbox == NULL || group->sandbox->group == NULL) {
        return;
    }
    cgroup_read_hits(group->sandbox->group, &hits);
    if (hits.memory > 0 && group->told.memory == 0) {
        tell(keeper, &(struct box_event){
                         .kind = BOX_LIMIT, .program = group->first, .limit = BOX_LIMIT_MEMORY});
    }
    if (hits.processes > 0 && group->told.processes == 0) {
        tell(keeper, &(struct box_event){
                         .kind = BOX_LIMIT, .program = group->first, .limit = BOX_LIMIT_PROCESSES});
    }
    group->told = hits;
}

static void take_end(struct keeper *keeper, struct group *group, int program, int wait_status)
{
    if (!keeper->has_ended[program]) {
        tell_hits(keeper, group);
        tell(keeper, &(struct box_event){.kind = BOX_ENDED,
                                         .program = program,
                                         .pid = keeper->pids[program],
                                         .wait_status = wait_status});
        keeper->has_ended[program] = true;
        keeper->pids[program] = 0;
    }
}

/* ---- what pkb-init says ---- */

/* The process that sent a message, as it is called here. */
static pid_t sender(struct msghdr *message)
{
    struct ucred credentials = {0};

    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
        }
    }
    return credentials.pid;
}

static bool take_message(struct keeper *keeper, struct group *group)
{
    struct init_event event = {0};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = {.iov_base = &event, .iov_len = sizeof event};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};

    if (recvmsg(group->control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof event ||
        event.program < 0 || event.program >= group->count) {
        return false;
    }
    int program = group->first + event.program;
    if (event.kind == INIT_OPENED) {
        tell(keeper, &(struct box_event){
                         .kind = BOX_OPENED, .program = group->first, .pid = sender(&message)});
    } else if (event.kind == INIT_STARTED) {
        keeper->pids[program] = sender(&message);
        tell(keeper, &(struct box_event){
                         .kind = BOX_STARTED, .program = program, .pid = keeper->pids[program]});
    } else {
        take_end(keeper, group, program, event.wait_status);
    }
    return true;
}

/* The sandbox is gone, and its programs with it. */
static void take_wrapper_end(struct keeper *keeper, struct group *group)
{
    while (group->control >= 0 && take_message(keeper, group)) {
    }
    group->wrapper = 0;
    for (int i = group->first; i < group->first + group->count; i++) {
        take_end(keeper, group, i, keeper->pids[i] != 0 ? SIGKILL : BOX_EXIT_NOT_STARTED << 8);
    }
}

/* ---- the end ---- */

static void kill_session(pid_t pid)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
}

static pid_t parent_of(pid_t pid)
{
    char path[64];
    char text[512] = "";

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    /* "pid (name) state ppid": a name may hold anything, brackets too. */
    const char *after = size > 0 ? strrchr(text, ')') : NULL;
    return after != NULL && strlen(after) > 4 ? (pid_t)strtol(after + 4, NULL, 10) : -1;
}

/* Kills every child, also those that came to us when their parent died. */
static void kill_children(void)
{
    DIR *proc = opendir("/proc");
    pid_t own = getpid();
    struct dirent *entry = NULL;

    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && parent_of(pid) == own) {
            kill_session(pid);
        }
    }
    if (proc != NULL) {
        closedir(proc);
    }
}

/* Takes in one ended child. False: there is none. */
static bool reap(struct keeper *keeper, int flags)
{
    int wait_status = 0;
    pid_t pid = waitpid(-1, &wait_status, flags);

    if (pid <= 0) {
        return pid < 0 && errno == EINTR;
    }
    for (int i = 0; i < keeper->group_count; i++) {
        struct group *group = &keeper->groups[i];
        if (group->wrapper == pid) {
            take_wrapper_end(keeper, group);
        } else if (group->control < 0 && keeper->pids[group->first] == pid) {
            take_end(keeper, group, group->first, wait_status);
        }
    }
    return true;
}

static bool has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Has a child that was started here, and killed by its number, not ended yet? */
static bool awaits_own(const struct keeper *keeper)
{
    for (int i = 0; i < keeper->group_count; i++) {
        const struct group *group = &keeper->groups[i];
        if (group->wrapper != 0 || (group->control < 0 && keeper->pids[group->first] != 0)) {
            return true;
        }
    }
    return false;
}

static void kill_all(struct keeper *keeper)
{
    for (int i = 0; i < keeper->group_count; i++) {
        struct group *group = &keeper->groups[i];
        if (group->sandbox != NULL && group->sandbox->group != NULL) {
            cgroup_kill(group->sandbox->group);
        }
        if (group->wrapper != 0) {
            kill_session(group->wrapper);
        } else if (group->control < 0 && keeper->pids[group->first] != 0) {
            kill_session(keeper->pids[group->first]);
        }
    }
    while (awaits_own(keeper) && reap(keeper, 0)) {
    }
    /* Who dies hands its children to us, so look again after each. */
    while (has_children()) {
        kill_children();
        (void)reap(keeper, 0);
    }
    for (int i = 0; i < keeper->group_count; i++) {
        if (keeper->groups[i].sandbox != NULL) {
            tell_hits(keeper, &keeper->groups[i]);
            cgroup_close(keeper->groups[i].sandbox->group);
        }
    }
}

/* ---- until then ---- */

static int compare_numbers(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

/* Closes all descriptors but these and the standard ones: ends of pipes must not live on here. */
static void keep_only(int *fds, int count)
{
    unsigned next = 3;

    qsort(fds, (size_t)count, sizeof *fds, compare_numbers);
    for (int i = 0; i < count; i++) {
        if (fds[i] > (int)next) {
            close_range(next, (unsigned)fds[i] - 1, 0);
        }
        next = fds[i] >= (int)next ? (unsigned)fds[i] + 1 : next;
    }
    close_range(next, ~0U, 0);
}

static void keep_own(const struct keeper *keeper)
{
    int fds[KEPT_MAX] = {keeper->control, keeper->signals};
    int count = 2;

    for (int i = 0; i < keeper->group_count; i++) {
        const struct group *group = &keeper->groups[i];
        if (group->control >= 0) {
            fds[count++] = group->control;
        }
    }
    keep_only(fds, count);
}

/* False: the box is to be killed, or the worker is gone. */
static bool obey(const struct keeper *keeper)
{
    int program = KEEPER_KILL_ALL;
    ssize_t size = recv(keeper->control, &program, sizeof program, 0);

    if (size != sizeof program || program < 0 || program >= keeper->count) {
        return false;
    }
    for (int i = 0; i < keeper->group_count; i++) {
        const struct group *group = &keeper->groups[i];
        int index = program - group->first;
        if (index < 0 || index >= group->count || keeper->has_ended[program]) {
            continue;
        }
        if (group->control >= 0) {
            (void)!send(group->control, &index, sizeof index, MSG_NOSIGNAL | MSG_DONTWAIT);
        } else if (keeper->pids[program] != 0) {
            kill_session(keeper->pids[program]);
        }
    }
    return true;
}

static void serve(struct keeper *keeper)
{
    struct pollfd watched[2 + BOX_PROGRAMS_MAX] = {{.fd = keeper->control, .events = POLLIN},
                                                   {.fd = keeper->signals, .events = POLLIN}};
    struct pollfd *messages = watched + 2;
    nfds_t count = 2 + (nfds_t)keeper->group_count;

    for (int i = 0; i < keeper->group_count; i++) {
        messages[i] = (struct pollfd){.fd = keeper->groups[i].control, .events = POLLIN};
    }
    while (poll(watched, count, -1) >= 0 || errno == EINTR) {
        for (int i = 0; i < keeper->group_count; i++) {
            struct group *group = &keeper->groups[i];
            if (messages[i].revents != 0 && !take_message(keeper, group)) {
                messages[i].fd = -1;
            }
        }
        if (watched[1].revents != 0) {
            struct signalfd_siginfo info;
            (void)!read(keeper->signals, &info, sizeof info);
            while (reap(keeper, WNOHANG)) {
            }
        }
        if (watched[0].revents != 0 && !obey(keeper)) {
            return;
        }
    }
}

/* ---- the start ---- */

static pid_t fork_into(const struct sandbox *sandbox)
{
    return sandbox != NULL && sandbox->group != NULL ? cgroup_fork(sandbox->group) : fork();
}

static void start_sandbox(struct keeper *keeper, struct group *group,
                          const struct box_program *programs)
{
    pid_t own = getpid();
    int pair[2] = {-1, -1};
    int yes = 1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0 ||
        setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0) {
        take_wrapper_end(keeper, group);
        return;
    }
    pid_t pid = fork_into(group->sandbox);
    if (pid == 0) {
        shim_become_sandbox(programs, group->count, pair[1], own);
    }
    close(pair[1]);
    group->control = pair[0];
    group->wrapper = pid > 0 ? pid : 0;
    if (pid < 0) {
        take_wrapper_end(keeper, group);
    }
}

static void start_program(struct keeper *keeper, struct group *group,
                          const struct box_program *program)
{
    pid_t own = getpid();
    pid_t pid = fork_into(group->sandbox);

    if (pid == 0) {
        shim_become(program, own);
    }
    if (pid < 0) {
        take_end(keeper, group, group->first, BOX_EXIT_NOT_STARTED << 8);
        return;
    }
    keeper->pids[group->first] = pid;
    tell(keeper, &(struct box_event){.kind = BOX_STARTED, .program = group->first, .pid = pid});
}

static void start_programs(struct keeper *keeper, const struct box_program *programs)
{
    for (int i = 0; i < keeper->count;) {
        struct group *group = &keeper->groups[keeper->group_count++];
        *group =
            (struct group){.sandbox = programs[i].sandbox, .first = i, .count = 1, .control = -1};
        if (group->sandbox == NULL || group->sandbox->init == NULL) {
            start_program(keeper, group, &programs[i]);
        } else {
            while (i + group->count < keeper->count &&
                   programs[i + group->count].sandbox == group->sandbox) {
                group->count++;
            }
            start_sandbox(keeper, group, &programs[i]);
        }
        i += group->count;
    }
}

_Noreturn void keeper_run(int control, const struct box_program *programs, int count)
{
    struct keeper keeper = {.control = control, .count = count};
    sigset_t signals;

    setsid();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        _exit(1);
    }
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL);
    }
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    keeper.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (keeper.signals < 0) {
        _exit(1);
    }
    /* A terminal's or a unit's signals end the worker, and its end ends us. */
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_SETMASK, &signals, NULL);

    start_programs(&keeper, programs);
    keep_own(&keeper);
    serve(&keeper);
    kill_all(&keeper);
    _exit(0);
}
