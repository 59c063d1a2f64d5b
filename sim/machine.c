#include "sim/machine.h"

#include "common/clock.h"
#include "common/mem.h"
#include "sim/client.h"
#include "sim/quiet.h"
#include "sim/report.h"
#include "sim/request.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum status machine_open(struct machine *machine, const struct machine_options *options,
                         struct error *err)
{
    if (options->devices < 1 || options->devices > WORLD_MAX) {
        return error_field(err, ERR_INVALID, "devices", "there can be 1 to %d devices", WORLD_MAX);
    }
    *machine = (struct machine){.options = *options, .last = {.rank = -1}};
    machine->engine = engine_open(&(struct engine_options){.devices = options->devices,
                                                           .seed = options->seed,
                                                           .fuel = options->fuel,
                                                           .sm_count = MACHINE_SM_COUNT,
                                                           .shared_per_sm_bytes = 228 * 1024,
                                                           .threads_per_sm = 2048,
                                                           .ctas_per_sm = 32,
                                                           .registers_per_sm = 65536});
    return OK;
}

/* "rankN" is rank N, "judge" is -1; -2: neither. */
static int rank_of(const char *name, int devices)
{
    if (strcmp(name, "judge") == 0) {
        return -1;
    }
    for (int rank = 0; rank < devices; rank++) {
        char expected[MACHINE_NAME_MAX];
        (void)snprintf(expected, sizeof expected, "rank%d", rank);
        if (strcmp(name, expected) == 0) {
            return rank;
        }
    }
    return -2;
}

enum status machine_add_client(struct machine *machine, const char *name, int fd, struct error *err)
{
    int rank = rank_of(name, machine->options.devices);
    int on = 1;

    if (rank < -1) {
        return error_field(err, ERR_INVALID, "client", "'%s' is neither a rank nor the judge",
                           name);
    }
    for (int i = 0; i < machine->client_count; i++) {
        if (machine->clients[i].rank == rank) {
            return error_field(err, ERR_INVALID, "client", "'%s' is given twice", name);
        }
    }
    assert(machine->client_count < MACHINE_CLIENTS_MAX);
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on)) {
        return error_field(err, ERR_INVALID, "client", "'%s' has no socket at %d: %m", name, fd);
    }
    struct client *client = &machine->clients[machine->client_count];
    *client = (struct client){.machine = machine,
                              .index = machine->client_count,
                              .rank = rank,
                              .is_open = true,
                              .control = {.client = client,
                                          .fd = fd,
                                          .given_fd = -1,
                                          .payload = xmalloc(WIRE_PAYLOAD_MAX + 1)},
                              /* The judge owns what all ranks share. */
                              .memory_max_bytes =
                                  machine->options.memory_max_bytes *
                                  (uint64_t)(rank < 0 ? machine->options.devices + 1 : 1)};
    (void)snprintf(client->name, sizeof client->name, "%s", name);
    machine->client_count++;
    client_open(client);
    return OK;
}

enum status machine_add_image(struct machine *machine, const char *path, struct error *err)
{
    enum status status = OK;
    void *elf = MAP_FAILED;
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &stat)) {
        status = error_set(err, ERR_IO, "cannot open image '%s': %m", path);
        goto out;
    }
    if (stat.st_size < 1 || stat.st_size > IMAGE_BYTES_MAX) {
        status = error_set(err, ERR_TOO_LARGE, "image '%s' is not 1 to %d bytes long", path,
                           IMAGE_BYTES_MAX);
        goto out;
    }
    elf = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (elf == MAP_FAILED) {
        status = error_set(err, ERR_IO, "cannot map image '%s': %m", path);
        goto out;
    }
    machine->images =
        xrealloc(machine->images, sizeof *machine->images * (size_t)(machine->image_count + 1));
    machine->images[machine->image_count++] =
        (struct image_file){.path = xstrdup(path), .elf = elf, .size_bytes = (size_t)stat.st_size};
out:
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

static void handle_ready(struct machine *machine, struct channel *channel)
{
    if (channel->is_pending) {
        client_end(channel->client, "it hung up in a call");
        return;
    }
    if (channel_take(channel) && request_handle(channel)) {
        quiet_disturb(machine);
    }
}

enum { CHANNELS_MAX = MACHINE_CLIENTS_MAX * (WIRE_CHANNELS_MAX + 1) };

/* The channels that wait for a socket of the client's, and those sockets. */
static nfds_t list_sockets(const struct machine *machine, struct channel **channels,
                           struct pollfd *sockets)
{
    nfds_t count = 0;

    for (int i = 0; i < machine->client_count; i++) {
        struct channel *channel = machine->clients[i].channels;
        for (; channel; channel = channel->next) {
            if (channel->is_pending && channel->waiting.kind == WAIT_SOCKET) {
                channels[count] = channel;
                sockets[count++] = (struct pollfd){.fd = channel->given_fd, .events = POLLIN};
            }
        }
    }
    return count;
}

void machine_look_at_sockets(struct machine *machine)
{
    static struct channel *channels[CHANNELS_MAX];
    static struct pollfd sockets[CHANNELS_MAX];
    nfds_t count = list_sockets(machine, channels, sockets);

    if (count == 0 || poll(sockets, count, 0) <= 0) {
        return;
    }
    for (nfds_t i = 0; i < count; i++) {
        channels[i]->is_readable = sockets[i].revents != 0;
    }
}

/* Waits up to `timeout_ms` for requests and handles what is there, in the order of clients. */
static enum status serve(struct machine *machine, int timeout_ms, struct error *err)
{
    static struct pollfd ready[2 * CHANNELS_MAX];
    static struct channel *channels[CHANNELS_MAX], *waiting[CHANNELS_MAX];
    nfds_t count = 0;

    for (int i = 0; i < machine->client_count; i++) {
        struct client *client = &machine->clients[i];
        if (!client->is_open) {
            continue;
        }
        channels[count++] = &client->control;
        for (struct channel *channel = client->channels; channel; channel = channel->next) {
            channels[count++] = channel;
        }
    }
    for (nfds_t i = 0; i < count; i++) {
        ready[i] =
            (struct pollfd){.fd = channels[i]->fd, .events = channels[i]->is_pending ? 0 : POLLIN};
    }
    nfds_t sockets = list_sockets(machine, waiting, ready + count);
    if (poll(ready, count + sockets, timeout_ms) < 0 && errno != EINTR) {
        return error_set(err, ERR_IO, "cannot wait for clients: %m");
    }
    for (nfds_t i = 0; i < count; i++) {
        if (ready[i].revents && !channels[i]->client->ending) {
            handle_ready(machine, channels[i]);
        }
    }
    return OK;
}

/* Closes those that have hung up; the number of open ones. */
static int close_ended(struct machine *machine)
{
    int open = 0;

    for (int i = 0; i < machine->client_count; i++) {
        struct client *client = &machine->clients[i];
        if (client->is_open && client->ending) {
            client_close(client);
            quiet_disturb(machine);
        }
        open += client->is_open;
    }
    return open;
}

enum status machine_run(struct machine *machine, struct error *err)
{
    int timeout_ms = -1;

    while (close_ended(machine)) {
        enum status status = serve(machine, timeout_ms, err);
        if (status) {
            return status;
        }
        timeout_ms = quiet_step(machine, clock_monotonic_ns());
    }
    report_last(machine);
    return OK;
}

void machine_close(struct machine *machine)
{
    for (int i = 0; i < machine->client_count; i++) {
        if (machine->clients[i].is_open) {
            client_close(&machine->clients[i]);
        }
    }
    if (machine->engine) {
        engine_close(machine->engine);
    }
    for (int i = 0; i < machine->image_count; i++) {
        struct image_file *file = &machine->images[i];
        if (file->elf) {
            munmap(file->elf, file->size_bytes);
        }
        image_set_release(&file->set);
        free(file->path);
    }
    free(machine->images);
    result_release(&machine->last);
    *machine = (struct machine){0};
}
