/*
 * known_batch.h — a batch with known outcomes: five models, all 87 tasks, three attempts each,
 * stored as a server stores them. The names of tasks are those of tests/task_names.tsv.
 */
#pragma once

#include "server/batches.h"
#include "server/jobs.h"
#include "server/results.h"
#include "server/submissions.h"
#include "server/tokens.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MODELS = 5, TASKS = 87, ATTEMPTS = 3, WORLD = 4 };

static const char *const known_models[MODELS] = {"plain", "wi|th *marks*", "com,ma \"quoted\"",
                                                 "none", "all"};
/* What can become of an attempt, and the class that the field publishes it under. */
static const struct {
    enum verdict verdict;
    const char *reason, *stage, *outcome;
} known_ends[] = {
    {VERDICT_ACCEPTED, "", "", "correct"},
    {VERDICT_COMPILE_ERROR, "", "build", "compile"},
    {VERDICT_LINK_ERROR, "", "build", "api"},
    {VERDICT_RUNTIME_ERROR, "", "setup", "api"},
    {VERDICT_RUNTIME_ERROR, "", "check", "crash"},
    {VERDICT_OUT_OF_MEMORY, "", "check", "crash"},
    {VERDICT_CONTRACT_VIOLATION, "tail", "check", "shape"},
    {VERDICT_CONTRACT_VIOLATION, "red_zone", "check", "shape"},
    {VERDICT_CONTRACT_VIOLATION, "unwritten", "check", "shape"},
    {VERDICT_CONTRACT_VIOLATION, "late_write", "check", "values"},
    {VERDICT_WRONG_ANSWER, "", "check", "values"},
    {VERDICT_NONDETERMINISTIC, "", "check", "values"},
    {VERDICT_DEADLOCK, "", "check", "deadlock"},
    {VERDICT_TIMEOUT, "fuel", "check", "deadlock"},
    {VERDICT_LIMIT_EXCEEDED, "log", "check", "limit"},
    {VERDICT_SUSPECT, "", "timing", "suspect"},
    {VERDICT_NOT_SIMULABLE, "", "check", "not_simulable"},
    {VERDICT_INTERNAL_ERROR, "", "start", "not_judged"},
};
enum { ENDS = sizeof known_ends / sizeof known_ends[0] };

struct known {
    int end;        /* of `ends`; -1: still queued */
    double speedup; /* 0: not timed */
    bool is_faster;
    double target_percent;
    unsigned mechanisms;
};

struct known_batch {
    struct db *db;
    struct error err;
    char token[TOKEN_ID_MAX];
    char names[TASKS][NAME_MAX_BYTES], families[TASKS][NAME_MAX_BYTES];
    struct known known[MODELS][TASKS][ATTEMPTS];
};

static inline void known_read_names(struct known_batch *batch)
{
    FILE *file = fopen("tests/task_names.tsv", "re");
    char line[256];

    assert_non_null(file);
    for (int i = 0; i < TASKS; i++) {
        int number = 0;
        assert_non_null(fgets(line, sizeof line, file));
        assert_int_equal(
            sscanf(line, "%d\t%63[^\t]\t%63[^\t\n]", &number, batch->names[i], batch->families[i]),
            3);
        assert_int_equal(number, i + 1);
    }
    assert_null(fgets(line, sizeof line, file));
    (void)fclose(file);
}

/* Outcomes from a small generator, so that they are the same in every run. */
static inline void known_make(struct known_batch *batch)
{
    uint64_t state = 7;

    for (int m = 0; m < MODELS; m++) {
        for (int t = 0; t < TASKS; t++) {
            for (int a = 0; a < ATTEMPTS; a++) {
                struct known *known = &batch->known[m][t][a];
                state = state * 6364136223846793005U + 1442695040888963407U;
                unsigned draw = (unsigned)(state >> 33);
                bool solves = m == 4 || (m != 3 && draw % 10 < 3);
                known->end = solves ? 0 : 1 + (int)(draw / 16 % (ENDS - 1));
                if (known->end == 0) {
                    bool is_timed = draw % 7 != 0;
                    known->speedup = is_timed ? 0.25 + draw / 64 % 1000 / 200.0 : 0;
                    known->is_faster = known->speedup > 1.1;
                    known->target_percent = is_timed ? draw / 256 % 100 : 0;
                    known->mechanisms = draw / 1024 % (1U << MECHANISMS_MAX);
                } else if (m == 3 && t % 29 == 0) {
                    known->end = -1;
                }
            }
        }
    }
}

static inline void known_store(struct known_batch *batch, int m, int t, int a)
{
    const struct known *known = &batch->known[m][t][a];
    struct submission submission = {
        .task_number = t + 1, .owner = "sam", .created_ms = 1, .attempt = a + 1};
    struct job job = {.world = WORLD,
                      .dtype = DTYPE_BF16,
                      .device = DEVICE_CUDA,
                      .queued_ms = 1,
                      .task_number = t + 1,
                      .batch_id = "bat_1"};
    struct facts facts = {0};
    struct batch_attempt attempt = {"bat_1", known_models[m], t + 1,      a + 1,
                                    WORLD,   DTYPE_BF16,      DEVICE_CUDA};
    struct result_row row = {
        .job = &job, .worker = "ada", .epoch = 1, .finished_ms = 5, .facts = &facts, .json = "{}"};
    static const char sql[] = "UPDATE job SET state = 'done', verdict = ?2 WHERE id = ?1";
    struct sqlite3_stmt *update = NULL;

    (void)snprintf(submission.id, sizeof submission.id, "sub_%d.%d.%d", m, t, a);
    (void)snprintf(submission.model, sizeof submission.model, "%s", known_models[m]);
    assert_int_equal(submission_add(batch->db, &submission, batch->token, "x", 1, &batch->err), OK);
    (void)snprintf(job.id, sizeof job.id, "job_%d.%d.%d", m, t, a);
    (void)snprintf(job.submission_id, sizeof job.submission_id, "%s", submission.id);
    assert_int_equal(job_add(batch->db, &job, 1, &batch->err), OK);
    assert_int_equal(batch_attempt_add(batch->db, &attempt, job.id, &batch->err), OK);
    if (known->end < 0) {
        return;
    }
    facts.verdict = known_ends[known->end].verdict;
    (void)snprintf(facts.reason, sizeof facts.reason, "%s", known_ends[known->end].reason);
    (void)snprintf(facts.stage, sizeof facts.stage, "%s", known_ends[known->end].stage);
    facts.mechanisms = known->mechanisms;
    facts.speedup = known->speedup;
    facts.is_faster = known->is_faster;
    facts.target_percent = known->target_percent;
    assert_int_equal(result_add(batch->db, &row, &batch->err), OK);
    assert_int_equal(db_prepare(batch->db, sql, &update, &batch->err), OK);
    db_bind_text(update, 1, job.id);
    db_bind_text(update, 2, verdict_name(facts.verdict));
    assert_int_equal(db_run(batch->db, update, NULL, &batch->err), OK);
}

static inline void known_store_names(struct known_batch *batch)
{
    static const char sql[] = "INSERT INTO task (number, name, family) VALUES (?1, ?2, ?3)";
    struct sqlite3_stmt *insert = NULL;

    for (int t = 0; t < TASKS; t++) {
        assert_int_equal(db_prepare(batch->db, sql, &insert, &batch->err), OK);
        sqlite3_bind_int(insert, 1, t + 1);
        db_bind_text(insert, 2, batch->names[t]);
        db_bind_text(insert, 3, batch->families[t]);
        assert_int_equal(db_run(batch->db, insert, NULL, &batch->err), OK);
    }
}

/* Makes the database with all of it as batch bat_1, whose setting is that of the constants. */
static inline void known_open(struct known_batch *batch)
{
    struct batch row = {.id = "bat_1", .owner = "sam", .created_ms = 1};
    struct token token = {.role = ROLE_SUBMITTER, .name = "sam"};
    char text[TOKEN_TEXT_MAX];
    struct error *err = &batch->err;

    *batch = (struct known_batch){0};
    known_read_names(batch);
    known_make(batch);
    assert_int_equal(db_open(&batch->db, ":memory:", DB_CREATE, err), OK);
    assert_int_equal(db_begin(batch->db, err), OK);
    assert_int_equal(token_add(batch->db, &token, 1, text, err), OK);
    memcpy(batch->token, token.id, sizeof batch->token);
    known_store_names(batch);
    assert_int_equal(batch_add(batch->db, &row, token.id, "", err), OK);
    for (int a = ATTEMPTS - 1; a >= 0; a--) { /* in another order than the report's */
        for (int m = 0; m < MODELS; m++) {
            for (int t = 0; t < TASKS; t++) {
                known_store(batch, m, t, a);
            }
        }
    }
    assert_int_equal(db_commit(batch->db, err), OK);
}
