/*
 * The queue under a random history: pushes, leases, heartbeats, results, reports sent twice or too
 * late, workers that vanish, jumps of the clock, restarts. No job is lost, none has two holders,
 * and each ends once.
 *
 * SEED=N repeats a history, RUNS=N tries more of them.
 */
#include "server/queue.h"

#include "server/jobs.h"
#include "server/losses.h"
#include "server/submissions.h"
#include "server/tokens.h"

#include "common/clock.h"
#include "common/log.h"

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

enum { JOBS = 60, WORKERS = 5, STEPS = 3000, TTL_MS = 30000, RUNS_DEFAULT = 20 };

/* What a worker believes to hold. */
struct holding {
    struct job job;
    bool is_held;
};

struct history {
    struct db *db;
    struct queue *queue;
    struct error err;
    uint64_t random;
    int64_t now_ms;
    int pushed;
    int results; /* accepted by the queue, repeats not counted */
    struct holding workers[WORKERS];
    bool has_result[JOBS];
    int64_t epochs[JOBS];         /* the highest one leased */
    int64_t retried_epochs[JOBS]; /* the last that ended by our own fault */
};

static int pick(struct history *history, int count)
{
    history->random = history->random * 6364136223846793005U + 1442695040888963407U;
    return (int)((history->random >> 33) % (uint64_t)count);
}

static struct moment now(const struct history *history)
{
    return (struct moment){.boot_ms = history->now_ms, .wall_ms = 1000 + history->now_ms};
}

static int number_of_job(const char *id)
{
    return (int)strtol(id + strlen("job_"), NULL, 10);
}

static void push(struct history *history)
{
    struct job job = {.submission_id = "sub_1",
                      .world = 4,
                      .dtype = DTYPE_BF16,
                      .device = DEVICE_SIM,
                      .queued_ms = history->now_ms};

    if (history->pushed == JOBS) {
        return;
    }
    (void)snprintf(job.id, sizeof job.id, "job_%03d", history->pushed++);
    assert_int_equal(queue_push(history->queue, &job, 7, &history->err), OK);
}

static void lease(struct history *history, int worker)
{
    char name[24];
    struct lease_wish wish = {.worker = name, .kinds = 1U << DEVICE_SIM, .gpus = 8};
    struct lease_grant grant = {0};

    (void)snprintf(name, sizeof name, "worker%d", worker);
    enum status status = queue_lease(history->queue, &wish, now(history), &grant, &history->err);
    if (status == ERR_NOT_FOUND) {
        return;
    }
    assert_int_equal(status, OK);
    int number = number_of_job(grant.job.id);
    assert_false(history->has_result[number]);
    assert_true(grant.job.epoch > history->epochs[number]);
    history->epochs[number] = grant.job.epoch;
    history->workers[worker] = (struct holding){.job = grant.job, .is_held = true};
    lease_grant_release(&grant);
}

/* Whether the newest lease of that job is the one that this worker believes to hold. */
static bool is_newest(const struct history *history, const struct job *job)
{
    return job->epoch == history->epochs[number_of_job(job->id)];
}

static void beat(struct history *history, int worker)
{
    const struct job *job = &history->workers[worker].job;
    struct heartbeat heartbeat = {.epoch = job->epoch, .stage = (enum job_stage)pick(history, 4)};

    if (!history->workers[worker].is_held) {
        return;
    }
    memcpy(heartbeat.worker, job->worker, sizeof heartbeat.worker);
    enum status status =
        queue_heartbeat(history->queue, job->id, &heartbeat, now(history), &history->err);
    if (status == OK) {
        assert_true(is_newest(history, job));
        assert_false(history->has_result[number_of_job(job->id)]);
    } else {
        assert_int_equal(status, ERR_CONFLICT);
        history->workers[worker].is_held = pick(history, 2) == 0; /* or goes on regardless */
    }
}

static void finish(struct history *history, int worker)
{
    static const char accepted[] = "{\"verdict\":\"accepted\",\"build_ms\":1,\"run_ms\":1}";
    static const char ours[] = "{\"verdict\":\"internal_error\",\"build_ms\":1,\"run_ms\":1}";
    const struct job *job = &history->workers[worker].job;
    bool is_ours = pick(history, 8) == 0;
    struct result_report report = {.epoch = job->epoch,
                                   .result_json = (char *)(is_ours ? ours : accepted)};
    struct job after = {0};

    if (!history->workers[worker].is_held) {
        return;
    }
    int number = number_of_job(job->id);
    memcpy(report.worker, job->worker, sizeof report.worker);
    enum status status =
        queue_finish(history->queue, job->id, &report, now(history), &history->err);
    if (status == OK) {
        /* The newest lease, or a report that was taken before, said again. */
        assert_true(is_newest(history, job) || job->epoch == history->retried_epochs[number]);
        assert_int_equal(job_get(history->db, job->id, NULL, &after, &history->err), OK);
        if (after.state == JOB_DONE && !history->has_result[number]) {
            history->has_result[number] = true;
            history->results++;
        } else if (after.state == JOB_QUEUED) {
            history->retried_epochs[number] = job->epoch;
        }
    } else {
        assert_int_equal(status, ERR_CONFLICT);
    }
    history->workers[worker].is_held = pick(history, 4) == 0; /* some report again */
}

static void restart(struct history *history)
{
    queue_close(history->queue);
    history->queue = NULL;
    if (pick(history, 2) == 0) {
        history->now_ms = pick(history, 1000); /* the machine too: its clock begins again */
    }
    assert_int_equal(queue_open(&history->queue, history->db, TTL_MS, now(history), &history->err),
                     OK);
}

static void step(struct history *history)
{
    static const int jumps_ms[] = {0, 1, 100, 1000, 6000, TTL_MS / 3, TTL_MS, 10 * TTL_MS};
    int worker = pick(history, WORKERS);

    switch (pick(history, 8)) {
    case 0:
        push(history);
        break;
    case 1:
    case 2:
        lease(history, worker);
        break;
    case 3:
    case 4:
        beat(history, worker);
        break;
    case 5:
        finish(history, worker);
        break;
    case 6:
        history->now_ms += jumps_ms[pick(history, 8)];
        break;
    default:
        if (pick(history, 20) == 0) {
            restart(history);
        } else if (pick(history, 10) == 0) {
            history->workers[worker].is_held = false; /* vanishes */
        }
        break;
    }
    assert_int_equal(queue_expire(history->queue, now(history), &history->err), OK);
    assert_true(queue_expires_ms(history->queue) > history->now_ms);
}

static int count(struct history *history, const char *sql)
{
    struct sqlite3_stmt *statement = NULL;
    bool row = false;

    assert_int_equal(db_prepare(history->db, sql, &statement, &history->err), OK);
    assert_int_equal(db_step(history->db, statement, &row, &history->err), OK);
    int number = sqlite3_column_int(statement, 0);
    db_reset(statement);
    return number;
}

/* Whatever happened, two patient workers bring every job to an end. */
static void end_all(struct history *history)
{
    while (count(history, "SELECT count(*) FROM job WHERE state IN ('queued', 'leased')") > 0) {
        for (int worker = 0; worker < 2; worker++) {
            lease(history, worker);
            if (history->workers[worker].is_held) {
                finish(history, worker);
            }
        }
        history->now_ms += TTL_MS;
        assert_int_equal(queue_expire(history->queue, now(history), &history->err), OK);
    }
}

static void run_history(uint64_t seed)
{
    struct history history = {.random = seed};
    struct token token = {.role = ROLE_SUBMITTER, .name = "sam"};
    struct submission submission = {
        .id = "sub_1", .task_number = 1, .task = "allreduce", .owner = "sam", .created_ms = 1};
    char text[TOKEN_TEXT_MAX];

    assert_int_equal(db_open(&history.db, ":memory:", DB_CREATE, &history.err), OK);
    assert_int_equal(token_add(history.db, &token, 1, text, &history.err), OK);
    assert_int_equal(submission_add(history.db, &submission, token.id, "x", 1, &history.err), OK);
    assert_int_equal(queue_open(&history.queue, history.db, TTL_MS, now(&history), &history.err),
                     OK);
    for (int i = 0; i < STEPS; i++) {
        step(&history);
    }
    end_all(&history);
    assert_int_equal(count(&history, "SELECT count(*) FROM job"), history.pushed);
    assert_int_equal(count(&history, "SELECT count(*) FROM result"), history.results);
    assert_int_equal(count(&history, "SELECT count(*) FROM job WHERE state = 'done'"),
                     history.results);
    assert_int_equal(count(&history,
                           "SELECT count(*) FROM job WHERE state = 'quarantined'"
                           " AND (lost_workers < 3 OR (lost_nodes < 2 AND lost_workers < 6))"),
                     0);
    assert_int_equal(count(&history, "SELECT count(*) FROM event WHERE kind = 'job.leased'"),
                     count(&history, "SELECT sum(epoch) FROM job"));
    queue_close(history.queue);
    db_close(history.db);
}

static void test_no_history_loses_a_job_or_ends_one_twice(void **state)
{
    const char *seed_text = getenv("SEED");
    const char *runs_text = getenv("RUNS");
    uint64_t seed = seed_text == NULL ? (uint64_t)clock_monotonic_ns() & 0x7fffffff
                                      : strtoull(seed_text, NULL, 10);
    long runs = runs_text == NULL ? RUNS_DEFAULT : strtol(runs_text, NULL, 10);

    (void)state;
    log_set_level(LOG_ERROR);
    for (long i = 0; i < runs; i++) {
        print_message("# SEED=%llu\n", (unsigned long long)seed + (unsigned long long)i);
        run_history(seed + (uint64_t)i);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_history_loses_a_job_or_ends_one_twice),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
