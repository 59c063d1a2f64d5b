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

/* Measures what the GPU does when nobody else is there. */
enum status seat_open(struct seat **seat, int device, struct error *err);
void seat_close(struct seat *seat);

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
};
/* Adds the terms of the words to *sum. */
enum status seat_sum(struct seat *seat, const struct summing *summing, uint64_t *sum,
                     struct error *err);
enum status seat_copy_out(struct seat *seat, uint8_t *to, uint64_t from, uint64_t size_bytes,
                          struct error *err);

/* Did what seat_leave looks for take longer than when nobody was there, in the median? */
bool seat_is_disturbed(const struct seat *seat, double *now_us, double *quiet_us);
/* Does it take longer now? */
bool seat_is_busy(struct seat *seat);
