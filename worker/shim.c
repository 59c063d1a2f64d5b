#include "worker/shim.h"

#include "common/mem.h"
#include "worker/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WORDS_MAX = 1024 };

static _Noreturn void give_up(const char *what)
{
    dprintf(2, "cannot %s: %s\n", what, strerror(errno));
    _exit(BOX_EXIT_NOT_STARTED);
}

static void limit(int resource, uint64_t value)
{
    struct rlimit rlimit = {.rlim_cur = value, .rlim_max = value};

    if (value != 0 && setrlimit(resource, &rlimit) != 0) {
        give_up("set a limit");
    }
}

static void set_limits(const struct box_limits *limits)
{
    struct rlimit no_core = {0};

    if (limits->processor != 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(limits->processor - 1, &one);
        /* It is faster there, and right anywhere. */
        (void)sched_setaffinity(0, sizeof one, &one);
    }
    setrlimit(RLIMIT_CORE, &no_core);
    limit(RLIMIT_CPU, limits->cpu_s);
    limit(RLIMIT_AS, limits->memory_bytes);
    limit(RLIMIT_FSIZE, limits->file_bytes);
    limit(RLIMIT_NOFILE, limits->files);
}

static void begin(const struct sandbox *sandbox, int output)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;

    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (input < 0 || dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) {
        _exit(BOX_EXIT_NOT_STARTED);
    }
    if (sandbox != NULL && sandbox->group != NULL && !cgroup_enter(sandbox->group)) {
        give_up("enter the cgroup");
    }
}

static void keep_descriptors(const int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        if (fcntl(fds[i], F_SETFD, 0) != 0) {
            give_up("keep a descriptor");
        }
    }
}

static void close_others(void)
{
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
        give_up("close descriptors");
    }
}

static void lower(const struct sandbox *sandbox, pid_t keeper)
{
    if (sandbox != NULL && sandbox->uid != 0 &&
        (setgroups(0, NULL) != 0 || setresgid(sandbox->uid, sandbox->uid, sandbox->uid) != 0 ||
         setresuid(sandbox->uid, sandbox->uid, sandbox->uid) != 0)) {
        give_up("become another user");
    }
    /* A change of user takes this back, so it comes after. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != keeper) {
        _exit(BOX_EXIT_NOT_STARTED);
    }
    if (sandbox != NULL && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        give_up("give up new privileges");
    }
}

_Noreturn void shim_become(const struct box_program *program, pid_t keeper)
{
    begin(program->sandbox, program->output);
    set_limits(&program->limits);
    close_others();
    keep_descriptors(program->fds, program->fd_count);
    if (program->directory != NULL && chdir(program->directory) != 0) {
        give_up("enter the directory");
    }
    lower(program->sandbox, keeper);
    execve(program->argv[0], program->argv, program->env);
    dprintf(2, "cannot start '%s': %s\n", program->argv[0], strerror(errno));
    _exit(BOX_EXIT_NOT_STARTED);
}

/* The command line; this process ends with it, so nothing is freed. */
struct words {
    char *words[WORDS_MAX + 1];
    int count;
};

static void add(struct words *words, const char *word)
{
    if (words->count == WORDS_MAX) {
        errno = E2BIG;
        give_up("start a sandbox");
    }
    words->words[words->count++] = (char *)word;
}

static void add_number(struct words *words, int number)
{
    add(words, xasprintf("%d", number));
}

static void add_list(struct words *words, char *const *list)
{
    int count = 0;

    while (list != NULL && list[count] != NULL) {
        count++;
    }
    add_number(words, count);
    for (int i = 0; i < count; i++) {
        add(words, list[i]);
    }
}

static void add_program(struct words *words, const struct box_program *program)
{
    add_number(words, program->output);
    add(words, program->directory == NULL ? "" : program->directory);
    add_number(words, program->fd_count);
    for (int i = 0; i < program->fd_count; i++) {
        add_number(words, program->fds[i]);
    }
    add_list(words, program->env);
    add_list(words, program->argv);
}

_Noreturn void shim_become_sandbox(const struct box_program *programs, int count, int control,
                                   pid_t keeper)
{
    const struct sandbox *sandbox = programs->sandbox;
    static char *const no_env[] = {NULL};
    struct words *words = xcalloc(1, sizeof *words);

    begin(sandbox, programs->output);
    for (int i = 0; i < sandbox->word_count; i++) {
        add(words, sandbox->words[i]);
    }
    if (sandbox->word_count > 0) {
        add(words, "--remount-ro");
        add(words, "/");
        add(words, "--");
    }
    add(words, sandbox->init);
    add_number(words, control);
    add(words, sandbox->is_filtered ? "filtered" : "unfiltered");
    for (int i = 0; i < count; i++) {
        add_program(words, &programs[i]);
    }
    set_limits(&programs->limits);
    close_others();
    keep_descriptors(sandbox->fds, sandbox->fd_count);
    keep_descriptors(&control, 1);
    for (int i = 0; i < count; i++) {
        keep_descriptors(&programs[i].output, 1);
        keep_descriptors(programs[i].fds, programs[i].fd_count);
    }
    lower(sandbox, keeper);
    execve(words->words[0], words->words, no_env);
    dprintf(2, "cannot start '%s': %s\n", words->words[0], strerror(errno));
    _exit(BOX_EXIT_NOT_STARTED);
}
