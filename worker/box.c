#include "worker/box.h"

#include "common/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ORDER_KILL_ALL = -1 };

struct box {
    int control; /* SOCK_SEQPACKET to the keeper: events in, numbers of programs to kill out */
    pid_t keeper;
};

struct keeper {
    int control, signals;
    int count;
    pid_t pids[BOX_PROGRAMS_MAX]; /* 0: reaped */
};

static void limit(int resource, uint64_t value)
{
    struct rlimit rlimit = {.rlim_cur = value, .rlim_max = value};

    if (value != 0 && setrlimit(resource, &rlimit) != 0) {
        _exit(BOX_EXIT_NOT_STARTED);
    }
}

static void take_descriptors(const struct box_program *program)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (input < 0 || dup2(input, 0) < 0 || dup2(program->output, 1) < 0 ||
        dup2(program->output, 2) < 0 || close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
        _exit(BOX_EXIT_NOT_STARTED);
    }
    for (int i = 0; i < program->fd_count; i++) {
        if (fcntl(program->fds[i], F_SETFD, 0) != 0) {
            _exit(BOX_EXIT_NOT_STARTED);
        }
    }
}

/* In the child: what is left to do before the program runs. */
static _Noreturn void become(const struct box_program *program, pid_t keeper)
{
    struct rlimit no_core = {0};
    sigset_t none;

    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper) {
        _exit(BOX_EXIT_NOT_STARTED);
    }
    take_descriptors(program);
    if (program->directory != NULL && chdir(program->directory) != 0) {
        _exit(BOX_EXIT_NOT_STARTED);
    }
    setrlimit(RLIMIT_CORE, &no_core);
    limit(RLIMIT_CPU, program->limits.cpu_s);
    limit(RLIMIT_AS, program->limits.memory_bytes);
    limit(RLIMIT_FSIZE, program->limits.file_bytes);
    limit(RLIMIT_NOFILE, program->limits.files);
    execve(program->argv[0], program->argv, program->env);
    dprintf(2, "cannot start '%s': %s\n", program->argv[0], strerror(errno));
    _exit(BOX_EXIT_NOT_STARTED);
}

static void tell(const struct keeper *keeper, const struct box_event *event)
{
    /* That the worker is gone is noticed by the receiving side. */
    (void)!send(keeper->control, event, sizeof *event, MSG_NOSIGNAL);
}

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
    for (int i = 0; i < keeper->count; i++) {
        if (keeper->pids[i] == pid) {
            keeper->pids[i] = 0;
            tell(keeper, &(struct box_event){BOX_ENDED, i, pid, wait_status});
        }
    }
    return true;
}

static void kill_all(struct keeper *keeper)
{
    for (int i = 0; i < keeper->count; i++) {
        if (keeper->pids[i] != 0) {
            kill_session(keeper->pids[i]);
        }
    }
    /* Who dies hands its children to us, so look again after each. */
    do {
        kill_children();
    } while (reap(keeper, 0));
}

/* Closes all descriptors but two and the standard ones: ends of pipes must not live on here. */
static void keep_only(int first, int second)
{
    unsigned low = (unsigned)(first < second ? first : second);
    unsigned high = (unsigned)(first < second ? second : first);

    if (low > 3) {
        close_range(3, low - 1, 0);
    }
    if (high - low > 1) {
        close_range(low + 1, high - 1, 0);
    }
    close_range(high + 1, ~0U, 0);
}

/* Until the box is to be killed, or the worker is gone. */
static void serve(struct keeper *keeper)
{
    struct pollfd watched[] = {{.fd = keeper->control, .events = POLLIN},
                               {.fd = keeper->signals, .events = POLLIN}};

    while (poll(watched, 2, -1) >= 0 || errno == EINTR) {
        if (watched[1].revents != 0) {
            struct signalfd_siginfo info;
            (void)!read(keeper->signals, &info, sizeof info);
            while (reap(keeper, WNOHANG)) {
            }
        }
        if (watched[0].revents != 0) {
            int program = ORDER_KILL_ALL;
            ssize_t size = recv(keeper->control, &program, sizeof program, 0);
            if (size != sizeof program || program < 0 || program >= keeper->count) {
                return;
            }
            if (keeper->pids[program] != 0) {
                kill_session(keeper->pids[program]);
            }
        }
    }
}

static void start_programs(struct keeper *keeper, const struct box_program *programs)
{
    pid_t own = getpid();

    for (int i = 0; i < keeper->count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            become(&programs[i], own);
        }
        if (pid < 0) {
            tell(keeper, &(struct box_event){BOX_ENDED, i, 0, BOX_EXIT_NOT_STARTED << 8});
            continue;
        }
        keeper->pids[i] = pid;
        tell(keeper, &(struct box_event){BOX_STARTED, i, pid, 0});
    }
}

static _Noreturn void keep(int control, const struct box_program *programs, int count)
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
    keep_only(control, keeper.signals);
    serve(&keeper);
    kill_all(&keeper);
    _exit(0);
}

enum status box_start(struct box **box, const struct box_program *programs, int count,
                      struct error *err)
{
    int pair[2] = {-1, -1};

    assert(count > 0);
    assert(count <= BOX_PROGRAMS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return error_set(err, ERR_IO, "cannot make a pair of sockets: %m");
    }
    pid_t keeper = fork();
    if (keeper == 0) {
        close(pair[0]);
        keep(pair[1], programs, count);
    }
    close(pair[1]);
    if (keeper < 0) {
        close(pair[0]);
        return error_set(err, ERR_IO, "cannot start a process: %m");
    }
    struct box *made = xcalloc(1, sizeof *made);
    made->control = pair[0];
    made->keeper = keeper;
    *box = made;
    return OK;
}

int box_fd(const struct box *box)
{
    return box->control;
}

enum status box_next(struct box *box, struct box_event *event, struct error *err)
{
    struct box_event got = {0};
    ssize_t size = recv(box->control, &got, sizeof got, MSG_DONTWAIT);

    if (size == sizeof got) {
        *event = got;
        return OK;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return error_set(err, ERR_NOT_FOUND, "nothing happened");
    }
    return error_set(err, ERR_UNAVAILABLE, "all processes have ended");
}

static void order(const struct box *box, int program)
{
    /* A keeper that is gone has killed everything already. */
    (void)!send(box->control, &program, sizeof program, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void box_kill_program(struct box *box, int program)
{
    order(box, program);
}

void box_kill(struct box *box)
{
    order(box, ORDER_KILL_ALL);
}

void box_close(struct box *box)
{
    if (box == NULL) {
        return;
    }
    close(box->control);
    while (waitpid(box->keeper, NULL, 0) < 0 && errno == EINTR) {
    }
    free(box);
}
