/* jobs_api.h — handlers: jobs, for those who wait for them and for the workers that run them. */
#pragma once

#include "server/calls.h"

enum status jobs_get(struct call *call, struct error *err);
enum status jobs_log(struct call *call, struct error *err);
enum status jobs_cancel(struct call *call, struct error *err);
enum status jobs_heartbeat(struct call *call, struct error *err);
enum status jobs_result(struct call *call, struct error *err);

/* Sets the answer of a call that waits for the job call->id, if the job has ended, or is not as
 * call->since says, or `in_any_case`. */
enum status jobs_look(struct call *call, bool in_any_case, struct error *err);
