#include "worker/options.h"

#include "worker/build.h"
#include "worker/driver.h"
#include "worker/schedules.h"
#include "worker/usage.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status read_number(uint64_t *to, const char *option, const char *text, uint64_t max,
                               struct error *err)
{
    char *end = NULL;

    errno = 0;
    uint64_t value = strtoumax(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || text[0] == '-' || value > max) {
        return error_field(err, ERR_INVALID, option,
                           "--%s takes a number up to %" PRIu64 ", not '%s'", option, max, text);
    }
    *to = value;
    return OK;
}

static enum status read_word(int *to, const char *option, const char *text,
                             int (*find)(const char *), struct error *err)
{
    *to = find(text);
    return *to >= 0
               ? OK
               : error_field(err, ERR_INVALID, option, "--%s does not know '%s'", option, text);
}

static enum status read_version(const char **to, const char *option, const char *text,
                                struct error *err)
{
    *to = text;
    return driver_is_version(text)
               ? OK
               : error_field(err, ERR_INVALID, option,
                             "--%s takes numbers with dots between them, not '%s'", option, text);
}

static int find_switch(const char *text)
{
    if (strcmp(text, "off") == 0) {
        return 0;
    }
    return strcmp(text, "on") == 0 ? 1 : -1;
}

static int find_builder(const char *text)
{
    if (strcmp(text, BUILD_BY_STAGES) == 0) {
        return 0;
    }
    return strcmp(text, BUILD_BY_NVCC) == 0 ? 1 : -1;
}

static const struct option option_table[] = {
    {"server", required_argument, NULL, 's'},
    {"token-file", required_argument, NULL, 't'},
    {"name", required_argument, NULL, 'n'},
    {"device", required_argument, NULL, 'd'},
    {"slots", required_argument, NULL, 'l'},
    {"once", required_argument, NULL, 'o'},
    {"task", required_argument, NULL, 'T'},
    {"world", required_argument, NULL, 'w'},
    {"dtype", required_argument, NULL, 'y'},
    {"seed", required_argument, NULL, 'e'},
    {"work-dir", required_argument, NULL, 'W'},
    {"bin-dir", required_argument, NULL, 'b'},
    {"stall-ms", required_argument, NULL, 'S'},
    {"seed-schedule", required_argument, NULL, 'c'},
    {"build-ms", required_argument, NULL, 'B'},
    {"run-ms", required_argument, NULL, 'R'},
    {"bwrap", required_argument, NULL, 'p'},
    {"slot-uid-base", required_argument, NULL, 'u'},
    {"insecure", required_argument, NULL, 'i'},
    {"fuel", required_argument, NULL, 'f'},
    {"no-multicast", no_argument, NULL, 'm'},
    {"bench", no_argument, NULL, 'x'},
    {"schedules", required_argument, NULL, 'k'},
    {"replay", required_argument, NULL, 'r'},
    {"baselines", required_argument, NULL, 'a'},
    {"rates", required_argument, NULL, 'z'},
    {"builds", required_argument, NULL, 'j'},
    {"exclusive-timing", required_argument, NULL, 'E'},
    {"builds-mib", required_argument, NULL, 'J'},
    {"builder", required_argument, NULL, 'q'},
    {"kmsg", required_argument, NULL, 'g'},
    {"disk-free-mib", required_argument, NULL, 'F'},
    {"driver-min", required_argument, NULL, 'D'},
    {"cuda-min", required_argument, NULL, 'C'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static enum status read_text_option(struct options *options, int option, const char *text)
{
    switch (option) {
    case 's':
        options->agent.server = text;
        break;
    case 't':
        options->token_file = text;
        break;
    case 'n':
        options->agent.name = text;
        break;
    case 'o':
        options->once.file = text;
        break;
    case 'r':
        options->replay_file = text;
        break;
    case 'T':
        options->task = text;
        break;
    case 'W':
        options->work_dir = text;
        break;
    case 'b':
        options->bin_dir = text;
        break;
    case 'a':
        options->baselines = text;
        break;
    case 'z':
        options->rates = text;
        break;
    case 'p':
        options->node.bwrap = text;
        break;
    case 'j':
        options->builds = text;
        break;
    case 'g':
        options->agent.kmsg = text;
        break;
    case 'h':
        (void)fputs(worker_usage, stdout);
        exit(0);
    default:
        return ERR_INVALID;
    }
    return OK;
}

static enum status read_option(struct options *options, int option, const char *text,
                               struct error *err)
{
    uint64_t uid_base = 0;
    int word = 0;
    enum status status = OK;

    switch (option) {
    case 'd':
        status = read_word(&word, "device", text, device_kind_find, err);
        options->agent.device = options->once.job.device = (enum device_kind)word;
        return status;
    case 'y':
        status = read_word(&word, "dtype", text, dtype_find, err);
        options->once.job.dtype = (enum dtype)word;
        return status;
    case 'm':
        options->no_multicast = true;
        return OK;
    case 'x':
        options->once.job.is_bench = true;
        return OK;
    case 'l':
        return read_number(&options->slots, "slots", text, SLOTS_MAX, err);
    case 'w':
        return read_number(&options->world, "world", text, WORLD_MAX, err);
    case 'e':
        options->has_seed = true;
        return read_number(&options->seed, "seed", text, UINT64_MAX, err);
    case 'c':
        return read_number(&options->schedule_seed, "seed-schedule", text, UINT64_MAX, err);
    case 'k':
        return read_number(&options->schedules, "schedules", text, SCHEDULES_MAX, err);
    case 'f':
        return read_number(&options->fuel, "fuel", text, UINT64_MAX, err);
    case 'S':
        return read_number(&options->stall_ms, "stall-ms", text, INT32_MAX, err);
    case 'B':
        return read_number(&options->build_ms, "build-ms", text, INT32_MAX, err);
    case 'u':
        status = read_number(&uid_base, "slot-uid-base", text, UINT32_MAX / 2, err);
        options->node.uid_base = (uid_t)uid_base;
        return status;
    case 'i':
        return layers_read(&options->node.waived, text, err);
    case 'F':
        return read_number(&options->disk_free_mib, "disk-free-mib", text, INT32_MAX, err);
    case 'D':
        return read_version(&options->driver_min, "driver-min", text, err);
    case 'C':
        return read_version(&options->cuda_min, "cuda-min", text, err);
    case 'J':
        return read_number(&options->builds_mib, "builds-mib", text, INT32_MAX, err);
    case 'E':
        status = read_word(&word, "exclusive-timing", text, find_switch, err);
        options->is_timing_shared = word == 0;
        return status;
    case 'q':
        status = read_word(&word, "builder", text, find_builder, err);
        options->is_plain_build = word == 1;
        return status;
    case 'R':
        return read_number(&options->run_ms, "run-ms", text, INT32_MAX, err);
    default:
        return error_set(err, ERR_INVALID, "unknown option; try --help");
    }
}

static enum status check_together(const struct options *options, struct error *err)
{
    if (options->once.job.is_bench && options->once.job.device == DEVICE_SIM) {
        return error_field(err, ERR_INVALID, "bench",
                           "the simulator has no times: --bench needs --device cuda or "
                           "cuda-shared");
    }
    return OK;
}

enum status options_parse(struct options *options, int argc, char **argv, struct error *err)
{
    const char *bin_dir = options->bin_dir;
    const char *temporary = getenv("TMPDIR");
    enum status status = OK;
    int option = 0;

    *options = (struct options){.agent = {.device = DEVICE_SIM},
                                .once = {.job = {.dtype = DTYPE_BF16, .device = DEVICE_SIM}},
                                .node = {.bwrap = "/usr/bin/bwrap", .uid_base = SANDBOX_UID_BASE},
                                .bin_dir = bin_dir,
                                .work_dir = temporary == NULL ? "/tmp" : temporary,
                                .driver_min = DRIVER_FLOOR,
                                .cuda_min = CUDA_FLOOR,
                                .disk_free_mib = FITNESS_DISK_MIB,
                                .slots = 1,
                                .schedule_seed = 1,
                                .schedules = SCHEDULES_DEFAULT,
                                .fuel = UINT64_C(5000000000),
                                .stall_ms = 10000,
                                .build_ms = 60000,
                                .run_ms = 300000,
                                .builds_mib = 1024};
    while (status == OK && (option = getopt_long(argc, argv, "", option_table, NULL)) != -1) {
        if (read_text_option(options, option, optarg) != OK) {
            status = read_option(options, option, optarg, err);
        }
    }
    if (status == OK && options->schedules == 0) {
        status = error_field(err, ERR_INVALID, "schedules", "--schedules takes 1 at least");
    }
    if (status == OK && optind < argc) {
        status = error_set(err, ERR_INVALID, "'%s' is not expected; try --help", argv[optind]);
    }
    return status == OK ? check_together(options, err) : status;
}
