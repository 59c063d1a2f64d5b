/*
 * simulation.h — kernels of a PTX text on simulated ranks, for the tests of the interpreter.
 *
 * Each rank has one device and one page table; memory of any rank is mapped in all of them at the
 * same address.
 */
#pragma once

#include "common/mem.h"
#include "sim/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIMULATION_ALLOCATIONS = 64, SIMULATION_GRIDS = 64, SIMULATION_SM = 4 };

struct simulation {
    int ranks;
    struct engine *engine;
    struct space *spaces[8];
    struct image *image;
    struct module *modules[8];
    uint8_t *memory[SIMULATION_ALLOCATIONS];
    uint64_t symbols[SIMULATION_ALLOCATIONS];
    int allocations;
    struct grid *grids[SIMULATION_GRIDS];
    int grid_count;
};

struct simulation_options {
    int ranks;
    uint64_t seed, fuel;
};

/* Memory of `owner`, mapped by all; returns its address and where the test sees it. */
static inline uint64_t simulation_memory(struct simulation *simulation, int owner,
                                         uint64_t size_bytes, void **host)
{
    int index = simulation->allocations++;
    uint64_t address = 0x200000000000u + (uint64_t)index * 0x100000000u;
    struct error err = {0};

    assert_true(index < SIMULATION_ALLOCATIONS);
    simulation->memory[index] = aligned_alloc(256, (size_bytes + 255) / 256 * 256);
    memset(simulation->memory[index], 0, size_bytes);
    for (int i = 0; i < simulation->ranks; i++) {
        struct mapping mapping = {.address = address,
                                  .size_bytes = size_bytes,
                                  .host = simulation->memory[index],
                                  .owner = owner,
                                  .access = MAP_READ | MAP_WRITE,
                                  .allocation = (uint32_t)index,
                                  .label = ""};
        assert_int_equal(space_map(simulation->spaces[i], &mapping, &err), OK);
    }
    *host = simulation->memory[index];
    return address;
}

static inline void simulation_open(struct simulation *simulation,
                                   const struct simulation_options *options, const char *ptx)
{
    struct engine_options engine_options = {
        .devices = options->ranks,
        .seed = options->seed,
        .fuel = options->fuel ? options->fuel : 1000000000,
        .sm_count = SIMULATION_SM,
        .shared_per_sm_bytes = 228 << 10,
        .threads_per_sm = 2048,
        .ctas_per_sm = 32,
        .registers_per_sm = 65536,
    };
    struct error err = {0};

    *simulation = (struct simulation){.ranks = options->ranks};
    if (image_parse(&simulation->image, ptx, strlen(ptx), &err)) {
        fail_msg("%s", err.message);
    }
    simulation->engine = engine_open(&engine_options);
    for (int i = 0; i < options->ranks; i++) {
        simulation->spaces[i] = space_open(simulation->engine, i);
    }
    const struct image *image = simulation->image;
    for (uint32_t i = 0; i < image->symbol_count; i++) {
        const struct code_symbol *symbol = &image->symbols[i];
        void *host;
        simulation->symbols[i] = simulation_memory(simulation, 0, symbol->size_bytes, &host);
        if (symbol->initial) {
            memcpy(host, symbol->initial, symbol->size_bytes);
        }
    }
    for (int i = 0; i < options->ranks; i++) {
        simulation->modules[i] = module_open(simulation->spaces[i], image, simulation->symbols);
    }
}

static inline void simulation_close(struct simulation *simulation)
{
    for (int i = 0; i < simulation->grid_count; i++) {
        grid_release(simulation->grids[i]);
    }
    for (int i = 0; i < simulation->ranks; i++) {
        module_close(simulation->modules[i]);
        space_close(simulation->spaces[i]);
    }
    engine_close(simulation->engine);
    image_close(simulation->image);
    for (int i = 0; i < simulation->allocations; i++) {
        free(simulation->memory[i]);
    }
}

struct simulation_launch {
    const char *kernel;
    int rank;
    uint32_t call; /* of the rank's pkb_run */
    uint32_t ctas, threads, shared_bytes;
    bool is_cooperative;
    const void *params;
};

static inline struct grid *simulation_launch(struct simulation *simulation,
                                             const struct simulation_launch *options)
{
    struct launch launch = {
        .kernel = image_kernel(simulation->image, options->kernel),
        .module = simulation->modules[options->rank],
        .space = simulation->spaces[options->rank],
        .device = options->rank,
        .call = options->call,
        .grid = {options->ctas ? options->ctas : 1, 1, 1},
        .block = {options->threads ? options->threads : 32, 1, 1},
        .dynamic_shared_bytes = options->shared_bytes,
        .is_cooperative = options->is_cooperative,
        .params = options->params,
    };
    struct error err = {0};
    struct grid *grid = NULL;

    assert_non_null(launch.kernel);
    if (engine_launch(simulation->engine, &grid, &launch, &err)) {
        fail_msg("%s", err.message);
    }
    assert_true(simulation->grid_count < SIMULATION_GRIDS);
    simulation->grids[simulation->grid_count++] = grid;
    return grid;
}

/* Runs until no grid is live, or something else than progress is the outcome. */
static inline enum engine_outcome simulation_run(struct simulation *simulation)
{
    enum engine_outcome outcome = ENGINE_RAN;

    while (outcome == ENGINE_RAN || outcome == ENGINE_SLICE) {
        outcome = engine_run(simulation->engine, 64);
    }
    return outcome;
}

/* No grid has failed. */
static inline void simulation_check(struct simulation *simulation)
{
    assert_int_equal(simulation_run(simulation), ENGINE_IDLE);
    for (int i = 0; i < simulation->grid_count; i++) {
        int cuda_error = 0;
        const struct fault *fault = grid_fault(simulation->grids[i], &cuda_error);
        if (fault) {
            fail_msg("%s in %s at %s: %s", fault->kind, fault->kernel, fault->source,
                     fault->message);
        }
    }
}
