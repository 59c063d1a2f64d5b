/* ---- calls that have led out of sandboxes ---- */

ACT(trace)
{
    return was_done(ptrace(PTRACE_SEIZE, (pid_t)argument(PID), NULL, NULL));
}

ACT(read_memory_of_others)
{
    return was_done(syscall(SYS_process_vm_readv, (pid_t)argument(PID), NULL, 0, NULL, 0, 0));
}

ACT(take_descriptors_of_others)
{
    return was_done(syscall(SYS_pidfd_open, (pid_t)argument(PID), 0));
}

ACT(keys)
{
    return was_done(syscall(SYS_add_key, "user", "pkb", "x", 1, -4)); /* -4: of this user */
}

ACT(bpf_program)
{
    return was_done(syscall(SYS_bpf, 0, NULL, 0));
}

ACT(io_uring)
{
    return was_done(syscall(SYS_io_uring_setup, 0, NULL));
}

ACT(fault_handler)
{
    return was_done(syscall(SYS_userfaultfd, ~0));
}

ACT(performance_events)
{
    return was_done(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

ACT(another_personality)
{
    return was_done(syscall(SYS_personality, 0xffffffff));
}

ACT(file_handles)
{
    return was_done(syscall(SYS_name_to_handle_at, AT_FDCWD, "/", NULL, NULL, 0));
}

ACT(another_filter)
{
    return was_done(syscall(SYS_seccomp, 2 /* GET_ACTION_AVAIL */, 0, NULL));
}

ACT(system_log)
{
    return was_done(syscall(SYS_syslog, 10, NULL, 0));
}

LAST_ACT(old_calls)
{
    long result = 20; /* getpid, in the numbers of 32 bits */

    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    return result > 0;
}
