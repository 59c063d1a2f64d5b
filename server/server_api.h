/* server_api.h — handlers: the server itself. */
#pragma once

#include "server/calls.h"

enum status health_get(struct call *call, struct error *err);
enum status openapi_get(struct call *call, struct error *err);
