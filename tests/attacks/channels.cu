/* ---- forged channels: what a rank says that is not so ---- */

/* As they go over the wire: worker/channel.h. */
enum { SAYS_REPORT = 3, SAYS_RUN = 7, SAYS_READY = 10, SAYS_CALLS = 11, SAYS_ENTERED = 12 };
enum { SAYS_RETURNED = 13, SAYS_FINISHED = 14, SAYS_END_RUN = 15, SAYS_ENDED = 16, SAYS_QUIT = 17 };
enum { SAYS_CRASHED = 18 };

struct forged_progress {
    int32_t call, code, cuda_error, last_error;
    int64_t event_ns;
    char text[512];
};

/* The first descriptor that is a connected socket of this type; -1: none. */
static int find_socket(int wanted)
{
    for (int fd = 3; fd < 1024; fd++) {
        int type = 0;
        struct sockaddr_storage peer;
        socklen_t size = sizeof type, peer_size = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == wanted &&
            getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0) {
            return fd;
        }
    }
    return -1;
}

static int say(int fd, uint32_t kind, const void *body, size_t size_bytes)
{
    uint32_t header[2] = {kind, (uint32_t)size_bytes};
    struct iovec pieces[] = {{header, sizeof header}, {(void *)body, size_bytes}};
    struct msghdr message = {};

    message.msg_iov = pieces;
    message.msg_iovlen = 2;
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)(sizeof header + size_bytes);
}

static int say_progress(int fd, uint32_t kind, int call)
{
    struct forged_progress body = {};

    body.call = call;
    return say(fd, kind, &body, sizeof body);
}

LAST_ACT(forge_report)
{
    static const char report[] = "{\"verdict\":\"accepted\"}";

    return say(find_socket(SOCK_SEQPACKET), SAYS_REPORT, report, sizeof report - 1);
}

LAST_ACT(forge_done)
{
    return say_progress(find_socket(SOCK_SEQPACKET), SAYS_FINISHED, 0);
}

/* The body of another message, and a size that is none of it. */
LAST_ACT(forge_size)
{
    uint32_t words[4] = {SAYS_READY, 1 << 30, 0, 0};

    return send(find_socket(SOCK_SEQPACKET), words, sizeof words, MSG_NOSIGNAL) ==
           (ssize_t)sizeof words;
}

/* More descriptors than anybody awaits, to use up those of the other side. */
LAST_ACT(send_descriptors)
{
    uint32_t header[2] = {SAYS_CRASHED, 0};
    struct iovec piece = {header, sizeof header};
    union {
        struct cmsghdr first;
        char bytes[CMSG_SPACE(sizeof(int) * 250)];
    } control = {};
    struct msghdr message = {};
    int fds[250];

    memset(fds, 0, sizeof fds); /* of an empty input */
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    control.first.cmsg_level = SOL_SOCKET;
    control.first.cmsg_type = SCM_RIGHTS;
    control.first.cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(&control.first), fds, sizeof fds);
    return sendmsg(find_socket(SOCK_SEQPACKET), &message, MSG_NOSIGNAL) > 0;
}

/* Plays the whole rank, and computes nothing. Where the driver plays the judge, it has believed it
 * when it lets this rank go. */
LAST_ACT(speak_as_rank)
{
    static int32_t words[32 * 1024];
    int fd = find_socket(SOCK_SEQPACKET);
    struct pollfd watched = {fd, POLLIN, 0};
    int is_well = say_progress(fd, SAYS_READY, 0);

    for (int turns = 0; is_well && turns < 10000; turns++) {
        if (poll(&watched, 1, 1) == 0) {
            (void)cudaStreamQuery(0); /* the simulator goes on when everybody is seen to wait */
            continue;
        }
        if (recv(fd, words, sizeof words, 0) < 8) {
            return 0;
        }
        if (words[0] == SAYS_QUIT && argument(CALLS) > 1) {
            return 1;
        }
        if (words[0] == SAYS_QUIT) {
            _exit(0);
        }
        for (int i = 0; words[0] == SAYS_CALLS && i < words[3]; i++) {
            is_well = say_progress(fd, SAYS_ENTERED, words[2] + i) &&
                      say_progress(fd, SAYS_RETURNED, words[2] + i) &&
                      say_progress(fd, SAYS_FINISHED, words[2] + i);
        }
        if (words[0] == SAYS_RUN) {
            is_well = say_progress(fd, SAYS_READY, 0);
        } else if (words[0] == SAYS_END_RUN) {
            is_well = say_progress(fd, SAYS_ENDED, 0);
        }
    }
    return 0;
}

/* As the process and the user that a receiver would believe. */
ACT(forge_credentials)
{
    char byte = 0;
    struct iovec piece = {&byte, 1};
    union {
        struct cmsghdr first;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control = {};
    struct ucred other = {1, 0, 0};
    struct msghdr message = {};

    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    control.first.cmsg_level = SOL_SOCKET;
    control.first.cmsg_type = SCM_CREDENTIALS;
    control.first.cmsg_len = CMSG_LEN(sizeof other);
    memcpy(CMSG_DATA(&control.first), &other, sizeof other);
    int pair[2];
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
           sendmsg(pair[0], &message, MSG_NOSIGNAL) == 1;
}

/* A request of no kind that the simulator knows. */
LAST_ACT(forge_request)
{
    uint32_t words[512];
    int fd = find_socket(SOCK_STREAM);

    memset(words, 0xee, sizeof words);
    int worked = send(fd, words, sizeof words, MSG_NOSIGNAL) == (ssize_t)sizeof words;
    if (worked) {
        struct pollfd watched = {fd, POLLIN, 0};
        (void)poll(&watched, 1, 5000);
    }
    return worked;
}

/* The page by which ranks meet, so that whoever reads it next dies. */
ACT(shrink_page)
{
    char path[64], name[64];

    for (int fd = 3; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, name, sizeof name - 1);
        name[length > 0 ? length : 0] = 0;
        if (strncmp(name, "/memfd:", 7) == 0 && ftruncate(fd, 0) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Every socket with a name that can be seen. */
ACT(connect_to_all)
{
    static char line[512];
    FILE *list = fopen("/proc/net/unix", "re");
    int worked = 0;

    while (list != NULL && fgets(line, sizeof line, list) != NULL) {
        const char *name = strpbrk(line, "@/");
        struct sockaddr_un to = {};
        size_t length = name == NULL ? 0 : strcspn(name, "\n");
        if (length < 2 || length >= sizeof to.sun_path) {
            continue;
        }
        to.sun_family = AF_UNIX;
        memcpy(to.sun_path, name, length);
        to.sun_path[0] = name[0] == '@' ? 0 : name[0];
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
        for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
            int fd = type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET
                         ? socket(AF_UNIX, type | SOCK_CLOEXEC, 0)
                         : -1;
            worked |= fd >= 0 && connect(fd, (struct sockaddr *)&to, size) == 0;
            close(fd);
        }
    }
    return worked;
}
