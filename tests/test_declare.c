/*
 * The form of a task must fit all pages: eight that between them need everything are declared here
 * and held against the pages' points, answered by their own oracles, and their headers compiled.
 */
#include "tests/declared_choices.h"
#include "tests/declared_moves.h"
#include "tests/declared_sums.h"

#include "tasks/audit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct task task_allreduce;

/* A list of tensors, groups, and one tensor of each remaining dtype. */
static void medley_declare(const struct run *run, int rank, struct plan *plan)
{
    (void)run;
    (void)rank;
    plan_input(plan, "shard", T, "[5]", SHAPE(5));
    plan_input(plan, "shard", T, "[7, 2]", SHAPE(7, 2));
    plan_input(plan, "shard", T, "[1]", SHAPE(1));
    plan_input(plan, "half", DTYPE_FP16, "[2]", SHAPE(2));
    plan_input(plan, "codes", DTYPE_E4M3, "[2]", SHAPE(2));
    plan_input(plan, "small", DTYPE_INT32, "[2]", SHAPE(2));
    plan_output(plan, "spectrum", DTYPE_COMPLEX64, "[3]", SHAPE(3));
    plan_output(plan, "mask", DTYPE_BOOL8, "[3]", SHAPE(3));
    plan_output(plan, "brain", DTYPE_BF16, "[3]", SHAPE(3));
}

static const struct task medley = {
    .number = 900,
    .name = "medley",
    .summary = "What no page of the eight has",
    .family = "test",
    .params = {{"root", PARAM_INT64, "the rank that has the mask"}},
    .cases = {{.name = "check"}},
    .outputs = {{.name = "spectrum", .ranks = RANKS_SAME_GROUP},
                {.name = "mask", .ranks = RANKS_ROOT},
                {.name = "brain", .tail = TAIL_UNTOUCHED}},
    .declare = medley_declare,
};

static const struct task *const declared[] = {
    &task_allreduce, &task_gemm_reducescatter, &task_clip_grad_norm_no_ep,
    &declared_rows,  &declared_variable,       &declared_kalman,
    &declared_knn,   &declared_logprob,        &medley,
};
enum { DECLARED = sizeof(declared) / sizeof(declared[0]) };

static bool stays_right(const struct run *run, enum audit_answer answer)
{
    /* Page 079's labels and 035's counts do not depend on other ranks at every size. */
    return answer == AUDIT_RIGHT || (answer == AUDIT_BF16_CAST) ||
           (run->world == 1 && (answer == AUDIT_OWN_INPUT || answer == AUDIT_LOCAL_ONLY));
}

static void check_answers(const struct run *run)
{
    struct verdict_detail detail;
    struct audit audit;

    audit_open(&audit, run, 5, 2);
    audit_write(&audit, AUDIT_RIGHT);
    assert_int_equal(audit_judge(&audit, &detail), JUDGED_RIGHT);
    for (int answer = 0; answer < AUDIT_ANSWERS; answer++) {
        audit_write(&audit, (enum audit_answer)answer);
        if (!stays_right(run, (enum audit_answer)answer) && !audit_is_right(&audit) &&
            audit_judge(&audit, &detail) == JUDGED_RIGHT) {
            fail_msg("%s %s '%s' world %d: %s is accepted", run->task->name, run_case(run),
                     run_variant(run), run->world, audit_answer_name((enum audit_answer)answer));
        }
    }
    audit_close(&audit);
}

static void test_the_declared_oracles_refuse_what_is_wrong(void **state)
{
    (void)state;
    for (int i = 1; i < DECLARED - 1; i++) {
        for (int c = 0; c < task_case_count(declared[i]); c++) {
            for (int variant = 0; variant < task_variant_count(declared[i], c); variant++) {
                struct run_choice choice = {c, variant, 4, DTYPE_BF16};
                struct error err = {0};
                struct run *run = NULL;
                if (strncmp(task_case_name(declared[i], c), "check", 5) == 0) {
                    assert_int_equal(run_open(&run, declared[i], &choice, &err), OK);
                    check_answers(run);
                    run_close(run);
                }
            }
        }
    }
}

/* Runs a program; its output is the test's. Returns its exit status. */
static int run_program(char *const argv[])
{
    pid_t pid = 0;
    int status = -1;

    if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0) {
        return -1;
    }
    (void)waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *const dtype_macros[] = {"BF16", "FP16", "FP32"};

/* Claims about the sizes of the structs in a task's header. */
static void write_claims(const struct task *task, enum dtype dtype, struct buffer *text)
{
    struct run_choice choice = {.world = 1, .dtype = dtype};
    struct error err = {0};
    struct run *run = NULL;
    size_t params_bytes = 0;

    assert_int_equal(run_open(&run, task, &choice, &err), OK);
    (void)run_params(run, &params_bytes);
    buffer_printf(text,
                  "static_assert(PKB_DTYPE_%s, \"dtype\");\n"
                  "static_assert(sizeof(struct pkb_params) == %zu, \"params\");\n"
                  "static_assert(sizeof(struct pkb_inputs) == %d * sizeof(void *), \"in\");\n"
                  "static_assert(sizeof(struct pkb_outputs) == %d * sizeof(void *), \"out\");\n"
                  "static_assert(sizeof(pkb_t) == %zu, \"pkb_t\");\n",
                  dtype_macros[dtype], params_bytes, run_plan(run, 0)->input_count,
                  run_plan(run, 0)->output_count, dtype_size_bytes(dtype));
    run_close(run);
}

/* pkb_task.h, and a submission in C and in C++ that uses it. */
static void write_submission(const char *folder, const struct task *task, enum dtype dtype)
{
    struct buffer header = {0};
    struct buffer source = {0};

    task_header_write(task, dtype, &header);
    buffer_printf(&source, "#include \"pkb_task.h\"\n"
                           "#ifndef __cplusplus\n#define static_assert _Static_assert\n#endif\n"
                           "int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params,\n"
                           "            const struct pkb_inputs *in, "
                           "const struct pkb_outputs *out)\n"
                           "{\n    return ctx && params && in && out ? 0 : 1;\n}\n");
    write_claims(task, dtype, &source);
    write_file(folder, "solution.h", task_solution_header());
    write_file(folder, "pkb_task.h", header.data);
    write_file(folder, "a.c", source.data);
    write_file(folder, "a.cpp", source.data);
    buffer_release(&header);
    buffer_release(&source);
}

/* One source with the headers of all declared tasks, each in a namespace of its own. */
static void write_all(const char *folder)
{
    struct buffer source = {0};

    buffer_printf(&source, "#include \"solution.h\"\n#include <cuda_bf16.h>\n"
                           "#include <cuda_fp16.h>\n");
    for (int i = 0; i < DECLARED; i++) {
        struct buffer header = {0};
        char name[32];
        enum dtype dtype = (enum dtype)(i % 3);
        (void)snprintf(name, sizeof(name), "task%d.h", i);
        task_header_write(declared[i], dtype, &header);
        write_file(folder, name, header.data);
        buffer_printf(&source, "namespace task%d {\n#include \"%s\"\n", i, name);
        write_claims(declared[i], dtype, &source);
        buffer_printf(&source,
                      "__global__ void kernel(pkb_inputs in, pkb_outputs out) {}\n}\n"
                      "#undef PKB_DTYPE_%s\n#undef PKB_NCCL_T\n#undef PKB_CUDA_T\n",
                      dtype_macros[dtype]);
        buffer_release(&header);
    }
    write_file(folder, "solution.h", task_solution_header());
    write_file(folder, "a.cu", source.data);
    buffer_release(&source);
}

static const char *cuda_path(char *path, size_t size_bytes, const char *rest)
{
    const char *home = getenv("CUDA_HOME");

    (void)snprintf(path, size_bytes, "%s%s", home != NULL ? home : "/usr/local/cuda", rest);
    return path;
}

static void compile_host(const char *folder, char *compiler, char *standard, const char *name)
{
    char include[256];
    char source[256];

    (void)cuda_path(include, sizeof(include), "/include");
    (void)snprintf(source, sizeof(source), "%s/%s", folder, name);
    char *const argv[] = {compiler,   standard, "-Wall", "-Werror", "-fsyntax-only",
                          "-isystem", include,  source,  NULL};
    assert_int_equal(run_program(argv), 0);
}

static void compile_device(const char *folder)
{
    char nvcc[256];
    char source[256];
    char object[256];

    (void)cuda_path(nvcc, sizeof(nvcc), "/bin/nvcc");
    (void)snprintf(source, sizeof(source), "%s/a.cu", folder);
    (void)snprintf(object, sizeof(object), "%s/a.ptx", folder);
    char *const argv[] = {nvcc, "-std=c++17", "-arch=sm_90a", "-ptx", "-o", object, source, NULL};
    assert_int_equal(run_program(argv), 0);
}

static void remove_folder(char *folder)
{
    char *const argv[] = {"rm", "-rf", folder, NULL};
    assert_int_equal(run_program(argv), 0);
}

static void test_the_random_numbers_compile_for_a_gpu(void **state)
{
    char folder[] = "/tmp/declare_XXXXXX";
    char include[512];
    char top[256];

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(top, sizeof(top)));
    (void)snprintf(include, sizeof(include),
                   "#include \"%s/tasks/fill.h\"\n"
                   "__global__ void k(float *x, uint16_t *y, int64_t *z)\n{\n"
                   "    *x = fill_normal(1, 2) + fill_uniform(3, 4);\n"
                   "    *y = fill_to_bf16(*x) + fill_to_fp16(*x);\n"
                   "    *z = fill_integer(5, 6, -7, 8);\n}\n",
                   top);
    write_file(folder, "a.cu", include);
    compile_device(folder);
    remove_folder(folder);
}

static void test_the_declared_headers_compile_with_nvcc(void **state)
{
    char folder[] = "/tmp/declare_XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    write_all(folder);
    compile_device(folder);
    remove_folder(folder);
}

static void test_the_declared_headers_compile_as_c11_and_in_each_dtype_as_cpp17(void **state)
{
    char folder[] = "/tmp/declare_XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < DECLARED; i++) {
        write_submission(folder, declared[i], (enum dtype)(i % 3));
        compile_host(folder, "gcc", "-std=c11", "a.c");
        if (i < 3) {
            compile_host(folder, "g++", "-std=c++17", "a.cpp");
        }
    }
    remove_folder(folder);
}

static void test_a_point_of_some_worlds_only_is_refused_in_others(void **state)
{
    struct task task = medley;
    struct run_choice choice = {1, 0, 1, DTYPE_BF16};
    struct error err = {0};
    struct run *run = NULL;

    (void)state;
    task.cases[1] = (struct task_case){.name = "check/pair", .worlds = SET_OF(2) | SET_OF(4)};
    assert_false(task_case_allows_world(&task, 1, 1));
    assert_true(task_case_allows_world(&task, 1, 2));
    assert_int_equal(run_open(&run, &task, &choice, &err), ERR_INVALID);
    assert_string_equal(err.field, "case");
    choice.world = 2;
    assert_int_equal(run_open(&run, &task, &choice, &err), OK);
    assert_true(run_at(run, "check/pair") && !run_at(run, "check"));
    assert_true(run_in_class(run, "check") && !run_in_class(run, "che"));
    run_close(run);
}

static void test_a_header_says_shape_dtype_and_rule_of_each_tensor(void **state)
{
    struct buffer text = {0};

    (void)state;
    task_header_write(&medley, DTYPE_FP16, &text);
    assert_non_null(strstr(text.data, "const pkb_t *shard[3]; /* T [5], [7, 2], [1] */"));
    assert_non_null(strstr(text.data, "const uint8_t *codes; /* e4m3 [2], codes */"));
    assert_non_null(strstr(text.data, "float *spectrum; /* complex64 [3], re and im interleaved; "
                                      "equal bits within a group */"));
    assert_non_null(strstr(text.data, "pkb_bf16 *brain; /* bf16 [3]; what lies past the "
                                      "valid part must stay untouched */"));
    buffer_release(&text);
    task_header_write(&declared_rows, DTYPE_BF16, &text);
    assert_non_null(strstr(text.data, "int64_t cnt[8][8]; /* [W][W]; cnt[s][d]: rows sent"));
    assert_non_null(strstr(text.data, "int64_t rows_in[8]; /* rows held by rank s */"));
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_declared_oracles_refuse_what_is_wrong),
        cmocka_unit_test(test_a_point_of_some_worlds_only_is_refused_in_others),
        cmocka_unit_test(test_a_header_says_shape_dtype_and_rule_of_each_tensor),
        cmocka_unit_test(test_the_random_numbers_compile_for_a_gpu),
        cmocka_unit_test(test_the_declared_headers_compile_with_nvcc),
        cmocka_unit_test(test_the_declared_headers_compile_as_c11_and_in_each_dtype_as_cpp17),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
