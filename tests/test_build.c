#include "worker/build.h"
#include "worker/slot.h"

#include "common/buffer.h"
#include "common/mem.h"
#include "tests/node.h"
#include "worker/collect.h"
#include "worker/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define INCLUDES "#include \"pkb_task.h\"\n"
#define RUN_ARGS                                                                                   \
    "(pkb_ctx *ctx, const pkb_params *params, const pkb_inputs *in, const pkb_outputs *out)"
#define RUN_HEAD "int pkb_run" RUN_ARGS "{ "
#define RUN RUN_HEAD "return 0; }\n"

/* One that no worker has, nor sweeps, as long as this program runs. */
static int own_slot(void)
{
    static struct slot_lease slot = {.lock = -1};
    struct error err = {0};

    if (slot.lock < 0) {
        assert_int_equal(slot_take(&slot, test_node()->uid_base, &err), OK);
    }
    return slot.number;
}

static struct build_options options_of(const char *source)
{
    return (struct build_options){.node = test_node(),
                                  .slot = own_slot(),
                                  .task = task_find("allreduce"),
                                  .dtype = DTYPE_BF16,
                                  .source = source,
                                  .source_bytes = strlen(source),
                                  .wall_ms = 60000};
}

static void take_section(int library, const char *name, struct buffer *section)
{
    struct stat info = {0};

    assert_int_equal(fstat(library, &info), 0);
    char *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, library, 0);
    assert_true(data != MAP_FAILED);
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)data;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(data + head->e_shoff);
    const char *names = data + sections[head->e_shstrndx].sh_offset;
    for (int i = 0; i < head->e_shnum; i++) {
        if (strcmp(names + sections[i].sh_name, name) == 0) {
            buffer_append(section, data + sections[i].sh_offset, sections[i].sh_size);
        }
    }
    munmap(data, (size_t)info.st_size);
}

/* Runs the compiler as the worker does: until it ends, says too much, or takes too long. */
static void compile(struct build *build, int64_t wall_ms, struct capture *output)
{
    struct box_program program = build->program;
    struct box *box = NULL;
    struct error err = {0};
    struct box_event event = {0};
    enum status status = OK;
    bool is_open = true;

    assert_int_equal(capture_init(output, &program.output, &err), OK);
    assert_int_equal(box_start(&box, &program, 1, &err), OK);
    close(program.output);
    while ((status = box_next(box, &event, &err)) != ERR_UNAVAILABLE) {
        struct pollfd watched[] = {{.fd = box_fd(box), .events = POLLIN},
                                   {.fd = is_open ? output->fd : -1, .events = POLLIN}};
        if (status == OK && build_note(build, &event)) {
            box_kill(box);
        }
        if (status == ERR_NOT_FOUND && poll(watched, 2, (int)wall_ms) == 0) {
            build->is_late = true;
            box_kill(box);
        }
        if (watched[1].revents != 0) {
            is_open = capture_read(output);
        }
        if (capture_is_too_long(output)) {
            box_kill(box);
        }
    }
    (void)capture_read(output);
    box_close(box);
}

static struct result build_as(const struct build_options *options)
{
    struct result result = {.rank = -1};
    struct capture output = {0};
    struct build build = {0};
    struct error err = {0};

    assert_int_equal(build_prepare(&build, options, &err), OK);
    compile(&build, options->wall_ms, &output);
    build_judge(&build, &output, &result);
    capture_release(&output);
    build_release(&build);
    assert_string_equal(result.stage, "build");
    return result;
}

static struct result build_within(const char *source, int64_t wall_ms)
{
    struct build_options options = options_of(source);

    options.wall_ms = wall_ms;
    return build_as(&options);
}

static struct result build(const char *source)
{
    return build_within(source, 60000);
}

static void test_a_right_source_is_accepted(void **state)
{
    struct result result = build(INCLUDES "__global__ void k(pkb_t *y) { *y = pkb_t(1); }\n"
                                          "int pkb_run" RUN_ARGS
                                          "{ k<<<1, 1, 0, ctx->stream>>>(out->y); return 0; }\n");

    (void)state;
    assert_int_equal(result.verdict, VERDICT_ACCEPTED);
    result_release(&result);
}

static void test_a_syntax_error_is_shown_with_its_line(void **state)
{
    struct result result = build(INCLUDES "int x = ;\n" RUN);

    (void)state;
    assert_int_equal(result.verdict, VERDICT_COMPILE_ERROR);
    assert_non_null(strstr(result.build_log, "solution.cu(2): error"));
    assert_null(strstr(result.build_log, "/tmp/"));
    result_release(&result);
}

static void test_an_error_of_the_assembler_is_a_compile_error(void **state)
{
    struct result result =
        build(INCLUDES "__global__ void k() { asm volatile(\"no.such.op;\"); }\n" RUN);

    (void)state;
    assert_int_equal(result.verdict, VERDICT_COMPILE_ERROR);
    result_release(&result);
}

static void test_a_missing_pkb_run_is_a_link_error_that_says_what_to_define(void **state)
{
    struct result result = build(INCLUDES "int other" RUN_ARGS "{ return 0; }\n");

    (void)state;
    assert_int_equal(result.verdict, VERDICT_LINK_ERROR);
    assert_non_null(strstr(result.message, "'pkb_run' is missing"));
    assert_non_null(strstr(result.message, "int pkb_run(struct pkb_ctx *ctx"));
    result_release(&result);
}

static void test_a_wrong_signature_is_a_link_error_that_shows_the_right_one(void **state)
{
    struct result result = build(INCLUDES "int pkb_run(pkb_ctx *ctx, int x) { return x; }\n");

    (void)state;
    assert_int_equal(result.verdict, VERDICT_LINK_ERROR);
    assert_non_null(strstr(result.message, "'pkb_run' has the wrong signature"));
    assert_non_null(strstr(result.message, "int pkb_run(struct pkb_ctx *ctx"));
    result_release(&result);

    result = build(INCLUDES RUN "int pkb_setup(pkb_ctx *ctx) { return 0; }\n");
    assert_int_equal(result.verdict, VERDICT_LINK_ERROR);
    assert_non_null(strstr(result.message, "'pkb_setup' has the wrong signature"));
    result_release(&result);
}

static void test_a_wrong_result_type_is_a_compile_error_that_shows_the_right_one(void **state)
{
    struct result result = build(INCLUDES "void pkb_run" RUN_ARGS "{}\n");

    (void)state;
    assert_int_equal(result.verdict, VERDICT_COMPILE_ERROR);
    assert_non_null(strstr(result.message, "int pkb_run(struct pkb_ctx *ctx"));
    result_release(&result);
}

static void test_undefined_symbols_of_host_and_device_are_link_errors(void **state)
{
    struct result result =
        build(INCLUDES "int missing_function(void);\n"
                       "int pkb_run" RUN_ARGS "{ return missing_function(); }\n");

    (void)state;
    assert_int_equal(result.verdict, VERDICT_LINK_ERROR);
    assert_non_null(strstr(result.build_log, "missing_function"));
    assert_null(strstr(result.build_log, "/tmp/"));
    result_release(&result);

    result = build(INCLUDES "extern __device__ int missing_device(int);\n"
                            "__global__ void k(int *p) { *p = missing_device(*p); }\n"
                            "int pkb_run" RUN_ARGS "{ k<<<1, 1>>>(nullptr); return 0; }\n");
    assert_int_equal(result.verdict, VERDICT_LINK_ERROR);
    assert_non_null(strstr(result.build_log, "missing_device"));
    result_release(&result);
}

static void test_a_flood_of_messages_is_cut_and_named(void **state)
{
    (void)state;
    /* Two inclusions each: 2^200 before the compiler's own limit of depth ends it. */
    struct result result =
        build("#warning 01234567890123456789012345678901234567890123456789012345678901234567\n"
              "#include \"solution.cu\"\n#include \"solution.cu\"\n" INCLUDES RUN);
    assert_int_equal(result.verdict, VERDICT_LIMIT_EXCEEDED);
    assert_string_equal(result.reason, "log");
    assert_true(strlen(result.build_log) <= RESULT_LOG_MAX_BYTES);
    result_release(&result);
}

static void test_a_build_without_end_is_stopped(void **state)
{
    struct result result =
        build_within("template <int a, int b> struct g { static const int v = "
                     "g<a - 1, b * 2>::v + g<a - 1, b * 2 + 1>::v; };\n"
                     "template <int b> struct g<0, b> { static const int v = b; };\n"
                     "#include \"pkb_task.h\"\n"
                     "int x = g<22, 1>::v;\n" RUN,
                     500);

    (void)state;
    assert_int_equal(result.verdict, VERDICT_TIMEOUT);
    assert_string_equal(result.reason, "wall");
    result_release(&result);
}

static void test_a_compiler_that_cannot_be_run_is_our_fault(void **state)
{
    struct build_options options = options_of(INCLUDES RUN);
    struct result result = {.rank = -1};
    struct capture output = {0};
    struct build made = {0};
    struct error err = {0};

    (void)state;
    struct sandbox_node node = *test_node();
    node.cuda_home = "/nonexistent";
    options.node = &node;
    assert_int_equal(build_prepare(&made, &options, &err), OK);
    compile(&made, 60000, &output);
    build_judge(&made, &output, &result);
    assert_int_equal(result.verdict, VERDICT_INTERNAL_ERROR);
    capture_release(&output);
    build_release(&made);
    result_release(&result);
}

static void test_a_limit_that_ends_a_build_is_named(void **state)
{
    (void)state;
    /* 300 MiB of zeros in an object file. */
    struct result result = build("__asm__(\".data\\n.fill 314572800, 1, 7\\n\");\n" INCLUDES RUN);
    assert_int_equal(result.verdict, VERDICT_LIMIT_EXCEEDED);
    assert_string_equal(result.reason, "files");
    result_release(&result);
}

static void test_a_library_that_is_too_large_is_not_taken(void **state)
{
    (void)state;
    struct result result = build("__asm__(\".data\\n.fill 73400320, 1, 7\\n\");\n" INCLUDES RUN);
    assert_int_equal(result.verdict, VERDICT_LIMIT_EXCEEDED);
    assert_string_equal(result.reason, "files");
    assert_non_null(strstr(result.message, "64 MiB"));
    result_release(&result);
}

/* Names that are local to the module, templates, cooperative groups, NCCL. */
static const char many_kinds[] =
    INCLUDES "#include <cooperative_groups.h>\n"
             "#include <nccl.h>\n"
             "namespace { __device__ int hidden; template <typename T> __global__ void twice(T *y)"
             "{ cooperative_groups::this_grid(); y[threadIdx.x] = y[threadIdx.x] * T(2);"
             " atomicAdd(&hidden, 1); } }\n"
             "static __constant__ float weights[4];\n"
             "static __global__ void sum(float *y) { for (float w : weights) *y += w; }\n" RUN_HEAD
             "twice<pkb_t><<<1, 32, 0, ctx->stream>>>(out->y);\n"
             "twice<float><<<1, 32, 0, ctx->stream>>>((float *)out->y);\n"
             "sum<<<1, 1, 0, ctx->stream>>>((float *)out->y); return ncclGetVersion(0); }\n";

/* Both in one box: what they make has the times of the sources in it. */
static char *both[] = {
    "/bin/sh", "-c",
    "\"$@\" || exit; shift 3; nvcc=$1; shift 3; exec \"$nvcc\" -o \"/out/plain.so\" \"$@\"", "sh"};

static void test_stages_and_nvcc_make_the_same_device_code(void **state)
{
    struct build_options options = options_of(many_kinds);
    char *argv[BUILD_ARGS_MAX + 4] = {both[0], both[1], both[2], both[3]};
    struct buffer ours = {0}, theirs = {0};
    struct result result = {.rank = -1};
    struct capture output = {0};
    struct build build = {0};
    struct error err = {0};
    int plain = -1;

    (void)state;
    options.wall_ms = 300000; /* for two, on a busy machine */
    assert_int_equal(build_prepare(&build, &options, &err), OK);
    memcpy(argv + 4, build.argv, sizeof build.argv);
    build.program.argv = argv;
    compile(&build, options.wall_ms, &output);
    build_judge(&build, &output, &result);
    assert_int_equal(result.verdict, VERDICT_ACCEPTED);
    assert_string_equal(result.builder, BUILD_BY_STAGES);
    assert_int_equal(collect_file(build.out, "plain.so", ELF_BYTES_MAX, &plain, &err), OK);
    take_section(build.library, ".nv_fatbin", &ours);
    take_section(plain, ".nv_fatbin", &theirs);
    assert_true(ours.size_bytes > 1000); /* machine code and PTX */
    assert_int_equal(ours.size_bytes, theirs.size_bytes);
    assert_memory_equal(ours.data, theirs.data, ours.size_bytes);
    close(plain);
    buffer_release(&ours);
    buffer_release(&theirs);
    capture_release(&output);
    build_release(&build);
    result_release(&result);
}

static void test_stages_and_nvcc_say_the_same_of_a_wrong_source(void **state)
{
    static const char *const sources[] = {
        INCLUDES "#include \"nowhere.h\"\n" RUN,
        INCLUDES "__global__ void k() { int unused; return 1; }\nint y = z;\n" RUN,
        INCLUDES "#ifdef __CUDA_ARCH__\n#error \"for the device only\"\n#endif\n" RUN,
        INCLUDES "__global__ void k() { int unused; asm volatile(\"no.such.op;\"); }\n" RUN,
        INCLUDES "int undefined_on_the_host();\n" RUN_HEAD "return undefined_on_the_host(); }\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        struct build_options options = options_of(sources[i]);
        struct result stages = build_as(&options);
        options.is_plain = true;
        struct result nvcc = build_as(&options);
        assert_string_equal(stages.builder, BUILD_BY_STAGES);
        assert_string_equal(nvcc.builder, BUILD_BY_NVCC);
        assert_int_not_equal(stages.verdict, VERDICT_ACCEPTED);
        assert_int_equal(stages.verdict, nvcc.verdict);
        assert_string_equal(stages.message, nvcc.message);
        assert_non_null(stages.build_log);
        assert_non_null(nvcc.build_log);
        assert_true(strlen(nvcc.build_log) > 20);
        /* The linker says names of temporary files, which differ. */
        if (stages.verdict == VERDICT_COMPILE_ERROR && strstr(nvcc.build_log, "tmpxft") == NULL) {
            assert_string_equal(stages.build_log, nvcc.build_log);
        }
        result_release(&stages);
        result_release(&nvcc);
    }
}

static void test_a_toolchain_of_another_shape_is_run_as_it_is(void **state)
{
    static const char script[] = "#!/bin/sh\n"
                                 "case \"$*\" in *--dryrun*) echo '#$ something new' >&2 ;;\n"
                                 "*) echo 'nvcc itself' >&2; exit 3 ;; esac\n";
    char home[] = "/tmp/toolchain-XXXXXX";
    struct build_options options = options_of(INCLUDES RUN);
    struct sandbox_node node = *test_node();

    (void)state;
    assert_non_null(mkdtemp(home));
    char *bin = xasprintf("%s/bin", home), *path = xasprintf("%s/bin/nvcc", home);
    assert_int_equal(chmod(home, 0755), 0);
    assert_int_equal(mkdir(bin, 0755), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_int_equal(write(fd, script, strlen(script)), strlen(script));
    close(fd);
    node.cuda_home = home;
    options.node = &node;
    struct result result = build_as(&options);
    assert_int_equal(result.verdict, VERDICT_COMPILE_ERROR);
    assert_string_equal(result.builder, BUILD_BY_NVCC);
    assert_string_equal(result.build_log, "nvcc itself\n");
    result_release(&result);
    unlink(path);
    rmdir(bin);
    rmdir(home);
    free(path);
    free(bin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_and_nvcc_make_the_same_device_code),
        cmocka_unit_test(test_stages_and_nvcc_say_the_same_of_a_wrong_source),
        cmocka_unit_test(test_a_toolchain_of_another_shape_is_run_as_it_is),
        cmocka_unit_test(test_a_right_source_is_accepted),
        cmocka_unit_test(test_a_syntax_error_is_shown_with_its_line),
        cmocka_unit_test(test_an_error_of_the_assembler_is_a_compile_error),
        cmocka_unit_test(test_a_missing_pkb_run_is_a_link_error_that_says_what_to_define),
        cmocka_unit_test(test_a_wrong_signature_is_a_link_error_that_shows_the_right_one),
        cmocka_unit_test(test_a_wrong_result_type_is_a_compile_error_that_shows_the_right_one),
        cmocka_unit_test(test_undefined_symbols_of_host_and_device_are_link_errors),
        cmocka_unit_test(test_a_flood_of_messages_is_cut_and_named),
        cmocka_unit_test(test_a_build_without_end_is_stopped),
        cmocka_unit_test(test_a_compiler_that_cannot_be_run_is_our_fault),
        cmocka_unit_test(test_a_limit_that_ends_a_build_is_named),
        cmocka_unit_test(test_a_library_that_is_too_large_is_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
