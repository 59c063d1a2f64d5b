/*
 * rounds.h — timed calls as the judge sees them: inputs that nobody can read before the key, its
 * own clock from the key to the proof, and what was proved.
 *
 * On hardware only. rounds_open before any code of the submission is loaded, so that what the GPU
 * does when nobody else is there is known; rounds_announce once the library is loaded, and then the
 * ranks have to become idle; then any number of rounds_one. A round is up to PKB_SLOTS calls back
 * to back, or none of them where the submission's part is left out.
 */
#pragma once

#include "worker/peers.h"
#include "worker/tensors.h"

struct rounds;

struct rounds_options {
    struct peers *peers; /* lives longer */
    int64_t stall_ms;    /* without a word of a rank that has work to do */
};

/* ERR_IO, ERR_LIMIT: our own CUDA calls'. */
enum status rounds_open(struct rounds **rounds, const struct rounds_options *options,
                        struct error *err);
void rounds_close(struct rounds *rounds);

/* `inputs_fds`: the arenas of the ranks' inputs; stay the caller's. */
void rounds_announce(struct rounds *rounds, const int *inputs_fds, uint64_t inputs_bytes);

struct round {
    const struct run *run;
    const struct layouts *layouts;
    int first_call, calls;
    bool is_empty;  /* all but the calls themselves */
    int passes;     /* keystreams that hide the inputs: 1, or more to make that slow */
    uint8_t poison; /* that outputs hold before */
    const uint8_t *inputs[CHANNEL_SLOTS][WORLD_MAX]; /* images of slots, by call */
    uint8_t *outputs[CHANNEL_SLOTS]; /* by call, images of all ranks' slots; NULL: not wanted */
};

enum round_end {
    ROUND_DONE,
    ROUND_FAILED,  /* peers_failed says who */
    ROUND_STALLED, /* nobody moves */
    ROUND_CHANGED, /* the outputs of `rank` are not what it proved to have when it was done */
    ROUND_INPUTS_CHANGED, /* the inputs of `rank` are not what they were */
};

struct round_result {
    enum round_end end;
    int rank;
    double events_us; /* the largest that a rank says, of all its calls */
    double window_us; /* from the key to the last proof */
    double answer_us; /* from the nonce to the last proof */
    double skew_us;   /* from the first rank that was done to the last */
};

/* Errors as rounds_open's. */
enum status rounds_one(struct rounds *rounds, const struct round *round,
                       struct round_result *result, struct error *err);

/* What the events of `calls` calls show that do nothing. */
enum status rounds_gap(struct rounds *rounds, int calls, double *gap_us, struct error *err);

/* The next rounds are those that the following are said of. */
void rounds_watch(struct rounds *rounds);
/* Were the clocks over 3 % below those of rounds_open? */
bool rounds_are_slow(const struct rounds *rounds);
/* Was a kernel of somebody else on a GPU in most rounds, though all ranks were idle? How long what
 * looks for it took, and how long it takes when nobody is there. */
bool rounds_is_disturbed(const struct rounds *rounds, double *now_us, double *quiet_us);
/* Is one there now? */
bool rounds_is_busy(struct rounds *rounds);
