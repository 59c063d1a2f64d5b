/* tokens_api.h — handlers: which tokens there are, and an end to one. */
#pragma once

#include "server/calls.h"

enum status tokens_list(struct call *call, struct error *err);
enum status tokens_revoke(struct call *call, struct error *err);
