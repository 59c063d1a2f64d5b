/* connection.h — the API client of common/, driven by the worker's loop. */
#pragma once

#include "common/api.h"

struct connection;

/* Errors as of api_open. */
enum status connection_open(struct connection **connection, const char *server, const char *token,
                            struct error *err);
/* To start requests with; api_close is connection_close's. */
struct api *connection_api(struct connection *connection);
void connection_close(struct connection *connection);
