/* The client follows scripted jobs; then pkb itself says by its exit code how they ended. */
#include "client/follow.h"

#include "common/api.h"
#include "common/job.h"
#include "common/mem.h"
#include "common/result.h"
#include "tests/small_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A job in this state, as the server would say it; to be freed. */
static char *job_text(const struct job *changes, const char *result)
{
    struct buffer json = {0};
    struct job job = *changes;

    (void)snprintf(job.id, sizeof job.id, "job_1");
    (void)snprintf(job.submission_id, sizeof job.submission_id, "sub_1");
    (void)snprintf(job.task, sizeof job.task, "allreduce");
    job.task_number = 1;
    job.world = 4;
    job_write(&job, result, &json);
    return json.data;
}

/* What stood on standard error while `id` was followed; lives until the next call. */
static const char *follow(void **state, struct buffer *body, enum status *status, struct error *err)
{
    static char shown[4096];
    struct options options = {.command = COMMAND_STATUS};
    struct client client = {.options = &options};
    struct api_options api = {.server = small_server_url(state)};
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);

    assert_non_null(file);
    assert_int_equal(api_open(&client.api, &api, err), OK);
    dup2(fileno(file), STDERR_FILENO);
    *status = follow_job(&client, "job_1", body, err);
    dup2(saved, STDERR_FILENO);
    close(saved);
    client_close(&client);
    rewind(file);
    shown[fread(shown, 1, sizeof shown - 1, file)] = 0;
    (void)fclose(file);
    return shown;
}

static void test_each_change_is_one_line_and_the_end_is_the_body(void **state)
{
    char *queued = job_text(&(struct job){.state = JOB_QUEUED, .queue_position = 2}, NULL);
    char *built = job_text(
        &(struct job){.state = JOB_LEASED, .stage = STAGE_BUILDING, .worker = "ada"}, NULL);
    char *ended = job_text(&(struct job){.state = JOB_DONE, .verdict = "accepted"}, NULL);
    const char *const bodies[] = {queued, queued, built, built, ended, ""};
    struct buffer body = {0};
    struct error err = {0};
    enum status status = OK;

    small_server_script(bodies);
    const char *shown = follow(state, &body, &status, &err);
    assert_int_equal(status, OK);
    assert_string_equal(shown, "job_1: queued, 2 ahead\njob_1: building on ada\n"
                               "job_1: done: accepted\n");
    assert_string_equal(body.data, ended);
    buffer_release(&body);
    free(ended);
    free(built);
    free(queued);
}

static void test_a_server_that_is_away_is_asked_again(void **state)
{
    char *ended = job_text(&(struct job){.state = JOB_DONE, .verdict = "accepted"}, NULL);
    const char *const bodies[] = {NULL, ended, ""};
    struct buffer body = {0};
    struct error err = {0};
    enum status status = OK;

    small_server_script(bodies);
    const char *shown = follow(state, &body, &status, &err);
    assert_int_equal(status, OK);
    assert_non_null(strstr(shown, "503"));
    assert_non_null(strstr(shown, "job_1: done: accepted\n"));
    buffer_release(&body);
    free(ended);
}

static void test_what_is_no_job_ends_the_waiting(void **state)
{
    const char *const bodies[] = {"{\"id\":1}", ""};
    struct buffer body = {0};
    struct error err = {0};
    enum status status = OK;

    small_server_script(bodies);
    (void)follow(state, &body, &status, &err);
    assert_int_equal(status, ERR_PROTOCOL);
    buffer_release(&body);
}

static void test_an_interrupt_leaves_the_job_and_says_how_to_go_on(void **state)
{
    char *queued = job_text(&(struct job){.state = JOB_QUEUED}, NULL);
    const char *const bodies[] = {queued, ""};
    struct buffer body = {0};
    struct error err = {0};
    enum status status = OK;
    sigset_t interrupt;
    sigset_t before;

    small_server_script(bodies);
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before);
    (void)raise(SIGINT);
    (void)follow(state, &body, &status, &err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(status, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "'pkb status job_1 --wait'"));
    buffer_release(&body);
    free(queued);
}

/* ---- pkb itself ---- */

/* Becomes `pkb ARGUMENTS`, with standard output in `fd`. */
_Noreturn static void become(void **state, const char *arguments, int fd)
{
    const char *build = getenv("BUILD");
    char *path = xasprintf("%s/bin/pkb", build == NULL ? "build" : build);
    char *line = xasprintf("pkb --server %s %s", small_server_url(state), arguments);
    char *words[16] = {NULL};

    for (int count = 0; count < 15 && line != NULL; count++) {
        words[count] = strsep(&line, " ");
    }
    dup2(fd, STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    execv(path, words);
    _exit(127);
}

/* Runs `pkb ARGUMENTS` against the server; its output lives until the next call. */
static int run(void **state, const char *arguments, const char **output)
{
    static char text[8192];
    FILE *file = tmpfile();
    int status = 0;

    assert_non_null(file);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        become(state, arguments, fileno(file));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    (void)fclose(file);
    assert_true(WIFEXITED(status));
    *output = text;
    return WEXITSTATUS(status);
}

static void test_the_exit_code_of_a_job_that_is_done_is_its_verdict(void **state)
{
    const char *output = NULL;

    for (unsigned verdict = 0; verdict < VERDICTS; verdict++) {
        struct result result = {.verdict = (enum verdict)verdict, .rank = -1};
        struct job job = {.state = JOB_DONE};
        struct buffer json = {0};
        result_write(&result, &json);
        (void)snprintf(job.verdict, sizeof job.verdict, "%s", verdict_name(result.verdict));
        char *text = job_text(&job, json.data);
        const char *const bodies[] = {text, ""};
        small_server_script(bodies);
        assert_int_equal(run(state, "status job_1", &output), verdict == 0 ? 0 : 9 + verdict);
        assert_memory_equal(output, job.verdict, strlen(job.verdict));
        assert_int_equal(run(state, "--json status job_1 --wait", &output),
                         verdict == 0 ? 0 : 9 + verdict);
        assert_memory_equal(output, text, strlen(text));
        free(text);
        buffer_release(&json);
    }
}

static void test_the_exit_code_is_1_for_trouble_and_2_for_wrong_usage(void **state)
{
    const char *output = NULL;
    char *cancelled = job_text(&(struct job){.state = JOB_CANCELLED}, NULL);
    char *queued = job_text(&(struct job){.state = JOB_QUEUED}, NULL);
    const char *const first[] = {cancelled, ""};
    const char *const second[] = {queued, ""};
    const char *const third[] = {NULL, ""};

    small_server_script(first);
    assert_int_equal(run(state, "status job_1", &output), 1);
    assert_string_equal(output, "job_1: cancelled\n");
    small_server_script(second);
    assert_int_equal(run(state, "status job_1", &output), 0);
    small_server_script(third);
    assert_int_equal(run(state, "status job_1 --json", &output), 1);
    assert_memory_equal(output, "{\"error\":{\"status\":\"unavailable\",\"detail\":\"", 43);
    assert_int_equal(run(state, "status", &output), 2);
    assert_int_equal(run(state, "--help", &output), 0);
    assert_memory_equal(output, "usage: pkb COMMAND", 18);
    free(queued);
    free(cancelled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_change_is_one_line_and_the_end_is_the_body),
        cmocka_unit_test(test_a_server_that_is_away_is_asked_again),
        cmocka_unit_test(test_what_is_no_job_ends_the_waiting),
        cmocka_unit_test(test_an_interrupt_leaves_the_job_and_says_how_to_go_on),
        cmocka_unit_test(test_the_exit_code_of_a_job_that_is_done_is_its_verdict),
        cmocka_unit_test(test_the_exit_code_is_1_for_trouble_and_2_for_wrong_usage),
    };

    return cmocka_run_group_tests(tests, small_server_start, small_server_stop);
}
