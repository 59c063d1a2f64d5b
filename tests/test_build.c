#include "worker/build.h"
#include "worker/slot.h"

#include "tests/node.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define INCLUDES "#include \"pkb_task.h\"\n"
#define RUN_ARGS                                                                                   \
    "(pkb_ctx *ctx, const pkb_params *params, const pkb_inputs *in, const pkb_outputs *out)"
#define RUN "int pkb_run" RUN_ARGS "{ return 0; }\n"

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

static struct result build_within(const char *source, int64_t wall_ms)
{
    struct build_options options = options_of(source);
    struct result result = {.rank = -1};
    struct capture output = {0};
    struct build build = {0};
    struct error err = {0};

    assert_int_equal(build_prepare(&build, &options, &err), OK);
    compile(&build, wall_ms, &output);
    build_judge(&build, &output, &result);
    capture_release(&output);
    build_release(&build);
    assert_string_equal(result.stage, "build");
    return result;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
