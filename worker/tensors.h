/*
 * tensors.h — where the tensors of a run lie in a rank's input and output arena, and what lies
 * between them.
 *
 * An arena holds PKB_SLOTS sets of all tensors of a call. Offsets are the same on all ranks, and
 * all bytes that no tensor of the rank covers are red zone: they hold a pattern made from a secret
 * key and nobody may change them. Everything here is host memory; the judge copies.
 */
#pragma once

#include "common/error.h"
#include "tasks/task.h"
#include "worker/channel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RED_ZONE_BYTES = 4096, TENSOR_ALIGN_BYTES = 256 };

/* One arena's layout. */
struct layout {
    int count;                          /* tensors of a slot */
    uint64_t offsets[PLAN_TENSORS_MAX]; /* in the slot */
    uint64_t slot_bytes;                /* from a slot to the next, a multiple of the alignment */
    uint64_t arena_bytes;               /* that the slots need */
};

struct layouts {
    struct layout inputs, outputs;
};

void layouts_make(struct layouts *layouts, const struct run *run);
/* Offset of a slot in the arena. */
uint64_t layout_slot(const struct layout *layout, int slot);
/* Fills in the run's parameters and this rank's addresses; ERR_INTERNAL: parameters too large. */
enum status layouts_describe(const struct layouts *layouts, const struct run *run, int rank,
                             struct run_body *body, struct error *err);

/* The key of one zone of those that belong to `seed`. Who reads the pattern can find its key, but
 * from that neither the seed nor another key. */
uint64_t red_zone_key(uint64_t seed, uint64_t number);
/* Writes the pattern of arena bytes [offset, offset + size_bytes); both multiples of 8. */
void red_zone_write(uint8_t *to, uint64_t offset, uint64_t size_bytes, uint64_t key);

/* Tensors in an image of one slot, as `tensors` of the task's calls: of inputs or of outputs. */
void layout_tensors(const struct layout *layout, const struct tensor_spec *specs, uint8_t *image,
                    struct tensor *tensors);
void layout_poison(const struct layout *layout, const struct tensor_spec *specs, uint8_t *image,
                   uint8_t poison);

/* A byte of a red zone that was changed, and the tensor that it is nearest to. */
struct trespass {
    int slot, tensor;
    bool is_before; /* in front of the tensor, else behind its end */
    uint64_t distance_bytes;
};
/* Compares a whole arena of `size_bytes` with what its red zones were. True: found, the first. */
bool layout_find_trespass(const struct layout *layout, const struct tensor_spec *specs,
                          const uint8_t *arena, uint64_t size_bytes, uint64_t key,
                          struct trespass *trespass);

/* Bytes of an arena behind its last slot: all of them are red zone. */
struct red_zone {
    const uint8_t *bytes;
    uint64_t offset, size_bytes; /* in the arena; both multiples of 8 */
    uint64_t key;
};
/* The same for a part of what lies behind. */
bool layout_find_trespass_behind(const struct layout *layout, const struct tensor_spec *specs,
                                 const struct red_zone *zone, struct trespass *trespass);
