/*
 * tokens.h — who may ask for what.
 *
 * A token is "pkb_ID_SECRET": the id finds the row, the secret has 256 random bits, of which only
 * the SHA-256 is stored. The text is shown once, by token_add, and exists nowhere else.
 */
#pragma once

#include "common/job.h"
#include "server/db.h"

enum { TOKEN_ID_MAX = 24, TOKEN_TEXT_MAX = 128 };

/* Bits, so that a route names all roles that it allows. */
enum role {
    ROLE_READER = 1,
    ROLE_SUBMITTER = 2,
    ROLE_WORKER = 4,
    ROLE_ADMIN = 8,
};

const char *role_name(enum role role);
int role_find(const char *name); /* 0: no such role */

struct token {
    char id[TOKEN_ID_MAX];
    enum role role;
    char name[NAME_MAX_BYTES]; /* owns what is made with it */
    char node[NAME_MAX_BYTES]; /* of a worker: the only node that may use it; else "" */
};

/* Makes a token of role, name and node as given, fills token->id, and writes its text. */
enum status token_add(struct db *db, struct token *token, int64_t now_ms,
                      char text[static TOKEN_TEXT_MAX], struct error *err);

/* ERR_UNAUTHENTICATED: the text is no token that is known, in time and not revoked; which of these,
 * and how much of it was right, is not told, nor by the time it takes. */
enum status token_check(struct db *db, const char *text, int64_t now_ms, struct token *token,
                        struct error *err);

/* The token whose id comes next behind `after` (""), with when it was revoked (0: it is not).
 * ERR_NOT_FOUND: there are no more. */
enum status token_next(struct db *db, const char *after, struct token *token, int64_t *revoked_ms,
                       struct error *err);

/* From now on nobody may use it. Again: OK. ERR_NOT_FOUND: no such token. */
enum status token_revoke(struct db *db, const char *id, int64_t now_ms, struct token *token,
                         struct error *err);
