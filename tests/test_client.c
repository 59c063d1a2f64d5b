#include "client/client.h"
#include "client/listing.h"
#include "client/show.h"
#include "common/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 16 };

/* Reads a command line written with single spaces. */
static enum status read_line(const char *line, struct options *options, struct error *err)
{
    static char text[256];
    char *words[WORDS_MAX] = {(char *)"pkb"};
    int count = 1;

    (void)snprintf(text, sizeof text, "%s", line);
    for (char *rest = text, *word = NULL; (word = strsep(&rest, " ")) != NULL;) {
        words[count++] = word;
    }
    return options_read(options, count, words, err);
}

static void refused_line(const char *line, const char *field, const char *part)
{
    struct options options = {.operand = "untouched"};
    struct error err = {0};

    assert_int_equal(read_line(line, &options, &err), ERR_INVALID);
    assert_string_equal(err.field, field);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' lacks '%s'", err.message, part);
    }
    assert_string_equal(options.operand, "untouched");
}

/* ---- options ---- */

static void test_options_stand_before_or_after_the_command(void **state)
{
    static const char *const lines[] = {
        "--json --server http://host submit a.cu --task allreduce --world 4 --wait",
        "submit a.cu --task=allreduce --world=4 --wait --json --server=http://host",
        "submit --wait --json --task allreduce --server http://host --world 4 -- a.cu"};
    struct options options = {0};
    struct error err = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_line(lines[i], &options, &err), OK);
        assert_int_equal(options.command, COMMAND_SUBMIT);
        assert_string_equal(options.operand, "a.cu");
        assert_string_equal(options.value[OPTION_TASK], "allreduce");
        assert_string_equal(options.value[OPTION_WORLD], "4");
        assert_string_equal(options.value[OPTION_SERVER], "http://host");
        assert_non_null(options.value[OPTION_WAIT]);
        assert_non_null(options.value[OPTION_JSON]);
        assert_null(options.value[OPTION_DTYPE]);
    }
}

static void test_standard_input_and_odd_names_are_operands(void **state)
{
    struct options options = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(read_line("submit --task 1 -", &options, &err), OK);
    assert_string_equal(options.operand, "-");
    assert_int_equal(read_line("submit --task 1 -- --odd.cu", &options, &err), OK);
    assert_string_equal(options.operand, "--odd.cu");
}

static void test_a_wrong_word_names_the_nearest_right_one(void **state)
{
    (void)state;
    refused_line("sumbit a.cu", "sumbit", "did you mean 'submit'");
    refused_line("bord 1", "bord", "did you mean 'board'");
    refused_line("frobnicate", "frobnicate", "--help");
    refused_line("submit a.cu --wrold 4", "--wrold", "did you mean '--world'");
    refused_line("submit a.cu --wrold=4", "--wrold", "did you mean '--world'");
    refused_line("status 1 --waits", "--waits", "did you mean '--wait'");
    refused_line("tasks --frobnicate", "--frobnicate", "--help");
    refused_line("tasks --an-option-that-is-longer-than-any-word-can-be", //
                 "--an-option-that-is-longer-than-", "--help");
}

static void test_words_that_do_not_fit_together_are_refused(void **state)
{
    (void)state;
    refused_line("--json", "", "no command");
    refused_line("tasks 1", "1", "'pkb tasks' takes no '1'");
    refused_line("status a b", "b", "takes no 'b'");
    refused_line("status", "JOB", "usage: pkb status JOB");
    refused_line("submit --task 1", "FILE", "usage: pkb submit FILE");
    refused_line("submit a.cu", "--task", "needs '--task TASK'");
    refused_line("log 1 --wait", "--wait", "'pkb log' takes no '--wait'");
    refused_line("tasks --json --json", "--json", "twice");
    refused_line("tasks --json=1", "--json", "takes no value");
    refused_line("tasks --server", "--server", "needs a value: --server URL");
}

static void test_a_wrong_line_that_asks_for_json_is_known_to(void **state)
{
    static const char *const wrong[] = {
        "tasks --json --bogus", "tasks --bogus --json", "submit a.cu --json", "status --json",
        "--json nope",          "tasks --json --json",  "tasks --json=1",     "nope --json",
        "log a b --json",       "tasks --json --server"};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct options options = {0};
        assert_int_equal(read_line(wrong[i], &options, &err), ERR_INVALID);
        assert_non_null(options.value[OPTION_JSON]);
    }
    struct options options = {0};
    assert_int_equal(read_line("tasks --bogus", &options, &err), ERR_INVALID);
    assert_null(options.value[OPTION_JSON]);
    assert_int_equal(read_line("tasks -- --json", &options, &err), ERR_INVALID);
    assert_null(options.value[OPTION_JSON]);
}

static void test_a_world_is_a_number_from_1_to_8(void **state)
{
    static const char *const wrong[] = {"0", "9", "four", "4x", "", "-1", "99999999999999999999"};
    struct options options = {0};
    struct error err = {0};
    int world = 77;

    (void)state;
    assert_int_equal(options_world(&options, &world, &err), OK);
    assert_int_equal(world, 0);
    options.value[OPTION_WORLD] = "8";
    assert_int_equal(options_world(&options, &world, &err), OK);
    assert_int_equal(world, 8);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options.value[OPTION_WORLD] = wrong[i];
        assert_int_equal(options_world(&options, &world, &err), ERR_INVALID);
        assert_string_equal(err.field, "--world");
    }
    assert_int_equal(world, 8);
}

static void test_a_dtype_or_device_that_is_none_names_the_nearest(void **state)
{
    struct options options = {0};
    struct error err = {0};
    int found = -2;

    (void)state;
    assert_int_equal(options_dtype(&options, -1, &found, &err), OK);
    assert_int_equal(found, -1);
    options.value[OPTION_DTYPE] = "fp16";
    assert_int_equal(options_dtype(&options, -1, &found, &err), OK);
    assert_int_equal(found, DTYPE_FP16);
    options.value[OPTION_DTYPE] = "bf61";
    assert_int_equal(options_dtype(&options, -1, &found, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "did you mean 'bf16'"));
    options.value[OPTION_DTYPE] = "quadruple";
    assert_int_equal(options_dtype(&options, -1, &found, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "bf16, fp16, fp32"));

    assert_int_equal(options_device(&options, DEVICE_SIM, &found, &err), OK);
    assert_int_equal(found, DEVICE_SIM);
    options.value[OPTION_DEVICE] = "cuda-shared";
    assert_int_equal(options_device(&options, DEVICE_SIM, &found, &err), OK);
    assert_int_equal(found, DEVICE_CUDA_SHARED);
    options.value[OPTION_DEVICE] = "cuda_shared";
    assert_int_equal(options_device(&options, DEVICE_SIM, &found, &err), ERR_INVALID);
    assert_string_equal(err.field, "--device");
    assert_non_null(strstr(err.message, "did you mean 'cuda-shared'"));
}

static void test_help_needs_no_command_and_tells_the_exit_codes(void **state)
{
    struct options options = {0};
    struct error err = {0};
    struct buffer text = {0};

    (void)state;
    assert_int_equal(read_line("--help", &options, &err), OK);
    assert_int_equal(options.command, COMMANDS);
    assert_int_equal(read_line("board --help", &options, &err), OK);
    assert_int_equal(options.command, COMMAND_BOARD);
    options_help(COMMANDS, &text);
    assert_non_null(strstr(text.data, "submit FILE"));
    for (unsigned i = 1; i < VERDICTS; i++) {
        char *code = xasprintf("%u %s", 9 + i, verdict_name((enum verdict)i));
        assert_non_null(strstr(text.data, code));
        free(code);
    }
    text.size_bytes = 0;
    options_help(COMMAND_BOARD, &text);
    assert_non_null(strstr(text.data, "usage: pkb board TASK"));
    assert_null(strstr(text.data, "--wait"));
    buffer_release(&text);
}

/* ---- opening ---- */

static void test_a_token_file_without_a_token_is_refused(void **state)
{
    struct options options = {.command = COMMAND_TASKS};
    struct client client = {0};
    struct error err = {0};

    (void)state;
    options.value[OPTION_TOKEN_FILE] = "/nonexistent/token";
    assert_int_equal(client_open(&client, &options, &err), ERR_INVALID);
    assert_string_equal(err.field, "--token-file");
    options.value[OPTION_TOKEN_FILE] = "/dev/null";
    assert_int_equal(client_open(&client, &options, &err), ERR_INVALID);
    assert_string_equal(err.field, "--token-file");
    options.value[OPTION_TOKEN_FILE] = NULL;
    options.value[OPTION_SERVER] = "nowhere";
    assert_int_equal(client_open(&client, &options, &err), ERR_INVALID);
    assert_string_equal(err.field, "server");
    options.value[OPTION_SERVER] = "http://127.0.0.1:1";
    assert_int_equal(client_open(&client, &options, &err), OK);
    client_close(&client);
}

/* Submitting a file of these bytes must fail before any server is asked. */
static void refused_source(const char *bytes, size_t size_bytes, enum status status,
                           const char *part)
{
    char path[] = "/tmp/source-XXXXXX";
    struct options options = {.command = COMMAND_SUBMIT, .operand = path};
    struct client client = {.options = &options};
    struct error err = {0};

    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size_bytes), size_bytes);
    close(fd);
    options.value[OPTION_TASK] = "1";
    assert_int_equal(cmd_submit(&client, &err), status);
    assert_string_equal(err.field, path);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' lacks '%s'", err.message, part);
    }
    unlink(path);
}

static void test_a_source_that_no_server_takes_is_not_sent(void **state)
{
    char *large = xcalloc(1, SOURCE_MAX_BYTES + 1);

    (void)state;
    memset(large, 'x', SOURCE_MAX_BYTES + 1);
    refused_source("", 0, ERR_INVALID, "empty");
    refused_source("caf\xe9", 4, ERR_INVALID, "0xe9 at 3");
    refused_source("a\0b", 3, ERR_INVALID, "0x00 at 1");
    refused_source(large, SOURCE_MAX_BYTES + 1, ERR_TOO_LARGE, "262144");
    free(large);

    struct options options = {.command = COMMAND_SUBMIT, .operand = "/nonexistent/a.cu"};
    struct client client = {.options = &options};
    struct error err = {0};
    options.value[OPTION_TASK] = "1";
    assert_int_equal(cmd_submit(&client, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "cannot open"));
    options.value[OPTION_TASK] =
        "a-task-name-of-more-than-sixty-three-bytes-that-the-record-does-not-hold";
    assert_int_equal(cmd_submit(&client, &err), ERR_TOO_LARGE);
    assert_string_equal(err.field, "--task");
}

/* ---- listings ---- */

static void test_tasks_are_listed_one_a_line(void **state)
{
    static const char json[] =
        "{\"tasks\":[{\"number\":1,\"name\":\"allreduce\",\"summary\":\"Sum\",\"family\":\"x\","
        "\"worlds\":[1,2,4,8],\"dtypes\":[\"bf16\",\"fp32\"],\"new\":1}],\"next\":null}";
    struct buffer text = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(listing_tasks(json, strlen(json), &text, &err), OK);
    assert_string_equal(text.data,
                        "001  allreduce                     1 2 4 8  bf16 fp32       Sum\n");
    assert_int_equal(listing_tasks("{}", 2, &text, &err), ERR_PROTOCOL);
    buffer_release(&text);
}

static void test_a_task_is_its_statement(void **state)
{
    static const char json[] = "{\"number\":1,\"name\":\"a\",\"summary\":\"\",\"worlds\":[],"
                               "\"dtypes\":[],\"statement\":\"# A\\nDo.\\n\",\"cases\":[]}";
    struct buffer text = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(listing_task(json, strlen(json), &text, &err), OK);
    assert_string_equal(text.data, "# A\nDo.\n");
    assert_int_equal(listing_task("[]", 2, &text, &err), ERR_PROTOCOL);
    buffer_release(&text);
}

static void test_a_board_shows_its_rows_or_that_there_are_none(void **state)
{
    static const char none[] = "{\"task\":\"allreduce\",\"world\":4,\"dtype\":\"bf16\","
                               "\"device\":\"sim\",\"rows\":[]}";
    static const char one[] =
        "{\"task\":\"allreduce\",\"world\":4,\"dtype\":\"bf16\",\"device\":\"sim\",\"rows\":[{"
        "\"rank\":1,\"submission\":\"s\",\"job\":\"j\",\"model\":\"\",\"accepted_ms\":"
        "1700000000123,"
        "\"peer_bytes\":4096}]}";
    static const char timed[] =
        "{\"task\":\"allreduce\",\"world\":4,\"dtype\":\"bf16\",\"device\":\"cuda\","
        "\"gpu\":\"H200\",\"rows\":[{\"rank\":1,\"submission\":\"s\",\"job\":\"j\",\"model\":\"\","
        "\"accepted_ms\":1,\"peer_bytes\":4096,\"median_us\":12.5,\"speedup\":2,"
        "\"is_verified\":true},{\"rank\":0,\"submission\":\"t\",\"job\":\"k\",\"model\":\"m\","
        "\"accepted_ms\":1,\"peer_bytes\":4096,\"mark\":\"suspect\",\"reason\":\"floor\"}]}";
    struct buffer text = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(listing_board(none, strlen(none), &text, &err), OK);
    assert_string_equal(text.data, "allreduce, 4 ranks, bf16, sim: nothing accepted yet\n");
    text.size_bytes = 0;
    assert_int_equal(listing_board(one, strlen(one), &text, &err), OK);
    assert_non_null(strstr(text.data,
                           "   1  2023-11-14 22:13:20            -        -              "
                           "4096  -"));
    text.size_bytes = 0;
    assert_int_equal(listing_board(timed, strlen(timed), &text, &err), OK);
    assert_non_null(strstr(text.data, "allreduce, 4 ranks, bf16, cuda, H200\n"));
    assert_non_null(strstr(text.data, "       12.50    2.00x"));
    assert_non_null(strstr(text.data, "  j  verified\n"));
    assert_non_null(strstr(text.data, "   -  "));
    assert_non_null(strstr(text.data, "  k  suspect: floor\n"));
    assert_int_equal(listing_board("", 0, &text, &err), ERR_PROTOCOL);
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_stand_before_or_after_the_command),
        cmocka_unit_test(test_standard_input_and_odd_names_are_operands),
        cmocka_unit_test(test_a_wrong_word_names_the_nearest_right_one),
        cmocka_unit_test(test_words_that_do_not_fit_together_are_refused),
        cmocka_unit_test(test_a_wrong_line_that_asks_for_json_is_known_to),
        cmocka_unit_test(test_a_world_is_a_number_from_1_to_8),
        cmocka_unit_test(test_a_dtype_or_device_that_is_none_names_the_nearest),
        cmocka_unit_test(test_help_needs_no_command_and_tells_the_exit_codes),
        cmocka_unit_test(test_a_token_file_without_a_token_is_refused),
        cmocka_unit_test(test_a_source_that_no_server_takes_is_not_sent),
        cmocka_unit_test(test_tasks_are_listed_one_a_line),
        cmocka_unit_test(test_a_task_is_its_statement),
        cmocka_unit_test(test_a_board_shows_its_rows_or_that_there_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
