/* ---- ways to talk to somebody outside ---- */

ACT(tcp_to_worker)
{
    struct sockaddr_in to = {};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_family = AF_INET;
    to.sin_port = htons((uint16_t)argument(PORT));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int worked = connect(fd, (struct sockaddr *)&to, sizeof to) == 0;
    close(fd);
    return worked;
}

ACT(name_of_worker)
{
    struct sockaddr_un to = {};
    int length = snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "pkb-attack-%ld", argument(PID));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sun_family = AF_UNIX;
    int worked = connect(fd, (struct sockaddr *)&to,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0;
    close(fd);
    return worked;
}

ACT(shared_memory_of_worker)
{
    return shmget((key_t)argument(PID), 1, 0) >= 0;
}

static int can_have(int family, int type, int protocol)
{
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

ACT(raw_packets)
{
    return can_have(AF_PACKET, SOCK_RAW, 0);
}

ACT(kernel_messages)
{
    return can_have(AF_NETLINK, SOCK_RAW, 15); /* NETLINK_KOBJECT_UEVENT */
}

ACT(other_families)
{
    int count = 0;

    for (int family = 3; family < 46; family++) {
        if (family != AF_INET6 && family != AF_NETLINK) {
            count += can_have(family, SOCK_STREAM, 0) || can_have(family, SOCK_DGRAM, 0) ||
                     can_have(family, SOCK_RAW, 0);
        }
    }
    return count > 0;
}
