/*
 * nvml_events.h — the errors that NVIDIA's management library tells of, as lines; for pkb-judge.
 *
 * A process of its own, since a call into the driver of a broken GPU may never return.
 */
#pragma once

#include "common/error.h"

/*
 * Writes "watching N" (GPUs), then "xid 0000:1b:00 79" for every critical error, until this
 * process is killed, as it is when its parent ends. ERR_UNAVAILABLE: the library, or its events,
 * are missing. ERR_IO: they have ended, for example since a GPU is gone.
 */
enum status nvml_events_write(int output, struct error *err);
