#include "worker/selftest.h"

#include "common/buffer.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mem.h"
#include "worker/box.h"
#include "worker/capture.h"
#include "worker/collect.h"
#include "worker/loop.h"
#include "worker/slot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROBES = SANDBOX_POLICIES, WORDS = 10, TIME_MS = 30000, SHOWN_MAX = 160, MISSING_MAX = 420 };

/* A small one, so that the attacks on it cost little. */
static const struct cgroup_limits limits = {.memory_bytes = 64 << 20, .processes = 24, .cpus = 2};

/* The last one is without filters. */
static const enum sandbox_policy probed[PROBES] = {SANDBOX_BUILD, SANDBOX_RANKS, SANDBOX_SIMD,
                                                   SANDBOX_RANKS};

struct probe {
    struct sandbox *sandbox;
    char *argv[WORDS];
    struct capture output;
    bool is_open, has_ended, hit_memory, hit_processes;
};

struct selftest {
    const struct sandbox_node *node;
    struct sandbox_node unfiltered;
    struct slot_lease slot;
    key_t key;
    int object;            /* of System V */
    char secret[PATH_MAX]; /* a file */
    struct probe probes[PROBES];
    struct box *box;
    struct buffer missing; /* "layer: why; ..." */
    unsigned named;
};

static void add_missing(struct selftest *test, enum layer layer, const char *why)
{
    if (((test->node->waived | test->named) >> layer & 1) == 0) {
        buffer_printf(&test->missing, "%s%s: %s", test->missing.size_bytes > 0 ? "; " : "",
                      layer_name(layer), why);
        test->named |= 1U << layer;
    }
}

/* ---- what is attacked ---- */

static enum status make_targets(struct selftest *test, struct error *err)
{
    int length =
        snprintf(test->secret, sizeof test->secret, "%s/secret-XXXXXX", test->node->work_dir);
    int fd = length < PATH_MAX ? mkstemp(test->secret) : -1;

    if (fd < 0) {
        test->secret[0] = 0;
        return error_set(err, ERR_IO, "cannot make a file in '%s': %m", test->node->work_dir);
    }
    (void)fchmod(fd, 0644);
    close(fd);
    test->key = (key_t)getpid() | 1 << 30;
    test->object = shmget(test->key, 1, IPC_CREAT | 0666);
    return slot_take(&test->slot, test->node->uid_base, err);
}

static void remove_targets(struct selftest *test)
{
    if (test->secret[0] != 0) {
        (void)unlink(test->secret);
    }
    if (test->object >= 0) {
        (void)shmctl(test->object, IPC_RMID, NULL);
    }
    slot_release(&test->slot);
}

/* ---- in sandboxes ---- */

static enum status plan_probe(struct selftest *test, int index, struct box_program *program,
                              struct error *err)
{
    static char *const no_env[] = {NULL};
    struct probe *probe = &test->probes[index];
    bool is_filtered = index < PROBES - 1;
    const struct sandbox_node *node = is_filtered ? test->node : &test->unfiltered;
    struct sandbox_options options = {.policy = probed[index],
                                      .slot = test->slot.number,
                                      .device = DEVICE_SIM,
                                      .world = 1,
                                      .limits = &limits,
                                      .has_probe = true};

    enum status status = sandbox_open(&probe->sandbox, node, &options, err);
    if (status == OK) {
        status = capture_init(&probe->output, &program->output, err);
    }
    if (status != OK) {
        return status;
    }
    probe->is_open = true;
    bool has_second =
        is_filtered && options.policy == SANDBOX_RANKS && node->filters[FILTER_RANK_END] >= 0;
    probe->argv[0] = xstrdup(probe->sandbox->inside.probe);
    probe->argv[1] = xstrdup(sandbox_policy_name(options.policy));
    probe->argv[2] = xasprintf("%u", (unsigned)probe->sandbox->uid);
    probe->argv[3] = xasprintf("%d", (int)getpid());
    probe->argv[4] = xstrdup(test->secret);
    probe->argv[5] = slot_name(&test->slot, node->uid_base);
    probe->argv[6] = xasprintf("%d", (int)test->key);
    probe->argv[7] = xasprintf("%d", has_second ? node->filters[FILTER_RANK_END] : -1);
    probe->argv[8] = xstrdup(probe->sandbox->is_filtered ? "filtered" : "unfiltered");
    program->argv = probe->argv;
    program->env = no_env;
    program->sandbox = probe->sandbox;
    if (has_second) {
        program->fds[program->fd_count++] = node->filters[FILTER_RANK_END];
    }
    return OK;
}

static enum status start_probes(struct selftest *test, struct error *err)
{
    struct box_program programs[PROBES] = {{0}};
    enum status status = OK;

    for (int i = 0; i < PROBES; i++) {
        programs[i].output = -1;
    }
    for (int i = 0; i < PROBES && status == OK; i++) {
        status = plan_probe(test, i, &programs[i], err);
    }
    if (status == OK) {
        status = box_start(&test->box, programs, PROBES, err);
    }
    for (int i = 0; i < PROBES; i++) {
        if (programs[i].output >= 0) {
            close(programs[i].output);
        }
    }
    return status;
}

static void note(struct selftest *test, const struct box_event *event)
{
    struct probe *probe = &test->probes[event->program];

    if (event->kind == BOX_ENDED) {
        probe->has_ended = true;
    } else if (event->kind == BOX_LIMIT) {
        probe->hit_memory |= event->limit == BOX_LIMIT_MEMORY;
        probe->hit_processes |= event->limit == BOX_LIMIT_PROCESSES;
    }
}

/* Until all have ended and been killed. */
static void await_probes(struct selftest *test)
{
    int64_t until_ms = clock_monotonic_ms() + TIME_MS;
    struct box_event event = {0};
    struct error err = {0};
    enum status status = OK;
    bool is_killed = false;

    while ((status = box_next(test->box, &event, &err)) != ERR_UNAVAILABLE) {
        bool have_all_ended = true;
        if (status == OK) {
            note(test, &event);
        }
        for (int i = 0; i < PROBES; i++) {
            have_all_ended &= test->probes[i].has_ended;
        }
        int64_t left_ms = until_ms - clock_monotonic_ms();
        if (!is_killed && (have_all_ended || left_ms <= 0)) {
            box_kill(test->box);
            is_killed = true;
        }
        if (status == ERR_NOT_FOUND) {
            struct pollfd watched = {.fd = box_fd(test->box), .events = POLLIN};
            (void)poll(&watched, 1, is_killed || left_ms < 0 ? TIME_MS : (int)left_ms);
        }
    }
}

/* ---- what came of it ---- */

/* Lines of "layer what"; false: the last is not "done". */
static bool read_lines(struct selftest *test, enum sandbox_policy policy, const char *text)
{
    bool is_done = false;

    for (const char *line = text; *line != 0;) {
        size_t length = strcspn(line, "\n");
        size_t word = strcspn(line, " \n");
        int layer = layer_find(line, word);
        is_done = length == 4 && strncmp(line, "done", 4) == 0;
        if (layer >= 0 && word < length) {
            char *why = xasprintf("in the sandbox of %s: %.*s", sandbox_policy_name(policy),
                                  (int)(length - word - 1), line + word + 1);
            add_missing(test, (enum layer)layer, why);
            free(why);
        }
        line += length;
        line += *line == '\n';
    }
    return is_done;
}

/* Which layer it is that keeps a sandbox from starting, by what was said then. */
static enum layer layer_of(const char *why)
{
    static const struct {
        const char *text;
        enum layer layer;
    } signs[] = {{"filter", LAYER_SECCOMP},          {"seccomp", LAYER_SECCOMP},
                 {"disable-userns", LAYER_USERNS},   {"max_user_namespaces", LAYER_USERNS},
                 {"become another user", LAYER_UID}, {"enter the cgroup", LAYER_CGROUP}};

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (strstr(why, signs[i].text) != NULL) {
            return signs[i].layer;
        }
    }
    return LAYER_NAMESPACES;
}

static void judge_probe(struct selftest *test, int index)
{
    struct probe *probe = &test->probes[index];
    struct buffer text = {0};

    while (probe->is_open && capture_read(&probe->output) && probe->output.seen_bytes == 0) {
        break; /* its writers are gone, so there is no more to wait for */
    }
    capture_write(&probe->output, &text, CAPTURE_KEPT_BYTES);
    if (!read_lines(test, probed[index], text.data == NULL ? "" : text.data)) {
        char *why =
            xasprintf("the sandbox of %s does not start: %.*s", sandbox_policy_name(probed[index]),
                      SHOWN_MAX, text.data == NULL ? "no output" : text.data);
        why[strcspn(why, "\n")] = 0;
        add_missing(test, layer_of(why), why);
    } else if (index == PROBES - 1 && !probe->hit_memory) {
        add_missing(test, LAYER_CGROUP, "memory is not limited");
    } else if (index == PROBES - 1 && !probe->hit_processes) {
        add_missing(test, LAYER_CGROUP, "processes are not limited");
    }
    buffer_release(&text);
}

/* A link that leads out of a directory must not be followed, and a plain file be taken. */
static void test_collector(struct selftest *test)
{
    struct error err = {0};
    int directory = open(test->node->work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *name = strrchr(test->secret, '/') + 1;
    char *link = xasprintf("%s.link", name);
    int fd = -1;

    if (directory < 0 || collect_file(directory, name, 1, &fd, &err) != OK) {
        add_missing(test, LAYER_COLLECTOR, "a plain file cannot be taken: openat2 is missing");
    } else {
        close(fd);
    }
    if (directory >= 0 && symlinkat(test->secret, directory, link) == 0) {
        if (collect_file(directory, link, 1, &fd, &err) != ERR_INVALID) {
            add_missing(test, LAYER_COLLECTOR, "a link is followed");
        }
        (void)unlinkat(directory, link, 0);
    }
    if (directory >= 0) {
        close(directory);
    }
    free(link);
}

static void release(struct selftest *test)
{
    box_close(test->box);
    for (int i = 0; i < PROBES; i++) {
        struct probe *probe = &test->probes[i];
        sandbox_close(probe->sandbox);
        if (probe->is_open) {
            capture_release(&probe->output);
        }
        for (int word = 0; word < WORDS; word++) {
            free(probe->argv[word]);
        }
    }
    remove_targets(test);
    buffer_release(&test->missing);
    free(test);
}

enum status selftest_run(const struct sandbox_node *node, struct error *err)
{
    struct selftest *test = xcalloc(1, sizeof *test);

    test->node = node;
    test->unfiltered = *node;
    test->unfiltered.waived |= 1U << LAYER_SECCOMP;
    test->slot.lock = -1;
    test->object = -1;
    enum status status = make_targets(test, err);
    if (status == OK) {
        status = start_probes(test, err);
    }
    if (status == OK) {
        await_probes(test);
        test_collector(test);
        for (int i = 0; i < PROBES; i++) {
            judge_probe(test, i);
        }
        if (test->missing.size_bytes > 0) {
            status = error_set(err, ERR_UNAVAILABLE,
                               "missing layers of the sandbox: %.*s (see docs/sandbox.md)",
                               MISSING_MAX, test->missing.data);
        }
    }
    release(test);
    return status;
}

/* ---- repeated ---- */

struct selftest_watch {
    const struct sandbox_node *node;
    struct loop_timer *timer;
    enum status status;
    struct error err;
};

static void on_time(void *context)
{
    struct selftest_watch *watch = context;

    if (watch->status != OK) {
        return;
    }
    watch->status = selftest_run(watch->node, &watch->err);
    if (watch->status != OK) {
        log_event(LOG_ERROR, "sandbox.broken", "error=%s", watch->err.message);
        (void)raise(SIGTERM);
    }
}

struct selftest_watch *selftest_watch_open(const struct sandbox_node *node, int64_t every_ms)
{
    struct selftest_watch *watch = xcalloc(1, sizeof *watch);

    watch->node = node;
    watch->timer = loop_timer_open(every_ms, every_ms, on_time, watch);
    return watch;
}

enum status selftest_watch_close(struct selftest_watch *watch, struct error *err)
{
    enum status status = watch->status;

    if (status != OK) {
        *err = watch->err;
    }
    loop_timer_close(watch->timer);
    free(watch);
    return status;
}
