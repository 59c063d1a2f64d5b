#include "server/workers.h"

#include "common/mem.h"
#include "server/events.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status worker_put(struct db *db, const struct worker_hello *hello, int64_t now_ms,
                       struct error *err)
{
    static const char sql[] =
        "INSERT INTO worker (name, version, devices, registered_ms) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (name) DO UPDATE SET version = excluded.version, devices = excluded.devices,"
        " registered_ms = excluded.registered_ms,"
        " state = iif(is_own AND state = 'draining', 'ready', state),"
        " reason = iif(is_own AND state = 'draining', '', reason),"
        " state_ms = iif(is_own AND state = 'draining', excluded.registered_ms, state_ms)";
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

/* What worker_put made: "sim:4 cuda:8". */
static void read_devices(const char *text, struct worker *worker)
{
    worker->devices = xcalloc(DEVICES_MAX, sizeof *worker->devices);
    while (*text != 0 && worker->device_count < DEVICES_MAX) {
        char kind[NAME_MAX_BYTES];
        size_t kind_bytes = strcspn(text, ":");
        (void)snprintf(kind, sizeof kind, "%.*s", (int)kind_bytes, text);
        char *end = NULL;
        long gpus = strtol(text + kind_bytes + 1, &end, 10);
        worker->devices[worker->device_count++] =
            (struct device_offer){(enum device_kind)device_kind_find(kind), (int)gpus};
        text = end + strspn(end, " ");
    }
}

#define WORKER_COLUMNS                                                                             \
    "SELECT name, version, devices, registered_ms, state, reason, state_by, is_own, state_ms,"     \
    " (SELECT count(*) FROM job WHERE job.state = 'leased' AND job.worker = name) FROM worker"

static void read_row(struct sqlite3_stmt *select, struct worker *worker)
{
    char devices[DEVICES_MAX * NAME_MAX_BYTES];
    char state[NAME_MAX_BYTES];

    *worker = (struct worker){.registered_ms = sqlite3_column_int64(select, 3),
                              .is_own = sqlite3_column_int(select, 7) != 0,
                              .state_ms = sqlite3_column_int64(select, 8),
                              .jobs = sqlite3_column_int(select, 9)};
    db_column_text(select, 0, worker->name, sizeof worker->name);
    db_column_text(select, 1, worker->version, sizeof worker->version);
    db_column_text(select, 2, devices, sizeof devices);
    db_column_text(select, 4, state, sizeof state);
    db_column_text(select, 5, worker->reason, sizeof worker->reason);
    db_column_text(select, 6, worker->state_by, sizeof worker->state_by);
    worker->state = (enum worker_state)worker_state_find(state);
    read_devices(devices, worker);
}

static enum status refuse_unknown(const char *name, struct error *err)
{
    return error_set(err, ERR_NOT_FOUND, "no worker '%.*s': POST /v1/workers first", NAME_MAX_BYTES,
                     name);
}

enum status worker_get(struct db *db, const char *name, struct worker *worker, struct error *err)
{
    static const char sql[] = WORKER_COLUMNS " WHERE name = ?1";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, name);
    status = db_step(db, select, &row, err);
    if (status != OK) {
        return status;
    }
    if (!row) {
        return refuse_unknown(name, err);
    }
    read_row(select, worker);
    db_reset(select);
    return OK;
}

enum status worker_list(struct db *db, struct worker *workers, int count_max, int *count,
                        struct error *err)
{
    static const char sql[] = WORKER_COLUMNS " ORDER BY name LIMIT ?1";
    struct sqlite3_stmt *select = NULL;
    bool row = true;
    int found = 0;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    sqlite3_bind_int(select, 1, count_max);
    while ((status = db_step(db, select, &row, err)) == OK && row) {
        read_row(select, &workers[found++]);
    }
    while (status != OK && found > 0) {
        worker_release(&workers[--found]);
    }
    *count = found;
    return status;
}

enum status worker_check(struct db *db, const char *name, struct error *err)
{
    static const char sql[] = "SELECT state, reason FROM worker WHERE name = ?1";
    struct sqlite3_stmt *select = NULL;
    char state[NAME_MAX_BYTES];
    char reason[REASON_MAX_BYTES];
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, name);
    status = db_step(db, select, &row, err);
    if (status != OK) {
        return status;
    }
    if (!row) {
        return refuse_unknown(name, err);
    }
    db_column_text(select, 0, state, sizeof state);
    db_column_text(select, 1, reason, sizeof reason);
    db_reset(select);
    if (strcmp(state, worker_state_name(WORKER_READY)) != 0) {
        return error_field(err, ERR_CONFLICT, "state", "the worker is %s: %s", state, reason);
    }
    return OK;
}

static enum status change_state(struct db *db, const char *name, const struct worker_change *change,
                                struct error *err)
{
    static const char sql[] = "UPDATE worker SET state = ?2, reason = ?3, state_by = ?4,"
                              " is_own = ?5, state_ms = ?6 WHERE name = ?1";
    static const char *const kinds[WORKER_STATES] = {"worker.ready", "worker.draining",
                                                     "worker.quarantined"};
    struct sqlite3_stmt *update = NULL;
    struct buffer detail = {0};
    enum status status = db_prepare(db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, name);
    db_bind_text(update, 2, worker_state_name(change->order->state));
    db_bind_text(update, 3, change->order->reason);
    db_bind_text(update, 4, change->by);
    sqlite3_bind_int(update, 5, change->is_own);
    sqlite3_bind_int64(update, 6, change->now_ms);
    status = db_run(db, update, NULL, err);
    if (status == OK) {
        buffer_printf(&detail, "%s: %s", change->by, change->order->reason);
        status = event_add(db, change->now_ms, kinds[change->order->state], name, detail.data, err);
    }
    buffer_release(&detail);
    return status;
}

enum status worker_obey(struct db *db, const char *name, const struct worker_change *change,
                        struct error *err)
{
    const struct worker_order *order = change->order;
    struct worker worker = {0};
    enum status status = worker_get(db, name, &worker, err);

    if (status != OK) {
        return status;
    }
    bool is_its_own = worker.is_own && worker.state == WORKER_DRAINING;
    if (worker.state == order->state && worker.is_own == change->is_own &&
        strcmp(worker.reason, order->reason) == 0) {
        /* Said again: no event. */
    } else if (!change->is_own || order->state > worker.state || is_its_own) {
        status = change_state(db, name, change, err);
    } else if (order->state == WORKER_READY && worker.state != WORKER_READY) {
        status = error_field(err, ERR_DENIED, "state",
                             "the worker is %s (%s): only an admin makes it ready",
                             worker_state_name(worker.state), worker.reason);
    }
    worker_release(&worker);
    return status;
}
