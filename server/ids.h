/*
 * ids.h — public ids: a prefix, the time and random bits, "job_01jz3k7v8mq2r5t9x4c6w0h1ye".
 *
 * Ids of one maker rise, also within a millisecond and when the clock goes back, so that they sort
 * by age and new rows go to the end of an index. Nobody can guess one.
 */
#pragma once

#include "common/job.h"

#include <stdbool.h>

struct id_maker { /* starts as {0} */
    int64_t last_ms;
    unsigned char random[10];
};

/* Writes a new id with `prefix` ("sub", "job"); `now_ms` is wall clock. */
void id_make(struct id_maker *maker, const char *prefix, int64_t now_ms, char id[static ID_MAX]);

/* Whether `text` has the form of an id with this prefix. */
bool id_is_valid(const char *prefix, const char *text);
