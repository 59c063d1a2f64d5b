/*
 * driver.h — NVIDIA's driver on this node: where its libraries lie (they come with the driver and
 * not with CUDA, and containers have them in places of their own), and whether it is new enough.
 */
#pragma once

#include "common/error.h"

#include <stdbool.h>

/* The directory of libcuda.so.1 as the loader would find it: LD_LIBRARY_PATH, then the usual
 * places. NULL: none. */
const char *driver_directory(void);

/* CUDA 13.0 asks for as much. */
#define DRIVER_FLOOR "580.65.06"
#define CUDA_FLOOR "13.0"

/* Numbers with dots between them. */
bool driver_is_version(const char *text);
/* Below 0: `version` is older than `other`. */
int driver_compare(const char *version, const char *other);
/* ERR_UNAVAILABLE: `found` ("": not known) is older than `needed`; `what` is "driver" or "CUDA". */
enum status driver_demand(const char *what, const char *found, const char *needed,
                          struct error *err);
