#include "server/events.h"

#include <sqlite3.h>

enum status event_add(struct db *db, int64_t now_ms, const char *kind, const char *subject,
                      const char *detail, struct error *err)
{
    static const char sql[] = "INSERT INTO event (at_ms, kind, subject, detail)"
                              " VALUES (?1, ?2, ?3, ?4)";
    struct sqlite3_stmt *insert = NULL;
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    sqlite3_bind_int64(insert, 1, now_ms);
    db_bind_text(insert, 2, kind);
    db_bind_text(insert, 3, subject);
    db_bind_text(insert, 4, detail);
    return db_run(db, insert, NULL, err);
}
