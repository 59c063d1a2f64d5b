#include "server/db.h"

#include "common/log.h"
#include "common/mem.h"
#include "server/schema.h"

#include <assert.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    APPLICATION_ID = 0x706b6231, /* "pkb1", in the file's header */
    BUSY_TIMEOUT_MS = 5000,
    STATEMENTS_MAX = 256,
};

struct db {
    sqlite3 *sqlite;
    struct {
        const char *sql;
        sqlite3_stmt *statement;
    } statements[STATEMENTS_MAX];
    int statement_count;
};

static enum status failed(struct db *db, struct error *err, const char *what)
{
    int code = sqlite3_errcode(db->sqlite);
    enum status status = ERR_IO;

    if (code == SQLITE_BUSY || code == SQLITE_FULL) {
        status = ERR_UNAVAILABLE;
    } else if (code == SQLITE_NOTADB) {
        status = ERR_INVALID;
    } else if (code == SQLITE_ERROR || code == SQLITE_MISUSE || code == SQLITE_CONSTRAINT) {
        status = ERR_INTERNAL;
    }
    return error_set(err, status, "database: cannot %.200s: %s", what, sqlite3_errmsg(db->sqlite));
}

static enum status run_text(struct db *db, const char *sql, struct error *err)
{
    if (sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) != SQLITE_OK) {
        return failed(db, err, sql);
    }
    return OK;
}

static enum status read_number(struct db *db, const char *sql, int *number, struct error *err)
{
    sqlite3_stmt *statement = NULL;
    enum status status = OK;

    if (sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        status = failed(db, err, sql);
    } else {
        *number = sqlite3_column_int(statement, 0);
    }
    sqlite3_finalize(statement);
    return status;
}

static enum status migrate_one(struct db *db, int version, struct error *err)
{
    char set_version[64];
    enum status status = run_text(db, "BEGIN IMMEDIATE", err);

    if (status != OK) {
        return status;
    }
    (void)snprintf(set_version, sizeof set_version, "PRAGMA user_version = %d", version + 1);
    status = run_text(db, schema_migrations[version], err);
    if (status == OK) {
        status = run_text(db, set_version, err);
    }
    if (status == OK) {
        status = run_text(db, "COMMIT", err);
    }
    if (status != OK) {
        db_rollback(db);
    }
    return status;
}

static enum status migrate(struct db *db, const char *path, enum db_use use, struct error *err)
{
    char set_application[64];
    int application = 0;
    int version = 0;
    enum status status = read_number(db, "PRAGMA application_id", &application, err);

    if (status == OK) {
        status = read_number(db, "PRAGMA user_version", &version, err);
    }
    if (status != OK) {
        return status;
    }
    if (use == DB_CREATE) {
        (void)snprintf(set_application, sizeof set_application, "PRAGMA application_id = %d",
                       APPLICATION_ID);
        status = run_text(db, set_application, err);
    } else if (application != APPLICATION_ID) {
        return error_set(err, ERR_INVALID, "'%s' is not a database of pkb", path);
    }
    if (version > schema_migration_count) {
        return error_set(err, ERR_CONFLICT,
                         "'%s' has schema %d, newer than this program's %d: use a newer pkb-server",
                         path, version, schema_migration_count);
    }
    while (status == OK && use != DB_READ && version < schema_migration_count) {
        status = migrate_one(db, version, err);
        version++;
    }
    return status;
}

static enum status configure(struct db *db, enum db_use use, struct error *err)
{
    sqlite3_busy_timeout(db->sqlite, BUSY_TIMEOUT_MS);
    sqlite3_extended_result_codes(db->sqlite, 0);
    if (sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) != SQLITE_OK ||
        sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) != SQLITE_OK) {
        return failed(db, err, "be configured");
    }
    if (use == DB_READ) {
        return run_text(db, "PRAGMA query_only = ON", err);
    }
    return run_text(db,
                    "PRAGMA journal_mode = WAL;"
                    "PRAGMA synchronous = FULL;"
                    "PRAGMA foreign_keys = ON;",
                    err);
}

/* A new file is made with O_EXCL and for our eyes only: it holds the sources of all users. */
static enum status make_file(const char *path, struct error *err)
{
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0 && access(path, F_OK) == 0) {
        return error_set(err, ERR_CONFLICT, "'%s' exists already", path);
    }
    if (fd < 0) {
        return error_set(err, ERR_IO, "cannot create '%s': %m", path);
    }
    close(fd);
    return OK;
}

enum status db_open(struct db **db, const char *path, enum db_use use, struct error *err)
{
    enum status status = OK;
    bool in_memory = strcmp(path, ":memory:") == 0;
    struct db *opened = xcalloc(1, sizeof *opened);

    if (use == DB_CREATE && !in_memory) {
        status = make_file(path, err);
    } else if (!in_memory && access(path, F_OK) != 0) {
        status = error_set(err, ERR_NOT_FOUND,
                           "no database '%s': make one with 'pkb-server init --db FILE'", path);
    }
    if (status != OK) {
        goto out;
    }
    if (sqlite3_open_v2(path, &opened->sqlite,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                            (in_memory ? SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY : 0),
                        NULL) != SQLITE_OK) {
        status = failed(opened, err, "be opened");
        goto out;
    }
    status = configure(opened, use, err);
    if (status == OK) {
        status = migrate(opened, path, use, err);
    }

out:
    if (status != OK) {
        db_close(opened);
        return status;
    }
    *db = opened;
    return OK;
}

void db_close(struct db *db)
{
    if (db == NULL) {
        return;
    }
    for (int i = 0; i < db->statement_count; i++) {
        sqlite3_finalize(db->statements[i].statement);
    }
    int code = sqlite3_close(db->sqlite);
    assert(code == SQLITE_OK);
    free(db);
}

enum status db_prepare(struct db *db, const char *sql, struct sqlite3_stmt **statement,
                       struct error *err)
{
    sqlite3_stmt *made = NULL;

    for (int i = 0; i < db->statement_count; i++) {
        if (db->statements[i].sql == sql) {
            *statement = db->statements[i].statement;
            return OK;
        }
    }
    assert(db->statement_count < STATEMENTS_MAX);
    if (sqlite3_prepare_v3(db->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, NULL) !=
        SQLITE_OK) {
        return failed(db, err, "prepare a statement");
    }
    db->statements[db->statement_count].sql = sql;
    db->statements[db->statement_count].statement = made;
    db->statement_count++;
    *statement = made;
    return OK;
}

enum status db_step(struct db *db, struct sqlite3_stmt *statement, bool *row, struct error *err)
{
    int code = sqlite3_step(statement);
    enum status status = OK;

    if (code == SQLITE_ROW) {
        *row = true;
        return OK;
    }
    if (code != SQLITE_DONE) {
        status = failed(db, err, "run a statement");
    } else {
        *row = false;
    }
    db_reset(statement);
    return status;
}

enum status db_run(struct db *db, struct sqlite3_stmt *statement, int *changes, struct error *err)
{
    bool row = false;
    enum status status = db_step(db, statement, &row, err);

    assert(!row);
    if (status == OK && changes != NULL) {
        *changes = sqlite3_changes(db->sqlite);
    }
    return status;
}

void db_reset(struct sqlite3_stmt *statement)
{
    if (statement != NULL) {
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement);
    }
}

void db_bind_text(struct sqlite3_stmt *statement, int index, const char *text)
{
    sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

void db_column_text(struct sqlite3_stmt *statement, int column, char *to, size_t size_bytes)
{
    const unsigned char *text = sqlite3_column_text(statement, column);

    (void)snprintf(to, size_bytes, "%s", text == NULL ? "" : (const char *)text);
}

static enum status run_fixed(struct db *db, const char *sql, struct error *err)
{
    struct sqlite3_stmt *statement = NULL;
    enum status status = db_prepare(db, sql, &statement, err);

    return status == OK ? db_run(db, statement, NULL, err) : status;
}

enum status db_begin(struct db *db, struct error *err)
{
    static const char sql[] = "BEGIN IMMEDIATE";

    return run_fixed(db, sql, err);
}

enum status db_commit(struct db *db, struct error *err)
{
    static const char sql[] = "COMMIT";

    return run_fixed(db, sql, err);
}

void db_rollback(struct db *db)
{
    if (db_in_transaction(db) &&
        sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL) != SQLITE_OK) {
        log_event(LOG_WARN, "db.rollback_failed", "error=\"%s\"", sqlite3_errmsg(db->sqlite));
    }
}

bool db_in_transaction(struct db *db)
{
    return sqlite3_get_autocommit(db->sqlite) == 0;
}

enum status db_savepoint(struct db *db, struct error *err)
{
    static const char sql[] = "SAVEPOINT request";

    return run_fixed(db, sql, err);
}

enum status db_savepoint_keep(struct db *db, struct error *err)
{
    static const char sql[] = "RELEASE request";

    return run_fixed(db, sql, err);
}

enum status db_savepoint_undo(struct db *db, struct error *err)
{
    static const char sql[] = "ROLLBACK TO request";
    enum status status = run_fixed(db, sql, err);

    return status == OK ? db_savepoint_keep(db, err) : status;
}
