#include "worker/symmetric.h"

#include "worker/layout.h"

enum status symmetric_round(struct symmetric_place *place, struct error *err)
{
    uint64_t *numbers[] = {&place->offset, &place->size_bytes};
    enum status status = OK;

    for (int i = 0; i < 2 && status == OK; i++) {
        status = arena_round(numbers[i], 0, err);
        if (status == OK && place->has_multicast) {
            status = multicast_round(numbers[i], place->world, err);
        }
    }
    return status;
}

enum status symmetric_make(struct symmetric *symmetric, const struct symmetric_place *place,
                           struct error *err)
{
    struct symmetric made = {0};
    enum status status = OK;

    for (int rank = 0; rank < place->world && status == OK; rank++) {
        struct arena_place of_rank = {.address = window_address(rank, place->offset),
                                      .size_bytes = place->size_bytes,
                                      .device_count = arena_device_count(place->world)};
        status = arena_make(&made.arenas[rank], arena_device(rank), &of_rank, err);
    }
    if (status == OK && place->has_multicast) {
        status = multicast_make(&made.multicast, made.arenas, place->world, err);
    }
    if (status != OK) {
        symmetric_release(&made);
        return status;
    }
    *symmetric = made;
    return OK;
}

int symmetric_fds(const struct symmetric *symmetric, int fds[static SYMMETRIC_FDS_MAX])
{
    int count = 0;

    while (count < WORLD_MAX && symmetric->arenas[count].is_open) {
        fds[count] = symmetric->arenas[count].fd;
        count++;
    }
    if (symmetric->multicast.is_open) {
        fds[count++] = symmetric->multicast.fd;
    }
    return count;
}

void symmetric_release(struct symmetric *symmetric)
{
    multicast_release(&symmetric->multicast);
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        arena_release(&symmetric->arenas[rank]);
    }
}
