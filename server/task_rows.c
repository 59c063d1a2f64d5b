#include "server/task_rows.h"

#include "tasks/task.h"

#include <sqlite3.h>

static enum status store(struct db *db, const struct task *task, struct error *err)
{
    static const char sql[] =
        "INSERT INTO task (number, name, family) VALUES (?1, ?2, ?3)"
        " ON CONFLICT (number) DO UPDATE SET name = excluded.name, family = excluded.family"
        " WHERE name <> excluded.name OR family <> excluded.family";
    struct sqlite3_stmt *insert = NULL;
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    sqlite3_bind_int(insert, 1, task_number(task));
    db_bind_text(insert, 2, task_name(task));
    db_bind_text(insert, 3, task_family(task));
    return db_run(db, insert, NULL, err);
}

enum status task_rows_store(struct db *db, struct error *err)
{
    enum status status = db_begin(db, err);

    for (int i = 0; status == OK && i < task_count; i++) {
        status = store(db, tasks[i], err);
    }
    if (status == OK) {
        return db_commit(db, err);
    }
    db_rollback(db);
    return status;
}
