#include "server/tokens.h"

#include "server/events.h"

#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

enum { ID_BYTES = 8, SECRET_BYTES = 32, HASH_BYTES = crypto_hash_sha256_BYTES };

static const struct {
    enum role role;
    const char *name;
} roles[] = {
    {ROLE_READER, "reader"},
    {ROLE_SUBMITTER, "submitter"},
    {ROLE_WORKER, "worker"},
    {ROLE_ADMIN, "admin"},
};

const char *role_name(enum role role)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (roles[i].role == role) {
            return roles[i].name;
        }
    }
    return "";
}

int role_find(const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(roles[i].name, name) == 0) {
            return roles[i].role;
        }
    }
    return 0;
}

enum status token_add(struct db *db, struct token *token, int64_t now_ms,
                      char text[static TOKEN_TEXT_MAX], struct error *err)
{
    static const char sql[] = "INSERT INTO token (id, secret_sha256, role, name, node, created_ms)"
                              " VALUES (?1, ?2, ?3, ?4, nullif(?5, ''), ?6)";
    unsigned char id[ID_BYTES];
    unsigned char secret[SECRET_BYTES];
    char secret_text[2 * SECRET_BYTES + 1];
    unsigned char hash[HASH_BYTES];
    struct sqlite3_stmt *insert = NULL;
    enum status status = db_prepare(db, sql, &insert, err);

    if (status != OK) {
        return status;
    }
    randombytes_buf(id, sizeof id);
    randombytes_buf(secret, sizeof secret);
    sodium_bin2hex(token->id, sizeof token->id, id, sizeof id);
    sodium_bin2hex(secret_text, sizeof secret_text, secret, sizeof secret);
    crypto_hash_sha256(hash, (const unsigned char *)secret_text, strlen(secret_text));

    db_bind_text(insert, 1, token->id);
    sqlite3_bind_blob(insert, 2, hash, sizeof hash, SQLITE_STATIC);
    db_bind_text(insert, 3, role_name(token->role));
    db_bind_text(insert, 4, token->name);
    db_bind_text(insert, 5, token->node);
    sqlite3_bind_int64(insert, 6, now_ms);
    status = db_run(db, insert, NULL, err);
    if (status == OK) {
        status = event_add(db, now_ms, "token.created", token->id, token->name, err);
    }
    if (status == OK) {
        (void)snprintf(text, TOKEN_TEXT_MAX, "pkb_%s_%s", token->id, secret_text);
    }
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(secret_text, sizeof secret_text);
    return status;
}

/* Splits "pkb_ID_SECRET"; what has another form gets an id that no row has. */
static const char *split(const char *text, char id[static TOKEN_ID_MAX])
{
    static const char prefix[] = "pkb_";
    size_t id_bytes = 0;

    id[0] = 0;
    if (strncmp(text, prefix, sizeof prefix - 1) != 0) {
        return text;
    }
    text += sizeof prefix - 1;
    id_bytes = strcspn(text, "_");
    if (text[id_bytes] == 0 || id_bytes >= TOKEN_ID_MAX) {
        return text;
    }
    memcpy(id, text, id_bytes);
    id[id_bytes] = 0;
    return text + id_bytes + 1;
}

enum status token_check(struct db *db, const char *text, int64_t now_ms, struct token *token,
                        struct error *err)
{
    static const char sql[] = "SELECT secret_sha256, role, name, node FROM token WHERE id = ?1"
                              " AND revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > ?2)";
    unsigned char stored[HASH_BYTES] = {0};
    unsigned char hash[HASH_BYTES];
    char role[16] = "";
    struct token found = {0};
    bool row = false;
    struct sqlite3_stmt *select = NULL;
    const char *secret = split(text, found.id);
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, found.id);
    sqlite3_bind_int64(select, 2, now_ms);
    status = db_step(db, select, &row, err);
    if (status != OK) {
        return status;
    }
    if (row) {
        memcpy(stored, sqlite3_column_blob(select, 0), sizeof stored);
        db_column_text(select, 1, role, sizeof role);
        db_column_text(select, 2, found.name, sizeof found.name);
        db_column_text(select, 3, found.node, sizeof found.node);
        db_reset(select);
    }
    /* An unknown id is compared too, with zeros, which is the hash of nothing. */
    crypto_hash_sha256(hash, (const unsigned char *)secret, strlen(secret));
    if (sodium_memcmp(hash, stored, sizeof hash) != 0 || !row) {
        return error_set(err, ERR_UNAUTHENTICATED, "the token is not known, expired or revoked");
    }
    found.role = (enum role)role_find(role);
    *token = found;
    return OK;
}

/* Columns: id, role, name, node. */
static void read_token(struct sqlite3_stmt *select, struct token *token)
{
    char role[NAME_MAX_BYTES];

    db_column_text(select, 0, token->id, sizeof token->id);
    db_column_text(select, 1, role, sizeof role);
    token->role = (enum role)role_find(role);
    db_column_text(select, 2, token->name, sizeof token->name);
    db_column_text(select, 3, token->node, sizeof token->node);
}

enum status token_next(struct db *db, const char *after, struct token *token, int64_t *revoked_ms,
                       struct error *err)
{
    static const char sql[] = "SELECT id, role, name, node, coalesce(revoked_ms, 0) FROM token"
                              " WHERE id > ?1 ORDER BY id LIMIT 1";
    struct sqlite3_stmt *select = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &select, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(select, 1, after);
    status = db_step(db, select, &row, err);
    if (status == OK && !row) {
        return error_set(err, ERR_NOT_FOUND, "no token behind '%s'", after);
    }
    if (status == OK) {
        read_token(select, token);
        *revoked_ms = sqlite3_column_int64(select, 4);
        db_reset(select);
    }
    return status;
}

enum status token_revoke(struct db *db, const char *id, int64_t now_ms, struct token *token,
                         struct error *err)
{
    static const char sql[] = "UPDATE token SET revoked_ms = coalesce(revoked_ms, ?2)"
                              " WHERE id = ?1 RETURNING id, role, name, node";
    struct sqlite3_stmt *update = NULL;
    bool row = false;
    enum status status = db_prepare(db, sql, &update, err);

    if (status != OK) {
        return status;
    }
    db_bind_text(update, 1, id);
    sqlite3_bind_int64(update, 2, now_ms);
    status = db_step(db, update, &row, err);
    if (status == OK && !row) {
        return error_set(err, ERR_NOT_FOUND, "no token '%.*s'", TOKEN_ID_MAX, id);
    }
    if (status == OK) {
        read_token(update, token);
        db_reset(update);
    }
    return status;
}
