/*
 * shim.h — what a forked child does before it becomes a program of others: enters its group, takes
 * its limits and descriptors, gives up its user, its privileges and its environment, in this order.
 */
#pragma once

#include "worker/box.h"

/* The program itself; `keeper` is its parent. */
_Noreturn void shim_become(const struct box_program *program, pid_t keeper);
/* A sandbox whose pkb-init starts `count` programs and talks over `control`. */
_Noreturn void shim_become_sandbox(const struct box_program *programs, int count, int control,
                                   pid_t keeper);
