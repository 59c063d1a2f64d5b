/* ---- other programs, and more of the machine than is due ---- */

static char shell[] = "/bin/sh", minus_c[] = "-c", exit_3[] = "exit 3";

/* Where this works the process is gone, and its shell ends as the driver awaits it. */
ACT(become_program)
{
    static char preload[] = "LD_PRELOAD=/dev/shm/pkb-attack.so";
    static char audit[] = "LD_AUDIT=/dev/shm/pkb-attack.so";
    char *const words[] = {shell, minus_c, exit_3, NULL};
    char *const variables[] = {preload, audit, NULL};

    execve(shell, words, variables);
    return was_done(-1);
}

ACT(become_memory_file)
{
    char *const words[] = {shell, minus_c, exit_3, NULL};
    int fd = open(shell, O_RDONLY | O_CLOEXEC);

    syscall(SYS_execveat, fd, "", words, NULL, AT_EMPTY_PATH);
    return errno == EPERM || errno == ENOSYS ? 0 : 1;
}

static int leave_word(void *word)
{
    *(volatile int *)word = 1;
    return 0;
}

ACT(share_memory_with_process)
{
    static char stack[65536];
    volatile int word = 0;
    int child = clone(leave_word, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)&word);

    return child > 0 && waitpid(child, NULL, 0) == child && word == 1;
}

ACT(many_descriptors)
{
    struct rlimit more = {6000, 6000};
    static int made[5000];
    int count = 0;

    (void)setrlimit(RLIMIT_NOFILE, &more);
    while (count < 5000 && (made[count] = dup(0)) >= 0) {
        count++;
    }
    for (int i = 0; i < count; i++) {
        close(made[i]);
    }
    return count == 5000;
}

ACT(raise_priority)
{
    struct sched_param first = {1};

    return setpriority(PRIO_PROCESS, 0, -5) == 0 || sched_setscheduler(0, SCHED_FIFO, &first) == 0;
}

ACT(set_clock)
{
    struct timespec never = {0, 2000000000}; /* refused for its number, where it is not before */

    return was_done(syscall(SYS_clock_settime, CLOCK_REALTIME, &never));
}

LAST_ACT(memory_file)
{
    static char block[1 << 20];
    int fd = memfd_create("pkb-attack", MFD_CLOEXEC);
    int wrote = 0;

    while (wrote < 640 && write(fd, block, sizeof block) == (ssize_t)sizeof block) {
        wrote++;
    }
    close(fd);
    return wrote == 640;
}

LAST_ACT(flood_log)
{
    static char line[65536];
    int wrote = 0;

    memset(line, 'x', sizeof line);
    while (wrote < 512 && write(1, line, sizeof line) == (ssize_t)sizeof line) {
        wrote++;
    }
    return wrote == 512;
}

/* Calls by which somebody got out somewhere, with arguments that do no harm where they are
 * allowed. The driver says how many have to get through. */
ACT(many_calls)
{
    static const long calls[] = {
        SYS_acct,
        SYS_add_key,
        SYS_bpf,
        SYS_chroot,
        SYS_delete_module,
        SYS_fanotify_init,
        SYS_finit_module,
        SYS_fsconfig,
        SYS_fsmount,
        SYS_fsopen,
        SYS_fspick,
        SYS_init_module,
        SYS_io_uring_enter,
        SYS_io_uring_register,
        SYS_io_uring_setup,
        SYS_kcmp,
        SYS_kexec_load,
        SYS_keyctl,
        SYS_mknod,
        SYS_mknodat,
        SYS_mount,
        SYS_move_mount,
        SYS_name_to_handle_at,
        SYS_open_by_handle_at,
        SYS_open_tree,
        SYS_perf_event_open,
        SYS_pidfd_getfd,
        SYS_pidfd_open,
        SYS_pidfd_send_signal,
        SYS_pivot_root,
        SYS_process_vm_readv,
        SYS_process_vm_writev,
        SYS_quotactl,
        SYS_request_key,
        SYS_setns,
        SYS_swapon,
        SYS_swapoff,
        SYS_umount2,
        SYS_uselib,
        SYS_userfaultfd,
        SYS_vmsplice,
    };
    long through = 0;

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        errno = 0;
        long result = syscall(calls[i], -1L, -1L, -1L, -1L, -1L, -1L);
        through += result >= 0 || (errno != EPERM && errno != ENOSYS);
    }
    return through >= argument(CALLS);
}
