/*
 * routes.h — the table of what the API has: method, path, who may call it, which query parameters
 * it takes, and its handler. What is not in the table does not exist; a role that is not named by a
 * route may not call it.
 */
#pragma once

#include "server/calls.h"

enum { ROUTE_QUERY_MAX = 8 };

/* From BODY_EMPTY on, which has none but writes, the handler runs inside the turn's transaction. */
enum body { BODY_NONE, BODY_EMPTY, BODY_JSON, BODY_JSON_OR_SOURCE, BODY_LINES };

struct route {
    const char *method;
    const char *path; /* "{}" stands for one segment, which goes to call->id */
    unsigned roles;   /* bits of enum role; 0: anybody, without a token */
    enum body body;
    const char *query[ROUTE_QUERY_MAX];
    enum status (*handle)(struct call *call, struct error *err);
};

extern const struct route routes[];
extern const int route_count;

/*
 * Finds the route of a request's method and path, and fills in call->route and call->id.
 * ERR_NOT_FOUND: no such path. ERR_INVALID: no such method there; `allow` gets those that are.
 */
enum status route_find(struct call *call, char *allow, size_t allow_bytes, struct error *err);

/* How large a body the route of a method and path takes. */
int route_body_max(const char *method, const char *path);

/* Checks token and role, that the query has known parameters only, each once, and that the body is
 * of a type that the route takes: fills in call->token and call->is_source. */
enum status route_check(struct call *call, int64_t wall_ms, struct db *reader, struct error *err);
