/* standing.h — what the times of a job are worth: against the roofline and against the baseline. */
#pragma once

#include "common/result.h"
#include "tasks/task.h"
#include "worker/roofline.h"

struct standing {
    const struct task *task;
    int world;
    enum dtype dtype;
    const struct roofline *roofline;
    const struct result *baseline; /* NULL: not known */
};

/* Fills in the rest of each timing. Who is faster than the floor is suspect: the verdict is then
 * changed. */
void standing_apply(const struct standing *standing, struct result *result);
