/*
 * calls.h — one HTTP call as the handlers of the API see it: which route, whose token, what to
 * answer; and lists of calls that wait.
 *
 * A call lives from the headers of a request to the end of its answer. Its handler either sets an
 * answer or makes it wait (service.h); the answer goes out when the handler is done, and for a
 * route that writes after the turn's COMMIT.
 */
#pragma once

#include "common/lease.h"
#include "server/http.h"
#include "server/tokens.h"

struct route;
struct service;

enum { LOCATION_MAX = 80, KEY_MAX_BYTES = 64, LIST_LIMIT_DEFAULT = 50, LIST_LIMIT_MAX = 200 };

struct call {
    struct service *service;
    struct http_request *http;
    const struct route *route;
    struct token token;
    char id[NAME_MAX_BYTES]; /* the variable part of the path */
    bool is_source;          /* the body is a CUDA source, not JSON */

    /* A write in parts: has_more asks for another turn. */
    char batch_id[ID_MAX]; /* that is uploaded; "": none yet */
    int line;              /* of it, that came last */
    bool skips_line;       /* whose end has not come yet, and which is too long */
    bool has_more;

    int http_status; /* of the answer; 0: none yet */
    const char *content_type;
    char location[LOCATION_MAX];

    /* While it waits: */
    int64_t until_ms;
    struct lease_request wish;
    char since[JOB_VERSION_MAX]; /* "": until the job has ended */

    struct call_list *list; /* NULL: in none */
    struct call *prev, *next;
};

struct call_list { /* starts as {0} */
    struct call *first, *last;
};

void call_list_append(struct call_list *list, struct call *call);
void call_list_remove(struct call *call); /* from the list that it is in, if any */

/* The answer is what is in call->http->answer. */
void call_answer_json(struct call *call, int http_status);
void call_answer_text(struct call *call);
void call_answer_empty(struct call *call, int http_status);

/* Whose objects this token may see; NULL: everybody's. */
const char *call_owner(const struct call *call);

/* The Idempotency-Key; "": there is none. ERR_INVALID: it is none. */
enum status call_key(const struct call *call, const char **key, struct error *err);

/* Records an act of the token's owner in the turn's transaction: "by NAME", and why. */
enum status call_event(const struct call *call, const char *kind, const char *subject,
                       const char *why, struct error *err);

/* ERR_DENIED: the token is bound to another node than `name`, which came as `field`. */
enum status call_check_node(const struct call *call, const char *field, const char *name,
                            struct error *err);

/* A query parameter, or NULL. */
const char *call_query(const struct call *call, const char *name);
/* One that is a whole number of min..max; *value stays as it is where there is none. */
enum status call_query_int(const struct call *call, const char *name, int min, int max, int *value,
                           struct error *err);
