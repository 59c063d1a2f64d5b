/* What a node needs is found before it takes a job. */
#include "worker/toolchain.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const folders[] = {"cuda", "cuda/bin", "cuda/include", "bin", "sim", "nccl"};
static const char *const files[] = {
    "cuda/bin/nvcc",
    "cuda/include/cuda.h",
    "cuda/include/cuda_runtime.h",
    "cuda/include/cuda_bf16.h",
    "bin/pkb-judge",
    "bin/pkb-init",
    "bin/pkb-compile",
    "bin/pkb-probe",
    "bin/pkb-rank",
    "bin/pkb-simd",
    "sim/libcuda.so.1",
    "sim/libcudart.so.13",
    "sim/libcublas.so.13",
    "sim/libcublasLt.so.13",
    "nccl/libnccl.so.2",
};
enum { FOLDERS = sizeof folders / sizeof folders[0], FILES = sizeof files / sizeof files[0] };

static char root[] = "/tmp/test_toolchain.XXXXXX";
static char paths[FOLDERS][96];
static struct sandbox_node node;

static const char *in_root(const char *name)
{
    static char path[96];

    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static void make(const char *file)
{
    int fd = open(in_root(file), O_CREAT | O_WRONLY | O_CLOEXEC, 0700);

    assert_int_not_equal(fd, -1);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/test_toolchain.XXXXXX");
    assert_non_null(mkdtemp(root));
    for (int i = 0; i < FOLDERS; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s", in_root(folders[i]));
        assert_int_equal(mkdir(paths[i], 0700), 0);
    }
    for (int i = 0; i < FILES; i++) {
        make(files[i]);
    }
    node = (struct sandbox_node){
        .cuda_home = paths[0], .bin_dir = paths[3], .sim_dir = paths[4], .nccl_dir = paths[5]};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(unlink(in_root(files[i])), 0);
    }
    for (int i = FOLDERS - 1; i >= 0; i--) {
        assert_int_equal(rmdir(paths[i]), 0);
    }
    return rmdir(root);
}

static void refused(const char *part)
{
    struct error err = {0};

    assert_int_equal(toolchain_check(&node, DEVICE_SIM, &err), ERR_UNAVAILABLE);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' lacks '%s'", err.message, part);
    }
}

static void test_a_node_with_everything_is_taken(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(toolchain_check(&node, DEVICE_SIM, &err), OK);
}

static void test_each_file_that_is_missing_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < FILES; i++) {
        assert_int_equal(unlink(in_root(files[i])), 0);
        refused(in_root(files[i]));
        make(files[i]);
    }
}

static void test_a_gpu_needs_no_simulator(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(unlink(in_root("sim/libcuda.so.1")), 0);
    assert_int_equal(toolchain_check(&node, DEVICE_CUDA, &err), OK);
    assert_int_equal(toolchain_check(&node, DEVICE_CUDA_SHARED, &err), OK);
    refused("sim/libcuda.so.1");
    make("sim/libcuda.so.1");
}

static void test_a_folder_in_place_of_a_file_is_named(void **state)
{
    (void)state;
    assert_int_equal(unlink(in_root("cuda/bin/nvcc")), 0);
    assert_int_equal(mkdir(in_root("cuda/bin/nvcc"), 0700), 0);
    refused("cuda/bin/nvcc' is no file");
    assert_int_equal(rmdir(in_root("cuda/bin/nvcc")), 0);
    make("cuda/bin/nvcc");
}

static void test_a_program_that_may_not_run_is_named(void **state)
{
    (void)state;
    assert_int_equal(chmod(in_root("bin/pkb-simd"), 0600), 0);
    refused("bin/pkb-simd': Permission denied");
}

static void test_a_relative_cuda_home_is_refused(void **state)
{
    (void)state;
    node.cuda_home = "cuda";
    refused("CUDA_HOME 'cuda'");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_a_node_with_everything_is_taken),
        TEST(test_each_file_that_is_missing_is_named),
        TEST(test_a_gpu_needs_no_simulator),
        TEST(test_a_folder_in_place_of_a_file_is_named),
        TEST(test_a_program_that_may_not_run_is_named),
        TEST(test_a_relative_cuda_home_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
