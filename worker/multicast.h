/*
 * multicast.h — one address for the same memory of all ranks, through the switch: the judge makes
 * it over arenas that it has made, one on each GPU; a rank maps it with arena_import.
 *
 * Starts as {0}. It exists only where every rank has a GPU of its own that can do this.
 */
#pragma once

#include "worker/arena.h"

struct multicast {
    uint64_t handle;
    uint64_t size_bytes;
    int world;
    int fd; /* to send to the ranks; closed by multicast_release */
    bool is_open;
};

bool multicast_is_possible(int world);
/* Rounds up to what a multicast object of so many ranks needs: a size, or an offset in a window. */
enum status multicast_round(uint64_t *bytes, int world, struct error *err);
/* Binds the arenas of ranks 0..world-1, which are equally large and outlive it. */
enum status multicast_make(struct multicast *multicast, const struct arena *arenas, int world,
                           struct error *err);
void multicast_release(struct multicast *multicast);
