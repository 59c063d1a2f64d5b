/* The queue: who gets which job, for how long, and what becomes of it. Time is an argument. */
#include "server/queue.h"

#include "server/jobs.h"
#include "server/losses.h"
#include "server/results.h"
#include "server/submissions.h"
#include "server/tokens.h"

#include <setjmp.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TTL_MS = 30000, SIM = 1U << DEVICE_SIM };

static const char accepted[] =
    "{\"verdict\":\"accepted\",\"build_ms\":1,\"run_ms\":2,\"traffic\":["
    "{\"source\":0,\"owner\":1,\"mechanism\":\"sm_load\",\"bytes\":100},"
    "{\"source\":0,\"owner\":0,\"mechanism\":\"sm_store\",\"bytes\":1000},"
    "{\"source\":1,\"owner\":0,\"mechanism\":\"copy_engine\",\"bytes\":11}]}";
static const char internal_error[] = "{\"verdict\":\"internal_error\",\"build_ms\":1,\"run_ms\":2}";

struct fixture {
    struct db *db;
    struct queue *queue;
    struct error err;
    int jobs;
};

static struct moment at(int64_t boot_ms)
{
    return (struct moment){.boot_ms = boot_ms, .wall_ms = 1000000 + boot_ms};
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct token token = {.role = ROLE_SUBMITTER, .name = "sam"};
    struct submission submission = {
        .id = "sub_1", .task_number = 1, .task = "allreduce", .owner = "sam", .created_ms = 1};
    char text[TOKEN_TEXT_MAX];

    assert_int_not_equal(sodium_init(), -1);
    assert_int_equal(db_open(&fixture->db, ":memory:", DB_CREATE, &fixture->err), OK);
    assert_int_equal(token_add(fixture->db, &token, 1, text, &fixture->err), OK);
    assert_int_equal(
        submission_add(fixture->db, &submission, token.id, "__global__", 10, &fixture->err), OK);
    assert_int_equal(queue_open(&fixture->queue, fixture->db, TTL_MS, at(0), &fixture->err), OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    queue_close(fixture->queue);
    db_close(fixture->db);
    free(fixture);
    return 0;
}

/* Queues job_1, job_2, ... for a world and device; later ones are younger. Returns its place. */
static int push(struct fixture *fixture, int world, enum device_kind device)
{
    struct job job = {.submission_id = "sub_1",
                      .world = world,
                      .dtype = DTYPE_BF16,
                      .device = device,
                      .queued_ms = 100 + fixture->jobs};

    (void)snprintf(job.id, sizeof job.id, "job_%d", ++fixture->jobs);
    assert_int_equal(queue_push(fixture->queue, &job, UINT64_MAX - 6, &fixture->err), OK);
    return job.queue_position;
}

static enum status lease(struct fixture *fixture, const char *worker, int64_t now_ms,
                         struct job *job)
{
    struct lease_wish wish = {.worker = worker, .kinds = SIM, .gpus = 8};
    struct lease_grant grant = {0};
    enum status status = queue_lease(fixture->queue, &wish, at(now_ms), &grant, &fixture->err);

    if (status == OK) {
        assert_string_equal(grant.source, "__global__");
        assert_int_equal(grant.source_bytes, 10);
        assert_true(grant.seed == UINT64_MAX - 6);
        assert_int_equal(grant.ttl_ms, TTL_MS);
        *job = grant.job;
        lease_grant_release(&grant);
    }
    return status;
}

static enum status beat(struct fixture *fixture, const struct job *job, int64_t now_ms)
{
    struct heartbeat heartbeat = {.epoch = job->epoch, .stage = STAGE_BUILDING};

    (void)snprintf(heartbeat.worker, sizeof heartbeat.worker, "%s", job->worker);
    return queue_heartbeat(fixture->queue, job->id, &heartbeat, at(now_ms), &fixture->err);
}

static enum status finish(struct fixture *fixture, const struct job *job, const char *json,
                          int64_t now_ms)
{
    struct result_report report = {.epoch = job->epoch, .result_json = (char *)json};

    (void)snprintf(report.worker, sizeof report.worker, "%s", job->worker);
    return queue_finish(fixture->queue, job->id, &report, at(now_ms), &fixture->err);
}

static struct job get(struct fixture *fixture, const char *id)
{
    struct job job = {0};

    assert_int_equal(job_get(fixture->db, id, NULL, &job, &fixture->err), OK);
    return job;
}

static int count(struct fixture *fixture, const char *sql)
{
    struct sqlite3_stmt *statement = NULL;
    bool row = false;

    assert_int_equal(db_prepare(fixture->db, sql, &statement, &fixture->err), OK);
    assert_int_equal(db_step(fixture->db, statement, &row, &fixture->err), OK);
    int number = sqlite3_column_int(statement, 0);
    db_reset(statement);
    return number;
}

static void expire(struct fixture *fixture, int64_t now_ms)
{
    assert_int_equal(queue_expire(fixture->queue, at(now_ms), &fixture->err), OK);
}

static void test_a_job_is_leased_to_one_worker_only(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    assert_int_equal(lease(fixture, "ada", 0, &job), OK);
    assert_int_equal(job.epoch, 1);
    assert_int_equal(job.state, JOB_LEASED);
    assert_string_equal(job.worker, "ada");
    assert_int_equal(lease(fixture, "bob", 0, &job), ERR_NOT_FOUND);
}

static void test_the_oldest_job_that_fits_is_leased_first(void **state)
{
    struct fixture *fixture = *state;
    struct lease_wish small = {.worker = "ada", .kinds = SIM, .gpus = 2};
    struct lease_grant grant = {0};
    struct job job = {0};

    push(fixture, 4, DEVICE_CUDA);
    push(fixture, 4, DEVICE_SIM);
    push(fixture, 2, DEVICE_SIM);
    push(fixture, 2, DEVICE_SIM);
    assert_int_equal(queue_lease(fixture->queue, &small, at(0), &grant, &fixture->err), OK);
    assert_string_equal(grant.job.id, "job_3");
    lease_grant_release(&grant);
    assert_int_equal(lease(fixture, "bob", 0, &job), OK);
    assert_string_equal(job.id, "job_2");
    small.kinds = 1U << DEVICE_CUDA | SIM;
    small.gpus = 8;
    assert_int_equal(queue_lease(fixture->queue, &small, at(0), &grant, &fixture->err), OK);
    assert_string_equal(grant.job.id, "job_1");
    lease_grant_release(&grant);
}

static void test_a_place_in_the_queue_counts_the_older_jobs(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    for (int i = 0; i < 3; i++) {
        assert_int_equal(push(fixture, 4, DEVICE_SIM), i);
    }
    assert_int_equal(get(fixture, "job_1").queue_position, 0);
    assert_int_equal(get(fixture, "job_3").queue_position, 2);
    assert_int_equal(lease(fixture, "ada", 0, &job), OK);
    assert_int_equal(get(fixture, "job_1").queue_position, -1);
    assert_int_equal(get(fixture, "job_3").queue_position, 1);
    assert_int_equal(push(fixture, 4, DEVICE_SIM), 2);
    expire(fixture, FIRST_HEARTBEAT_MS);
    assert_int_equal(push(fixture, 4, DEVICE_SIM), 4);
    assert_int_equal(get(fixture, "job_5").queue_position, 4);
    assert_int_equal(lease(fixture, "ada", 10000, &job), OK);
    assert_int_equal(finish(fixture, &job, internal_error, 10000), OK);
    queue_close(fixture->queue);
    fixture->queue = NULL;
    assert_int_equal(queue_open(&fixture->queue, fixture->db, TTL_MS, at(0), &fixture->err), OK);
    assert_int_equal(push(fixture, 4, DEVICE_SIM), 5);
}

static void test_nobody_counts_places_beyond_the_limit(void **state)
{
    struct fixture *fixture = *state;

    for (int i = 0; i <= QUEUE_POSITION_MAX + 1; i++) {
        assert_int_equal(push(fixture, 4, DEVICE_SIM),
                         i < QUEUE_POSITION_MAX ? i : QUEUE_POSITION_MAX);
    }
    assert_int_equal(get(fixture, "job_1000").queue_position, 999);
    assert_int_equal(get(fixture, "job_1001").queue_position, QUEUE_POSITION_MAX);
    assert_int_equal(get(fixture, "job_1002").queue_position, QUEUE_POSITION_MAX);
}

static void test_a_lease_without_a_heartbeat_returns_uncounted(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    for (int64_t i = 1; i <= 10; i++) {
        assert_int_equal(lease(fixture, "ada", i * 10000, &job), OK);
        assert_int_equal(job.epoch, i);
        assert_int_equal(queue_expires_ms(fixture->queue), i * 10000 + FIRST_HEARTBEAT_MS);
        expire(fixture, i * 10000 + FIRST_HEARTBEAT_MS - 1);
        assert_int_equal(get(fixture, "job_1").state, JOB_LEASED);
        expire(fixture, i * 10000 + FIRST_HEARTBEAT_MS);
        assert_int_equal(get(fixture, "job_1").state, JOB_QUEUED);
    }
    assert_int_equal(count(fixture, "SELECT lost_workers FROM job"), 0);
    assert_true(queue_expires_ms(fixture->queue) == INT64_MAX);
}

static void test_heartbeats_keep_a_lease(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    assert_int_equal(lease(fixture, "ada", 0, &job), OK);
    for (int64_t now_ms = 1000; now_ms < 200000; now_ms += TTL_MS - 1) {
        assert_int_equal(beat(fixture, &job, now_ms), OK);
        expire(fixture, now_ms + TTL_MS - 1);
    }
    assert_int_equal(get(fixture, "job_1").state, JOB_LEASED);
    assert_int_equal(get(fixture, "job_1").stage, STAGE_BUILDING);
    assert_int_equal(finish(fixture, &job, accepted, 200000), OK);
}

static void test_a_lease_that_ran_out_fences_its_worker(void **state)
{
    struct fixture *fixture = *state;
    struct job old = {0};
    struct job new = {0};

    push(fixture, 4, DEVICE_SIM);
    assert_int_equal(lease(fixture, "ada", 0, &old), OK);
    assert_int_equal(beat(fixture, &old, 0), OK);
    expire(fixture, TTL_MS);
    assert_int_equal(beat(fixture, &old, TTL_MS), ERR_CONFLICT);
    assert_int_equal(finish(fixture, &old, accepted, TTL_MS), ERR_CONFLICT);
    assert_int_equal(lease(fixture, "ada", TTL_MS, &new), OK);
    assert_int_equal(new.epoch, 2);
    assert_int_equal(beat(fixture, &old, TTL_MS), ERR_CONFLICT);
    assert_int_equal(finish(fixture, &old, accepted, TTL_MS), ERR_CONFLICT);
    assert_string_equal(fixture->err.field, "epoch");
    assert_int_equal(get(fixture, "job_1").state, JOB_LEASED);
    assert_int_equal(count(fixture, "SELECT count(*) FROM result"), 0);
    assert_int_equal(finish(fixture, &new, accepted, TTL_MS), OK);
}

static void test_only_the_holder_of_a_lease_may_use_it(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    assert_int_equal(lease(fixture, "ada", 0, &job), OK);
    (void)snprintf(job.worker, sizeof job.worker, "bob");
    assert_int_equal(beat(fixture, &job, 1), ERR_CONFLICT);
    assert_int_equal(finish(fixture, &job, accepted, 1), ERR_CONFLICT);
    (void)snprintf(job.id, sizeof job.id, "job_9");
    assert_int_equal(beat(fixture, &job, 1), ERR_NOT_FOUND);
    assert_int_equal(finish(fixture, &job, accepted, 1), ERR_NOT_FOUND);
}

static void test_a_result_ends_a_job_and_counts_bytes_between_ranks(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};
    char *json = NULL;

    push(fixture, 4, DEVICE_SIM);
    assert_int_equal(lease(fixture, "ada", 0, &job), OK);
    assert_int_equal(finish(fixture, &job, accepted, 77), OK);
    job = get(fixture, "job_1");
    assert_int_equal(job.state, JOB_DONE);
    assert_string_equal(job.verdict, "accepted");
    assert_string_equal(job.worker, "ada");
    assert_int_equal(job.finished_ms, 1000077);
    assert_int_equal(count(fixture, "SELECT peer_bytes FROM result"), 111);
    assert_int_equal(result_get(fixture->db, "job_1", &json, &fixture->err), OK);
    assert_non_null(strstr(json, "copy_engine"));
    free(json);
    assert_true(queue_expires_ms(fixture->queue) <= FIRST_HEARTBEAT_MS);
    expire(fixture, 100000);
    assert_int_equal(get(fixture, "job_1").state, JOB_DONE);
}

static void test_a_repeated_result_is_taken_once(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    assert_int_equal(lease(fixture, "ada", 0, &job), OK);
    assert_int_equal(finish(fixture, &job, accepted, 1), OK);
    assert_int_equal(finish(fixture, &job, accepted, 2), OK);
    assert_int_equal(finish(fixture, &job, internal_error, 3), OK);
    assert_int_equal(get(fixture, "job_1").finished_ms, 1000001);
    assert_int_equal(count(fixture, "SELECT count(*) FROM result"), 1);
    assert_int_equal(count(fixture, "SELECT count(*) FROM event WHERE kind = 'job.done'"), 1);
    job.epoch = 2;
    assert_int_equal(finish(fixture, &job, accepted, 3), ERR_CONFLICT);
}

static void test_what_is_no_result_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    assert_int_equal(lease(fixture, "ada", 0, &job), OK);
    assert_int_equal(finish(fixture, &job, "{}", 1), ERR_INVALID);
    assert_int_equal(
        finish(fixture, &job, "{\"verdict\":\"great\",\"build_ms\":1,\"run_ms\":1}", 1),
        ERR_INVALID);
    assert_string_equal(fixture->err.field, "result.verdict");
    assert_int_equal(get(fixture, "job_1").state, JOB_LEASED);
    assert_int_equal(finish(fixture, &job, accepted, 1), OK);
}

static void test_our_own_error_is_tried_again_three_times(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    for (int i = 0; i < INTERNAL_ERRORS_MAX; i++) {
        assert_int_equal(lease(fixture, "ada", i, &job), OK);
        assert_int_equal(finish(fixture, &job, internal_error, i), OK);
        assert_int_equal(get(fixture, "job_1").state, JOB_QUEUED);
        assert_int_equal(finish(fixture, &job, internal_error, i), OK); /* its answer was lost */
    }
    assert_int_equal(count(fixture, "SELECT internal_errors FROM job"), INTERNAL_ERRORS_MAX);
    assert_int_equal(lease(fixture, "ada", 9, &job), OK);
    assert_int_equal(finish(fixture, &job, internal_error, 9), OK);
    job = get(fixture, "job_1");
    assert_int_equal(job.state, JOB_DONE);
    assert_string_equal(job.verdict, "internal_error");
}

static void lose(struct fixture *fixture, const char *worker, int64_t now_ms)
{
    struct job job = {0};

    assert_int_equal(lease(fixture, worker, now_ms, &job), OK);
    assert_int_equal(beat(fixture, &job, now_ms), OK);
    expire(fixture, now_ms + TTL_MS);
}

static void test_three_lost_workers_on_two_nodes_quarantine_a_job(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    push(fixture, 4, DEVICE_SIM);
    lose(fixture, "ada", 0);
    lose(fixture, "ada", 100000);
    assert_int_equal(get(fixture, "job_1").state, JOB_QUEUED);
    lose(fixture, "bob", 200000);
    assert_int_equal(get(fixture, "job_1").state, JOB_QUARANTINED);
    assert_int_equal(get(fixture, "job_1").finished_ms, 1230000);
    assert_int_equal(lease(fixture, "ada", 300000, &job), OK);
    assert_string_equal(job.id, "job_2");
    assert_int_equal(count(fixture, "SELECT count(*) FROM event WHERE kind = 'job.lost'"), 2);
}

static void test_one_node_alone_is_tried_longer_but_not_for_ever(void **state)
{
    struct fixture *fixture = *state;

    push(fixture, 4, DEVICE_SIM);
    for (int i = 0; i < LOST_ON_ONE_NODE_MAX; i++) {
        assert_int_equal(get(fixture, "job_1").state, JOB_QUEUED);
        lose(fixture, "ada", (int64_t)i * 100000);
    }
    assert_int_equal(get(fixture, "job_1").state, JOB_QUARANTINED);
}

static void test_a_returned_job_keeps_its_place(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    push(fixture, 4, DEVICE_SIM);
    lose(fixture, "ada", 0);
    assert_int_equal(lease(fixture, "ada", TTL_MS, &job), OK);
    assert_string_equal(job.id, "job_1");
}

static void test_after_a_restart_every_lease_has_its_whole_time(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};

    push(fixture, 4, DEVICE_SIM);
    assert_int_equal(lease(fixture, "ada", 100, &job), OK);
    assert_int_equal(beat(fixture, &job, 100), OK);
    queue_close(fixture->queue);
    fixture->queue = NULL;
    /* The machine was started again too: its clock is at the beginning. */
    assert_int_equal(queue_open(&fixture->queue, fixture->db, TTL_MS, at(5), &fixture->err), OK);
    assert_int_equal(queue_expires_ms(fixture->queue), 5 + TTL_MS);
    expire(fixture, 5 + TTL_MS - 1);
    assert_int_equal(beat(fixture, &job, 5 + TTL_MS - 1), OK);
    assert_int_equal(finish(fixture, &job, accepted, 50000), OK);
}

static void test_every_change_of_a_job_is_told(void **state)
{
    struct fixture *fixture = *state;
    struct job job = {0};
    char id[ID_MAX] = "";

    push(fixture, 4, DEVICE_SIM);
    assert_false(queue_take_change(fixture->queue, id));
    assert_int_equal(lease(fixture, "ada", 0, &job), OK);
    assert_true(queue_take_change(fixture->queue, id));
    assert_string_equal(id, "job_1");
    assert_int_equal(beat(fixture, &job, 0), OK);
    assert_true(queue_take_change(fixture->queue, id));
    assert_int_equal(beat(fixture, &job, 1), OK); /* the same stage */
    assert_false(queue_take_change(fixture->queue, id));
    expire(fixture, 1 + TTL_MS);
    assert_true(queue_take_change(fixture->queue, id));
    assert_int_equal(lease(fixture, "ada", 50000, &job), OK);
    assert_int_equal(finish(fixture, &job, accepted, 50000), OK);
    assert_true(queue_take_change(fixture->queue, id));
    assert_true(queue_take_change(fixture->queue, id));
    assert_false(queue_take_change(fixture->queue, id));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_a_job_is_leased_to_one_worker_only),
        TEST(test_the_oldest_job_that_fits_is_leased_first),
        TEST(test_a_place_in_the_queue_counts_the_older_jobs),
        TEST(test_nobody_counts_places_beyond_the_limit),
        TEST(test_a_lease_without_a_heartbeat_returns_uncounted),
        TEST(test_heartbeats_keep_a_lease),
        TEST(test_a_lease_that_ran_out_fences_its_worker),
        TEST(test_only_the_holder_of_a_lease_may_use_it),
        TEST(test_a_result_ends_a_job_and_counts_bytes_between_ranks),
        TEST(test_a_repeated_result_is_taken_once),
        TEST(test_what_is_no_result_changes_nothing),
        TEST(test_our_own_error_is_tried_again_three_times),
        TEST(test_three_lost_workers_on_two_nodes_quarantine_a_job),
        TEST(test_one_node_alone_is_tried_longer_but_not_for_ever),
        TEST(test_a_returned_job_keeps_its_place),
        TEST(test_after_a_restart_every_lease_has_its_whole_time),
        TEST(test_every_change_of_a_job_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
