#include "worker/build.h"

#include "common/mem.h"
#include "worker/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUILD_MEMORY_BYTES (UINT64_C(4) << 30)
#define BUILD_FILE_BYTES (UINT64_C(256) << 20)
enum { BUILD_FILES = 256 };

/* The whole command line of every submission; the simulator runs the PTX of sm_90a. */
static const char *const nvcc_args[] = {
    "-std=c++17",
    "-O3",
    "-shared",
    "-lineinfo",
    "--no-compress",
    "-Xcompiler",
    "-fPIC,-fvisibility=hidden",
    "--cudart",
    "shared",
    "-gencode",
    "arch=compute_90a,code=[sm_90a,compute_90a]",
    "-Xlinker",
    "-z,defs",
    "-Xlinker",
    "--as-needed",
    "-o",
    "solution.so",
    "solution.cu",
    "-lcublas",
    "-lcublasLt",
    "-lnccl",
    "-lcuda",
};

static enum status write_file(const char *directory, const char *name, const char *text,
                              size_t size_bytes, struct error *err)
{
    enum status status = OK;
    char path[BUILD_PATH_MAX + 32];

    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return error_set(err, ERR_IO, "cannot create '%s': %m", path);
    }
    for (size_t done = 0; done < size_bytes && status == OK;) {
        ssize_t wrote = write(fd, text + done, size_bytes - done);
        if (wrote > 0) {
            done += (size_t)wrote;
        } else if (errno != EINTR) {
            status = error_set(err, ERR_IO, "cannot write '%s': %m", path);
        }
    }
    close(fd);
    return status;
}

static enum status write_sources(const struct build *build, const struct build_options *options,
                                 struct error *err)
{
    const char *solution = task_solution_header();
    struct buffer header = {0};
    char tmp[BUILD_PATH_MAX + 32];

    (void)snprintf(tmp, sizeof tmp, "%s/tmp", build->directory);
    if (mkdir(tmp, 0700) != 0) {
        return error_set(err, ERR_IO, "cannot make the directory '%s': %m", tmp);
    }
    task_header_write(options->task, options->dtype, &header);
    enum status status =
        write_file(build->directory, "pkb_task.h", header.data, header.size_bytes, err);
    buffer_release(&header);
    if (status == OK) {
        status = write_file(build->directory, "solution.h", solution, strlen(solution), err);
    }
    if (status == OK) {
        status = write_file(build->directory, "solution.cu", options->source, options->source_bytes,
                            err);
    }
    return status;
}

static bool format_path(char path[static BUILD_PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool format_path(char path[static BUILD_PATH_MAX], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int length = vsnprintf(path, BUILD_PATH_MAX, format, args);
    va_end(args);
    return length > 0 && length < BUILD_PATH_MAX;
}

enum status build_prepare(struct build *build, const struct build_options *options,
                          struct error *err)
{
    const char *cuda = options->cuda_home;
    struct build made = {0};
    size_t count = 0;

    if (!format_path(made.directory, "%s/job-XXXXXX", options->work_dir) ||
        !format_path(made.nvcc, "%s/bin/nvcc", cuda) ||
        !format_path(made.path_env, "PATH=%s/bin:/usr/bin:/bin", cuda)) {
        return error_set(err, ERR_TOO_LARGE, "a path has over %d bytes", BUILD_PATH_MAX - 1);
    }
    if (mkdtemp(made.directory) == NULL) {
        return error_set(err, ERR_IO, "cannot make a directory in '%s': %m", options->work_dir);
    }
    if (!format_path(made.library, "%s/solution.so", made.directory) ||
        !format_path(made.tmp_env, "TMPDIR=%s/tmp", made.directory)) {
        build_remove(&made);
        return error_set(err, ERR_TOO_LARGE, "a path has over %d bytes", BUILD_PATH_MAX - 1);
    }
    enum status status = write_sources(&made, options, err);
    if (status != OK) {
        build_remove(&made);
        return status;
    }
    made.limits = (struct box_limits){.cpu_s = (uint64_t)(options->wall_ms + 999) / 1000,
                                      .memory_bytes = BUILD_MEMORY_BYTES,
                                      .file_bytes = BUILD_FILE_BYTES,
                                      .files = BUILD_FILES};
    *build = made;
    build->argv[count++] = build->nvcc;
    for (size_t i = 0; i < sizeof nvcc_args / sizeof *nvcc_args; i++) {
        build->argv[count++] = (char *)nvcc_args[i];
    }
    build->argv[count] = NULL;
    build->env[0] = build->path_env;
    build->env[1] = build->tmp_env;
    build->env[2] = NULL;
    return OK;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void build_remove(struct build *build)
{
    if (build->directory[0] != 0) {
        (void)nftw(build->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        build->directory[0] = 0;
    }
}

static void conclude(struct result *result, enum verdict verdict, const char *reason,
                     const char *message)
{
    result->verdict = verdict;
    result->reason = reason == NULL ? NULL : xstrdup(reason);
    result->message = xstrdup(message);
}

static bool mentions(const struct result *result, const char *text)
{
    return result->build_log != NULL && strstr(result->build_log, text) != NULL;
}

/* Opens what the build left under the library's name, and scans it. */
static enum status scan_library(const struct build *build, struct elf_facts *facts,
                                struct error *err)
{
    struct stat info = {0};
    int fd = open(build->library, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0) {
        return error_set(err, ERR_INVALID, "the build made no library");
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink != 1 ||
        info.st_size == 0) {
        close(fd);
        return error_set(err, ERR_INVALID, "what the build made is no plain file");
    }
    size_t size_bytes = (size_t)info.st_size;
    void *data = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (data == MAP_FAILED) {
        return error_set(err, ERR_IO, "cannot read '%s': %m", build->library);
    }
    enum status status = elf_scan(data, size_bytes, facts, err);
    munmap(data, size_bytes);
    return status;
}

static void judge_library(const struct build *build, struct result *result)
{
    struct elf_facts facts = {0};
    struct error err = {0};

    switch (scan_library(build, &facts, &err)) {
    case OK:
        if (facts.uses_nccl) {
            result_add_flag(result, "nccl");
        }
        conclude(result, VERDICT_ACCEPTED, NULL, "");
        break;
    case ERR_INVALID:
        conclude(result, VERDICT_LINK_ERROR, NULL, err.message);
        break;
    default:
        conclude(result, VERDICT_INTERNAL_ERROR, NULL, err.message);
        break;
    }
}

/* The compiler said no: was it the compiler, the linker, or a limit? */
static void judge_failure(struct result *result)
{
    if (mentions(result, "died due to signal 24")) {
        conclude(result, VERDICT_TIMEOUT, "wall", "the build used more CPU time than it may");
    } else if (mentions(result, "died due to signal 25")) {
        conclude(result, VERDICT_LIMIT_EXCEEDED, "files",
                 "the build wrote a file that is larger than it may be");
    } else if (mentions(result, "undefined reference to") ||
               mentions(result, "Unresolved extern function")) {
        conclude(result, VERDICT_LINK_ERROR, NULL,
                 "the library has an undefined symbol; the build log names it");
    } else if (mentions(result, "pkb_run") && (mentions(result, "cannot overload functions") ||
                                               mentions(result, "ambiguating new declaration"))) {
        conclude(result, VERDICT_COMPILE_ERROR, NULL,
                 "the source does not compile: 'pkb_run' has to be: " ELF_PKB_RUN);
    } else {
        conclude(result, VERDICT_COMPILE_ERROR, NULL,
                 "the source does not compile; the build log says where");
    }
}

/* Where we built is of no use to anybody: "DIRECTORY/tmp/x.o" becomes "x.o". */
static void forget_directory(const struct build *build, char *log)
{
    size_t length = strlen(build->directory);
    char *to = log;

    for (const char *from = log; *from != 0;) {
        if (strncmp(from, build->directory, length) != 0) {
            *to++ = *from++;
            continue;
        }
        from += length;
        from += strncmp(from, "/tmp/", 5) == 0 ? 5 : *from == '/';
    }
    *to = 0;
}

void build_judge(const struct build *build, const struct build_end *end,
                 const struct capture *output, struct result *result)
{
    struct buffer log = {0};
    int wait_status = end->wait_status;

    capture_write(output, &log, RESULT_LOG_MAX_BYTES);
    if (log.data != NULL) {
        forget_directory(build, log.data);
    }
    result->stage = xstrdup("build");
    result->build_log = log.data; /* NULL where there was no output */
    if (capture_is_too_long(output)) {
        conclude(result, VERDICT_LIMIT_EXCEEDED, "log", "the build's output is longer than 8 MiB");
    } else if (end->is_late || (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGXCPU)) {
        conclude(result, VERDICT_TIMEOUT, "wall", "the build took longer than it may");
    } else if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) == BOX_EXIT_NOT_STARTED) {
        conclude(result, VERDICT_INTERNAL_ERROR, NULL, "the compiler could not be run");
    } else if (WEXITSTATUS(wait_status) != 0) {
        judge_failure(result);
    } else {
        judge_library(build, result);
    }
}
