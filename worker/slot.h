/*
 * slot.h — a place on this machine for one job, so that no two jobs at a time share users, also of
 * two workers. Given back by slot_release, or by the end of this process.
 */
#pragma once

#include "common/error.h"

#include <sys/types.h>

struct slot_lease {
    int number;
    int lock; /* -1: none */
};

/* ERR_LIMIT: all of them are taken. */
enum status slot_take(struct slot_lease *slot, uid_t uid_base, struct error *err);
/* Of the abstract socket that holds it; the caller frees it. */
char *slot_name(const struct slot_lease *slot, uid_t uid_base);
void slot_release(struct slot_lease *slot);

/* A process of the slot's users; 0: none. */
pid_t slot_find_process(const struct slot_lease *slot, uid_t uid_base);
/*
 * Ends the processes that a worker which was killed has left in slots that nobody holds; *count
 * says how many. ERR_UNAVAILABLE: one of them does not end.
 */
enum status slots_sweep(uid_t uid_base, int *count, struct error *err);
