/*
 * sets.h — the inputs of many timed calls, what the ranks made of them, and whether that is right.
 *
 * sets_open makes `count` sets of inputs for all ranks, each from the secret seed and a number of
 * its own, on all processors. sets_keep takes the place of one call's outputs, which the caller
 * fills from the device; sets_judge holds all that were kept against the oracle.
 */
#pragma once

#include "common/error.h"
#include "worker/tensors.h"

struct sets;

struct sets_options {
    const struct run *run;
    const struct layouts *layouts;
    uint64_t seed;
    int count;             /* wanted */
    int kept_max;          /* calls whose outputs are kept, at most */
    uint64_t memory_bytes; /* for inputs, and again for outputs: there may be fewer of both */
    int64_t judge_ms;
    void (*alive)(void *context);
    void *context;
};

enum status sets_open(struct sets **sets, const struct sets_options *options, struct error *err);
void sets_close(struct sets *sets);

int sets_count(const struct sets *sets); /* at least 1 */
/* The image of a rank's input slot, layouts->inputs.slot_bytes of it. */
const uint8_t *sets_inputs(const struct sets *sets, int set, int rank);

/* Where the images of the ranks' output slots go, one behind the other; NULL: not to be kept, since
 * there is not room for kept_max of them. */
uint8_t *sets_keep(struct sets *sets, int set, uint8_t poison);

/* The first kept call that is wrong, or -1. Where judging all would take longer than judge_ms, as
 * many as that allows (a batch at least), which ones only the seed tells. */
enum status sets_judge(struct sets *sets, int *wrong, struct verdict_detail *detail,
                       struct error *err);
int sets_kept(const struct sets *sets);
/* Forgets what was kept after the first `kept`, before anything is judged. */
void sets_drop(struct sets *sets, int kept);
