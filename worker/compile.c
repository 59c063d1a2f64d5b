/*
 * pkb-compile — nvcc in less time: runs inside the box of a build, in nvcc's place.
 *
 *     pkb-compile BUILDER TMP NVCC ARGUMENT...
 *
 * Asks nvcc which commands it would run, and runs them itself, what is for the device beside what
 * is for the host. All files of those commands lie in TMP. Output, exit status and what comes out
 * are those of nvcc: a command's output is shown after that of those before it in nvcc's order, and
 * the first in that order that fails decides, as soon as it is known. Where nvcc's list has an
 * unknown shape, or something fails that nvcc might not fail of, nvcc itself is run. The file
 * BUILDER says which it was: "stages" or "nvcc".
 */
#include "common/buffer.h"
#include "common/mem.h"
#include "worker/recipe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is run: nvcc's commands, and two of our own. */
enum {
    JOB_EMPTY = RECIPE_STEPS, /* an object without device code, for nvlink: it finds none in ours */
    JOB_FEED,                 /* hands the stub to the host compiler, which has begun before */
    JOBS,
};

enum { LOG_HELD_BYTES = 1 << 20, CHUNK_BYTES = 64 * 1024 };

enum state { WAITING, RUNNING, DONE, FAILED };

struct compile {
    const char *builder, *tmp;
    char **nvcc;
    struct recipe recipe;
    char *stub, *made_stub, *host_id, *device_id, *empty, *list;
    enum state states[JOBS];
    pid_t pids[JOBS];
    int wait_status[JOBS];
    int outputs[JOBS];
    struct buffer logs[JOBS];
    int failed; /* the first in nvcc's order; JOBS: none */
};

#define BIT(job) (1U << (job))

/* What has to be done before; the host compiler waits for the stub by itself. */
static const unsigned after[JOBS] = {
    [RECIPE_HOST_FRONT] = BIT(RECIPE_HOST_TEXT),
    [RECIPE_DEVICE_CODE] = BIT(RECIPE_DEVICE_TEXT),
    [RECIPE_ASSEMBLE] = BIT(RECIPE_DEVICE_CODE),
    [RECIPE_PACK] = BIT(RECIPE_ASSEMBLE),
    [RECIPE_HOST_OBJECT] = BIT(RECIPE_HOST_FRONT),
    [JOB_EMPTY] = BIT(RECIPE_HOST_FRONT) | BIT(RECIPE_DEVICE_TEXT),
    [RECIPE_LINK_DEVICE] = BIT(JOB_EMPTY),
    [RECIPE_PACK_LINKED] = BIT(RECIPE_LINK_DEVICE),
    [RECIPE_LINKED_OBJECT] = BIT(RECIPE_PACK_LINKED),
    [JOB_FEED] = BIT(RECIPE_PACK),
    [RECIPE_LINK] = BIT(RECIPE_HOST_OBJECT) | BIT(RECIPE_LINKED_OBJECT) | BIT(JOB_FEED),
};

/* Half of the time of nvcc's programs goes into pages of 4 KiB, one fault each. */
static const char tunables[] =
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864";

static void say_builder(const struct compile *compile, const char *text)
{
    int fd = open(compile->builder, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    /* Without it the result does not say; the library is the same. */
    if (fd >= 0) {
        (void)!write(fd, text, strlen(text));
        close(fd);
    }
}

/* ---- processes ---- */

static void redirect(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) {
        _exit(127);
    }
    close(fd);
}

static const char *lookup(const struct compile *compile, const char *name)
{
    const char *path = recipe_value(&compile->recipe, "PATH");
    char *found = NULL;

    if (strchr(name, '/') != NULL || path == NULL) {
        return name;
    }
    while (*path != 0) {
        size_t length = strcspn(path, ":");
        free(found);
        found = xasprintf("%.*s/%s", (int)length, path, name);
        if (access(found, X_OK) == 0) {
            return found;
        }
        path += length + (path[length] == ':' ? 1 : 0);
    }
    return name;
}

static _Noreturn void become(const struct compile *compile, char *const *words)
{
    const char *const names[] = {"PATH", "LD_LIBRARY_PATH"};
    char *env[8] = {(char *)tunables, xasprintf("TMPDIR=%s", compile->tmp)};
    int count = 2;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = recipe_value(&compile->recipe, names[i]);
        if (value != NULL) {
            env[count++] = xasprintf("%s=%s", names[i], value);
        }
    }
    const char *path = lookup(compile, words[0]);
    execve(path, words, env);
    (void)fprintf(stderr, "cannot start '%s': %s\n", path, strerror(errno));
    _exit(127);
}

/* The host compiler reads the stub from a pipe; opening it waits until it does. From then on the
 * stub itself is there, for a compiler that is a wrapper and reads it again. */
static _Noreturn void feed(const struct compile *compile)
{
    char chunk[65536];
    ssize_t size = 0;
    int from = open(compile->made_stub, O_RDONLY | O_CLOEXEC);
    int to = open(compile->stub, O_WRONLY | O_CLOEXEC);

    if (from < 0 || to < 0 || rename(compile->made_stub, compile->stub) != 0) {
        _exit(1);
    }
    while ((size = read(from, chunk, sizeof chunk)) > 0) {
        if (write(to, chunk, (size_t)size) != size) {
            _exit(1);
        }
    }
    _exit(size < 0 ? 1 : 0);
}

static void start(struct compile *compile, int job)
{
    char *empty[] = {"gcc", "-c", "-x", "c", "/dev/null", "-o", compile->empty, NULL};
    int ends[2] = {-1, -1};
    pid_t pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;

    if (pid == 0) {
        if (setpgid(0, 0) != 0 || dup2(ends[1], 1) < 0 || dup2(ends[1], 2) < 0) {
            _exit(127);
        }
        if (job == JOB_FEED) {
            feed(compile);
        }
        become(compile, job < RECIPE_STEPS ? compile->recipe.steps[job].words : empty);
    }
    (void)setpgid(pid, pid); /* here too: whoever kills it must not come before it */
    close(ends[1]);
    compile->pids[job] = pid;
    compile->outputs[job] = ends[0];
    compile->states[job] = pid > 0 ? RUNNING : FAILED;
}

static void show(struct compile *compile, int job)
{
    struct buffer *log = &compile->logs[job];

    while (log->size_bytes > 0) {
        ssize_t size = write(2, log->data, log->size_bytes);
        if (size <= 0) {
            break;
        }
        buffer_consume(log, (size_t)size);
    }
    buffer_release(log);
}

/* ---- which of them, and when ---- */

static bool is_ours(int job)
{
    return job >= RECIPE_STEPS;
}

static bool can_start(const struct compile *compile, int job)
{
    if (compile->states[job] != WAITING ||
        (is_ours(job) ? compile->failed != JOBS : job > compile->failed)) {
        return false;
    }
    for (int other = 0; other < JOBS; other++) {
        if ((after[job] & BIT(other)) != 0 && compile->states[other] != DONE) {
            return false;
        }
    }
    return true;
}

static bool start_all(struct compile *compile)
{
    bool is_running = false;

    for (int job = 0; job < JOBS; job++) {
        if (can_start(compile, job)) {
            start(compile, job);
        }
        is_running |= compile->states[job] == RUNNING;
    }
    return is_running;
}

/* What nvcc would not have come to is of no use any more. */
static void stop_later(struct compile *compile)
{
    for (int job = compile->failed + 1; job < JOBS; job++) {
        if (compile->states[job] == RUNNING) {
            kill(-compile->pids[job], SIGKILL); /* gcc has children */
        }
    }
}

static void take_end(struct compile *compile, int job, int wait_status)
{
    compile->wait_status[job] = wait_status;
    compile->states[job] = wait_status == 0 ? DONE : FAILED;
    if (wait_status != 0 && job < compile->failed) {
        compile->failed = job;
        stop_later(compile);
    }
}

/* A long output is shown early, so that whoever counts it can stop us. */
static void show_long(struct compile *compile)
{
    int job = 0;

    while (job < RECIPE_LINK && compile->states[job] == DONE &&
           compile->logs[job].size_bytes == 0) {
        job++;
    }
    if (compile->logs[job].size_bytes >= LOG_HELD_BYTES) {
        show(compile, job);
    }
}

/* Takes output, and at its end the end of the program. */
static void take_output(struct compile *compile, int job)
{
    struct buffer *log = &compile->logs[job];
    int wait_status = 0;
    ssize_t size = read(compile->outputs[job], buffer_reserve(log, CHUNK_BYTES), CHUNK_BYTES);

    if (size > 0) {
        log->size_bytes += (size_t)size;
        return;
    }
    close(compile->outputs[job]);
    if (waitpid(compile->pids[job], &wait_status, 0) != compile->pids[job]) {
        wait_status = 127 << 8;
    }
    take_end(compile, job, wait_status);
}

/* Until all is done, or it is known what has failed first. */
static void run(struct compile *compile)
{
    while (start_all(compile)) {
        struct pollfd watched[JOBS];
        for (int job = 0; job < JOBS; job++) {
            bool is_open =
                compile->states[job] == RUNNING &&
                (compile->logs[job].size_bytes < LOG_HELD_BYTES || job > compile->failed);
            watched[job] =
                (struct pollfd){.fd = is_open ? compile->outputs[job] : -1, .events = POLLIN};
        }
        (void)poll(watched, JOBS, -1);
        for (int job = 0; job < JOBS; job++) {
            if (watched[job].revents != 0) {
                take_output(compile, job);
            }
        }
        show_long(compile);
    }
}

/* ---- preparing ---- */

static bool read_file(const char *path, size_t bytes_max, struct buffer *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = 0;

    while (fd >= 0 && text->size_bytes <= bytes_max &&
           (size = read(fd, buffer_reserve(text, 65536), 65535)) > 0) {
        text->size_bytes += (size_t)size;
    }
    if (fd >= 0) {
        close(fd);
    }
    bool is_whole = fd >= 0 && size == 0;
    buffer_append(text, "", 1);
    text->size_bytes--;
    return is_whole;
}

/* nvcc's list of commands, in a file. */
static bool list_commands(struct compile *compile)
{
    int count = 0, wait_status = 0;

    while (compile->nvcc[count] != NULL) {
        count++;
    }
    char **words = xcalloc((size_t)count + 5, sizeof *words);
    words[0] = compile->nvcc[0];
    words[1] = (char *)"--dryrun";
    words[2] = (char *)"--keep";
    words[3] = (char *)"--keep-dir";
    words[4] = (char *)compile->tmp;
    memcpy(words + 5, compile->nvcc + 1, (size_t)(count - 1) * sizeof *words);
    pid_t pid = fork();
    if (pid == 0) {
        redirect(compile->list);
        execv(words[0], words);
        _exit(127);
    }
    free(words);
    return pid > 0 && waitpid(pid, &wait_status, 0) == pid && wait_status == 0;
}

/* Gives the path at an option another end; the old one goes to *old. */
static bool change(struct recipe *recipe, enum recipe_step step, const char *option, char **old,
                   char **new)
{
    char **word = recipe_argument(recipe, step, option);

    if (word == NULL) {
        return false;
    }
    *old = xstrdup(*word);
    free(*word);
    *word = xasprintf("%s.device", *old);
    *new = xstrdup(*word);
    return true;
}

/* Cuts what ties the two halves together: the identity of the module, which both can find, and the
 * stub that one makes and the other includes at its end. */
static bool part(struct compile *compile)
{
    struct recipe *recipe = &compile->recipe;
    char *old = NULL;
    struct stat info;

    if (!change(recipe, RECIPE_DEVICE_CODE, "--module_id_file_name", &old, &compile->device_id) ||
        !change(recipe, RECIPE_DEVICE_CODE, "--stub_file_name", &compile->stub,
                &compile->made_stub)) {
        free(old);
        return false;
    }
    free(old);
    char **host_id = recipe_argument(recipe, RECIPE_HOST_FRONT, "--module_id_file_name");
    char **object = recipe_argument(recipe, RECIPE_HOST_OBJECT, "-o");
    if (host_id == NULL || object == NULL) {
        return false;
    }
    compile->host_id = xstrdup(*host_id);
    recipe_insert(recipe, RECIPE_DEVICE_CODE, "--gen_module_id_file");
    struct recipe_command *link = &recipe->steps[RECIPE_LINK_DEVICE];
    int found = 0;
    for (int i = 0; i < link->count; i++) {
        if (strcmp(link->words[i], *object) == 0) {
            free(link->words[i]);
            link->words[i] = xstrdup(compile->empty);
            found++;
        }
    }
    return found == 1 && mkfifo(compile->stub, 0600) == 0 && stat(compile->stub, &info) == 0 &&
           S_ISFIFO(info.st_mode);
}

static bool prepare(struct compile *compile)
{
    struct buffer text = {0};
    struct error err = {0};

    compile->list = xasprintf("%s/pkb-compile.list", compile->tmp);
    compile->empty = xasprintf("%s/pkb-compile.o", compile->tmp);
    bool is_ready = list_commands(compile) && read_file(compile->list, RECIPE_BYTES_MAX, &text) &&
                    recipe_read(&compile->recipe, text.data, &err) == OK && part(compile);
    buffer_release(&text);
    return is_ready;
}

/* ---- the end ---- */

/* Both halves name what is local to the module alike. */
static bool have_one_id(const struct compile *compile)
{
    struct buffer host = {0}, device = {0};
    bool are_equal = read_file(compile->host_id, 4096, &host) &&
                     read_file(compile->device_id, 4096, &device) && host.size_bytes > 0 &&
                     strcmp(host.data, device.data) == 0;

    buffer_release(&host);
    buffer_release(&device);
    return are_equal;
}

/* Is it nvcc's own answer? What a limit has ended is. */
static bool is_certain(const struct compile *compile)
{
    int wait_status = compile->failed < JOBS ? compile->wait_status[compile->failed] : 0;

    if (compile->failed == JOBS) {
        return have_one_id(compile);
    }
    if (WIFSIGNALED(wait_status)) {
        int number = WTERMSIG(wait_status);
        return number == SIGXCPU || number == SIGXFSZ || number == SIGKILL;
    }
    return WEXITSTATUS(wait_status) != 127 &&
           (compile->failed <= RECIPE_ASSEMBLE || compile->failed == RECIPE_LINK);
}

static _Noreturn void finish(struct compile *compile)
{
    int failed = compile->failed;
    int wait_status = failed < JOBS ? compile->wait_status[failed] : 0;

    say_builder(compile, "stages");
    for (int step = 0; step < RECIPE_STEPS && step <= failed; step++) {
        show(compile, step);
    }
    if (failed < JOBS && WIFSIGNALED(wait_status)) {
        (void)fprintf(stderr, "nvcc error   : '%s' died due to signal %d\n",
                      recipe_program(&compile->recipe, (enum recipe_step)failed),
                      WTERMSIG(wait_status));
        _exit(1);
    }
    _exit(failed < JOBS ? WEXITSTATUS(wait_status) : 0);
}

int main(int argc, char **argv)
{
    struct compile compile = {.failed = JOBS};

    if (argc < 5) {
        (void)fprintf(stderr, "pkb-compile: is started by pkb-worker only\n");
        return 127;
    }
    compile.builder = argv[1];
    compile.tmp = argv[2];
    compile.nvcc = argv + 3;
    (void)signal(SIGPIPE, SIG_IGN);
    if (prepare(&compile)) {
        run(&compile);
        if (is_certain(&compile)) {
            finish(&compile);
        }
    }
    say_builder(&compile, "nvcc");
    (void)signal(SIGPIPE, SIG_DFL);
    execv(compile.nvcc[0], compile.nvcc);
    (void)fprintf(stderr, "cannot start '%s': %s\n", compile.nvcc[0], strerror(errno));
    return 127;
}
