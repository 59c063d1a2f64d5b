/*
 * polls.h — long polls: calls that wait for a job to lease, or for a job to change.
 *
 * Nobody watches the socket of a kept call, so each has an end: when that has come, or the server
 * stops, it is answered with what there is.
 */
#pragma once

#include "server/service.h"

/* Keeps a call until a job fits call->wish; 204 at the end. */
void poll_lease(struct call *call, int wait_s);
/* Keeps a call until the job call->id has ended or, with call->since, has another version. */
void poll_job(struct call *call, int wait_s);

/* Leases a job to call->id as call->wish says, and sets the answer; ERR_NOT_FOUND: none fits. */
enum status poll_grant(struct call *call, struct error *err);

/* Within the turn's transaction: leases jobs to those who wait; calls that got one move to `done`
 * with their answer set. */
enum status polls_grant(struct service *service, struct call_list *done, struct error *err);

/* After a turn: answers those who wait for what has changed. */
void polls_notify(struct service *service);

/* Answers those whose time is over, or everybody when the server stops. */
void polls_end(struct service *service);

/* When one of the last two has something to do (boot_ms); INT64_MAX: never. */
int64_t polls_next_ms(const struct service *service);
