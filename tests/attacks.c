#include "tests/attacks.h"

#include "common/buffer.h"
#include "common/clock.h"
#include "common/mem.h"
#include "tests/node.h"
#include "worker/build.h"
#include "worker/collect.h"
#include "worker/loop.h"
#include "worker/running.h"
#include "worker/slot.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOURCE_BYTES = 64 * 1024, BUILD_MS = 60000, RUN_MS = 60000, STALL_MS = 20000 };

/* Small, so that an attack on them costs little. */
static const struct cgroup_limits limits = {.memory_bytes = 512 << 20, .processes = 64};

static _Noreturn void give_up(const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

static int read_line(const char *line, struct attack *attack)
{
    return sscanf(line, "%63s %63s %63s %63s", attack->name, attack->outside, attack->verdict,
                  attack->reason);
}

int attacks_read(const char *file, struct attack attacks[static ATTACKS_MAX])
{
    FILE *table = fopen(file, "re");
    char line[512];
    int count = 0;

    while (table != NULL && fgets(line, sizeof line, table) != NULL) {
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        if (count == ATTACKS_MAX || read_line(line, &attacks[count++]) != 4) {
            give_up(file, line);
        }
    }
    if (table != NULL) {
        (void)fclose(table);
    }
    return count;
}

char *attacks_join(const char *const *files, size_t count, size_t *size_bytes)
{
    struct buffer text = {0};

    for (size_t i = 0; i < count; i++) {
        int fd = open(files[i], O_RDONLY | O_CLOEXEC);
        ssize_t size = fd < 0 ? -1 : read(fd, buffer_reserve(&text, SOURCE_BYTES), SOURCE_BYTES);
        if (size <= 0) {
            give_up(files[i], "cannot be read");
        }
        text.size_bytes += (size_t)size;
        close(fd);
    }
    *size_bytes = text.size_bytes;
    return text.data;
}

static void require(enum status status, const struct error *err)
{
    if (status != OK) {
        give_up("attacks", err->message);
    }
}

/* Until the box is empty. */
static void await_build(struct build *build, struct box *box, struct capture *output,
                        int64_t until_ms)
{
    struct box_event event = {0};
    struct error err = {0};
    enum status status = OK;
    bool is_open = true;

    while ((status = box_next(box, &event, &err)) != ERR_UNAVAILABLE) {
        struct pollfd watched[] = {{.fd = box_fd(box), .events = POLLIN},
                                   {.fd = is_open ? output->fd : -1, .events = POLLIN}};
        if (status == OK && build_note(build, &event)) {
            box_kill(box);
        }
        int64_t left_ms = until_ms - clock_monotonic_ms();
        if (status == ERR_NOT_FOUND && poll(watched, 2, left_ms < 0 ? 0 : (int)left_ms) == 0) {
            build->is_late = true;
            box_kill(box);
            until_ms += BUILD_MS;
        }
        if (watched[1].revents != 0) {
            is_open = capture_read(output);
        }
        if (capture_is_too_long(output)) {
            box_kill(box);
        }
    }
    (void)capture_read(output);
}

int attacks_open(const char *file)
{
    struct error err = {0};
    struct stat info = {0};
    int made = -1;

    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) {
        give_up(file, "cannot be opened");
    }
    size_t size_bytes = (size_t)info.st_size;
    char *bytes = xmalloc(size_bytes);
    if (read(fd, bytes, size_bytes) != (ssize_t)size_bytes) {
        give_up(file, "cannot be read");
    }
    close(fd);
    require(collect_bytes(bytes, size_bytes, &made, &err), &err);
    free(bytes);
    return made;
}

/* Puts the hostile compiler in nvcc's place. */
static void replace_compiler(struct build *build, const struct attacks_build *attack,
                             char *words[static 6])
{
    static const char loader[] = "/lib64/ld-linux-x86-64.so.2"; /* files of a source do not run */
    const struct sandbox_paths *inside = &build->sandbox->inside;
    struct error err = {0};

    require(sandbox_add_file(build->sandbox, attack->compiler, "compiler", &err), &err);
    require(sandbox_add_file(build->sandbox, attack->honest, "honest.so", &err), &err);
    words[0] = xstrdup(loader);
    words[1] = xasprintf("%s/compiler", inside->source);
    words[2] = xstrdup(attack->act);
    words[3] = xasprintf("%s/honest.so", inside->source);
    words[4] = xasprintf("%s/solution.so", inside->out);
    words[5] = NULL;
    build->program.argv = words;
}

void attacks_build(const struct attacks_build *attack, struct result *result, int *library)
{
    struct slot_lease slot = {.lock = -1};
    struct build build = {0};
    struct capture output = {0};
    struct box *box = NULL;
    struct error err = {0};
    char *words[6] = {NULL};
    int64_t wall_ms = attack->wall_ms == 0 ? BUILD_MS : attack->wall_ms;

    require(slot_take(&slot, test_node()->uid_base, &err), &err);
    struct build_options options = {.node = test_node(),
                                    .slot = slot.number,
                                    .task = task_find("allreduce"),
                                    .dtype = DTYPE_BF16,
                                    .source = attack->source,
                                    .source_bytes = attack->source_bytes,
                                    .wall_ms = wall_ms,
                                    .limits = attack->limits};
    require(build_prepare(&build, &options, &err), &err);
    if (attack->act != NULL) {
        replace_compiler(&build, attack, words);
    }
    struct box_program program = build.program;
    require(capture_init(&output, &program.output, &err), &err);
    require(box_start(&box, &program, 1, &err), &err);
    close(program.output);
    await_build(&build, box, &output, clock_monotonic_ms() + wall_ms);
    box_close(box);
    *result = (struct result){.rank = -1};
    build_judge(&build, &output, result);
    *library = -1;
    if (result->verdict == VERDICT_ACCEPTED) {
        *library = build.library;
        build.library = -1;
    }
    build_release(&build);
    capture_release(&output);
    slot_release(&slot);
    for (int i = 0; words[i] != NULL; i++) {
        free(words[i]);
    }
}

static void on_done(void *context)
{
    *(bool *)context = true;
    loop_stop();
}

static enum device_kind device(void)
{
    const char *name = getenv("PKB_TEST_DEVICE");
    int kind = name == NULL ? DEVICE_SIM : device_kind_find(name);

    if (kind < 0) {
        give_up("PKB_TEST_DEVICE", name);
    }
    return (enum device_kind)kind;
}

void attacks_run(int library, struct result *result)
{
    static const struct running_limits times = {.run_ms = RUN_MS, .stall_ms = STALL_MS};
    struct slot_lease slot = {.lock = -1};
    struct running *running = NULL;
    struct error err = {0};
    bool is_done = false;

    require(slot_take(&slot, test_node()->uid_base, &err), &err);
    struct launch_options options = {.node = test_node(),
                                     .slot = slot.number,
                                     .library = library,
                                     .limits = &limits,
                                     .job = {.task_number = task_number(task_find("allreduce")),
                                             .world = 1,
                                             .dtype = DTYPE_BF16,
                                             .device = device(),
                                             .seed = ATTACKS_SEED,
                                             .stall_ms = STALL_MS},
                                     .schedule_seed = 1,
                                     .fuel = UINT64_C(1000000000)};
    require(running_start(&running, &options, &times, on_done, &is_done, &err), &err);
    while (!is_done) {
        loop_run();
    }
    *result = (struct result){.rank = -1};
    running_finish(running, result);
    running_close(running);
    slot_release(&slot);
}

/* A number of kilobytes in /proc/self/status. */
static int64_t status_bytes(const char *key)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    int64_t bytes = -1;

    while (status != NULL && bytes < 0 && fgets(line, sizeof line, status) != NULL) {
        size_t length = strlen(key);
        if (strncmp(line, key, length) == 0 && line[length] == ':') {
            bytes = strtoll(line + length + 1, NULL, 10) * 1024;
        }
    }
    if (status != NULL) {
        (void)fclose(status);
    }
    return bytes;
}

int64_t attacks_growth(void)
{
    static int64_t before;
    int64_t growth = status_bytes("VmHWM") - before;
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, "5", 1) != 1) { /* the peak is that of now */
        give_up("/proc/self/clear_refs", "cannot be written");
    }
    close(fd);
    before = status_bytes("VmRSS");
    return growth;
}
