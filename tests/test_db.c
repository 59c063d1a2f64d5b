/* The database: created, opened again, refused, and its transactions. */
#include "server/db.h"

#include "server/schema.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h> /* cmocka.h needs those before it */

#include <cmocka.h>

struct fixture {
    char directory[64];
    char path[96];
    struct db *db;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct error err = {0};

    (void)snprintf(fixture->directory, sizeof fixture->directory, "/tmp/test_db.XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    (void)snprintf(fixture->path, sizeof fixture->path, "%s/db", fixture->directory);
    assert_int_equal(db_open(&fixture->db, fixture->path, DB_CREATE, &err), OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"db", "db-wal", "db-shm", "other"};
    struct fixture *fixture = *state;
    char path[128];

    db_close(fixture->db);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", fixture->directory, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(fixture->directory), 0);
    free(fixture);
    return 0;
}

static void run(struct db *db, const char *sql)
{
    struct sqlite3_stmt *statement = NULL;
    struct error err = {0};

    assert_int_equal(db_prepare(db, sql, &statement, &err), OK);
    assert_int_equal(db_run(db, statement, NULL, &err), OK);
}

static enum status try_run(struct db *db, const char *sql, struct error *err)
{
    struct sqlite3_stmt *statement = NULL;

    assert_int_equal(db_prepare(db, sql, &statement, err), OK);
    return db_run(db, statement, NULL, err);
}

static int count(struct db *db, const char *sql)
{
    struct sqlite3_stmt *statement = NULL;
    struct error err = {0};
    bool row = false;

    assert_int_equal(db_prepare(db, sql, &statement, &err), OK);
    assert_int_equal(db_step(db, statement, &row, &err), OK);
    assert_true(row);
    int number = sqlite3_column_int(statement, 0);
    db_reset(statement);
    return number;
}

static const char add_worker[] = "INSERT INTO worker (name, version, devices, registered_ms)"
                                 " VALUES ('ada', '1', 'sim:8', 0)";
static const char add_other[] = "INSERT INTO worker (name, version, devices, registered_ms)"
                                " VALUES ('bob', '1', 'sim:8', 0)";
static const char count_workers[] = "SELECT count(*) FROM worker";
static const char read_version[] = "PRAGMA user_version";

static void test_a_new_database_has_the_newest_schema(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(count(fixture->db, read_version), schema_migration_count);
    assert_int_equal(count(fixture->db, count_workers), 0);
}

static void test_only_its_owner_may_read_a_new_database(void **state)
{
    struct fixture *fixture = *state;
    struct stat found = {0};

    assert_int_equal(stat(fixture->path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
}

static void test_what_was_committed_is_there_when_opened_again(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};

    run(fixture->db, add_worker);
    db_close(fixture->db);
    fixture->db = NULL;
    assert_int_equal(db_open(&fixture->db, fixture->path, DB_WRITE, &err), OK);
    assert_int_equal(count(fixture->db, count_workers), 1);
}

static void test_a_write_is_synced_before_it_is_answered(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(count(fixture->db, "PRAGMA synchronous"), 2); /* FULL */
    assert_int_equal(count(fixture->db, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
}

static void test_a_newer_schema_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct db *db = NULL;

    run(fixture->db, "PRAGMA user_version = 9999");
    assert_int_equal(db_open(&db, fixture->path, DB_WRITE, &err), ERR_CONFLICT);
    assert_non_null(strstr(err.message, "newer"));
    assert_null(db);
}

/* Puts another database in the place of the fixture's. */
static void write_file(const char *path, const char *first, const char *second)
{
    sqlite3 *other = NULL;

    assert_int_equal(unlink(path), 0);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, first, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, second, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

static void test_an_older_schema_is_migrated(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct db *db = NULL;

    /* As left by a crash of the very first start: a file that is ours, without a table. */
    db_close(fixture->db);
    fixture->db = NULL;
    write_file(fixture->path, "PRAGMA application_id = 1886085681;", NULL);
    assert_int_equal(db_open(&db, fixture->path, DB_WRITE, &err), OK);
    assert_int_equal(count(db, read_version), schema_migration_count);
    assert_int_equal(count(db, count_workers), 0);
    db_close(db);
}

static void test_results_of_the_first_schema_get_their_facts(void **state)
{
    static const char rows[] =
        "PRAGMA application_id = 1886085681; PRAGMA user_version = 1;"
        "INSERT INTO token VALUES ('t', zeroblob(32), 'submitter', 'sam', NULL, 1, NULL, NULL);"
        "INSERT INTO source VALUES (zeroblob(32), 1, x'00');"
        "INSERT INTO submission VALUES ('s', 'sam', 't', 1, 'm', zeroblob(32), 1);"
        "INSERT INTO job (id, submission, world, dtype, device, seed, state, queued_ms)"
        " VALUES ('a', 's', 2, 'bf16', 'cuda', 1, 'done', 1),"
        " ('b', 's', 2, 'bf16', 'sim', 1, 'done', 1);"
        "INSERT INTO result VALUES ('a', 1, 'w', 'accepted', 1, 2, 'bf16', 'cuda', 5, 7,"
        " '{\"stage\":\"timing\",\"gpu\":{\"name\":\"G\"},\"traffic\":["
        "{\"source\":0,\"owner\":1,\"mechanism\":\"sm_load\",\"bytes\":4},"
        "{\"source\":1,\"owner\":0,\"mechanism\":\"bulk\",\"bytes\":3},"
        "{\"source\":1,\"owner\":1,\"mechanism\":\"sm_store\",\"bytes\":9}],\"timings\":["
        "{\"case\":\"bench/x\",\"latency\":{\"median_us\":9},\"speedup\":9},"
        "{\"case\":\"bench\",\"latency\":{\"median_us\":2.5,\"low_us\":2,\"high_us\":3},"
        "\"baseline_us\":5,\"speedup\":2,\"is_faster\":true,\"target_percent\":40},"
        "{\"case\":\"bench\",\"variant\":\"v\",\"latency\":{\"median_us\":8}}]}'),"
        " ('b', 1, 'w', 'contract_violation', 1, 2, 'bf16', 'sim', 5, 7,"
        " '{\"reason\":\"tail\",\"flags\":[\"insecure:cgroup\"]}');";
    static const char timed[] =
        "SELECT count(*) FROM result WHERE job = 'a' AND gpu = 'G' AND mechanisms = 'bulk sm_load'"
        " AND median_us = 2.5 AND low_us = 2 AND high_us = 3 AND baseline_us = 5 AND speedup = 2"
        " AND is_faster AND target_percent = 40 AND stage = 'timing' AND NOT is_insecure";
    static const char untimed[] =
        "SELECT count(*) FROM result WHERE job = 'b' AND gpu = '' AND mechanisms = ''"
        " AND median_us = 0 AND NOT is_faster AND reason = 'tail' AND is_insecure";
    static const char of_model[] = "SELECT count(*) FROM model_task WHERE model = 'm'"
                                   " AND task = 1 AND gpu = 'G' AND median_us = 2.5";
    struct fixture *fixture = *state;
    struct error err = {0};
    struct db *db = NULL;

    db_close(fixture->db);
    fixture->db = NULL;
    write_file(fixture->path, schema_migrations[0], rows);
    assert_int_equal(db_open(&db, fixture->path, DB_WRITE, &err), OK);
    assert_int_equal(count(db, read_version), schema_migration_count);
    assert_int_equal(count(db, timed), 1);
    assert_int_equal(count(db, untimed), 1);
    assert_int_equal(count(db, of_model), 1);
    db_close(db);
}

static void test_a_file_that_is_not_ours_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct db *db = NULL;
    char path[128];
    sqlite3 *foreign = NULL;

    (void)snprintf(path, sizeof path, "%s/other", fixture->directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 100; i++) {
        assert_true(fputs("this is a letter and not a database\n", file) >= 0);
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(db_open(&db, path, DB_WRITE, &err), ERR_INVALID);

    assert_int_equal(unlink(path), 0);
    assert_int_equal(sqlite3_open(path, &foreign), SQLITE_OK);
    assert_int_equal(sqlite3_exec(foreign, "CREATE TABLE t (x)", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(foreign), SQLITE_OK);
    assert_int_equal(db_open(&db, path, DB_WRITE, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "not a database of pkb"));
}

static void test_a_file_that_is_there_is_not_created_again(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct db *db = NULL;

    assert_int_equal(db_open(&db, fixture->path, DB_CREATE, &err), ERR_CONFLICT);
}

static void test_a_missing_file_is_not_made_by_the_way(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct db *db = NULL;
    char path[128];

    (void)snprintf(path, sizeof path, "%s/other", fixture->directory);
    assert_int_equal(db_open(&db, path, DB_WRITE, &err), ERR_NOT_FOUND);
    assert_int_equal(access(path, F_OK), -1);
    (void)snprintf(path, sizeof path, "%s/none/db", fixture->directory);
    assert_int_equal(db_open(&db, path, DB_CREATE, &err), ERR_IO);
}

static void test_the_reading_connection_sees_commits_and_cannot_write(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct db *reader = NULL;

    assert_int_equal(db_open(&reader, fixture->path, DB_READ, &err), OK);
    assert_int_equal(db_begin(fixture->db, &err), OK);
    run(fixture->db, add_worker);
    assert_int_equal(count(reader, count_workers), 0);
    assert_int_equal(db_commit(fixture->db, &err), OK);
    assert_int_equal(count(reader, count_workers), 1);
    assert_int_not_equal(try_run(reader, add_other, &err), OK);
    db_close(reader);
}

static void test_an_undone_savepoint_leaves_the_rest_of_its_transaction(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};

    assert_int_equal(db_begin(fixture->db, &err), OK);
    assert_int_equal(db_savepoint(fixture->db, &err), OK);
    run(fixture->db, add_worker);
    assert_int_equal(db_savepoint_keep(fixture->db, &err), OK);
    assert_int_equal(db_savepoint(fixture->db, &err), OK);
    run(fixture->db, add_other);
    assert_int_equal(db_savepoint_undo(fixture->db, &err), OK);
    assert_true(db_in_transaction(fixture->db));
    assert_int_equal(db_commit(fixture->db, &err), OK);
    assert_int_equal(count(fixture->db, count_workers), 1);
    assert_int_equal(count(fixture->db, "SELECT count(*) FROM worker WHERE name = 'ada'"), 1);
}

static void test_a_rollback_takes_everything_back(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};

    assert_int_equal(db_begin(fixture->db, &err), OK);
    run(fixture->db, add_worker);
    db_rollback(fixture->db);
    assert_false(db_in_transaction(fixture->db));
    assert_int_equal(count(fixture->db, count_workers), 0);
}

static void test_events_can_only_be_added(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};

    run(fixture->db, "INSERT INTO event (at_ms, kind, subject, detail) VALUES (1, 'a', 'b', 'c')");
    assert_int_equal(try_run(fixture->db, "UPDATE event SET detail = 'd'", &err), ERR_INTERNAL);
    assert_non_null(strstr(err.message, "only added"));
    assert_int_equal(try_run(fixture->db, "DELETE FROM event", &err), ERR_INTERNAL);
    assert_int_equal(count(fixture->db, "SELECT count(*) FROM event WHERE detail = 'c'"), 1);
}

static void test_a_failed_commit_is_said_and_opening_again_helps(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct rlimit before = {0};
    struct rlimit small = {0};

    run(fixture->db, add_worker);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4096; /* no page can be added to the log */
    assert_int_equal(db_begin(fixture->db, &err), OK);
    run(fixture->db, add_other);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum status status = db_commit(fixture->db, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(status == ERR_IO || status == ERR_UNAVAILABLE);

    db_close(fixture->db);
    fixture->db = NULL;
    assert_int_equal(db_open(&fixture->db, fixture->path, DB_WRITE, &err), OK);
    assert_int_equal(count(fixture->db, count_workers), 1);
    run(fixture->db, add_other);
    assert_int_equal(count(fixture->db, count_workers), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_a_new_database_has_the_newest_schema),
        TEST(test_only_its_owner_may_read_a_new_database),
        TEST(test_what_was_committed_is_there_when_opened_again),
        TEST(test_a_write_is_synced_before_it_is_answered),
        TEST(test_a_newer_schema_is_refused),
        TEST(test_an_older_schema_is_migrated),
        TEST(test_results_of_the_first_schema_get_their_facts),
        TEST(test_a_file_that_is_not_ours_is_refused),
        TEST(test_a_file_that_is_there_is_not_created_again),
        TEST(test_a_missing_file_is_not_made_by_the_way),
        TEST(test_the_reading_connection_sees_commits_and_cannot_write),
        TEST(test_an_undone_savepoint_leaves_the_rest_of_its_transaction),
        TEST(test_a_rollback_takes_everything_back),
        TEST(test_events_can_only_be_added),
        TEST(test_a_failed_commit_is_said_and_opening_again_helps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
