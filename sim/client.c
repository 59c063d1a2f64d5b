#include "sim/client.h"

#include "common/log.h"
#include "common/mem.h"
#include "sim/program.h"
#include "sim/report.h"
#include "sim/stream.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void client_open(struct client *client)
{
    client->space = space_open(client->machine->engine, client->rank);
    client->private_next =
        WIRE_PRIVATE_BASE + (uint64_t)client->index * WIRE_PRIVATE_STRIDE + (2 << 20);
    for (int device = 0; device < client->machine->options.devices; device++) {
        stream_open(client, device, 0);
    }
}

static void release_handles(struct client *client)
{
    for (size_t i = 0; i < client->handles.count; i++) {
        const struct handle *handle = &client->handles.rows[i];
        if (handle->kind == HANDLE_MEMORY) {
            object_release(handle->thing);
        } else if (handle->kind == HANDLE_EVENT) {
            event_release(handle->thing);
        } else if (handle->kind == HANDLE_FUNCTION) {
            free(handle->thing);
        }
    }
    handles_release(&client->handles);
}

void client_close(struct client *client)
{
    log_event(LOG_DEBUG, "simd.client_closed", "client=%s reason=%s", client->name,
              client->ending ? client->ending : "");
    while (client->channels) {
        channel_close(client->channels);
    }
    streams_release(client);
    programs_release(client);
    release_handles(client);
    regions_release(client);
    object_forget_payer(client->machine, client);
    space_close(client->space);
    buffer_release(&client->output);
    free(client->host);
    free(client->queued_before);
    for (int i = 0; i < client->refused_count; i++) {
        free(client->refused[i]);
    }
    client->refused_count = 0;
    free(client->control.payload);
    close(client->control.fd);
    client->control.fd = -1;
    client->is_open = false;
}

void client_end(struct client *client, const char *reason)
{
    if (!client->ending) {
        client->ending = reason;
    }
}

/* Takes the descriptors and the sender that came with the bytes. */
static void take_control(struct channel *channel, struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (part->cmsg_type == SCM_CREDENTIALS) {
            struct ucred sender;
            memcpy(&sender, CMSG_DATA(part), sizeof sender);
            channel->client->pid = sender.pid;
        }
        if (part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (channel->given_fd >= 0) {
                close(channel->given_fd);
            }
            channel->given_fd = fd;
        }
    }
}

/* Up to `size_bytes` into `to`; what arrived, or -1: nothing for now, or the client ends. */
static ssize_t receive(struct channel *channel, void *to, size_t size_bytes)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int) * 4) + CMSG_SPACE(sizeof(struct ucred))];
    } control = {0};
    struct iovec piece = {.iov_base = to, .iov_len = size_bytes};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};

    ssize_t received = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            client_end(channel->client, "its connection broke");
        }
        return -1;
    }
    take_control(channel, &message);
    if (received == 0) {
        bool is_thread_end = channel != &channel->client->control && !channel->received_bytes;
        if (is_thread_end) {
            channel_close(channel);
        } else {
            client_end(channel->client, "it hung up");
        }
        return -1;
    }
    return received;
}

bool channel_take(struct channel *channel)
{
    size_t head = sizeof channel->request;

    assert(!channel->is_pending);
    for (;;) {
        size_t have = channel->received_bytes;
        size_t whole = have < head ? head : head + channel->request.payload_bytes;
        if (have == whole) {
            break;
        }
        void *to =
            have < head ? (uint8_t *)&channel->request + have : channel->payload + (have - head);
        ssize_t received = receive(channel, to, whole - have);
        if (received < 0) {
            return false;
        }
        channel->received_bytes += (size_t)received;
        if (channel->received_bytes == head && channel->request.payload_bytes > WIRE_PAYLOAD_MAX) {
            client_end(channel->client, "a request is too large");
            return false;
        }
    }
    channel->payload[channel->request.payload_bytes] = '\0';
    channel->received_bytes = 0;
    channel->is_pending = true;
    channel->client->is_overdue = false;
    return true;
}

void channel_reply(struct channel *channel, struct wire_reply *reply, const void *payload, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct iovec pieces[2] = {{.iov_base = reply, .iov_len = sizeof *reply},
                              {.iov_base = (void *)payload, .iov_len = reply->payload_bytes}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};

    assert(channel->is_pending);
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    if (channel->given_fd >= 0) {
        close(channel->given_fd);
        channel->given_fd = -1;
    }
    event_release(channel->waiting.event);
    channel->waiting = (struct waiting){.kind = WAIT_NOTHING};
    channel->is_pending = false;
    channel->client->active_since_ns = 0;
    reply->output_waits = channel->client->output.size_bytes > 0;
    ssize_t whole = (ssize_t)(sizeof *reply + reply->payload_bytes);
    if (sendmsg(channel->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != whole) {
        client_end(channel->client, "it does not take replies");
    }
}

void channel_answer(struct channel *channel, int result)
{
    channel_reply(channel, &(struct wire_reply){.result = result}, NULL, -1);
}

/* Memory that both sides map and neither can shrink. */
static uint8_t *staging_open(int *staging_fd)
{
    int fd = memfd_create("pkb staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *bytes = MAP_FAILED;

    if (fd >= 0 && !ftruncate(fd, WIRE_STAGING_BYTES) &&
        !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        bytes = mmap(NULL, WIRE_STAGING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (bytes == MAP_FAILED) {
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    *staging_fd = fd;
    return bytes;
}

struct channel *channel_open(struct client *client, int fd, int *staging_fd)
{
    struct channel **link = &client->channels;

    if (client->channel_count == WIRE_CHANNELS_MAX) {
        return NULL;
    }
    uint8_t *staging = staging_open(staging_fd);
    if (!staging) {
        return NULL;
    }
    struct channel *channel = xcalloc(1, sizeof *channel);
    *channel = (struct channel){.client = client,
                                .fd = fd,
                                .given_fd = -1,
                                .staging = staging,
                                .payload = xmalloc(WIRE_PAYLOAD_MAX + 1)};
    while (*link) {
        link = &(*link)->next;
    }
    *link = channel;
    client->channel_count++;
    return channel;
}

void channel_close(struct channel *channel)
{
    struct client *client = channel->client;
    struct channel **link = &client->channels;

    while (*link != channel) {
        link = &(*link)->next;
    }
    *link = channel->next;
    client->channel_count--;
    if (channel->given_fd >= 0) {
        close(channel->given_fd);
    }
    event_release(channel->waiting.event);
    munmap(channel->staging, WIRE_STAGING_BYTES);
    close(channel->fd);
    free(channel->payload);
    free(channel);
}

void client_set_sticky(struct client *client, int result)
{
    if (!client->sticky) {
        client->sticky = result;
    }
    client->has_news = true;
    for (struct stream *stream = client->streams; stream; stream = stream->next) {
        stream_clear(stream);
    }
}

void client_fault(struct client *client, struct grid *grid)
{
    int result = 0;
    const struct fault *fault = grid_fault(grid, &result);

    report_fault(client, fault);
    client_set_sticky(client, result);
}

int64_t client_cpu_ns(const struct client *client)
{
    struct timespec spent;
    clockid_t clock;

    if (!client->pid || clock_getcpuclockid(client->pid, &clock) || clock_gettime(clock, &spent)) {
        return 0;
    }
    return (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
}
