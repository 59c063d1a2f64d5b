/*
 * keeper.h — the process that starts the programs of a box, and the last of it to end.
 */
#pragma once

#include "worker/box.h"

/* What the worker sends: the number of a program to kill, or this. */
enum { KEEPER_KILL_ALL = -1 };

/* In the forked child: starts the programs, sends a struct box_event for whatever happens to
 * `control`, and obeys what comes from there, until it ends. */
_Noreturn void keeper_run(int control, const struct box_program *programs, int count);
