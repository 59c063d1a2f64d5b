/*
 * small_server.h — a small real HTTP server for test_api: it answers by path, in a thread of its
 * own.
 *
 * /status/N answers with that status, /problem with a problem, /problem/broken with half of one,
 * /large/N with N bytes more than the client takes, /hang never, /cut hangs up, and any other path
 * says what came; but below /v1/jobs/ it plays a script.
 */
#pragma once

/* A group's fixture: its state is the server. */
int small_server_start(void **state);
int small_server_stop(void **state);

const char *small_server_url(void *const *state);

/* How many connections there have been; to be asked while nothing is under way. */
int small_server_connections(void);

/* From now on /v1/jobs/... is answered with these bodies, one after another; NULL is a 503, and the
 * last one, before the final "", is repeated. The array is borrowed. */
void small_server_script(const char *const *bodies);
