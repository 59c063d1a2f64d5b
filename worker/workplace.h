/*
 * workplace.h — where a worker keeps the directories of its jobs.
 *
 * A directory of its own below the one that others use too, held by a lock: what an earlier worker
 * of that name left there is removed.
 */
#pragma once

#include "common/error.h"

enum { WORKPLACE_PATH_MAX = 400 };

struct workplace {
    char path[WORKPLACE_PATH_MAX];
    int lock;
};

/* `name`: of the worker; NULL: a directory for this process only, removed at the end.
 * ERR_CONFLICT: another worker has it. */
enum status workplace_init(struct workplace *workplace, const char *parent, const char *name,
                           struct error *err);
void workplace_release(struct workplace *workplace);

/* A directory that only this user writes to, made where it is missing. ERR_DENIED: others may. */
enum status workplace_make_private(const char *directory, struct error *err);
