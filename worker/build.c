#include "worker/build.h"

#include "common/mem.h"
#include "worker/collect.h"
#include "worker/elf.h"
#include "worker/mechanisms.h"

#include <ctype.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUILD_MEMORY_BYTES (UINT64_C(4) << 30) /* of a process, where no cgroup counts */
#define BUILD_FILE_BYTES (UINT64_C(256) << 20)
enum { BUILD_FILES = 256 };
/* What pkb-compile says of how it went. */
#define BUILDER_FILE "builder"
enum { BUILDER_BYTES_MAX = 16 };

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
    "solution.cu",
    "-lcublas",
    "-lcublasLt",
    "-lnccl",
    "-lcuda",
};

/* Gives the sandbox a file of these bytes. */
static enum status add_file(struct build *build, const char *name, const void *data,
                            size_t size_bytes, struct error *err)
{
    int fd = -1;
    enum status status = collect_bytes(data, size_bytes, &fd, err);

    if (status == OK) {
        status = sandbox_add_file(build->sandbox, fd, name, err);
        close(fd);
    }
    return status;
}

static enum status add_sources(struct build *build, const struct build_options *options,
                               struct error *err)
{
    const char *solution = task_solution_header();
    struct buffer header = {0};

    task_header_write(options->task, options->dtype, &header);
    enum status status = add_file(build, "pkb_task.h", header.data, header.size_bytes, err);
    buffer_release(&header);
    if (status == OK) {
        status = add_file(build, "solution.h", solution, strlen(solution), err);
    }
    if (status == OK) {
        status = add_file(build, "solution.cu", options->source, options->source_bytes, err);
    }
    return status;
}

enum status build_prepare(struct build *build, const struct build_options *options,
                          struct error *err)
{
    struct sandbox_options sandbox = {
        .policy = SANDBOX_BUILD, .slot = options->slot, .limits = options->limits};
    struct build made = {.out = -1, .library = -1};
    size_t count = 0;

    enum status status = sandbox_open(&made.sandbox, options->node, &sandbox, err);
    if (status == OK) {
        status = add_sources(&made, options, err);
    }
    if (status != OK) {
        sandbox_close(made.sandbox);
        return status;
    }
    *build = made;
    const struct sandbox_paths *inside = &build->sandbox->inside;
    build->is_plain = options->is_plain;
    if (!options->is_plain) {
        build->argv[count++] = xstrdup(inside->compile);
        build->argv[count++] = xasprintf("%s/" BUILDER_FILE, inside->out);
        build->argv[count++] = xstrdup(inside->tmp);
    }
    build->argv[count++] = xasprintf("%s/bin/nvcc", inside->cuda);
    build->argv[count++] = xstrdup("-o");
    build->argv[count++] = xasprintf("%s/solution.so", inside->out);
    for (size_t i = 0; i < sizeof nvcc_args / sizeof *nvcc_args; i++) {
        build->argv[count++] = xstrdup(nvcc_args[i]);
    }
    build->env[0] = xasprintf("PATH=%s/bin:/usr/bin:/bin", inside->cuda);
    build->env[1] = xasprintf("TMPDIR=%s", inside->tmp);
    build->program = (struct box_program){
        .argv = build->argv,
        .env = build->env,
        .directory = inside->source,
        .limits = {.cpu_s = (uint64_t)(options->wall_ms + 999) / 1000,
                   .memory_bytes = build->sandbox->group == NULL ? BUILD_MEMORY_BYTES : 0,
                   .file_bytes = BUILD_FILE_BYTES,
                   .files = BUILD_FILES},
        .sandbox = build->sandbox};
    return OK;
}

/* ---- what it is made of ---- */

/* Their sizes and times tell one installation of compilers and headers from another, and this
 * program, which judges what they make, from its next version. */
static void hash_tools(crypto_hash_sha256_state *state, const char *cuda_home)
{
    static const char *const of_cuda[] = {"bin/nvcc",
                                          "bin/cudafe++",
                                          "bin/ptxas",
                                          "bin/fatbinary",
                                          "bin/nvlink",
                                          "nvvm/bin/cicc",
                                          "include",
                                          "include/cuda_runtime.h",
                                          "include/cuda_bf16.hpp",
                                          "include/cooperative_groups.h",
                                          "include/nccl.h",
                                          "include/cccl",
                                          "lib64",
                                          "nvvm/libdevice/libdevice.10.bc"};
    static const char *const of_system[] = {"/usr/bin/gcc",
                                            "/usr/bin/g++",
                                            "/usr/bin/ld",
                                            "/usr/bin/as",
                                            "/usr/include",
                                            "/usr/lib/gcc",
                                            "/usr/include/features.h",
                                            "/proc/self/exe"};
    enum { OF_CUDA = sizeof of_cuda / sizeof *of_cuda };

    for (size_t i = 0; i < OF_CUDA + sizeof of_system / sizeof *of_system; i++) {
        char *path = i < OF_CUDA ? xasprintf("%s/%s", cuda_home, of_cuda[i])
                                 : xstrdup(of_system[i - OF_CUDA]);
        struct stat info = {0};
        if (stat(path, &info) != 0) {
            info = (struct stat){0};
        }
        char *line = xasprintf("%s %lld %lld.%09ld %llu\n", path, (long long)info.st_size,
                               (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                               (unsigned long long)info.st_ino);
        crypto_hash_sha256_update(state, (const unsigned char *)line, strlen(line));
        free(line);
        free(path);
    }
}

/* With its length, so that no two lists of parts look alike. */
static void hash_part(crypto_hash_sha256_state *state, const void *data, uint64_t size_bytes)
{
    crypto_hash_sha256_update(state, (const unsigned char *)&size_bytes, sizeof size_bytes);
    crypto_hash_sha256_update(state, data, size_bytes);
}

void build_identify(const struct build_options *options, char name[static STORE_NAME_MAX])
{
    static const char format[] = "1"; /* of what we keep of a build, and of how it is judged */
    const char *solution = task_solution_header();
    unsigned char bytes[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    struct buffer header = {0};

    crypto_hash_sha256_init(&state);
    hash_part(&state, format, sizeof format);
    hash_part(&state, options->source, options->source_bytes);
    task_header_write(options->task, options->dtype, &header);
    hash_part(&state, header.data, header.size_bytes);
    hash_part(&state, solution, strlen(solution));
    for (size_t i = 0; i < sizeof nvcc_args / sizeof *nvcc_args; i++) {
        hash_part(&state, nvcc_args[i], strlen(nvcc_args[i]));
    }
    hash_part(&state, &options->node->waived, sizeof options->node->waived); /* other paths */
    hash_tools(&state, options->node->cuda_home);
    crypto_hash_sha256_final(&state, bytes);
    (void)sodium_bin2hex(name, STORE_NAME_MAX, bytes, sizeof bytes);
    buffer_release(&header);
}

/* ---- its end ---- */

bool build_note(struct build *build, const struct box_event *event)
{
    struct error err = {0};

    switch (event->kind) {
    case BOX_OPENED:
        build->first_process = event->pid;
        /* Without it there will be no library, which is what is said then. */
        (void)sandbox_open_out(build->sandbox, event->pid, &build->out, &err);
        return false;
    case BOX_LIMIT:
        build->is_out_of_memory |= event->limit == BOX_LIMIT_MEMORY;
        build->is_out_of_processes |= event->limit == BOX_LIMIT_PROCESSES;
        return false;
    case BOX_ENDED:
        build->wait_status = event->wait_status;
        build->is_disk_full = sandbox_is_full(build->sandbox, build->first_process);
        return true;
    default:
        return false;
    }
}

void build_release(struct build *build)
{
    for (int i = 0; build->argv[i] != NULL; i++) {
        free(build->argv[i]);
    }
    for (int i = 0; build->env[i] != NULL; i++) {
        free(build->env[i]);
    }
    if (build->out >= 0) {
        close(build->out);
    }
    if (build->library >= 0) {
        close(build->library);
    }
    sandbox_close(build->sandbox); /* NULL: it was not needed */
    *build = (struct build){.out = -1, .library = -1};
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

/* Takes out what the build left under the library's name, and scans it. */
static enum status scan_library(struct build *build, struct elf_facts *facts, struct result *result,
                                struct error *err)
{
    struct stat info = {0};

    enum status status = build->out < 0 ? ERR_NOT_FOUND
                                        : collect_file(build->out, "solution.so", ELF_BYTES_MAX,
                                                       &build->library, err);
    if (status == ERR_NOT_FOUND) {
        return error_set(err, ERR_INVALID, "the build made no library");
    }
    if (status == ERR_INVALID) {
        return error_set(err, ERR_INVALID, "what the build made is no plain file");
    }
    if (status != OK) {
        return status;
    }
    if (fstat(build->library, &info) != 0 || info.st_size == 0) {
        return error_set(err, ERR_INVALID, "what the build made is empty");
    }
    size_t size_bytes = (size_t)info.st_size;
    void *data = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, build->library, 0);
    if (data == MAP_FAILED) {
        return error_set(err, ERR_IO, "cannot read the library: %m");
    }
    status = elf_scan(data, size_bytes, facts, err);
    if (status == OK) {
        mechanisms_scan(data, size_bytes, result);
    }
    munmap(data, size_bytes);
    return status;
}

/* Who has built it, in one of our words. */
static void name_builder(const struct build *build, struct result *result)
{
    static const char *const builders[] = {BUILD_BY_STAGES, BUILD_BY_NVCC};
    char said[BUILDER_BYTES_MAX + 1] = "";
    struct error err = {0};
    int fd = -1;

    if (build->is_plain) {
        result->builder = xstrdup(BUILD_BY_NVCC);
        return;
    }
    if (build->out < 0 ||
        collect_file(build->out, BUILDER_FILE, BUILDER_BYTES_MAX, &fd, &err) != OK) {
        return;
    }
    if (pread(fd, said, BUILDER_BYTES_MAX, 0) > 0) {
        for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
            if (strcmp(said, builders[i]) == 0) {
                result->builder = xstrdup(builders[i]);
            }
        }
    }
    close(fd);
}

static void judge_library(struct build *build, struct result *result)
{
    struct elf_facts facts = {0};
    struct error err = {0};

    switch (scan_library(build, &facts, result, &err)) {
    case OK:
        if (facts.uses_nccl) {
            result_add_flag(result, "nccl");
        }
        conclude(result, VERDICT_ACCEPTED, NULL, "");
        break;
    case ERR_INVALID:
        conclude(result, VERDICT_LINK_ERROR, NULL, err.message);
        break;
    case ERR_TOO_LARGE:
        conclude(result, VERDICT_LIMIT_EXCEEDED, "files", "the library is larger than 64 MiB");
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
    } else if (mentions(result, "died due to signal 25") ||
               mentions(result, "File size limit exceeded")) {
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

/* Where we built is of no use to anybody: "/tmp/x.o" becomes "x.o". */
static void forget_directory(char *log, const char *directory)
{
    size_t length = strlen(directory);
    char *to = log;
    char before = 0;

    for (const char *from = log; *from != 0;) {
        bool is_start = isalnum((unsigned char)before) == 0 && before != '/' && before != '.';
        if (is_start && strncmp(from, directory, length) == 0 && from[length] == '/') {
            from += length + 1;
        } else {
            before = *from;
            *to++ = *from++;
        }
    }
    *to = 0;
}

/* Was it a limit that ended the build? Then that is what is said. */
static bool judge_limits(const struct build *build, const struct capture *output,
                         struct result *result)
{
    bool has_failed = build->wait_status != 0;

    if (capture_is_too_long(output)) {
        conclude(result, VERDICT_LIMIT_EXCEEDED, "log", "the build's output is longer than 8 MiB");
    } else if (build->is_out_of_memory) {
        conclude(result, VERDICT_LIMIT_EXCEEDED, "memory", "the build used more than 4 GiB");
    } else if (has_failed && build->is_out_of_processes) {
        conclude(result, VERDICT_LIMIT_EXCEEDED, "processes",
                 "the build wanted more than 64 processes");
    } else if (has_failed && (build->is_disk_full || mentions(result, "No space left on device"))) {
        conclude(result, VERDICT_LIMIT_EXCEEDED, "disk",
                 "the build wrote more than 256 MiB of files");
    } else {
        return false;
    }
    return true;
}

void build_judge(struct build *build, const struct capture *output, struct result *result)
{
    const struct sandbox_paths *inside = &build->sandbox->inside;
    struct buffer log = {0};
    int wait_status = build->wait_status;

    capture_write(output, &log, RESULT_LOG_MAX_BYTES);
    if (log.data != NULL) {
        forget_directory(log.data, inside->tmp);
        forget_directory(log.data, inside->out);
        forget_directory(log.data, inside->source);
    }
    result->stage = xstrdup("build");
    result->build_log = log.data; /* NULL where there was no output */
    name_builder(build, result);
    if (judge_limits(build, output, result)) {
        return;
    }
    if (build->is_late || (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGXCPU)) {
        conclude(result, VERDICT_TIMEOUT, "wall", "the build took longer than it may");
    } else if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) == BOX_EXIT_NOT_STARTED) {
        conclude(result, VERDICT_INTERNAL_ERROR, NULL, "the compiler could not be run");
    } else if (WEXITSTATUS(wait_status) != 0) {
        judge_failure(result);
    } else {
        judge_library(build, result);
    }
}
