/* ---- files and devices of the host ---- */

ACT(read_passwd)
{
    return can_open("/etc/passwd", O_RDONLY);
}

ACT(read_home)
{
    return access("/root", F_OK) == 0;
}

ACT(read_sys)
{
    return can_open("/sys/kernel/uevent_seqnum", O_RDONLY) || access("/sys/fs/cgroup", F_OK) == 0;
}

ACT(write_libraries)
{
    return can_open("/usr/lib/pkb-attack", O_WRONLY | O_CREAT) &&
           unlink("/usr/lib/pkb-attack") == 0;
}

ACT(open_disk)
{
    return can_open("/dev/kmsg", O_RDONLY) || can_open("/dev/mem", O_RDONLY);
}

ACT(make_device)
{
    const char *path = P_tmpdir "/pkb-attack-device";
    int worked = mknod(path, S_IFCHR | 0600, (1 << 8) | 3) == 0 && can_open(path, O_RDONLY);

    unlink(path);
    return worked;
}

ACT(mount_something)
{
    const char *path = P_tmpdir "/pkb-attack-mount";

    mkdir(path, 0700);
    int worked = mount("none", path, "tmpfs", 0, NULL) == 0;
    if (worked) {
        umount2(path, MNT_DETACH);
    }
    rmdir(path);
    return worked;
}

ACT(change_root)
{
    return chroot("/") == 0;
}

LAST_ACT(fill_disk)
{
    static char block[1 << 20];
    const char *path = P_tmpdir "/pkb-attack-fill";
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int wrote = 0;

    while (wrote < 80 && write(fd, block, sizeof block) == (ssize_t)sizeof block) {
        wrote++;
    }
    if (wrote < 80) {
        sleep(5); /* until somebody sees it */
    }
    close(fd);
    unlink(path);
    return wrote == 80;
}

LAST_ACT(fill_shared_memory)
{
    static char block[1 << 20];
    const char *path = "/dev/shm/pkb-attack-fill";
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int wrote = 0;

    while (wrote < 300 && write(fd, block, sizeof block) == (ssize_t)sizeof block) {
        wrote++;
    }
    if (wrote < 300) {
        sleep(5);
    }
    close(fd);
    unlink(path);
    return wrote == 300;
}
