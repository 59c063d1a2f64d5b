/*
 * seat.h — the judge's own context on one GPU: hides inputs, clears outputs and caches, and sums up
 * what is there.
 *
 * seat_begin, then any of the others, then seat_leave, which waits: after it nothing of the judge
 * is on the GPU. seat_sum and seat_copy_out wait by themselves.
 */
#pragma once

#include "common/error.h"
#include "common/job.h"

#include <stdbool.h>
#include <stdint.h>

struct seat;

/* Measures what the GPU does when nobody else is there. The context stays current. */
enum status seat_open(struct seat **seat, int device, struct error *err);
void seat_close(struct seat *seat);

/* `key`: the words of its line. */
enum status seat_begin(struct seat *seat, const uint32_t *key, struct error *err);

struct hiding {
    int rank, call;
    const uint8_t *image; /* host memory; kept on the GPU until the next for the same call */
    uint64_t size_bytes;
    uint64_t to; /* gets the image XORed with the keystream */
    uint64_t stream;
};
enum status seat_hide(struct seat *seat, const struct hiding *hiding, struct error *err);
uint64_t seat_image(const struct seat *seat, int rank, int call);
enum status seat_poison(struct seat *seat, uint64_t to, uint64_t size_bytes, uint8_t poison,
                        struct error *err);
/* Flushes the L2 cache, looks whether somebody else is on the GPU, and waits. */
enum status seat_leave(struct seat *seat, struct error *err);

struct summing {
    uint64_t from, size_bytes;
    uint64_t first; /* index of its first word */
    const uint32_t *nonce;
    uint64_t sample; /* as in kernels.h */
};
/* Adds the terms of the words to *sum. */
enum status seat_sum(struct seat *seat, const struct summing *summing, uint64_t *sum,
                     struct error *err);
enum status seat_copy_out(struct seat *seat, uint8_t *to, uint64_t from, uint64_t size_bytes,
                          struct error *err);

/* What two events show with nothing between them but `records` - 1 others, in the median. */
enum status seat_gap(struct seat *seat, int records, double *gap_us, struct error *err);

/* What seat_leave looks at is kept from here on. */
void seat_watch(struct seat *seat);
/* Was somebody else on the GPU, in most of what seat_leave has seen since? How long that took, and
 * how long it takes when nobody is there. */
bool seat_is_disturbed(const struct seat *seat, double *now_us, double *quiet_us);
/* Were the clocks over 3 % below those of seat_open? */
bool seat_is_slow(const struct seat *seat);
/* Is somebody there now? */
bool seat_is_busy(struct seat *seat);
