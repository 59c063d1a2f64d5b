#include "server/listen.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,
    OTHER_FDS = 64, /* database, logs, epoll: not for connections */
    CONNECTIONS_MAX = 65536,
    FILES_MAX = CONNECTIONS_MAX + OTHER_FDS,
};

/* Reads "HOST:PORT" or "[HOST]:PORT" with a numeric host, or localhost. */
static enum status read_address(const char *text, struct sockaddr_storage *address,
                                socklen_t *size_bytes, struct error *err)
{
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    char host[64];
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    bool is_loopback = false;

    if (colon == NULL || colon == text || (size_t)(colon - text) >= sizeof host) {
        return error_set(err, ERR_INVALID, "'%s' is no address: give HOST:PORT", text);
    }
    (void)snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    long port = strtol(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != 0 || port > 65535) {
        return error_set(err, ERR_INVALID, "'%s' has no port from 0 to 65535", text);
    }
    *address = (struct sockaddr_storage){0};
    if (host[0] == '[' && host[strlen(host) - 1] == ']') {
        host[strlen(host) - 1] = 0;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
        *size_bytes = sizeof *six;
        if (inet_pton(AF_INET6, host + 1, &six->sin6_addr) != 1) {
            return error_set(err, ERR_INVALID, "'%s' is no IPv6 address", text);
        }
        is_loopback = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    } else {
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        *size_bytes = sizeof *four;
        if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                      &four->sin_addr) != 1) {
            return error_set(err, ERR_INVALID, "'%s' is no IPv4 address", text);
        }
        is_loopback = ntohl(four->sin_addr.s_addr) >> 24 == 127;
    }
    if (!is_loopback) {
        return error_set(err, ERR_INVALID,
                         "refusing to listen on '%s' without TLS: tokens would be readable; use"
                         " 127.0.0.1 or [::1] and a proxy with TLS",
                         text);
    }
    return OK;
}

static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
              "listen_open reads the port of either");

enum status listen_open(const char *text, int *listener, int *port, struct error *err)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in bound = {0};
    socklen_t size_bytes = 0;
    int one = 1;
    int fd = -1;
    enum status status = read_address(text, &address, &size_bytes, err);

    if (status != OK) {
        return status;
    }
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&address, size_bytes) != 0 || listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size_bytes) != 0) {
        status = error_set(err, ERR_IO, "cannot listen on '%s': %m", text);
        if (fd >= 0) {
            close(fd);
        }
        return status;
    }
    *listener = fd;
    memcpy(&bound, &address, sizeof bound);
    *port = ntohs(bound.sin_port); /* both families have it in the same place */
    return OK;
}

unsigned listen_connections_max(void)
{
    struct rlimit files = {0};

    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return FD_SETSIZE - OTHER_FDS;
    }
    if (files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0 || getrlimit(RLIMIT_NOFILE, &files) != 0) {
            return FD_SETSIZE - OTHER_FDS;
        }
    }
    rlim_t left = files.rlim_cur / 2 > OTHER_FDS ? files.rlim_cur - OTHER_FDS : OTHER_FDS;
    return left > CONNECTIONS_MAX ? CONNECTIONS_MAX : (unsigned)left;
}
