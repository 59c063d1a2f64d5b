/*
 * quiet.h — when the devices run, so that the machine's load does not change the run.
 *
 * A client is quiet while each of its threads blocks in a call or polls one; pkb-rank blocks in one
 * that ends when its socket to the judge can be read. The devices run only
 * at a fixed point: all clients are quiet, and those that poll have been answered IDLE_ROUNDS times
 * in rounds (every client waits, each poll is answered once) without an active request between.
 * Then they run until something that a client can see has changed, and every poll is answered.
 *
 * A client that is not quiet in time while work is queued is overdue: the devices go on without it,
 * and a finding says so. Where nothing can move any more, answers are withheld for a moment; if no
 * client used its CPU meanwhile it is a deadlock.
 */
#pragma once

#include "sim/machine.h"

/* An active request was handled: all begins anew. */
void quiet_disturb(struct machine *machine);

/* Answers what can be answered and runs the devices where that may be. Returns for how long to wait
 * for requests, in ms; -1: for ever. */
int quiet_step(struct machine *machine, int64_t now_ns);
