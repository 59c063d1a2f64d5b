/* turn.h — the transaction of one turn of the loop. */
#pragma once

#include "server/service.h"

/* Runs the writes that came, ends leases, gives jobs to waiting workers, commits, and answers. */
void turn_run(struct service *service);

/* Opens the writing connection and the queue on it, in the place of what was there. */
enum status turn_open(struct service *service, struct error *err);

/* Sends a call's answer, or the problem if `status` is not OK. */
void turn_answer(struct call *call, enum status status, const struct error *err);
