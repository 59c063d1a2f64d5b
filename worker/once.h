/* once.h — evaluates one file without a server, for tests and for people at a terminal. */
#pragma once

#include "common/error.h"
#include "worker/evaluation.h"

struct once_options {
    const char *file;
    struct evaluation_job job;   /* task, world, dtype, device, seed; the rest is filled in */
    const struct replay *replay; /* the source must be the one of it; NULL: any */
};

/* Reads a replay, or that of a result, from `file`. */
enum status once_read_replay(struct replay *replay, const char *file, struct error *err);

/* Prints the result's JSON and nothing else on stdout. */
enum status once_run(const struct evaluation_settings *settings, const struct once_options *options,
                     struct error *err);
