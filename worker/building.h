/*
 * building.h — one build, from its start to its verdict: found in the store, or made in a box.
 *
 * Runs on the loop. `done` is called once, never inside building_start, when no process of it is
 * left; then the result and the library may be taken. While the node is somebody's alone
 * (turns.h), the build rests: its processes are stopped, and its time does not run.
 */
#pragma once

#include "worker/build.h"

struct building;

struct building_options {
    struct build_options build;
    const struct store *store; /* NULL: everything is built */
    void (*done)(void *context);
    void *context;
};

enum status building_start(struct building **building, const struct building_options *options,
                           struct error *err);
/* Ends it early; `done` is still called. */
void building_stop(struct building *building);
/* Moves its result to `result`, which is replaced. */
void building_take(struct building *building, struct result *result);
/* Sealed, closed with the building; -1: none. */
int building_library(const struct building *building);
/* Only after `done`, or inside it. NULL: nothing. */
void building_close(struct building *building);
