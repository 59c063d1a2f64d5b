/*
 * pkb-simd: all simulated GPUs of one evaluation.
 *
 *     pkb-simd --devices W --client rank0=FD ... --client judge=FD --image FILE ... --report FD
 *              [--seed N] [--fuel N] [--memory BYTES] [--gpu h200|h100]
 *
 * FDs are inherited. Exits with 0 when every client has hung up and the last line of the report is
 * written.
 */
#include "common/log.h"
#include "common/mem.h"
#include "sim/confine.h"
#include "sim/machine.h"
#include "sim/stream.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES_MAX = 64 };
static const uint64_t fuel_default = 5000000000u;
static const uint64_t memory_default = 4ull << 30;

struct arguments {
    struct machine_options machine;
    const char *clients[MACHINE_CLIENTS_MAX];
    int client_count;
    const char *images[IMAGES_MAX];
    int image_count;
};

static enum status parse_number(uint64_t *number, const char *option, const char *text,
                                struct error *err)
{
    char *end = NULL;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno || end == text || *end || strchr(text, '-')) {
        return error_field(err, ERR_INVALID, option, "'%s' is not a number", text);
    }
    *number = value;
    return OK;
}

static enum status take_option(struct arguments *arguments, const char *option, const char *text,
                               struct error *err)
{
    uint64_t number = 0;
    enum status status = OK;

    if (strcmp(option, "client") == 0 || strcmp(option, "image") == 0) {
        bool is_client = option[0] == 'c';
        int *count = is_client ? &arguments->client_count : &arguments->image_count;
        if (*count == (is_client ? MACHINE_CLIENTS_MAX : IMAGES_MAX)) {
            return error_field(err, ERR_TOO_LARGE, option, "too many of them");
        }
        (is_client ? arguments->clients : arguments->images)[(*count)++] = text;
        return OK;
    }
    if (strcmp(option, "gpu") == 0) {
        bool is_h100 = strcmp(text, "h100") == 0;
        if (!is_h100 && strcmp(text, "h200") != 0) {
            return error_field(err, ERR_INVALID, option, "'%s' is neither h200 nor h100", text);
        }
        arguments->machine.model = is_h100 ? WIRE_H100 : WIRE_H200;
        return OK;
    }
    status = parse_number(&number, option, text, err);
    if (status) {
        return status;
    }
    if (strcmp(option, "seed") == 0) {
        arguments->machine.seed = number;
    } else if (strcmp(option, "fuel") == 0) {
        arguments->machine.fuel = number;
    } else if (strcmp(option, "memory") == 0) {
        arguments->machine.memory_max_bytes = number;
    } else if (number > INT_MAX) {
        return error_field(err, ERR_INVALID, option, "'%s' is too large", text);
    } else if (strcmp(option, "devices") == 0) {
        arguments->machine.devices = (int)number;
    } else {
        arguments->machine.report_fd = (int)number;
    }
    return OK;
}

static enum status parse(struct arguments *arguments, int argc, char **argv, struct error *err)
{
    static const struct option options[] = {
        {"devices", required_argument, NULL, 0},
        {"client", required_argument, NULL, 0},
        {"image", required_argument, NULL, 0},
        {"report", required_argument, NULL, 0},
        {"seed", required_argument, NULL, 0},
        {"fuel", required_argument, NULL, 0},
        {"memory", required_argument, NULL, 0},
        {"gpu", required_argument, NULL, 0},
        {NULL, 0, NULL, 0},
    };
    int index = 0, found = 0;

    while ((found = getopt_long(argc, argv, "", options, &index)) == 0) {
        enum status status = take_option(arguments, options[index].name, optarg, err);
        if (status) {
            return status;
        }
    }
    if (found != -1 || optind != argc) {
        return error_set(err, ERR_INVALID, "unknown option or argument");
    }
    if (arguments->machine.report_fd < 0 || !arguments->client_count) {
        return error_set(err, ERR_INVALID, "--report and one --client at least must be given");
    }
    return OK;
}

/* NAME=FD */
static enum status add_client(struct machine *machine, const char *text, struct error *err)
{
    const char *equals = strchr(text, '=');
    uint64_t fd = 0;

    if (!equals) {
        return error_field(err, ERR_INVALID, "client", "'%s' is not NAME=FD", text);
    }
    enum status status = parse_number(&fd, "client", equals + 1, err);
    if (status) {
        return status;
    }
    if (fd > INT_MAX) {
        return error_field(err, ERR_INVALID, "client", "'%s' names no descriptor", text);
    }
    char *name = xstrndup(text, (size_t)(equals - text));
    status = machine_add_client(machine, name, (int)fd, err);
    free(name);
    return status;
}

/* What the machine may come to hold, and not more. */
static enum status confine_machine(const struct machine *machine, struct error *err)
{
    const uint64_t own_bytes = 16ull << 30; /* programs, their images, grids, queues */
    const uint64_t own_descriptors = 64;
    uint64_t clients = (uint64_t)machine->client_count;
    struct confinement confinement = {
        .address_bytes = own_bytes + ENGINE_SHADOW_BYTES_MAX,
        /* Of each channel, and what came with a request on it. */
        .descriptors_max =
            own_descriptors + clients * ((WIRE_CHANNELS_MAX + 1) * 2 + MACHINE_DESCRIPTORS_MAX),
    };

    for (int i = 0; i < machine->client_count; i++) {
        confinement.address_bytes += machine->clients[i].memory_max_bytes +
                                     (uint64_t)WIRE_CHANNELS_MAX * WIRE_STAGING_BYTES +
                                     STREAM_QUEUED_BYTES_MAX;
    }
    return confine(&confinement, err);
}

#if defined(__SANITIZE_ADDRESS__)
/* In its sandbox there is neither /proc nor ptrace, by which leaks would be looked for. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

int main(int argc, char **argv)
{
    struct arguments arguments = {
        .machine = {.fuel = fuel_default, .memory_max_bytes = memory_default, .report_fd = -1}};
    static struct machine machine;
    struct error err = {0};
    enum status status = OK;

    (void)signal(SIGPIPE, SIG_IGN);
    status = parse(&arguments, argc, argv, &err);
    if (!status) {
        status = machine_open(&machine, &arguments.machine, &err);
    }
    for (int i = 0; !status && i < arguments.image_count; i++) {
        status = machine_add_image(&machine, arguments.images[i], &err);
    }
    for (int i = 0; !status && i < arguments.client_count; i++) {
        status = add_client(&machine, arguments.clients[i], &err);
    }
    if (!status) {
        status = confine_machine(&machine, &err);
    }
    if (!status) {
        status = machine_run(&machine, &err);
    }
    if (status) {
        log_event(LOG_ERROR, "simd.failed", "field=%s message=%s", err.field, err.message);
    }
    machine_close(&machine);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
