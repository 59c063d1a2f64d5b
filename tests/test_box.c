#include "worker/box.h"

#include "worker/capture.h"
#include "worker/process.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char *no_env[] = {NULL};

struct script {
    struct box *box;
    struct capture output;
};

static void start(struct script *script, const char *text, struct box_limits limits)
{
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)text, NULL};
    struct box_program program = {.argv = argv, .env = no_env, .limits = limits};
    struct error err = {0};

    assert_int_equal(capture_init(&script->output, &program.output, &err), OK);
    assert_int_equal(box_start(&script->box, &program, 1, &err), OK);
    close(program.output);
}

static void finish(struct script *script)
{
    box_close(script->box);
    capture_release(&script->output);
}

/* Waits until something can be read, at most 10 s. */
static void await(int fd)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&watched, 1, 10000), 1);
}

static struct box_event next(struct box *box)
{
    struct box_event event = {0};
    struct error err = {0};
    enum status status = OK;

    while ((status = box_next(box, &event, &err)) == ERR_NOT_FOUND) {
        await(box_fd(box));
    }
    assert_int_equal(status, OK);
    return event;
}

static void await_gone(struct box *box)
{
    struct box_event event = {0};
    struct error err = {0};
    enum status status = OK;

    while ((status = box_next(box, &event, &err)) != ERR_UNAVAILABLE) {
        if (status == ERR_NOT_FOUND) {
            await(box_fd(box));
        }
    }
}

static void await_output(struct capture *capture, const char *text)
{
    bool is_open = true;

    while (capture->kept.data == NULL || strstr(capture->kept.data, text) == NULL) {
        assert_true(is_open);
        await(capture->fd);
        is_open = capture_read(capture);
    }
}

static void test_a_program_starts_and_its_end_is_told(void **state)
{
    struct script script = {0};

    (void)state;
    start(&script, "echo hello; exit 7", (struct box_limits){0});
    struct box_event event = next(script.box);
    assert_int_equal(event.kind, BOX_STARTED);
    assert_true(event.pid > 0);
    event = next(script.box);
    assert_int_equal(event.kind, BOX_ENDED);
    assert_int_equal(event.program, 0);
    assert_true(WIFEXITED(event.wait_status));
    assert_int_equal(WEXITSTATUS(event.wait_status), 7);
    await_output(&script.output, "hello\n");
    finish(&script);
}

static void test_a_program_has_no_environment_input_or_other_descriptors(void **state)
{
    struct script script = {0};
    int other[2];

    (void)state;
    assert_int_equal(pipe(other), 0);
    setenv("PKB_SECRET", "secret", 1);
    start(&script, "echo \"env=${PKB_SECRET-none}\"; cat; ls /proc/self/fd | wc -l",
          (struct box_limits){0});
    /* 0, 1, 2 and the directory that ls reads */
    await_output(&script.output, "env=none\n4\n");
    finish(&script);
    close(other[0]);
    close(other[1]);
}

static void test_a_program_that_does_not_exist_ends_with_127(void **state)
{
    char *argv[] = {(char *)"/nonexistent", NULL};
    struct box_program program = {.argv = argv, .env = no_env};
    struct script script = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(capture_init(&script.output, &program.output, &err), OK);
    assert_int_equal(box_start(&script.box, &program, 1, &err), OK);
    close(program.output);
    assert_int_equal(next(script.box).kind, BOX_STARTED);
    struct box_event event = next(script.box);
    assert_int_equal(WEXITSTATUS(event.wait_status), BOX_EXIT_NOT_STARTED);
    await_output(&script.output, "cannot start '/nonexistent'");
    finish(&script);
}

static void test_limits_hold(void **state)
{
    struct script script = {0};

    (void)state;
    start(&script, "ulimit -t; ulimit -n; ulimit -c; while :; do :; done",
          (struct box_limits){.cpu_s = 1, .files = 33});
    await_output(&script.output, "1\n33\n0\n");
    assert_int_equal(next(script.box).kind, BOX_STARTED);
    struct box_event event = next(script.box);
    assert_true(WIFSIGNALED(event.wait_status));
    finish(&script);
}

/* Prints the number of a process that left its session and its parent, and lives on. */
static const char runaway[] =
    "setsid sh -c 'echo pid=$$.; exec sleep 1000' & while :; do sleep 1000; done";

static pid_t pid_of(struct script *script)
{
    await_output(&script->output, ".\n");
    return (pid_t)strtol(strstr(script->output.kept.data, "pid=") + 4, NULL, 10);
}

static void test_killing_a_box_ends_processes_that_left_their_session(void **state)
{
    struct script script = {0};

    (void)state;
    start(&script, runaway, (struct box_limits){0});
    pid_t pid = pid_of(&script);
    assert_int_equal(kill(pid, 0), 0);
    box_kill(script.box);
    await_gone(script.box);
    assert_int_equal(kill(pid, 0), -1);
    finish(&script);
}

static void test_killing_a_program_leaves_the_others(void **state)
{
    char *argv[] = {(char *)"/bin/sleep", (char *)"1000", NULL};
    struct box_program programs[2] = {{.argv = argv, .env = no_env, .output = 2},
                                      {.argv = argv, .env = no_env, .output = 2}};
    struct box *box = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(box_start(&box, programs, 2, &err), OK);
    assert_int_equal(next(box).kind, BOX_STARTED);
    pid_t other = next(box).pid;
    box_kill_program(box, 0);
    struct box_event event = next(box);
    assert_int_equal(event.program, 0);
    assert_int_equal(WTERMSIG(event.wait_status), SIGKILL);
    assert_int_equal(kill(other, 0), 0);
    box_close(box);
    assert_int_equal(kill(other, 0), -1);
}

static void test_a_box_dies_with_its_worker(void **state)
{
    int told[2];
    pid_t inside = 0;
    char byte = 0;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, told), 0);
    pid_t worker = fork();
    if (worker == 0) {
        struct script script = {0};
        start(&script, runaway, (struct box_limits){0});
        inside = pid_of(&script);
        (void)!write(told[1], &inside, sizeof inside);
        pause();
    }
    close(told[1]);
    assert_int_equal(read(told[0], &inside, sizeof inside), sizeof inside);
    /* Orphans come here, and so their end is seen without looking again and again. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    kill(worker, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {
    }
    assert_int_equal(kill(inside, 0), -1);
    assert_int_equal(read(told[0], &byte, 1), 0);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(told[0]);
}

static void test_output_beyond_the_limit_is_counted_but_not_kept(void **state)
{
    struct script script = {0};
    struct buffer text = {0};

    (void)state;
    start(&script, "head -c 9000000 /dev/zero", (struct box_limits){0});
    while (!capture_is_too_long(&script.output)) {
        await(script.output.fd);
        assert_true(capture_read(&script.output) || capture_is_too_long(&script.output));
    }
    assert_int_equal(script.output.kept.size_bytes, CAPTURE_KEPT_BYTES);
    capture_write(&script.output, &text, 1000);
    assert_true(text.size_bytes <= 1000);
    assert_memory_equal(text.data, "\\x00\\x00", 8);
    assert_non_null(strstr(text.data, "more bytes of output were not kept"));
    buffer_release(&text);
    finish(&script);
}

static void test_output_is_shown_without_control_bytes(void **state)
{
    struct script script = {0};
    struct buffer text = {0};

    (void)state;
    start(&script, "printf 'a\\033[31m\\tb\\303\\251\\377\\302\\205\\177c\\n'; printf end.",
          (struct box_limits){0});
    await_output(&script.output, "end.");
    capture_write(&script.output, &text, 1000);
    assert_string_equal(text.data, "a\\x1b[31m\tb\xc3\xa9\\xff\\xc2\\x85\\x7fc\nend.");
    buffer_release(&text);
    finish(&script);
}

static void test_the_activity_of_a_process_is_read(void **state)
{
    (void)state;
    volatile uint64_t sum = 0;
    int64_t before_ns = process_active_ns(getpid());
    while (process_active_ns(getpid()) < before_ns + 20000000) {
        for (int i = 0; i < 1000000; i++) {
            sum = sum + (uint64_t)i;
        }
    }
    assert_true(sum > 0);
    assert_int_equal(process_active_ns(0x7fffffff), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_starts_and_its_end_is_told),
        cmocka_unit_test(test_a_program_has_no_environment_input_or_other_descriptors),
        cmocka_unit_test(test_a_program_that_does_not_exist_ends_with_127),
        cmocka_unit_test(test_limits_hold),
        cmocka_unit_test(test_killing_a_box_ends_processes_that_left_their_session),
        cmocka_unit_test(test_killing_a_program_leaves_the_others),
        cmocka_unit_test(test_a_box_dies_with_its_worker),
        cmocka_unit_test(test_output_beyond_the_limit_is_counted_but_not_kept),
        cmocka_unit_test(test_output_is_shown_without_control_bytes),
        cmocka_unit_test(test_the_activity_of_a_process_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
