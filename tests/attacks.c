#include "tests/attacks.h"

#include "common/buffer.h"
#include "common/mem.h"
#include "tests/node.h"
#include "worker/build.h"
#include "worker/loop.h"
#include "worker/running.h"
#include "worker/slot.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOURCE_BYTES = 64 * 1024, BUILD_MS = 60000, RUN_MS = 60000, STALL_MS = 8000 };

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
static void await_build(struct build *build, struct box *box, struct capture *output)
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
        if (status == ERR_NOT_FOUND && poll(watched, 2, BUILD_MS) == 0) {
            build->is_late = true;
            box_kill(box);
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

void attacks_build(const struct sandbox_node *node, const char *source, size_t size_bytes,
                   struct result *result, int *library)
{
    struct slot_lease slot = {.lock = -1};
    struct build build = {0};
    struct capture output = {0};
    struct box *box = NULL;
    struct error err = {0};

    require(slot_take(&slot, node->uid_base, &err), &err);
    struct build_options options = {.node = node,
                                    .slot = slot.number,
                                    .task = task_find("allreduce"),
                                    .dtype = DTYPE_BF16,
                                    .source = source,
                                    .source_bytes = size_bytes,
                                    .wall_ms = BUILD_MS};
    require(build_prepare(&build, &options, &err), &err);
    struct box_program program = build.program;
    require(capture_init(&output, &program.output, &err), &err);
    require(box_start(&box, &program, 1, &err), &err);
    close(program.output);
    await_build(&build, box, &output);
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
                                             .seed = ATTACKS_SEED},
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
