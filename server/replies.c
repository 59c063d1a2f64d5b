#include "server/replies.h"

#include "server/routes.h"
#include "server/service.h"

#include <sodium.h>
#include <sqlite3.h>
#include <string.h>

enum { HASH_BYTES = crypto_hash_sha256_BYTES };

/* Method, path, query and body, each with its end. */
static void hash_request(const struct http_request *http, unsigned char hash[static HASH_BYTES])
{
    crypto_hash_sha256_state state;

    crypto_hash_sha256_init(&state);
    const char *const parts[] = {http->method, http->path};
    for (int i = 0; i < 2; i++) {
        crypto_hash_sha256_update(&state, (const unsigned char *)parts[i], strlen(parts[i]) + 1);
    }
    for (int i = 0; i < http->query_count; i++) {
        const struct http_parameter *query = &http->query[i];
        crypto_hash_sha256_update(&state, (const unsigned char *)query->name,
                                  strlen(query->name) + 1);
        crypto_hash_sha256_update(&state, (const unsigned char *)query->value,
                                  strlen(query->value) + 1);
    }
    if (http->body.size_bytes > 0) {
        crypto_hash_sha256_update(&state, (const unsigned char *)http->body.data,
                                  http->body.size_bytes);
    }
    crypto_hash_sha256_final(&state, hash);
}

/* "": the call has none, or its route goes its own way. */
static enum status read_key(const struct call *call, const char **key, struct error *err)
{
    if (call->route->body == BODY_LINES) {
        *key = "";
        return OK;
    }
    return call_key(call, key, err);
}

enum status reply_find(struct call *call, struct error *err)
{
    static const char sql[] = "SELECT request_sha256, http_status, location, body FROM reply"
                              " WHERE token = ?1 AND key = ?2 AND created_ms > ?3";
    unsigned char hash[HASH_BYTES];
    struct service *service = call->service;
    struct sqlite3_stmt *select = NULL;
    const char *key = "";
    bool row = false;
    enum status status = read_key(call, &key, err);

    if (status != OK || key[0] == 0) {
        return status;
    }
    status = db_prepare(service->writer, sql, &select, err);
    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, call->token.id);
    db_bind_text(select, 2, key);
    sqlite3_bind_int64(select, 3, service->now.wall_ms - REPLY_KEPT_MS);
    status = db_step(service->writer, select, &row, err);
    if (status != OK || !row) {
        return status;
    }
    hash_request(call->http, hash);
    if (sqlite3_column_bytes(select, 0) != HASH_BYTES ||
        memcmp(hash, sqlite3_column_blob(select, 0), HASH_BYTES) != 0) {
        status = error_field(err, ERR_CONFLICT, "Idempotency-Key",
                             "another request came under this key before");
    } else {
        db_column_text(select, 2, call->location, sizeof call->location);
        buffer_append(&call->http->answer, sqlite3_column_text(select, 3),
                      (size_t)sqlite3_column_bytes(select, 3));
        call_answer_json(call, sqlite3_column_int(select, 1));
    }
    db_reset(select);
    return status;
}

static enum status drop_old(struct call *call, struct error *err)
{
    static const char sql[] = "DELETE FROM reply WHERE created_ms <= ?1";
    struct sqlite3_stmt *drop = NULL;
    enum status status = db_prepare(call->service->writer, sql, &drop, err);

    if (status != OK) {
        return status;
    }
    sqlite3_bind_int64(drop, 1, call->service->now.wall_ms - REPLY_KEPT_MS);
    return db_run(call->service->writer, drop, NULL, err);
}

enum status reply_keep(struct call *call, struct error *err)
{
    static const char sql[] =
        "INSERT INTO reply (token, key, request_sha256, http_status, location, body, created_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    unsigned char hash[HASH_BYTES];
    struct service *service = call->service;
    struct sqlite3_stmt *insert = NULL;
    const char *key = "";
    enum status status = read_key(call, &key, err);

    if (status != OK || key[0] == 0) {
        return status;
    }
    status = drop_old(call, err);
    if (status == OK) {
        status = db_prepare(service->writer, sql, &insert, err);
    }
    if (status != OK) {
        return status;
    }
    hash_request(call->http, hash);
    db_bind_text(insert, 1, call->token.id);
    db_bind_text(insert, 2, key);
    sqlite3_bind_blob(insert, 3, hash, HASH_BYTES, SQLITE_STATIC);
    sqlite3_bind_int(insert, 4, call->http_status);
    db_bind_text(insert, 5, call->location);
    sqlite3_bind_text(insert, 6, call->http->answer.data == NULL ? "" : call->http->answer.data,
                      (int)call->http->answer.size_bytes, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 7, service->now.wall_ms);
    return db_run(service->writer, insert, NULL, err);
}
