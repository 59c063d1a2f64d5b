#include "worker/channel.h"

#include "common/mem.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
    int ours, theirs;
    struct message *message;
};

static int set_up(void **state)
{
    struct pair *pair = xcalloc(1, sizeof *pair);
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pair->ours = ends[0];
    pair->theirs = ends[1];
    pair->message = xcalloc(1, sizeof *pair->message);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    struct pair *pair = *state;

    close(pair->ours);
    close(pair->theirs);
    free(pair->message);
    free(pair);
    return 0;
}

static void test_a_message_arrives_with_its_descriptors(void **state)
{
    struct pair *pair = *state;
    struct progress_body body = {.call = 7, .code = -3};
    struct progress_body got = {0};
    struct error err = {0};
    int pipe_ends[2];
    char byte = 0;

    assert_int_equal(pipe(pipe_ends), 0);
    assert_int_equal(channel_send(pair->theirs,
                                  &(struct message_parts){.kind = MESSAGE_RETURNED,
                                                          .body = &body,
                                                          .size_bytes = sizeof body,
                                                          .fds = pipe_ends,
                                                          .fd_count = 2},
                                  &err),
                     OK);
    assert_int_equal(channel_receive(pair->ours, pair->message, &err), OK);
    assert_int_equal(pair->message->kind, MESSAGE_RETURNED);
    assert_int_equal(channel_body(pair->message, &got, sizeof got, &err), OK);
    assert_int_equal(got.call, 7);
    assert_int_equal(got.code, -3);
    assert_int_equal(pair->message->fd_count, 2);
    assert_int_equal(write(pair->message->fds[1], "x", 1), 1);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 1);
    message_close_fds(pair->message);
    assert_int_equal(pair->message->fd_count, 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static void test_a_body_of_another_size_is_refused(void **state)
{
    struct pair *pair = *state;
    struct progress_body got = {0};
    struct error err = {0};

    assert_int_equal(
        channel_send(pair->theirs,
                     &(struct message_parts){.kind = MESSAGE_HELLO, .body = "abc", .size_bytes = 3},
                     &err),
        OK);
    assert_int_equal(channel_receive(pair->ours, pair->message, &err), OK);
    assert_int_equal(channel_body(pair->message, &got, sizeof got, &err), ERR_PROTOCOL);
}

static void test_an_empty_socket_is_told_from_a_closed_one(void **state)
{
    struct pair *pair = *state;
    struct error err = {0};

    assert_int_equal(channel_receive(pair->ours, pair->message, &err), ERR_NOT_FOUND);
    shutdown(pair->theirs, SHUT_RDWR);
    assert_int_equal(channel_receive(pair->ours, pair->message, &err), ERR_UNAVAILABLE);
    assert_int_equal(channel_send(pair->ours, &(struct message_parts){.kind = MESSAGE_QUIT}, &err),
                     ERR_UNAVAILABLE);
}

static void refuse(struct pair *pair, const void *packet, size_t size_bytes)
{
    struct error err = {0};

    assert_int_equal(send(pair->theirs, packet, size_bytes, 0), (ssize_t)size_bytes);
    assert_int_equal(channel_receive(pair->ours, pair->message, &err), ERR_PROTOCOL);
}

static void test_packets_that_are_no_messages_are_refused(void **state)
{
    struct pair *pair = *state;
    uint32_t no_kind[2] = {0, 0};
    uint32_t unknown_kind[2] = {MESSAGE_KINDS, 0};
    uint32_t too_long[2] = {MESSAGE_HELLO, 5};
    uint32_t too_short[4] = {MESSAGE_HELLO, 4, 1, 2};
    char *huge = xcalloc(1, CHANNEL_BODY_MAX + 64);

    refuse(pair, "abc", 3);
    refuse(pair, no_kind, sizeof no_kind);
    refuse(pair, unknown_kind, sizeof unknown_kind);
    refuse(pair, too_long, sizeof too_long);
    refuse(pair, too_short, sizeof too_short);
    memcpy(huge, (uint32_t[]){MESSAGE_HELLO, CHANNEL_BODY_MAX + 56}, 8);
    refuse(pair, huge, CHANNEL_BODY_MAX + 64);
    free(huge);
}

static void test_more_descriptors_than_allowed_are_refused_and_closed(void **state)
{
    struct pair *pair = *state;
    struct error err = {0};
    int fds[CHANNEL_FDS_MAX + 1];
    uint32_t header[2] = {MESSAGE_HELLO, 0};
    struct iovec piece = {header, sizeof header};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {0};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *first = CMSG_FIRSTHDR(&message);
    int before = dup(0);

    close(before);
    for (int i = 0; i <= CHANNEL_FDS_MAX; i++) {
        fds[i] = 0;
    }
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(first), fds, sizeof fds);
    assert_int_equal(sendmsg(pair->theirs, &message, 0), (ssize_t)sizeof header);
    assert_int_equal(channel_receive(pair->ours, pair->message, &err), ERR_PROTOCOL);
    assert_int_equal(pair->message->fd_count, 0);
    int after = dup(0);
    assert_int_equal(after, before);
    close(after);
}

static void test_a_sender_whose_reader_does_not_read_is_told(void **state)
{
    struct pair *pair = *state;
    struct error err = {0};
    struct progress_body body = {0};
    struct message_parts parts = {.kind = MESSAGE_HELLO, .body = &body, .size_bytes = sizeof body};
    int sent = 0;

    while (channel_send(pair->ours, &parts, &err) == OK) {
        sent++;
        assert_true(sent < 1000000);
    }
    assert_int_equal(err.status, ERR_UNAVAILABLE);
}

static void test_a_text_from_outside_ends_and_is_printable(void **state)
{
    char text[CHANNEL_TEXT_MAX];

    (void)state;
    memset(text, 'a', sizeof text);
    text[3] = '\n';
    text[4] = (char)0x80;
    channel_text(text);
    assert_int_equal(strlen(text), CHANNEL_TEXT_MAX - 1);
    assert_memory_equal(text, "aaa??a", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_message_arrives_with_its_descriptors, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_body_of_another_size_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_empty_socket_is_told_from_a_closed_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_packets_that_are_no_messages_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_more_descriptors_than_allowed_are_refused_and_closed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_sender_whose_reader_does_not_read_is_told, set_up,
                                        tear_down),
        cmocka_unit_test(test_a_text_from_outside_ends_and_is_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
