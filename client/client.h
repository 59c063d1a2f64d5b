/*
 * client.h — one run of the command line client: its options and its connection to the server.
 *
 * Calls block until they are answered. What a command prints goes to standard output; progress and
 * failures go to standard error.
 */
#pragma once

#include "client/options.h"
#include "common/buffer.h"
#include "common/error.h"

#include <signal.h>
#include <stdint.h>

struct api;

struct client {
    const struct options *options;
    struct api *api;
    int verdict; /* of the job that was shown, if it is done (enum verdict); -1: none */
};

/* Takes the server and the token from the options, else from the environment. */
enum status client_open(struct client *client, const struct options *options, struct error *err);
void client_close(struct client *client);

struct client_call {
    const char *path;
    const char *body; /* NULL: GET; else POST */
    size_t body_bytes;
    int64_t timeout_ms;
    const volatile sig_atomic_t *stop; /* as for api_wait; may be NULL */
};

/* Appends the answer's body to `body`; on failure it is untouched. */
enum status client_call(struct client *client, const struct client_call *call, struct buffer *body,
                        struct error *err);
/* A GET with the usual timeout. */
enum status client_get(struct client *client, const char *path, struct buffer *body,
                       struct error *err);

/* ERR_IO: standard output is closed or full. A final newline is added where it lacks. */
enum status client_print(const struct buffer *text, struct error *err);

/* Prints the job in `body` (as text, or itself with --json) and takes its verdict. ERR_CONFLICT: it
 * ended without one. */
enum status client_show_job(struct client *client, const struct buffer *body, struct error *err);

/* The commands: each does what the options say and prints it. */
enum status cmd_submit(struct client *client, struct error *err);
enum status cmd_status(struct client *client, struct error *err);
enum status cmd_log(struct client *client, struct error *err);
enum status cmd_tasks(struct client *client, struct error *err);
enum status cmd_task(struct client *client, struct error *err);
enum status cmd_board(struct client *client, struct error *err);
