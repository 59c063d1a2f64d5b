/*
 * follow.h — waits for a job to end, and tells a person meanwhile where it stands.
 *
 * Progress goes to standard error: one line that changes where that is a terminal, else a line per
 * change. An interrupt (ctrl-C) ends the waiting, not the job. A server that is away for a while
 * (restarted) is asked again.
 */
#pragma once

#include "client/client.h"

enum { FOLLOW_AWAY_MAX_MS = 60000 };

/* Puts the last answer, a job as job_write made it, into `body`. ERR_UNAVAILABLE: interrupted, and
 * the message says how to go on; or the server stays away. */
enum status follow_job(struct client *client, const char *id, struct buffer *body,
                       struct error *err);
