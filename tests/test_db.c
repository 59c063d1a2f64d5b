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

static void test_an_older_schema_is_migrated(void **state)
{
    struct fixture *fixture = *state;
    struct error err = {0};
    struct db *db = NULL;

    /* As left by a crash of the very first start: a file that is ours, without a table. */
    run(fixture->db, "DROP TABLE event");
    run(fixture->db, "DROP TABLE result");
    run(fixture->db, "DROP TABLE worker");
    run(fixture->db, "DROP TABLE job");
    run(fixture->db, "DROP TABLE submission");
    run(fixture->db, "DROP TABLE source");
    run(fixture->db, "DROP TABLE token");
    run(fixture->db, "PRAGMA user_version = 0");
    assert_int_equal(db_open(&db, fixture->path, DB_WRITE, &err), OK);
    assert_int_equal(count(db, read_version), schema_migration_count);
    assert_int_equal(count(db, count_workers), 0);
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
