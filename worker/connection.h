/* connection.h — the API client of common/, driven by the worker's loop. */
#pragma once

#include "common/api.h"

struct connection;

/* Errors as of api_open. */
enum status connection_open(struct connection **connection, const char *server, const char *token,
                            struct error *err);
/* `done` and what comes back are api_start's. */
struct api_request *connection_post(struct connection *connection, const char *path,
                                    const struct buffer *body, int64_t timeout_ms,
                                    void (*done)(void *context, const struct api_reply *reply),
                                    void *context);
void connection_close(struct connection *connection);
