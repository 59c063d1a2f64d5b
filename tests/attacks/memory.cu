/* ---- looking for what this rank must not know ---- */

/* The driver has eight bytes wherever somebody might find them: the seed of the job is made of
 * them. They are looked for by their inverse, so that nobody finds only this. */
static volatile uint64_t inverse = 0xaf4a9aa89dafb4ba;

/* How much is read of one file at once, and at most of one mapping. */
enum { SEARCH_STEP = 1 << 20, SEARCH_MAX = 1 << 28 };
static unsigned char searched[SEARCH_STEP];

static int is_in(const unsigned char *bytes, size_t size_bytes)
{
    uint64_t inverted = inverse, word;

    for (size_t at = 0; at + sizeof word <= size_bytes; at++) {
        memcpy(&word, bytes + at, sizeof word);
        if ((word ^ inverted) == UINT64_MAX) {
            return 1;
        }
    }
    return 0;
}

static int has_secret(int fd, off_t from, off_t to)
{
    for (off_t at = from; at < to; at += SEARCH_STEP - 8) {
        size_t wanted = to - at < SEARCH_STEP ? (size_t)(to - at) : (size_t)SEARCH_STEP;
        ssize_t size = pread(fd, searched, wanted, at);
        if (size < 8) {
            break;
        }
        int found = is_in(searched, (size_t)size);
        memset(searched, 0, (size_t)size);
        if (found) {
            return 1;
        }
    }
    return 0;
}

/* All that is mapped there, but what is a device or the kernel's. */
static int search_process(const char *name)
{
    static char line[512];
    char path[64];
    int found = 0;

    snprintf(path, sizeof path, "/proc/%s/mem", name);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%s/maps", name);
    FILE *maps = memory < 0 ? NULL : fopen(path, "re");
    while (!found && maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long long from = 0, to = 0;
        char access = '-';
        if (sscanf(line, "%llx-%llx %c", &from, &to, &access) == 3 && access == 'r' &&
            strstr(line, "/dev/") == NULL && strstr(line, "[v") == NULL) {
            to = to - from > SEARCH_MAX ? from + SEARCH_MAX : to;
            found = has_secret(memory, (off_t)from, (off_t)to);
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    if (memory >= 0) {
        close(memory);
    }
    return found;
}

ACT(search_own_memory)
{
    return search_process("self");
}

ACT(search_memory_of_others)
{
    char name[32];
    int found = 0;

    snprintf(name, sizeof name, "%ld", argument(PID));
    found = search_process(name);
    for (int pid = 1; pid < 4096 && !found; pid++) {
        snprintf(name, sizeof name, "%d", pid);
        found = pid != getpid() && search_process(name);
    }
    return found;
}

ACT(search_descriptors)
{
    int found = 0;

    for (int fd = 3; fd < 1024 && !found; fd++) {
        found = has_secret(fd, 0, SEARCH_MAX);
    }
    return found;
}

static int search_directory(const char *path, int depth)
{
    char below[512];
    DIR *directory = opendir(path);
    struct dirent *entry = NULL;
    int found = 0;

    while (!found && directory != NULL && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' ||
            snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= (int)sizeof below) {
            continue;
        }
        if (entry->d_type == DT_DIR && depth > 0) {
            found = search_directory(below, depth - 1);
        } else if (entry->d_type == DT_REG) {
            int fd = open(below, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
            found = fd >= 0 && has_secret(fd, 0, SEARCH_MAX);
            close(fd);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return found;
}

ACT(search_files)
{
    static const char *const places[] = {"/dev/shm", P_tmpdir, "/src", "/out", "/run", "/pkb"};
    int found = 0;

    for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
        found = search_directory(places[i], 2);
    }
    return found;
}

/* Of programs too: what steers them stands there. */
ACT(search_environment)
{
    static const char *const steering[] = {"PKB_ATTACK=",
                                           "LD_PRELOAD=",
                                           "LD_AUDIT=",
                                           "NVCC_APPEND_FLAGS=",
                                           "NVCC_PREPEND_FLAGS=",
                                           "CUDA_INJECTION64_PATH=",
                                           "CPATH=",
                                           "GCC_EXEC_PREFIX=",
                                           "COMPILER_PATH=",
                                           "CUDA_LAUNCH_BLOCKING=",
                                           "HOME="};

    for (char **variable = environ; *variable != NULL; variable++) {
        for (size_t i = 0; i < sizeof steering / sizeof *steering; i++) {
            if (strncmp(*variable, steering[i], strlen(steering[i])) == 0) {
                return 1;
            }
        }
    }
    return 0;
}

/* The processes that started this one. */
static int can_open_of(const char *who, const char *what, int flags)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%s/%s", who, what);
    return can_open(path, flags);
}

ACT(write_memory_of_parent)
{
    char parent[16];

    snprintf(parent, sizeof parent, "%d", (int)getppid());
    return can_open_of(parent, "mem", O_RDWR) || can_open_of("1", "mem", O_RDWR);
}

ACT(take_descriptors_of_parent)
{
    char name[32], parent[16];

    snprintf(parent, sizeof parent, "%d", (int)getppid());
    for (int fd = 3; fd < 1024; fd++) {
        snprintf(name, sizeof name, "fd/%d", fd);
        if (can_open_of(parent, name, O_RDONLY) || can_open_of("1", name, O_RDONLY)) {
            return 1;
        }
    }
    return 0;
}

ACT(leave_by_root_of_others)
{
    char parent[16];

    snprintf(parent, sizeof parent, "%d", (int)getppid());
    return can_open_of(parent, "root/etc/passwd", O_RDONLY) ||
           can_open_of("1", "root/etc/passwd", O_RDONLY);
}

ACT(write_settings)
{
    return can_open("/proc/sys/kernel/core_pattern", O_WRONLY) ||
           can_open("/proc/sys/kernel/hostname", O_WRONLY) ||
           can_open("/proc/sysrq-trigger", O_WRONLY);
}
