#include "sim/nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { INIT_SECONDS = 60, INIT_MS = INIT_SECONDS * 1000, ID_BYTES = 16 };
static const char id_mark[8] = "pkbnccl";

struct greeting {
    int32_t rank, ranks;
};

static int64_t now_ms(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* One turn of a wait: the simulator sees that we wait, a real GPU's driver answers at once. */
static bool wait_turn(struct bootstrap *bootstrap, int64_t deadline_ms)
{
    cudaError_t answer = cudaStreamQuery(bootstrap->stream);

    return now_ms() < deadline_ms && (answer == cudaSuccess || answer == cudaErrorNotReady);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (id == NULL) {
        return nccl_fail(NULL, ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
    }
    memset(id, 0, sizeof *id);
    memcpy(id->internal, id_mark, sizeof id_mark);
    if (getrandom(id->internal + sizeof id_mark, ID_BYTES, 0) != ID_BYTES) {
        return nccl_fail(NULL, ncclSystemError, "no random bytes for a unique id: %m");
    }
    return ncclSuccess;
}

/* The abstract socket that rank 0 listens at. */
static socklen_t address_of(struct sockaddr_un *address, const ncclUniqueId *id)
{
    char *path = address->sun_path;
    int used = 1 + snprintf(path + 1, sizeof address->sun_path - 1, "pkb-nccl-");

    for (int i = 0; i < ID_BYTES; i++) {
        unsigned char byte = (unsigned char)id->internal[sizeof id_mark + (size_t)i];
        used += snprintf(path + used, sizeof address->sun_path - (size_t)used, "%02x", byte);
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)used);
}

static ncclResult_t send_all(struct bootstrap *bootstrap, int fd, const void *data, size_t size,
                             const int *passed)
{
    int64_t deadline_ms = now_ms() + INIT_MS;
    char control[CMSG_SPACE(sizeof(int))];
    size_t done = 0;

    while (done < size) {
        struct iovec part = {(char *)data + done, size - done};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (passed != NULL && done == 0) {
            memset(control, 0, sizeof control);
            message.msg_control = control;
            message.msg_controllen = sizeof control;
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(header), passed, sizeof(int));
        }
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            done += (size_t)sent;
        } else if (errno != EAGAIN && errno != EINTR) {
            return nccl_fail(NULL, ncclRemoteError, "another rank has gone: %m");
        } else if (!wait_turn(bootstrap, deadline_ms)) {
            return nccl_fail(NULL, ncclSystemError, "another rank does not read for %d s",
                             INIT_SECONDS);
        }
    }
    return ncclSuccess;
}

static ncclResult_t receive_all(struct bootstrap *bootstrap, int fd, void *data, size_t size,
                                int *passed)
{
    int64_t deadline_ms = now_ms() + INIT_MS;
    char control[CMSG_SPACE(sizeof(int))];
    size_t done = 0;

    while (done < size) {
        struct iovec part = {(char *)data + done, size - done};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (passed != NULL) {
            message.msg_control = control;
            message.msg_controllen = sizeof control;
        }
        ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got > 0) {
            struct cmsghdr *header = passed != NULL ? CMSG_FIRSTHDR(&message) : NULL;
            if (header != NULL && header->cmsg_type == SCM_RIGHTS) {
                memcpy(passed, CMSG_DATA(header), sizeof(int));
            }
            done += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            return nccl_fail(NULL, ncclRemoteError, "another rank has gone");
        } else if (!wait_turn(bootstrap, deadline_ms)) {
            return nccl_fail(NULL, ncclSystemError, "another rank says nothing for %d s",
                             INIT_SECONDS);
        }
    }
    return ncclSuccess;
}

/* Rank 0: accepts the others, each of which says who it is. */
static ncclResult_t accept_ranks(struct bootstrap *bootstrap, int listener)
{
    int64_t deadline_ms = now_ms() + INIT_MS;

    for (int missing = bootstrap->ranks - 1; missing > 0;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (!wait_turn(bootstrap, deadline_ms)) {
                return nccl_fail(NULL, ncclSystemError, "%d ranks did not come within %d s",
                                 missing, INIT_SECONDS);
            }
            continue;
        }
        struct greeting greeting = {0};
        ncclResult_t result = receive_all(bootstrap, fd, &greeting, sizeof greeting, NULL);
        bool is_right = result == ncclSuccess && greeting.ranks == bootstrap->ranks &&
                        greeting.rank > 0 && greeting.rank < bootstrap->ranks &&
                        bootstrap->sockets[greeting.rank] < 0;
        if (!is_right) {
            close(fd);
            return nccl_fail(NULL, ncclInvalidUsage,
                             "a rank says that it is %d of %d; rank 0 has %d ranks", greeting.rank,
                             greeting.ranks, bootstrap->ranks);
        }
        bootstrap->sockets[greeting.rank] = fd;
        missing--;
    }
    return ncclSuccess;
}

static ncclResult_t connect_root(struct bootstrap *bootstrap, const struct sockaddr_un *address,
                                 socklen_t size)
{
    int64_t deadline_ms = now_ms() + INIT_MS;
    struct greeting greeting = {bootstrap->rank, bootstrap->ranks};

    for (;;) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return nccl_fail(NULL, ncclSystemError, "no socket: %m");
        }
        if (connect(fd, (const struct sockaddr *)address, size) == 0) {
            bootstrap->sockets[0] = fd;
            return send_all(bootstrap, fd, &greeting, sizeof greeting, NULL);
        }
        close(fd);
        if (!wait_turn(bootstrap, deadline_ms)) {
            return nccl_fail(NULL, ncclSystemError, "rank 0 did not come within %d s",
                             INIT_SECONDS);
        }
    }
}

ncclResult_t bootstrap_open(struct bootstrap *bootstrap, const ncclUniqueId *id, int rank,
                            int ranks)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ncclResult_t result = ncclSuccess;

    *bootstrap = (struct bootstrap){.rank = rank, .ranks = ranks};
    memset(bootstrap->sockets, -1, sizeof bootstrap->sockets);
    if (memcmp(id->internal, id_mark, sizeof id_mark) != 0) {
        return nccl_fail(NULL, ncclInvalidArgument, "the unique id is not of ncclGetUniqueId");
    }
    result =
        nccl_cuda(NULL, (int)cudaStreamCreateWithFlags(&bootstrap->stream, cudaStreamNonBlocking),
                  "a stream");
    if (result != ncclSuccess || ranks == 1) {
        return result;
    }
    socklen_t size = address_of(&address, id);
    if (rank != 0) {
        return connect_root(bootstrap, &address, size);
    }
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
        listen(listener, NCCL_RANKS_MAX) != 0) {
        result = nccl_fail(NULL, ncclSystemError, "rank 0 cannot listen: %m");
    } else {
        result = accept_ranks(bootstrap, listener);
    }
    if (listener >= 0) {
        close(listener);
    }
    return result;
}

void bootstrap_close(struct bootstrap *bootstrap)
{
    for (int rank = 0; rank < NCCL_RANKS_MAX; rank++) {
        if (bootstrap->sockets[rank] >= 0) {
            close(bootstrap->sockets[rank]);
        }
    }
    if (bootstrap->stream != NULL) {
        cudaStreamDestroy(bootstrap->stream);
    }
}

/* Rank 0 collects, then sends everything to everybody. */
static ncclResult_t gather_at_root(struct bootstrap *bootstrap, char *all, size_t size, int *fds)
{
    ncclResult_t result = ncclSuccess;

    for (int rank = 1; rank < bootstrap->ranks && result == ncclSuccess; rank++) {
        result = receive_all(bootstrap, bootstrap->sockets[rank], all + (size_t)rank * size, size,
                             fds != NULL ? &fds[rank] : NULL);
    }
    for (int rank = 1; rank < bootstrap->ranks && result == ncclSuccess; rank++) {
        for (int of = 0; of < bootstrap->ranks && result == ncclSuccess; of++) {
            result = send_all(bootstrap, bootstrap->sockets[rank], all + (size_t)of * size, size,
                              fds != NULL ? &fds[of] : NULL);
        }
    }
    return result;
}

ncclResult_t bootstrap_gather(struct bootstrap *bootstrap, const void *mine, void *all,
                              size_t size_bytes, int *fds)
{
    memcpy((char *)all + (size_t)bootstrap->rank * size_bytes, mine, size_bytes);
    if (bootstrap->rank == 0) {
        return gather_at_root(bootstrap, all, size_bytes, fds);
    }

    int socket = bootstrap->sockets[0], own = fds != NULL ? fds[bootstrap->rank] : -1;
    ncclResult_t result = send_all(bootstrap, socket, mine, size_bytes, fds != NULL ? &own : NULL);
    for (int of = 0; of < bootstrap->ranks && result == ncclSuccess; of++) {
        int passed = -1;
        result = receive_all(bootstrap, socket, (char *)all + (size_t)of * size_bytes, size_bytes,
                             fds != NULL ? &passed : NULL);
        if (passed >= 0 && of == bootstrap->rank) {
            close(passed);
        } else if (passed >= 0) {
            fds[of] = passed;
        }
    }
    return result;
}
