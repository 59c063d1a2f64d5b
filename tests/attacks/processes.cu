/* ---- other processes, and many of them ---- */

ACT(signal_worker)
{
    return kill((pid_t)argument(PID), 0) == 0 || errno == EPERM;
}

ACT(signal_everybody)
{
    return kill(-1, 0) == 0;
}

ACT(look_at_worker)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/status", argument(PID));
    return can_open(path, O_RDONLY);
}

ACT(read_environment_of_parent)
{
    char path[64], byte;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)getppid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, &byte, 1);
    if (fd >= 0) {
        close(fd);
    }
    return size == 1;
}

ACT(become_root)
{
    return setresuid(0, 0, 0) == 0;
}

ACT(make_process)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    return child > 0 && waitpid(child, NULL, 0) == child;
}

/* Two generations away, in a session of its own, where nobody waits for it. */
ACT(make_daemon)
{
    int ends[2] = {-1, -1};
    pid_t process = 0;

    if (pipe(ends) != 0) {
        return 0;
    }
    pid_t child = fork();
    if (child == 0) {
        setsid();
        process = fork();
        if (process == 0) {
            pause();
        }
        _exit(write(ends[1], &process, sizeof process) != sizeof process);
    }
    int worked = child > 0 && waitpid(child, NULL, 0) == child &&
                 read(ends[0], &process, sizeof process) == sizeof process && process > 0 &&
                 kill(process, SIGKILL) == 0;
    close(ends[0]);
    close(ends[1]);
    return worked;
}

/* The loader is there in every view. */
ACT(run_program)
{
    char *const words[] = {(char *)"/lib64/ld-linux-x86-64.so.2", (char *)"--version", NULL};
    int wait_status = -1;
    pid_t child = 0;

    return posix_spawn(&child, words[0], NULL, NULL, words, words + 2) == 0 &&
           waitpid(child, &wait_status, 0) == child && wait_status == 0;
}

ACT(make_namespace)
{
    return unshare(CLONE_NEWUTS) == 0;
}

ACT(make_user_namespace)
{
    return was_done(syscall(SYS_clone3, NULL, 0)) || unshare(CLONE_FS) == 0;
}

static void *wait_for_others(void *nothing)
{
    usleep(300000);
    return nothing;
}

LAST_ACT(many_threads)
{
    pthread_t threads[300];
    pthread_attr_t small;
    int count = 0;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    while (count < 300 && pthread_create(&threads[count], &small, wait_for_others, NULL) == 0) {
        count++;
    }
    if (count < 300) {
        sleep(5);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    return count == 300;
}

LAST_ACT(much_memory)
{
    size_t bytes = (size_t)1 << 30;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    return memory != MAP_FAILED && munmap(memory, bytes) == 0;
}
