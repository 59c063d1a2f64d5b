/*
 * work.h — what one item of a stream does when its turn comes: start a kernel, copy, set, free,
 * record, write a word.
 */
#pragma once

#include "sim/stream.h"

/* Whether nothing but the order in its stream holds it back (events, awaited values). */
bool work_is_ready(const struct client *client, const struct item *item);

/* Whether it touches only what no other client can reach, so that it may run between fixed points.
 * The judge is trusted to say when its copies may run. */
bool work_is_local(const struct client *client, const struct item *item);

/* Runs it. A kernel is started and then has a grid; everything else is complete. A CUresult. */
int work_run(struct client *client, struct item *item);

/* Whether every byte that a copy or set touches is mapped with the access it needs. */
bool work_copy_is_mapped(const struct client *client, const struct wire_copy *copy);
bool work_set_is_mapped(const struct client *client, const struct wire_set *set);
/* Bytes from the first to the last of `height` rows; 0 where that overflows. */
uint64_t work_span_bytes(uint64_t pitch_bytes, uint64_t width_bytes, uint64_t height);

/* The word at `address`, of 4 or 8 bytes, or NULL where there is none with this access. */
uint8_t *work_word(const struct client *client, const struct wire_value *value, int access);
