/*
 * cgroup.h — what the processes of one sandbox may use together, and how they all die.
 *
 * cgroup_prepare finds the controllers that this process may use, cgroup version 2 or the
 * controllers of version 1 beside an empty tree of version 2, and removes what a worker that was
 * killed has left. A group is made by cgroup_open, entered by a child before it runs anything of
 * others (cgroup_fork, then cgroup_enter), and removed by cgroup_close, which kills who is left.
 */
#pragma once

#include "common/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cgroup;

/* Of all processes together; 0: no limit. */
struct cgroup_limits {
    uint64_t memory_bytes, processes, cpus;
};

/* What was refused, or who was killed, at a limit since the group was made. */
struct cgroup_hits {
    uint64_t memory, processes;
};

/* Once, before any other thread or child. ERR_UNAVAILABLE: the message says what is missing. */
enum status cgroup_prepare(struct error *err);
enum status cgroup_open(struct cgroup **group, const char *name, const struct cgroup_limits *limits,
                        struct error *err);
/* Like fork(); the child is in the group's tree of version 2 from its first instruction on. */
pid_t cgroup_fork(const struct cgroup *group);
/* In that child, as root: enters the trees of version 1. */
bool cgroup_enter(const struct cgroup *group);
void cgroup_read_hits(const struct cgroup *group, struct cgroup_hits *hits);
void cgroup_kill(const struct cgroup *group);
/* Kills, waits until nobody is left, and removes the group. NULL: nothing. */
void cgroup_close(struct cgroup *group);
