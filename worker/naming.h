/*
 * naming.h — device addresses in a result, from offsets in a rank's window to names of tensors.
 *
 * The simulator knows windows, not tensors: its "rank 1 inputs+4224" becomes "rank 1 input x+128
 * (slot 0)", or "... x+9600, past its end (slot 0)". What is no such text stays as it is.
 */
#pragma once

#include "common/result.h"
#include "tasks/task.h"

/* Names the addresses of waits and faults; result->case_name and variant say of which run. */
void naming_apply(struct result *result, const struct task *task, int world, enum dtype dtype);
