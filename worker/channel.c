#include "worker/channel.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { HEADER_BYTES = 8 };

enum status channel_send(int fd, const struct message_parts *parts, struct error *err)
{
    uint32_t header[2] = {(uint32_t)parts->kind, (uint32_t)parts->size_bytes};
    struct iovec pieces[] = {{header, sizeof header}, {(void *)parts->body, parts->size_bytes}};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)] = {0};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};

    assert(parts->size_bytes <= CHANNEL_BODY_MAX);
    assert(parts->fd_count <= CHANNEL_FDS_MAX);
    if (parts->fd_count > 0) {
        size_t fds_bytes = sizeof(int) * (size_t)parts->fd_count;
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fds_bytes);
        struct cmsghdr *first = CMSG_FIRSTHDR(&message);
        first->cmsg_level = SOL_SOCKET;
        first->cmsg_type = SCM_RIGHTS;
        first->cmsg_len = CMSG_LEN(fds_bytes);
        memcpy(CMSG_DATA(first), parts->fds, fds_bytes);
    }
    ssize_t sent = 0;
    do {
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        return error_set(err, ERR_UNAVAILABLE, "cannot send a message: %m");
    }
    return OK;
}

/* Descriptors of every control message, however many came. */
static void take_fds(struct msghdr *from, struct message *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(from); part != NULL; part = CMSG_NXTHDR(from, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            if (message->fd_count < CHANNEL_FDS_MAX) {
                message->fds[message->fd_count++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

enum status channel_receive(int fd, struct message *message, struct error *err)
{
    uint32_t header[2] = {0};
    struct iovec pieces[] = {{header, sizeof header}, {message->body, sizeof message->body}};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)];
    struct msghdr from = {.msg_iov = pieces,
                          .msg_iovlen = 2,
                          .msg_control = control,
                          .msg_controllen = sizeof control};

    ssize_t size = recvmsg(fd, &from, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return error_set(err, ERR_NOT_FOUND, "no message");
    }
    if (size <= 0) {
        return error_set(err, ERR_UNAVAILABLE, "the other side has hung up");
    }
    message->fd_count = 0;
    take_fds(&from, message);
    message->kind = header[0];
    message->size_bytes = header[1];
    if ((from.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || size < HEADER_BYTES ||
        header[1] != (size_t)size - HEADER_BYTES || header[0] == 0 || header[0] >= MESSAGE_KINDS) {
        message_close_fds(message);
        return error_set(err, ERR_PROTOCOL, "a malformed message of %zd bytes", size);
    }
    return OK;
}

void message_close_fds(struct message *message)
{
    for (int i = 0; i < message->fd_count; i++) {
        close(message->fds[i]);
    }
    message->fd_count = 0;
}

enum status channel_body(const struct message *message, void *to, size_t size_bytes,
                         struct error *err)
{
    if (message->size_bytes != size_bytes) {
        return error_set(err, ERR_PROTOCOL, "message %u has %u bytes, not %zu", message->kind,
                         message->size_bytes, size_bytes);
    }
    memcpy(to, message->body, size_bytes);
    return OK;
}

void channel_text(char text[static CHANNEL_TEXT_MAX])
{
    text[CHANNEL_TEXT_MAX - 1] = 0;
    for (char *at = text; *at != 0; at++) {
        if (*at < ' ' || *at > '~') {
            *at = '?';
        }
    }
}
