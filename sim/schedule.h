/*
 * schedule.h — which warp runs next, what a warp does when it splits, waits or ends, and the
 * functions that handlers call for it.
 */
#pragma once

#include "sim/core.h"

/* ---- warp.c: the groups of a warp ---- */

/* Starts a warp whose first `threads` lanes exist. */
void warp_start(struct warp *warp, uint32_t threads);
/* Runs until the warp has nothing that is ready in this visit. */
void warp_visit(struct warp *warp);
/* Goes on within the visit, after a barrier let groups go. */
void warp_resume(struct warp *warp);
/* The lanes of `mask`, part of the active group, go on at `pc`; the others at warp->pc. */
void warp_split(struct warp *warp, uint32_t mask, uint32_t pc);
/* After a jump of the whole group. */
void warp_jumped(struct warp *warp, const struct insn *insn);
void warp_exit(struct warp *warp, uint32_t mask);
/* The lanes of `mask` wait at the instruction before warp->pc, in `state`. */
struct group *warp_wait(struct warp *warp, uint32_t mask, enum group_state state);
void warp_yield(struct warp *warp);
/* Notes what a strong load or an atomic of the group got: how a spin is seen. */
void warp_spin(struct warp *warp, const struct insn *insn, int lane, uint64_t address,
               uint64_t value);

/* ---- barrier.c ---- */

struct arrival {
    int number;
    uint32_t expected; /* 0: all live threads */
    bool waits;
};
/* The lanes wait if they are to; whoever completes the barrier lets all go. */
void barrier_arrive(struct warp *warp, const struct insn *insn, uint32_t mask,
                    const struct arrival *arrival);
/* After lanes exited: what waited for them may be complete. */
void barrier_recheck(struct cta *cta);

/* Nothing can move: notes where the CTA's threads wait at different barriers. */
void barrier_note_stuck(const struct cta *cta);

/* ---- grid.c ---- */

void engine_end_grids(struct engine *engine, const struct space *space);
struct cta *cta_start(struct grid *grid);
void cta_end(struct cta *cta); /* takes it off the grid's list */
void grid_end(struct grid *grid, enum grid_state state);

/* ---- exec_async.c ---- */

/* Forgets the copies of a warp that are on their way. */
void async_drop(struct warp *warp);

/* ---- proof.c ---- */

/* Something happened that no comparison of memory sees. */
void proof_changed(struct engine *engine);
void proof_cta_visited(const struct engine *engine, struct cta *cta);
/* After a whole sweep: true when nothing can move any more. */
bool proof_swept(struct engine *engine);

/* ---- engine.c, fault.c ---- */

uint64_t engine_random(struct engine *engine);
/* Sweeps until the first CTA of a new grid starts: seeded. */
uint64_t engine_delay(struct engine *engine);
/* The number that names what `insn` writes. */
uint32_t engine_writer(struct warp *warp, const struct insn *insn);
uint32_t engine_copy_writer(struct engine *engine, int rank, const char *what);
/* Whether that was noted of `insn` on this device. */
bool engine_has_noted(const struct warp *warp, const struct insn *insn, enum noted what);
void engine_set_noted(struct warp *warp, const struct insn *insn, enum noted what);
/* Adds a finding once. */
void engine_note(struct engine *engine, int rank, const char *kind, const char *source,
                 const char *message);
char *kernel_text(const struct kernel *kernel);
/* "solution.cu:21"; the caller frees it. */
char *source_of(const struct grid *grid, const struct insn *insn);
/* "rank 1 signal+64"; the caller frees it. */
char *address_text(const struct space *space, uint64_t address);
