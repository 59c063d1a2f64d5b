/* workers_api.h — handlers: workers, and the leases that they ask for. */
#pragma once

#include "server/calls.h"

enum status workers_post(struct call *call, struct error *err);
enum status workers_lease(struct call *call, struct error *err);
enum status workers_state(struct call *call, struct error *err);
enum status workers_list(struct call *call, struct error *err);
