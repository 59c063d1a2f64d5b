/* once.h — evaluates one file without a server, for tests and for people at a terminal. */
#pragma once

#include "common/error.h"
#include "worker/evaluation.h"

struct once_options {
    const char *file;
    struct evaluation_job job; /* task, world, dtype, device, seed; the rest is filled in */
};

/* Prints the result's JSON and nothing else on stdout. */
enum status once_run(const struct evaluation_settings *settings, const struct once_options *options,
                     struct error *err);
