/*
 * check.h — the check stage: every check case of the task, on ranks that were just started.
 *
 * check_job makes and shares all memory of the job, has the ranks load the library, and runs each
 * case and variant: setup, calls back to back (an odd and an even number) over the slots with
 * secret inputs, teardown. It stops at the first thing that is wrong.
 */
#pragma once

#include "common/result.h"
#include "worker/peers.h"

/* Fills in `result`. An error is the judge's own, or the device's under it; `result` may then be
 * filled in or not. */
enum status check_job(struct peers *peers, const struct job_body *job, struct result *result,
                      struct error *err);
