#include "server/routes.h"

#include "server/batches_api.h"
#include "server/boards_api.h"
#include "server/jobs_api.h"
#include "server/server_api.h"
#include "server/submission_acts.h"
#include "server/submissions_api.h"
#include "server/tasks_api.h"
#include "server/tokens_api.h"
#include "server/workers_api.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    READERS = ROLE_READER | ROLE_SUBMITTER | ROLE_ADMIN,
    SUBMITTERS = ROLE_SUBMITTER | ROLE_ADMIN,
    WORKERS = ROLE_WORKER | ROLE_ADMIN,
};

#define BOARD_QUERY "world", "dtype", "device", "gpu"

const struct route routes[] = {
    {"GET", "/healthz", 0, BODY_NONE, {0}, health_get},
    {"GET", "/v1/openapi.yaml", 0, BODY_NONE, {0}, openapi_get},
    {"POST",
     "/v1/submissions",
     SUBMITTERS,
     BODY_JSON_OR_SOURCE,
     {"task", "world", "dtype", "device", "model", "attempt"},
     submissions_post},
    {"GET", "/v1/submissions", READERS, BODY_NONE, {"limit", "cursor"}, submissions_list},
    {"GET", "/v1/submissions/{}", READERS, BODY_NONE, {0}, submissions_get},
    {"GET", "/v1/submissions/{}/jobs", READERS, BODY_NONE, {0}, submissions_jobs},
    {"GET", "/v1/submissions/{}/source", READERS, BODY_NONE, {0}, submissions_source},
    {"POST", "/v1/submissions/{}/disqualify", ROLE_ADMIN, BODY_JSON, {0}, submissions_disqualify},
    {"POST", "/v1/submissions/{}/publish", ROLE_ADMIN, BODY_EMPTY, {0}, submissions_publish},
    {"GET", "/v1/jobs/{}", READERS, BODY_NONE, {"wait", "since"}, jobs_get},
    {"GET", "/v1/jobs/{}/log", READERS, BODY_NONE, {0}, jobs_log},
    {"POST", "/v1/jobs/{}/rerun", SUBMITTERS, BODY_EMPTY, {0}, jobs_rerun},
    {"POST", "/v1/jobs/{}/cancel", SUBMITTERS, BODY_EMPTY, {0}, jobs_cancel},
    {"POST", "/v1/batches", SUBMITTERS, BODY_LINES, {0}, batches_post},
    {"GET", "/v1/batches", READERS, BODY_NONE, {"limit", "cursor"}, batches_list},
    {"GET", "/v1/batches/{}", READERS, BODY_NONE, {0}, batches_get},
    {"GET", "/v1/batches/{}/lines", READERS, BODY_NONE, {"limit", "cursor"}, batches_lines},
    {"GET",
     "/v1/batches/{}/report",
     READERS,
     BODY_NONE,
     {"format", "p", "world", "dtype", "device"},
     batches_report},
    {"POST", "/v1/batches/{}/cancel", SUBMITTERS, BODY_EMPTY, {0}, batches_cancel},
    {"GET", "/v1/tasks", READERS, BODY_NONE, {0}, tasks_list},
    {"GET", "/v1/tasks/{}", READERS, BODY_NONE, {0}, tasks_get},
    {"GET", "/v1/tasks/{}/header", READERS, BODY_NONE, {"dtype"}, tasks_header},
    {"GET", "/v1/tasks/{}/board", READERS, BODY_NONE, {BOARD_QUERY}, boards_task},
    {"GET", "/v1/tasks/{}/history", READERS, BODY_NONE, {BOARD_QUERY}, boards_history},
    {"GET", "/v1/models", READERS, BODY_NONE, {BOARD_QUERY}, boards_models},
    {"GET", "/v1/tokens", ROLE_ADMIN, BODY_NONE, {0}, tokens_list},
    {"POST", "/v1/tokens/{}/revoke", ROLE_ADMIN, BODY_EMPTY, {0}, tokens_revoke},
    {"POST", "/v1/workers", WORKERS, BODY_JSON, {0}, workers_post},
    {"GET", "/v1/workers", READERS | WORKERS, BODY_NONE, {0}, workers_list},
    {"POST", "/v1/workers/{}/state", WORKERS, BODY_JSON, {0}, workers_state},
    {"POST", "/v1/workers/{}/lease", WORKERS, BODY_JSON, {0}, workers_lease},
    {"POST", "/v1/jobs/{}/heartbeat", WORKERS, BODY_JSON, {0}, jobs_heartbeat},
    {"POST", "/v1/jobs/{}/result", WORKERS, BODY_JSON, {0}, jobs_result},
};
const int route_count = sizeof routes / sizeof routes[0];

/* Holds a path against a pattern; the segment at "{}" is not empty and fits `id`. */
static bool match(const char *pattern, const char *path, char id[static NAME_MAX_BYTES])
{
    const char *hole = strstr(pattern, "{}");

    id[0] = 0;
    if (hole == NULL) {
        return strcmp(pattern, path) == 0;
    }
    size_t before_bytes = (size_t)(hole - pattern);
    if (strncmp(pattern, path, before_bytes) != 0) {
        return false;
    }
    size_t id_bytes = strcspn(path + before_bytes, "/");
    if (id_bytes == 0 || id_bytes >= NAME_MAX_BYTES ||
        strcmp(path + before_bytes + id_bytes, hole + 2) != 0) {
        return false;
    }
    memcpy(id, path + before_bytes, id_bytes);
    id[id_bytes] = 0;
    return true;
}

enum status route_find(struct call *call, char *allow, size_t allow_bytes, struct error *err)
{
    const char *method = call->http->method;
    size_t used = 0;

    allow[0] = 0;
    for (int i = 0; i < route_count; i++) {
        char id[NAME_MAX_BYTES];
        if (!match(routes[i].path, call->http->path, id)) {
            continue;
        }
        if (strcmp(method, routes[i].method) == 0) {
            call->route = &routes[i];
            memcpy(call->id, id, sizeof id);
            return OK;
        }
        used += (size_t)snprintf(allow + used, allow_bytes - used, "%s%s", used > 0 ? ", " : "",
                                 routes[i].method);
    }
    if (used > 0) {
        return error_set(err, ERR_INVALID, "no method %s", method);
    }
    return error_set(err, ERR_NOT_FOUND, "no path '%.200s': GET /v1/openapi.yaml lists them all",
                     call->http->path);
}

int route_body_max(const char *method, const char *path)
{
    char id[NAME_MAX_BYTES];

    for (int i = 0; i < route_count; i++) {
        if (routes[i].body == BODY_LINES && strcmp(method, routes[i].method) == 0 &&
            match(routes[i].path, path, id)) {
            return HTTP_STREAM_MAX_BYTES;
        }
    }
    return HTTP_BODY_MAX_BYTES;
}

static enum status check_token(struct call *call, int64_t wall_ms, struct db *reader,
                               struct error *err)
{
    static const char scheme[] = "Bearer ";
    const char *header = http_header(call->http, "Authorization");
    enum status status = OK;

    if (header == NULL) {
        return error_field(err, ERR_UNAUTHENTICATED, "Authorization",
                           "no token: send 'Authorization: Bearer TOKEN'");
    }
    if (strncasecmp(header, scheme, sizeof scheme - 1) != 0) {
        return error_field(err, ERR_UNAUTHENTICATED, "Authorization",
                           "not a bearer token: send 'Authorization: Bearer TOKEN'");
    }
    status = token_check(reader, header + sizeof scheme - 1, wall_ms, &call->token, err);
    if (status == ERR_UNAUTHENTICATED) {
        return error_field(err, status, "Authorization", "%s", err->message);
    }
    if (status == OK && (call->token.role & call->route->roles) == 0) {
        return error_field(err, ERR_DENIED, "Authorization", "a token of role %s may not %s %s",
                           role_name(call->token.role), call->route->method, call->route->path);
    }
    return status;
}

static enum status check_query(const struct call *call, struct error *err)
{
    const struct http_request *http = call->http;

    for (int i = 0; i < http->query_count; i++) {
        const char *name = http->query[i].name;
        bool is_known = false;
        for (int k = 0; k < ROUTE_QUERY_MAX && call->route->query[k] != NULL; k++) {
            is_known = is_known || strcmp(call->route->query[k], name) == 0;
        }
        if (!is_known) {
            return error_field(err, ERR_INVALID, name, "no query parameter '%.60s' here", name);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(http->query[k].name, name) == 0) {
                return error_field(err, ERR_INVALID, name, "'%s' is given twice", name);
            }
        }
    }
    return OK;
}

/* Whether a Content-Type is `wanted`, in UTF-8. */
static bool type_is(const char *type, const char *wanted)
{
    static const char blanks[] = " \t";

    if (strncasecmp(type, wanted, strlen(wanted)) != 0) {
        return false;
    }
    const char *rest = type + strlen(wanted);
    rest += strspn(rest, blanks);
    if (*rest != ';') {
        return *rest == 0;
    }
    rest += 1 + strspn(rest + 1, blanks);
    size_t length = strcspn(rest, blanks);
    if (rest[length + strspn(rest + length, blanks)] != 0) {
        return false;
    }
    return (length == strlen("charset=utf-8") && strncasecmp(rest, "charset=utf-8", length) == 0) ||
           (length == strlen("charset=\"utf-8\"") &&
            strncasecmp(rest, "charset=\"utf-8\"", length) == 0);
}

static enum status check_type(struct call *call, struct error *err)
{
    static const struct {
        const char *names[2];
        const char *wanted;
    } types[] = {
        [BODY_JSON] = {{"application/json"}, "application/json"},
        [BODY_JSON_OR_SOURCE] = {{"application/json", "text/x-cuda"},
                                 "application/json or text/x-cuda"},
        [BODY_LINES] = {{"application/jsonl", "application/x-ndjson"}, "application/jsonl"},
    };
    const char *type = http_header(call->http, "Content-Type");

    for (int i = 0; type != NULL && i < 2; i++) {
        const char *name = types[call->route->body].names[i];
        if (name != NULL && type_is(type, name)) {
            call->is_source = strcmp(name, "text/x-cuda") == 0;
            return OK;
        }
    }
    return error_field(err, ERR_INVALID, "Content-Type",
                       "the body is of type '%.60s': send %s, in UTF-8", type == NULL ? "" : type,
                       types[call->route->body].wanted);
}

enum status route_check(struct call *call, int64_t wall_ms, struct db *reader, struct error *err)
{
    enum status status = OK;

    if (call->route->roles != 0) {
        status = check_token(call, wall_ms, reader, err);
    }
    if (status == OK) {
        status = check_query(call, err);
    }
    return status == OK && call->route->body > BODY_EMPTY ? check_type(call, err) : status;
}
