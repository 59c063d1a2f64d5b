/* pkb-init — the first process in a sandbox: starts its programs and tells how they end. */
#include "worker/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct program {
    int output;
    const char *directory;
    char **fds, **env, **argv;
    int fd_count, env_count;
    pid_t pid; /* 0: not running */
};

struct init {
    int control;
    struct program programs[INIT_PROGRAMS_MAX];
    int count;
};

static _Noreturn void refuse(const char *why)
{
    (void)fprintf(stderr, "pkb-init: %s\n", why);
    _exit(INIT_EXIT_NOT_STARTED);
}

static int number(const char *text)
{
    char *end = NULL;

    errno = 0;
    long value = text == NULL ? -1 : strtol(text, &end, 10);
    if (value < 0 || value > 1 << 20 || errno != 0 || *end != 0) {
        refuse("is started by pkb-worker only");
    }
    return (int)value;
}

/* The words of a count and so many more; *at goes behind them. */
static char **take_words(char ***at, int *count)
{
    *count = number(**at);
    char **words = ++*at;

    for (int i = 0; i < *count; i++) {
        if (*(*at)++ == NULL) {
            refuse("a word is missing");
        }
    }
    return words;
}

static char **end_words(char **words, int count)
{
    char **ended = calloc((size_t)count + 1, sizeof *ended);

    if (ended == NULL) {
        refuse("out of memory");
    }
    for (int i = 0; i < count; i++) {
        ended[i] = words[i];
    }
    return ended;
}

static void read_programs(struct init *init, char **at)
{
    while (*at != NULL) {
        struct program program = {0};
        int arguments = 0;

        program.output = number(*at++);
        program.directory = *at++;
        if (program.directory == NULL || init->count == INIT_PROGRAMS_MAX) {
            refuse("no directory, or too many programs");
        }
        program.fds = take_words(&at, &program.fd_count);
        char **env = take_words(&at, &program.env_count);
        program.env = end_words(env, program.env_count);
        char **words = take_words(&at, &arguments);
        program.argv = end_words(words, arguments);
        if (arguments == 0) {
            refuse("a program without a name");
        }
        init->programs[init->count++] = program;
    }
}

static void tell(const struct init *init, struct init_event event)
{
    /* If nobody listens any more, the end of the socket ends us. */
    (void)!write(init->control, &event, sizeof event);
}

static _Noreturn void become(const struct init *init, int index)
{
    const struct program *program = &init->programs[index];
    sigset_t none;

    setsid();
    (void)signal(SIGPIPE, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || dup2(program->output, 1) < 0 ||
        dup2(program->output, 2) < 0) {
        _exit(INIT_EXIT_NOT_STARTED);
    }
    for (int i = 0; i < program->fd_count; i++) {
        if (fcntl(number(program->fds[i]), F_SETFD, 0) != 0) {
            _exit(INIT_EXIT_NOT_STARTED);
        }
    }
    if (program->directory[0] != 0 && chdir(program->directory) != 0) {
        _exit(INIT_EXIT_NOT_STARTED);
    }
    tell(init, (struct init_event){.kind = INIT_STARTED, .program = index});
    execve(program->argv[0], program->argv, program->env);
    (void)fprintf(stderr, "cannot start '%s': %s\n", program->argv[0], strerror(errno));
    _exit(INIT_EXIT_NOT_STARTED);
}

static void start_programs(struct init *init)
{
    for (int i = 0; i < init->count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            become(init, i);
        }
        if (pid < 0) {
            tell(init, (struct init_event){INIT_ENDED, i, INIT_EXIT_NOT_STARTED << 8});
            continue;
        }
        init->programs[i].pid = pid;
    }
}

/* What belongs to the programs ends with them, not with us. */
static void forget_descriptors(const struct init *init)
{
    for (int i = 0; i < init->count; i++) {
        const struct program *program = &init->programs[i];
        close(program->output);
        for (int fd = 0; fd < program->fd_count; fd++) {
            close(number(program->fds[fd]));
        }
    }
    if (dup2(0, 1) < 0 || dup2(0, 2) < 0) {
        _exit(INIT_EXIT_NOT_STARTED);
    }
}

static void reap(struct init *init)
{
    int wait_status = 0;
    pid_t pid = 0;

    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        for (int i = 0; i < init->count; i++) {
            if (init->programs[i].pid == pid) {
                init->programs[i].pid = 0;
                tell(init, (struct init_event){INIT_ENDED, i, wait_status});
            }
        }
    }
}

static _Noreturn void serve(struct init *init, int signals)
{
    struct pollfd watched[] = {{.fd = init->control, .events = POLLIN},
                               {.fd = signals, .events = POLLIN}};

    while (poll(watched, 2, -1) >= 0 || errno == EINTR) {
        if (watched[1].revents != 0) {
            struct signalfd_siginfo info;
            (void)!read(signals, &info, sizeof info);
            reap(init);
        }
        if (watched[0].revents != 0) {
            int program = -1;
            if (read(init->control, &program, sizeof program) != sizeof program || program < 0 ||
                program >= init->count) {
                break;
            }
            if (init->programs[program].pid > 0) {
                kill(-init->programs[program].pid, SIGKILL);
                kill(init->programs[program].pid, SIGKILL);
            }
        }
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    struct init init = {0};
    sigset_t signals;

    if (argc < 4) {
        refuse("is started by pkb-worker only");
    }
    init.control = number(argv[1]);
    /* A filter that was not loaded must not go unnoticed. */
    if (strcmp(argv[2], "filtered") == 0 && prctl(PR_GET_SECCOMP) != SECCOMP_MODE_FILTER) {
        refuse("no filter of system calls is loaded");
    }
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
        close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
        refuse("cannot protect itself");
    }
    read_programs(&init, argv + 3);
    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    int watched = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (watched < 0 || sigprocmask(SIG_SETMASK, &signals, NULL) != 0) {
        refuse("cannot watch its programs");
    }
    tell(&init, (struct init_event){.kind = INIT_OPENED});
    start_programs(&init);
    forget_descriptors(&init);
    serve(&init, watched);
}
