/*
 * A compiler that a hostile source has taken over: runs in the place of nvcc, does one act, and
 * leaves a library. It ends with 0 where the act worked.
 *
 *     compiler ACT HONEST OUT
 *
 * HONEST is a library as nvcc makes it, OUT where one is awaited. All acts have bounds, because
 * each is also done outside of the box.
 */
#include <arpa/inet.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIBRARY_MAX_BYTES = 64 << 20, BIG_BYTES = 65 << 20, MIB = 1 << 20 };
enum { CHILDREN_MAX = 200, FILES_MAX = 1000, FILES_LIMIT = 2000, PATIENCE_MS = 1500 };

static const char *honest, *out;
static unsigned char *library; /* a copy of HONEST in memory */
static size_t library_bytes;

static bool read_library(void)
{
    struct stat info = {0};
    int fd = open(honest, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size > LIBRARY_MAX_BYTES) {
        return false;
    }
    library_bytes = (size_t)info.st_size;
    library = malloc(library_bytes);
    bool is_read =
        library != NULL && pread(fd, library, library_bytes, 0) == (ssize_t)library_bytes;
    close(fd);
    return is_read;
}

static bool write_library(void)
{
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    bool is_written = fd >= 0 && write(fd, library, library_bytes) == (ssize_t)library_bytes;

    if (fd >= 0) {
        close(fd);
    }
    return is_written;
}

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

/* ---- what is planted where a library is awaited ---- */

static bool plant_link(void)
{
    return symlink("/etc/passwd", out) == 0;
}

static bool plant_pipe(void)
{
    return mkfifo(out, 0600) == 0;
}

static bool plant_directory(void)
{
    return mkdir(out, 0700) == 0;
}

static bool plant_second_name(void)
{
    char other[4096];

    (void)snprintf(other, sizeof other, "%s.other", out);
    return write_library() && link(out, other) == 0;
}

static bool plant_device(void)
{
    return mknod(out, S_IFCHR | 0600, makedev(1, 5)) == 0;
}

static bool plant_big(void)
{
    return write_library() && truncate(out, BIG_BYTES) == 0;
}

static bool plant_nothing(void)
{
    library_bytes = 0;
    return write_library();
}

static bool plant_text(void)
{
    memset(library, 'x', library_bytes);
    return write_library();
}

/* Somebody who lives on, and puts something else there when it has been looked at. */
static bool plant_later(void)
{
    if (!write_library()) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        setsid();
        if (fork() == 0) {
            pause_ms(100);
            (void)plant_text();
            pause_ms(PATIENCE_MS);
        }
        _exit(0);
    }
    return child > 0 && waitpid(child, NULL, 0) == child;
}

/* ---- hostile libraries ---- */

static Elf64_Phdr *segments(void)
{
    Elf64_Ehdr *header = (void *)library;

    return (void *)(library + header->e_phoff);
}

static Elf64_Dyn *dynamic(void)
{
    const Elf64_Ehdr *header = (const void *)library;

    for (int i = 0; i < header->e_phnum; i++) {
        if (segments()[i].p_type == PT_DYNAMIC) {
            return (void *)(library + segments()[i].p_offset);
        }
    }
    exit(1);
}

static char *find(const char *text)
{
    char *found = memmem(library, library_bytes, text, strlen(text) + 1);

    if (found == NULL) {
        exit(1);
    }
    return found;
}

/* By a path of the same length. */
static bool need_elsewhere(void)
{
    memcpy(find("libc.so.6"), "/tmp/p.so", 9);
    return write_library();
}

/* In the first place after those in use. */
static bool add_tag(Elf64_Sxword tag, Elf64_Xword value)
{
    Elf64_Dyn *entry = dynamic();

    while (entry->d_tag != DT_NULL) {
        entry++;
    }
    if (entry[1].d_tag != DT_NULL) {
        return false;
    }
    *entry = (Elf64_Dyn){.d_tag = tag, .d_un.d_val = value};
    return write_library();
}

/* Where the name of pkb_run stands among the names of symbols. */
static Elf64_Xword name_of_run(void)
{
    for (const Elf64_Dyn *entry = dynamic(); entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB) {
            return (Elf64_Xword)(find("pkb_run") - (char *)library) - entry->d_un.d_ptr;
        }
    }
    exit(1);
}

static bool search_elsewhere(void)
{
    return add_tag(DT_RUNPATH, name_of_run());
}

static bool name_auditor(void)
{
    return add_tag(DT_AUDIT, name_of_run());
}

static bool name_filter(void)
{
    return add_tag(DT_AUXILIARY, name_of_run());
}

static bool change_code(void)
{
    return add_tag(DT_TEXTREL, 0);
}

static bool execute_stack(void)
{
    const Elf64_Ehdr *header = (const void *)library;

    for (int i = 0; i < header->e_phnum; i++) {
        if (segments()[i].p_type == PT_GNU_STACK) {
            segments()[i].p_flags |= PF_X;
            return write_library();
        }
    }
    return false;
}

static bool write_code(void)
{
    const Elf64_Ehdr *header = (const void *)library;

    for (int i = 0; i < header->e_phnum; i++) {
        if (segments()[i].p_type == PT_LOAD && (segments()[i].p_flags & PF_X) != 0) {
            segments()[i].p_flags |= PF_W;
            return write_library();
        }
    }
    return false;
}

static bool misplace_sections(void)
{
    ((Elf64_Ehdr *)(void *)library)->e_shoff = UINT64_MAX - 63;
    return write_library();
}

/* ---- bombs ---- */

static bool many_processes(void)
{
    int count = 0;
    pid_t child = 0;

    while (count < CHILDREN_MAX && (child = fork()) >= 0) {
        if (child == 0) {
            pause_ms(PATIENCE_MS);
            _exit(0);
        }
        count++;
    }
    return count == CHILDREN_MAX && write_library();
}

static bool much_memory(void)
{
    void *memory = mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    return memory != MAP_FAILED && write_library();
}

/* So many MiB into the file of this number, beside OUT. */
static bool fill(int number, int size_mib)
{
    static char block[MIB];
    char path[4096];
    int wrote = 0;

    (void)snprintf(path, sizeof path, "%s.%d", out, number);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (fd >= 0 && wrote < size_mib && write(fd, block, sizeof block) == MIB) {
        wrote++;
    }
    if (fd >= 0) {
        close(fd);
    }
    return wrote == size_mib;
}

static bool many_files(void)
{
    return fill(0, 140) && fill(1, 140) && write_library();
}

static bool long_file(void)
{
    return fill(0, 257) && write_library();
}

static bool much_output(void)
{
    static char line[65536];
    int wrote = 0;

    memset(line, 'x', sizeof line);
    while (wrote < 256 && write(2, line, sizeof line) == (ssize_t)sizeof line) {
        wrote++;
    }
    return wrote == 256 && write_library();
}

static bool much_time(void)
{
    pause_ms(PATIENCE_MS);
    return write_library();
}

static bool many_descriptors(void)
{
    struct rlimit more = {FILES_LIMIT, FILES_LIMIT};
    int count = 0;

    (void)setrlimit(RLIMIT_NOFILE, &more);
    while (count < FILES_MAX && dup(2) >= 0) {
        count++;
    }
    return count == FILES_MAX && write_library();
}

/* ---- ways out ---- */

static bool leave(bool worked)
{
    return worked && write_library();
}

static bool read_files(void)
{
    return leave(access("/etc/passwd", F_OK) == 0 || access("/proc/self/maps", F_OK) == 0);
}

static bool write_toolchain(void)
{
    static const char *const places[] = {"/usr/lib", "/usr/bin", "/cuda/bin", "/src", "/pkb"};
    char path[64];
    bool worked = false;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(path, sizeof path, "%s/pkb-attack", places[i]);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        worked |= fd >= 0 && unlink(path) == 0;
        if (fd >= 0) {
            close(fd);
        }
    }
    return leave(worked);
}

/* To fetch something, or to send it away. */
static bool use_network(void)
{
    return leave(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 ||
                 socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
}

static bool use_shared_memory(void)
{
    int object = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);

    if (object >= 0) {
        (void)shmctl(object, IPC_RMID, NULL);
    }
    return leave(object >= 0 || memfd_create("pkb-attack", MFD_CLOEXEC) >= 0);
}

static bool signal_others(void)
{
    return leave(kill(-1, 0) == 0);
}

static bool become_root(void)
{
    return leave(setresuid(0, 0, 0) == 0);
}

static bool make_namespace(void)
{
    return leave(unshare(CLONE_NEWUTS) == 0);
}

static bool many_calls(void)
{
    static const long calls[] = {
        SYS_acct,
        SYS_add_key,
        SYS_bpf,
        SYS_chroot,
        SYS_delete_module,
        SYS_fanotify_init,
        SYS_finit_module,
        SYS_fsopen,
        SYS_init_module,
        SYS_io_uring_setup,
        SYS_kcmp,
        SYS_kexec_load,
        SYS_keyctl,
        SYS_mount,
        SYS_move_mount,
        SYS_name_to_handle_at,
        SYS_open_tree,
        SYS_perf_event_open,
        SYS_pidfd_getfd,
        SYS_pidfd_open,
        SYS_pivot_root,
        SYS_ptrace,
        SYS_quotactl,
        SYS_request_key,
        SYS_setns,
        SYS_swapon,
        SYS_umount2,
        SYS_userfaultfd,
        SYS_process_vm_readv,
        SYS_open_by_handle_at,
    };
    int through = 0;

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        errno = 0;
        long result = syscall(calls[i], -1L, -1L, -1L, -1L, -1L, -1L);
        through += result >= 0 || (errno != EPERM && errno != ENOSYS);
    }
    return leave(through > 0);
}

static bool nothing(void)
{
    return write_library();
}

#define ACT(name)                                                                                  \
    {                                                                                              \
#name, name                                                                                \
    }

static const struct {
    const char *name;
    bool (*run)(void);
} acts[] = {
    ACT(nothing),           ACT(plant_link),        ACT(plant_pipe),      ACT(plant_directory),
    ACT(plant_second_name), ACT(plant_device),      ACT(plant_big),       ACT(plant_nothing),
    ACT(plant_text),        ACT(plant_later),       ACT(need_elsewhere),  ACT(search_elsewhere),
    ACT(name_auditor),      ACT(name_filter),       ACT(change_code),     ACT(execute_stack),
    ACT(write_code),        ACT(misplace_sections), ACT(many_processes),  ACT(much_memory),
    ACT(many_files),        ACT(long_file),         ACT(much_output),     ACT(much_time),
    ACT(many_descriptors),  ACT(read_files),        ACT(write_toolchain), ACT(use_network),
    ACT(use_shared_memory), ACT(signal_others),     ACT(become_root),     ACT(make_namespace),
    ACT(many_calls),
};

int main(int argc, char **argv)
{
    if (argc != 4) {
        (void)fprintf(stderr, "usage: compiler ACT HONEST OUT\n");
        return 2;
    }
    honest = argv[2];
    out = argv[3];
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (strcmp(acts[i].name, argv[1]) == 0) {
            return read_library() && acts[i].run() ? 0 : 1;
        }
    }
    return 2;
}
