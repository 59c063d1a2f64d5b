#include "worker/recipe.h"

#include "common/buffer.h"
#include "common/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const lines[] = {
    "TOP=/c",
    "PATH=/c/bin:/bin",
    "CICC_PATH=/c/nvvm",
    "LIBRARIES=  \"-L/c/lib\"",
    "rm /t/s_dlink.reg.c",
    "gcc -E -I\"/with space\" -D__X=\"\\\"quoted\\\"\" \"s.cu\" -o \"/t/s.cpp4.ii\" ",
    "cudafe++ --gen_c_file_name \"/t/s.cudafe1.cpp\" --module_id_file_name \"/t/id\" \"s.ii\"",
    "gcc -D__CUDA_ARCH__=900 -E \"s.cu\" -o \"/t/s.cpp1.ii\"",
    "\"$CICC_PATH/cicc\" --module_id_file_name \"/t/id\" \"/t/s.cpp1.ii\" -o \"/t/s.ptx\"",
    "ptxas \"/t/s.ptx\" -o \"/t/s.cubin\"",
    "fatbinary --cmdline=\" -lineinfo \" --embedded-fatbin=\"/t/s.fatbin.c\"",
    "gcc -c \"/t/s.cudafe1.cpp\" -o \"/t/s.o\"",
    "nvlink \"/t/s.o\" -o \"/t/s_dlink.cubin\"",
    "fatbinary --embedded-fatbin=\"/t/s_dlink.fatbin.c\"",
    "gcc -c \"/c/bin/crt/link.stub\" -o \"/t/s_dlink.o\"",
    "g++ \"/t/s_dlink.o\" \"/t/s.o\" -shared -o \"/o/s.so\"",
};

enum { LINES = sizeof lines / sizeof *lines, FIRST_COMMAND = 5 };

/* The list with line `index` replaced; NULL: left out. */
static enum status read_with(struct recipe *recipe, int index, const char *line, struct error *err)
{
    struct buffer text = {0};

    for (int i = 0; i < LINES; i++) {
        const char *one = i == index ? line : lines[i];
        if (one != NULL) {
            buffer_printf(&text, "#$ %s\n", one);
        }
    }
    enum status status = recipe_read(recipe, text.data, err);
    buffer_release(&text);
    return status;
}

static void test_the_commands_of_nvcc_are_told_apart(void **state)
{
    struct recipe recipe = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(read_with(&recipe, -1, NULL, &err), OK);
    assert_string_equal(recipe_value(&recipe, "PATH"), "/c/bin:/bin");
    assert_null(recipe_value(&recipe, "PAT"));
    assert_string_equal(recipe.steps[RECIPE_HOST_TEXT].words[2], "-I/with space");
    assert_string_equal(recipe.steps[RECIPE_HOST_TEXT].words[3], "-D__X=\"quoted\"");
    assert_string_equal(recipe.steps[RECIPE_DEVICE_CODE].words[0], "/c/nvvm/cicc");
    assert_string_equal(recipe.steps[RECIPE_PACK].words[1], "--cmdline= -lineinfo ");
    assert_string_equal(recipe_program(&recipe, RECIPE_LINK), "g++");
    assert_string_equal(*recipe_argument(&recipe, RECIPE_DEVICE_CODE, "-o"), "/t/s.ptx");
    assert_null(recipe_argument(&recipe, RECIPE_DEVICE_CODE, "--nothing"));
    recipe_insert(&recipe, RECIPE_ASSEMBLE, "--first");
    assert_string_equal(recipe.steps[RECIPE_ASSEMBLE].words[1], "--first");
    assert_string_equal(recipe.steps[RECIPE_ASSEMBLE].words[2], "/t/s.ptx");
    assert_null(recipe.steps[RECIPE_ASSEMBLE].words[5]);
    recipe_release(&recipe);
    assert_int_equal(recipe.steps[RECIPE_LINK].count, 0);
}

static void test_a_command_less_or_more_or_another_is_refused(void **state)
{
    struct recipe recipe = {0};
    struct error err = {0};

    (void)state;
    for (int i = FIRST_COMMAND; i < LINES; i++) {
        assert_int_equal(read_with(&recipe, i, NULL, &err), ERR_INVALID);
        assert_int_equal(read_with(&recipe, i, "clang -c x", &err), ERR_INVALID);
        char *twice = xasprintf("%s\n#$ %s", lines[i], lines[i]);
        assert_int_equal(read_with(&recipe, i, twice, &err), ERR_INVALID);
        free(twice);
    }
    assert_int_equal(recipe_read(&recipe, "", &err), ERR_INVALID);
    assert_int_equal(recipe_read(&recipe, "nvcc warning : something\n", &err), ERR_INVALID);
    assert_null(recipe.steps[0].words[0]);
}

static void test_what_a_shell_would_do_more_is_refused(void **state)
{
    static const char *const more[] = {"gcc $NOTHING/s.cpp4.ii", "gcc a; b s.cpp4.ii",
                                       "gcc `id` s.cpp4.ii",     "gcc \"s.cpp4.ii",
                                       "gcc *.cpp4.ii",          "gcc 's.cpp4.ii'"};
    struct recipe recipe = {0};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        assert_int_equal(read_with(&recipe, FIRST_COMMAND, more[i], &err), ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_commands_of_nvcc_are_told_apart),
        cmocka_unit_test(test_a_command_less_or_more_or_another_is_refused),
        cmocka_unit_test(test_what_a_shell_would_do_more_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
