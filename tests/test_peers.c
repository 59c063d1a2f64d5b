#include "worker/peers.h"

#include "common/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { WORLD = 2 };

struct scene {
    struct peers peers;
    struct control_page page;
    int rank[WORLD]; /* the ranks' ends */
    int worker;      /* the worker's end */
    int worker_of_judge;
    int finished[16][2]; /* what was told: rank, call */
    int finished_count;
    struct message *message;
};

static enum status on_finished(void *context, int rank, int call, struct error *err)
{
    struct scene *scene = context;

    (void)err;
    scene->finished[scene->finished_count][0] = rank;
    scene->finished[scene->finished_count++][1] = call;
    return OK;
}

static int set_up(void **state)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    scene->worker = ends[0];
    scene->worker_of_judge = ends[1];
    peers_init(&scene->peers, ends[1], WORLD);
    for (int rank = 0; rank < WORLD; rank++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        scene->rank[rank] = ends[0];
        scene->peers.peer[rank].fd = ends[1];
    }
    scene->peers.page = &scene->page;
    scene->peers.context = scene;
    scene->peers.finished = on_finished;
    scene->message = xcalloc(1, sizeof *scene->message);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    peers_release(&scene->peers);
    for (int rank = 0; rank < WORLD; rank++) {
        close(scene->rank[rank]);
    }
    close(scene->worker);
    close(scene->worker_of_judge);
    free(scene->message);
    free(scene);
    return 0;
}

static void turn(struct scene *scene)
{
    struct error err = {0};

    assert_int_equal(peers_turn(&scene->peers, &err), OK);
}

static void say_body(struct scene *scene, int rank, enum message_kind kind,
                     struct progress_body body)
{
    struct error err = {0};

    assert_int_equal(
        channel_send(
            scene->rank[rank],
            &(struct message_parts){.kind = kind, .body = &body, .size_bytes = sizeof body}, &err),
        OK);
    turn(scene);
}

static void say(struct scene *scene, int rank, enum message_kind kind)
{
    say_body(scene, rank, kind, (struct progress_body){0});
}

static void say_call(struct scene *scene, int rank, enum message_kind kind, int call)
{
    say_body(scene, rank, kind, (struct progress_body){.call = call});
}

static void all_are_told(struct scene *scene, enum message_kind kind, enum rank_phase phase)
{
    for (int rank = 0; rank < WORLD; rank++) {
        peers_send(&scene->peers, rank, &(struct message_parts){.kind = kind}, phase);
    }
}

/* Both ranks have started, loaded and set up, and have calls 0 and 1 before them. */
static void go_to_calls(struct scene *scene)
{
    static const struct {
        enum message_kind order, answer;
        enum rank_phase phase;
    } steps[] = {{MESSAGE_ATTACH, MESSAGE_LOADED, RANK_LOADING},
                 {MESSAGE_RUN, MESSAGE_READY, RANK_SETUP}};

    for (int rank = 0; rank < WORLD; rank++) {
        say(scene, rank, MESSAGE_HELLO);
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        assert_true(peers_are_idle(&scene->peers));
        all_are_told(scene, steps[i].order, steps[i].phase);
        assert_false(peers_are_idle(&scene->peers));
        for (int rank = 0; rank < WORLD; rank++) {
            say(scene, rank, steps[i].answer);
        }
    }
    for (int rank = 0; rank < WORLD; rank++) {
        peers_send_calls(&scene->peers, rank, &(struct calls_body){.first_call = 3, .count = 2});
    }
    assert_int_equal(peers_steps(&scene->peers), 0);
    turn(scene);
}

static void make_call(struct scene *scene, int rank, int call)
{
    say_call(scene, rank, MESSAGE_ENTERED, call);
    say_call(scene, rank, MESSAGE_RETURNED, call);
    say_call(scene, rank, MESSAGE_FINISHED, call);
}

static void test_ranks_go_through_a_run_and_finished_calls_are_told(void **state)
{
    struct scene *scene = *state;

    go_to_calls(scene);
    say_call(scene, 1, MESSAGE_ENTERED, 3);
    assert_true(peers_is_in_code(&scene->peers, 1));
    assert_false(peers_is_in_code(&scene->peers, 0));
    say_call(scene, 1, MESSAGE_RETURNED, 3);
    say_call(scene, 1, MESSAGE_ENTERED, 4);
    say_call(scene, 1, MESSAGE_RETURNED, 4);
    say_call(scene, 1, MESSAGE_FINISHED, 3);
    say_call(scene, 1, MESSAGE_FINISHED, 4);
    assert_int_equal(scene->finished_count, 2);
    assert_int_equal(scene->finished[1][0], 1);
    assert_int_equal(scene->finished[1][1], 4);
    assert_false(peers_are_idle(&scene->peers));
    make_call(scene, 0, 3);
    make_call(scene, 0, 4);
    assert_true(peers_are_idle(&scene->peers));
    all_are_told(scene, MESSAGE_END_RUN, RANK_TEARDOWN);
    say(scene, 0, MESSAGE_ENDED);
    say(scene, 1, MESSAGE_ENDED);
    assert_true(peers_are_idle(&scene->peers));
    assert_int_equal(peers_failed(&scene->peers), -1);
}

static void assert_failed(struct scene *scene, int rank, enum peer_failure failure)
{
    assert_int_equal(peers_failed(&scene->peers), rank);
    assert_int_equal(scene->peers.peer[rank].failure, failure);
}

static void test_a_call_that_was_not_made_cannot_be_finished(void **state)
{
    struct scene *scene = *state;

    go_to_calls(scene);
    say_call(scene, 0, MESSAGE_FINISHED, 3);
    assert_failed(scene, 0, PEER_PROTOCOL);
    assert_int_equal(scene->finished_count, 0);
    assert_int_equal(scene->peers.peer[0].phase, RANK_GONE);
}

static void test_calls_out_of_order_are_refused(void **state)
{
    struct scene *scene = *state;

    go_to_calls(scene);
    say_call(scene, 1, MESSAGE_ENTERED, 4);
    assert_failed(scene, 1, PEER_PROTOCOL);
    say_call(scene, 0, MESSAGE_ENTERED, 3);
    say_call(scene, 0, MESSAGE_RETURNED, 4);
    assert_failed(scene, 0, PEER_PROTOCOL);
}

static void test_a_rank_that_says_more_than_it_was_asked_is_refused(void **state)
{
    struct scene *scene = *state;

    say(scene, 0, MESSAGE_HELLO);
    say(scene, 0, MESSAGE_HELLO);
    assert_failed(scene, 0, PEER_PROTOCOL);
    say(scene, 1, MESSAGE_QUIT);
    assert_int_equal(scene->peers.peer[1].failure, PEER_PROTOCOL);
}

static void test_packets_that_are_no_messages_end_a_rank(void **state)
{
    struct scene *scene = *state;

    assert_int_equal(send(scene->rank[1], "x", 1, 0), 1);
    turn(scene);
    assert_failed(scene, 1, PEER_PROTOCOL);
}

static void test_a_code_is_a_failure_with_its_function(void **state)
{
    struct scene *scene = *state;

    say(scene, 0, MESSAGE_HELLO);
    say(scene, 1, MESSAGE_HELLO);
    all_are_told(scene, MESSAGE_ATTACH, RANK_LOADING);
    say(scene, 0, MESSAGE_LOADED);
    say(scene, 1, MESSAGE_LOADED);
    all_are_told(scene, MESSAGE_RUN, RANK_SETUP);
    say_body(scene, 1, MESSAGE_READY, (struct progress_body){.code = 5, .last_error = 2});
    assert_failed(scene, 1, PEER_CODE);
    assert_int_equal(scene->peers.peer[1].failed_phase, RANK_SETUP);
    assert_int_equal(scene->peers.peer[1].failed.code, 5);
    assert_int_equal(scene->peers.peer[1].last_error, 2);
}

static void test_a_finished_call_with_an_error_is_not_told(void **state)
{
    struct scene *scene = *state;

    go_to_calls(scene);
    say_call(scene, 0, MESSAGE_ENTERED, 3);
    say_call(scene, 0, MESSAGE_RETURNED, 3);
    say_body(scene, 0, MESSAGE_FINISHED, (struct progress_body){.call = 3, .cuda_error = 700});
    assert_failed(scene, 0, PEER_CUDA);
    assert_int_equal(scene->finished_count, 0);
}

static void test_a_rank_that_is_gone_is_worse_than_a_code_of_a_lower_one(void **state)
{
    struct scene *scene = *state;
    struct crashed_body crash = {.signal = SIGSEGV, .address = 0x200000000100};
    struct error err = {0};

    go_to_calls(scene);
    say_call(scene, 0, MESSAGE_ENTERED, 3);
    say_body(scene, 0, MESSAGE_RETURNED, (struct progress_body){.call = 3, .code = 1});
    assert_failed(scene, 0, PEER_CODE);
    say_call(scene, 1, MESSAGE_ENTERED, 3);
    assert_int_equal(channel_send(scene->rank[1],
                                  &(struct message_parts){.kind = MESSAGE_CRASHED,
                                                          .body = &crash,
                                                          .size_bytes = sizeof crash},
                                  &err),
                     OK);
    shutdown(scene->rank[1], SHUT_RDWR);
    turn(scene);
    assert_failed(scene, 1, PEER_GONE);
    assert_true(scene->peers.peer[1].has_crashed);
    assert_int_equal(scene->peers.peer[1].failed_phase, RANK_IN_RUN);
}

static void test_ranks_in_the_barrier_are_stuck_once_another_has_gone_past(void **state)
{
    struct scene *scene = *state;

    go_to_calls(scene);
    say_call(scene, 0, MESSAGE_ENTERED, 3);
    scene->page.in_barrier[0] = scene->page.generation + 1;
    turn(scene);
    assert_true(peers_waits_in_barrier(&scene->peers, 0));
    assert_false(peers_is_in_code(&scene->peers, 0));
    assert_false(peers_are_stuck(&scene->peers)); /* rank 1 may still come */
    make_call(scene, 1, 3);
    assert_false(peers_are_stuck(&scene->peers));
    make_call(scene, 1, 4);
    assert_true(peers_are_stuck(&scene->peers));
    scene->page.generation++; /* the barrier has opened; rank 0 has not noticed yet */
    assert_false(peers_are_stuck(&scene->peers));
}

static void test_memory_is_asked_for_in_setup_only(void **state)
{
    struct scene *scene = *state;
    struct symm_ask_body ask = {.size_bytes = 4096};
    struct message_parts parts = {.kind = MESSAGE_SYMM_ASK, .body = &ask, .size_bytes = sizeof ask};
    struct error err = {0};

    say(scene, 0, MESSAGE_HELLO);
    all_are_told(scene, MESSAGE_RUN, RANK_SETUP);
    assert_int_equal(channel_send(scene->rank[0], &parts, &err), OK);
    turn(scene);
    assert_true(scene->peers.peer[0].is_asking);
    assert_int_equal(scene->peers.peer[0].asked_bytes, 4096);
    assert_false(peers_is_in_code(&scene->peers, 0));
    scene->peers.peer[0].is_asking = false;
    say(scene, 0, MESSAGE_READY);
    assert_int_equal(channel_send(scene->rank[0], &parts, &err), OK);
    turn(scene);
    assert_failed(scene, 0, PEER_PROTOCOL);
}

static void test_the_worker_is_told_of_phases(void **state)
{
    struct scene *scene = *state;
    struct status_body status = {0};
    struct error err = {0};

    peers_set_stage(&scene->peers, "check", "check/odd", "exact");
    go_to_calls(scene);
    say_call(scene, 1, MESSAGE_ENTERED, 3);
    while (channel_receive(scene->worker, scene->message, &err) == OK) {
        assert_int_equal(scene->message->kind, MESSAGE_STATUS);
        assert_int_equal(channel_body(scene->message, &status, sizeof status, &err), OK);
    }
    assert_string_equal(status.stage, "check");
    assert_string_equal(status.case_name, "check/odd");
    assert_int_equal(status.phase[0], RANK_WAITING);
    assert_int_equal(status.phase[1], RANK_IN_RUN);
    assert_int_equal(status.call[1], 3);
    turn(scene);
    assert_int_equal(channel_receive(scene->worker, scene->message, &err), ERR_NOT_FOUND);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ranks_go_through_a_run_and_finished_calls_are_told),
        TEST(test_a_call_that_was_not_made_cannot_be_finished),
        TEST(test_calls_out_of_order_are_refused),
        TEST(test_a_rank_that_says_more_than_it_was_asked_is_refused),
        TEST(test_packets_that_are_no_messages_end_a_rank),
        TEST(test_a_code_is_a_failure_with_its_function),
        TEST(test_a_finished_call_with_an_error_is_not_told),
        TEST(test_a_rank_that_is_gone_is_worse_than_a_code_of_a_lower_one),
        TEST(test_ranks_in_the_barrier_are_stuck_once_another_has_gone_past),
        TEST(test_memory_is_asked_for_in_setup_only),
        TEST(test_the_worker_is_told_of_phases),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
