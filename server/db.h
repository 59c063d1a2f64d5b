/*
 * db.h — one connection to the database file, its migrations, statements and transactions.
 *
 * The server has two: one that writes, one that reads. A file is WAL with synchronous=FULL: what
 * db_commit has returned OK for survives a power cut. After a failed db_commit nobody knows whether
 * the changes are there: close, open again, and read.
 *
 * Statements are prepared once per connection and kept: db_prepare hands out the same one for the
 * same text, reset and without values. db_step and db_run reset it at its end and on failure; who
 * stops earlier calls db_reset, since a statement in the middle holds a read transaction.
 */
#pragma once

#include "common/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;
struct sqlite3_stmt;

enum db_use {
    DB_CREATE, /* makes a file that is not there yet, or a database in memory (":memory:") */
    DB_WRITE,  /* migrates an older one */
    DB_READ,
};

/* ERR_CONFLICT: the file exists already (DB_CREATE), or its schema is newer than we know.
 * ERR_NOT_FOUND: no such file. ERR_INVALID: not a database of pkb. */
enum status db_open(struct db **db, const char *path, enum db_use use, struct error *err);
void db_close(struct db *db);

/* `sql` is a static text: its address is the key. */
enum status db_prepare(struct db *db, const char *sql, struct sqlite3_stmt **statement,
                       struct error *err);
/* One step; *row says whether there is a row to read. */
enum status db_step(struct db *db, struct sqlite3_stmt *statement, bool *row, struct error *err);
/* All steps of a statement without rows; *changes (may be NULL) gets the number of changed rows. */
enum status db_run(struct db *db, struct sqlite3_stmt *statement, int *changes, struct error *err);
void db_reset(struct sqlite3_stmt *statement);

/* Binds a text that lives until the statement is reset; NULL is NULL. */
void db_bind_text(struct sqlite3_stmt *statement, int index, const char *text);
/* Copies a text column, "" for NULL, cut at `size_bytes`. */
void db_column_text(struct sqlite3_stmt *statement, int column, char *to, size_t size_bytes);

enum status db_begin(struct db *db, struct error *err);
enum status db_commit(struct db *db, struct error *err);
void db_rollback(struct db *db);
/* False when an error has already ended the transaction (a full disk does that). */
bool db_in_transaction(struct db *db);

/* One request's part of a transaction. */
enum status db_savepoint(struct db *db, struct error *err);
enum status db_savepoint_keep(struct db *db, struct error *err);
enum status db_savepoint_undo(struct db *db, struct error *err);
