#include "worker/devices.h"

#include "common/clock.h"
#include "worker/judge_call.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the driver keeps for itself goes up and down by a few MiB. */
static const int64_t left_bytes_max = INT64_C(256) << 20;

/* What the program writes, until it closes its end. False: that takes too long. */
static bool read_answer(int fd, char answer[static DEVICES_ANSWER_MAX])
{
    int64_t until_ms = clock_monotonic_ms() + DEVICES_WAIT_MS;
    size_t used = 0;
    ssize_t size = 1;

    while (size > 0 && used < DEVICES_ANSWER_MAX - 1) {
        struct pollfd watched = {.fd = fd, .events = POLLIN};
        int64_t left_ms = until_ms - clock_monotonic_ms();
        if (left_ms <= 0 || poll(&watched, 1, (int)left_ms) == 0) {
            return false;
        }
        size = read(fd, answer + used, DEVICES_ANSWER_MAX - 1 - used);
        used += size > 0 ? (size_t)size : 0;
    }
    answer[used] = 0;
    return true;
}

/* "gpu 0000:1b:00 1048576 GPU-..." */
static bool read_gpu(const char *line, struct devices *devices)
{
    static const char word[] = "gpu ";
    struct device device = {0};
    const char *at = line + strlen(word);
    char *end = NULL;

    if (strncmp(line, word, strlen(word)) != 0 || devices->gpu_count == GPUS_MAX ||
        !pci_address_read(&device.pci, at, &at) || *at != ' ') {
        return false;
    }
    device.used_bytes = strtoll(at, &end, 10);
    if (end == at || *end != ' ') {
        return false;
    }
    (void)snprintf(device.uuid, sizeof device.uuid, "%s", end + 1);
    devices->gpu[devices->gpu_count++] = device;
    return true;
}

/* "driver 580.65.06 13000"; "-" is not known. */
static bool read_driver(const char *line, struct devices *devices)
{
    static const char word[] = "driver ";
    const char *version = line + strlen(word);

    if (strncmp(line, word, strlen(word)) != 0) {
        return false;
    }
    size_t length = strcspn(version, " ");
    (void)snprintf(devices->driver, sizeof devices->driver, "%.*s", (int)length,
                   version[0] == '-' ? "" : version);
    devices->cuda = (int)strtol(version + length, NULL, 10);
    return true;
}

enum status devices_understand(char *answer, int wait_status, enum device_kind kind,
                               struct devices *devices, struct error *err)
{
    static const char prefix[] = "pkb-judge: ";
    bool is_well = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    const char *unknown = NULL;
    long count = 0;
    char *rest = NULL;

    *devices = (struct devices){0};
    for (char *line = strtok_r(answer, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *end = NULL;
        if (read_driver(line, devices) || read_gpu(line, devices)) {
            continue;
        }
        count = strtol(line, &end, 10);
        if (end == line || *end != 0 || count < 1 || count > GPUS_MAX || unknown != NULL) {
            unknown = unknown == NULL ? line : unknown;
        }
    }
    if (is_well && unknown == NULL && count > 0) {
        devices->ranks = kind == DEVICE_CUDA ? (int)count : WORLD_MAX;
        return OK;
    }
    if (unknown != NULL && strncmp(unknown, prefix, strlen(prefix)) == 0) {
        unknown += strlen(prefix);
    }
    return error_field(err, ERR_UNAVAILABLE, "device", "no GPU can be used: %s",
                       unknown == NULL ? "pkb-judge ended without a word" : unknown);
}

enum status devices_look(const struct sandbox_node *node, enum device_kind kind,
                         struct devices *devices, struct error *err)
{
    char answer[DEVICES_ANSWER_MAX];
    int fd = -1;
    int wait_status = 0;
    pid_t pid = 0;

    if (kind == DEVICE_SIM) {
        *devices = (struct devices){.ranks = WORLD_MAX};
        return OK;
    }
    enum status status = judge_call(node, "--devices", device_kind_name(kind), &pid, &fd, err);
    if (status != OK) {
        return status;
    }
    bool is_in_time = read_answer(fd, answer);
    if (!is_in_time) {
        (void)kill(pid, SIGKILL);
    }
    close(fd); /* so that who writes on ends, too */
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
    }
    return is_in_time ? devices_understand(answer, wait_status, kind, devices, err)
                      : error_field(err, ERR_UNAVAILABLE, "device",
                                    "the GPUs do not answer within %d s", DEVICES_WAIT_MS / 1000);
}

enum status devices_suffice(enum device_kind kind, int ranks, int world, struct error *err)
{
    if (kind == DEVICE_CUDA && world > ranks) {
        return error_field(err, ERR_UNAVAILABLE, "world",
                           "%d ranks need a GPU each, and this node has %d: --device cuda-shared "
                           "lets ranks share one",
                           world, ranks);
    }
    return OK;
}

enum status devices_compare(const struct devices *first, const struct devices *now,
                            struct error *err)
{
    if (now->gpu_count != first->gpu_count || now->ranks != first->ranks) {
        return error_field(err, ERR_UNAVAILABLE, "device",
                           "there were %d GPUs, and now there are %d", first->gpu_count,
                           now->gpu_count);
    }
    for (int i = 0; i < now->gpu_count; i++) {
        const struct device *was = &first->gpu[i];
        const struct device *is = &now->gpu[i];
        if (strcmp(was->uuid, is->uuid) != 0) {
            return error_field(err, ERR_UNAVAILABLE, "device", "GPU %d was %s, and now it is %s", i,
                               was->uuid, is->uuid);
        }
        if (was->used_bytes >= 0 && is->used_bytes - was->used_bytes > left_bytes_max) {
            return error_field(err, ERR_UNAVAILABLE, "device",
                               "%lld MiB more of GPU %d's memory are in use than at first, by "
                               "nobody who runs",
                               (long long)((is->used_bytes - was->used_bytes) >> 20), i);
        }
    }
    return OK;
}
