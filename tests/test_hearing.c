/* What judge and simulator say, in every order in which a loop may show it. */
#include "worker/hearing.h"
#include "worker/report.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT(literal) ((char *)(literal))

struct conversation {
    int judge, simulator; /* the ends of those who speak */
    int ends[2];
    struct evidence evidence;
    struct hearing hearing;
};

static const struct result fault = {.verdict = VERDICT_RUNTIME_ERROR,
                                    .reason = TEXT("illegal_address"),
                                    .message = TEXT("a load at 0x10"),
                                    .rank = 1};
static const struct result last = {.verdict = VERDICT_ACCEPTED, .rank = -1};
/* What the judge makes of a rank whose calls fail. */
static const struct result symptom = {.verdict = VERDICT_RUNTIME_ERROR,
                                      .reason = TEXT("cuda"),
                                      .message = TEXT("rank 1: CUDA error 700"),
                                      .stage = TEXT("check"),
                                      .rank = 1};
static const struct result hung_up = {.verdict = VERDICT_RUNTIME_ERROR,
                                      .reason = TEXT(REPORT_ENDED),
                                      .message = TEXT("rank 1 ended"),
                                      .rank = 1};

static int open_conversation(void **state)
{
    static struct conversation conversation;
    int pair[2], pipe_ends[2];

    conversation = (struct conversation){.evidence = {.world = 2}};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0 || pipe2(pipe_ends, O_NONBLOCK) != 0) {
        return -1;
    }
    conversation.judge = pair[1];
    conversation.simulator = pipe_ends[1];
    conversation.ends[0] = pair[0];
    conversation.ends[1] = pipe_ends[0];
    hearing_init(&conversation.hearing, pair[0], pipe_ends[0], &conversation.evidence);
    *state = &conversation;
    return 0;
}

static int close_conversation(void **state)
{
    struct conversation *conversation = *state;

    hearing_release(&conversation->hearing);
    close(conversation->ends[0]);
    close(conversation->ends[1]);
    if (conversation->judge >= 0) {
        close(conversation->judge);
    }
    if (conversation->simulator >= 0) {
        close(conversation->simulator);
    }
    return 0;
}

static void say_bytes(const struct conversation *conversation, enum message_kind kind,
                      const void *bytes, size_t size_bytes)
{
    struct error err = {0};
    struct message_parts parts = {.kind = kind, .body = bytes, .size_bytes = size_bytes};

    assert_int_equal(channel_send(conversation->judge, &parts, &err), OK);
}

static void judge_says(const struct conversation *conversation, const struct result *result)
{
    struct buffer json = {0};

    result_write(result, &json);
    say_bytes(conversation, MESSAGE_REPORT, json.data, json.size_bytes);
    buffer_release(&json);
}

static void simulator_writes(const struct conversation *conversation, const char *bytes,
                             size_t size_bytes)
{
    assert_int_equal(write(conversation->simulator, bytes, size_bytes), (ssize_t)size_bytes);
}

static void simulator_says(const struct conversation *conversation, const struct result *result)
{
    struct buffer json = {0};

    result_write(result, &json);
    buffer_append(&json, "\n", 1);
    simulator_writes(conversation, json.data, json.size_bytes);
    buffer_release(&json);
}

static void test_the_simulators_cause_counts_although_the_judge_is_shown_first(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;
    struct result result = {.rank = -1};

    simulator_says(conversation, &fault);
    judge_says(conversation, &symptom);
    hearing_judge(hearing);
    assert_non_null(conversation->evidence.device);
    assert_string_equal(conversation->evidence.device->reason, "illegal_address");
    assert_string_equal(conversation->evidence.judge->reason, "cuda");
    assert_true(hearing->is_decided);
    conversation->evidence.device_ending.has_ended = true;
    verdict_decide(&conversation->evidence, &result);
    assert_string_equal(result.reason, "illegal_address");
    result_release(&result);
}

static void test_the_order_of_the_descriptors_changes_nothing(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;

    simulator_says(conversation, &fault);
    judge_says(conversation, &symptom);
    hearing_report(hearing);
    assert_true(hearing->is_decided);
    hearing_judge(hearing);
    assert_string_equal(conversation->evidence.device->reason, "illegal_address");
    assert_string_equal(conversation->evidence.judge->reason, "cuda");
}

static void test_trouble_after_the_judges_report_is_not_its_cause(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;

    judge_says(conversation, &symptom);
    hearing_judge(hearing);
    assert_true(hearing->is_decided);
    simulator_says(conversation, &fault);
    simulator_says(conversation, &last);
    hearing_report(hearing);
    assert_null(conversation->evidence.device);
    assert_non_null(conversation->evidence.device_end);
}

static void test_a_rank_that_hung_up_is_waited_for(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;

    judge_says(conversation, &hung_up);
    hearing_judge(hearing);
    assert_true(hearing_awaits_an_end(hearing));
    assert_false(hearing->is_decided);
    conversation->evidence.rank[1].has_ended = true;
    assert_false(hearing_awaits_an_end(hearing));
}

static void test_trouble_after_a_crash_of_a_rank_decides_nothing(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;

    conversation->evidence.crashed_first = true;
    simulator_says(conversation, &fault);
    hearing_report(hearing);
    assert_non_null(conversation->evidence.device);
    assert_false(hearing->is_decided);
}

static void test_half_a_line_waits_for_the_rest(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;
    struct buffer json = {0};

    result_write(&last, &json);
    simulator_writes(conversation, json.data, 7);
    hearing_report(hearing);
    assert_null(conversation->evidence.device_end);
    simulator_writes(conversation, json.data + 7, json.size_bytes - 7);
    simulator_writes(conversation, "\n", 1);
    hearing_report(hearing);
    assert_non_null(conversation->evidence.device_end);
    buffer_release(&json);
}

static void test_what_is_no_result_is_dropped(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;

    simulator_writes(conversation, "{\"verdict\":\n", 12);
    simulator_says(conversation, &fault);
    hearing_report(hearing);
    assert_non_null(conversation->evidence.device);
    hearing->is_decided = false;
    say_bytes(conversation, MESSAGE_REPORT, "no result", 9);
    hearing_judge(hearing);
    assert_null(conversation->evidence.judge);
    assert_true(hearing->is_decided);
}

static void test_what_the_judge_does_is_progress(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;
    struct status_body body = {.stage = "check"};

    say_bytes(conversation, MESSAGE_STATUS, &body, sizeof body);
    say_bytes(conversation, MESSAGE_STATUS, &body, sizeof body - 1);
    hearing_judge(hearing);
    assert_int_equal(hearing->progress, 1);
    assert_string_equal(conversation->evidence.status.stage, "check");
}

static void test_who_hangs_up_or_says_too_much_is_heard_no_more(void **state)
{
    struct conversation *conversation = *state;
    struct hearing *hearing = &conversation->hearing;
    static char much[32768];

    memset(much, 'x', sizeof much);
    for (size_t said = 0; said <= HEARING_REPORT_MAX_BYTES; said += sizeof much) {
        assert_false(hearing->report_ended);
        simulator_writes(conversation, much, sizeof much);
        hearing_report(hearing);
    }
    assert_true(hearing->report_ended);
    close(conversation->judge);
    conversation->judge = -1;
    hearing_judge(hearing);
    assert_true(hearing->judge_ended);
    close(conversation->simulator);
    conversation->simulator = -1;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_conversation, close_conversation)
    const struct CMUnitTest tests[] = {
        TEST(test_the_simulators_cause_counts_although_the_judge_is_shown_first),
        TEST(test_the_order_of_the_descriptors_changes_nothing),
        TEST(test_trouble_after_the_judges_report_is_not_its_cause),
        TEST(test_a_rank_that_hung_up_is_waited_for),
        TEST(test_trouble_after_a_crash_of_a_rank_decides_nothing),
        TEST(test_half_a_line_waits_for_the_rest),
        TEST(test_what_is_no_result_is_dropped),
        TEST(test_what_the_judge_does_is_progress),
        TEST(test_who_hangs_up_or_says_too_much_is_heard_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
