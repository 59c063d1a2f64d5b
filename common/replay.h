/*
 * replay.h — what repeats one schedule of a job on the simulator exactly, but for the source, of
 * which it holds the hash. A plain record that is copied.
 *
 * It holds the seed of the inputs, so it is written into a result only, which nobody sees before
 * the job is done: every job has a seed of its own.
 */
#pragma once

#include "common/job.h"
#include "common/json.h"

#include <stdbool.h>

enum { REPLAY_FORMAT = 1 };

struct replay {
    int format;                     /* REPLAY_FORMAT */
    char evaluator[NAME_MAX_BYTES]; /* version of what made it: another one may run otherwise */
    char task[NAME_MAX_BYTES];
    int world;
    enum dtype dtype;
    uint64_t seed;          /* of the inputs */
    uint64_t schedule_seed; /* of the interleaving */
    uint64_t fuel;          /* thread-instructions */
    int64_t stall_ms;
    bool no_multicast;
    char source_sha256[SHA256_TEXT_MAX]; /* lower-case hex */
};

extern const struct json_record replay_record;

void replay_write(const struct replay *replay, struct buffer *json);
/* ERR_INVALID names the key that is missing, unknown or wrong; `replay` is then untouched. */
enum status replay_read(struct replay *replay, const char *json, size_t size_bytes,
                        struct error *err);
