#include "server/workers.h"

#include "server/events.h"

#include <sqlite3.h>

enum status worker_put(struct db *db, const struct worker_hello *hello, int64_t now_ms,
                       struct error *err)
{
    static const char sql[] =
        "INSERT INTO worker (name, version, devices, registered_ms) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (name) DO UPDATE SET version = excluded.version, devices = excluded.devices,"
        " registered_ms = excluded.registered_ms";
    struct sqlite3_stmt *insert = NULL;
    struct buffer devices = {0};
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    for (size_t i = 0; i < hello->device_count; i++) {
        buffer_printf(&devices, "%s%s:%d", i > 0 ? " " : "",
                      device_kind_name(hello->devices[i].kind), hello->devices[i].gpus);
    }
    db_bind_text(insert, 1, hello->name);
    db_bind_text(insert, 2, hello->version);
    db_bind_text(insert, 3, devices.data);
    sqlite3_bind_int64(insert, 4, now_ms);
    status = db_run(db, insert, NULL, err);
    if (status == OK) {
        status = event_add(db, now_ms, "worker.registered", hello->name, devices.data, err);
    }
    buffer_release(&devices);
    return status;
}

enum status worker_check(struct db *db, const char *name, struct error *err)
{
    static const char sql[] = "SELECT 1 FROM worker WHERE name = ?1";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, name);
    status = db_step(db, select, &row, err);
    if (status == OK && !row) {
        return error_set(err, ERR_NOT_FOUND, "no worker '%.*s': POST /v1/workers first",
                         NAME_MAX_BYTES, name);
    }
    db_reset(select);
    return status;
}
