/*
 * answers.h — answers to tasks made on the CPU, for the audits: what must be refused, what must be
 * accepted and by which margin, and what is wrong with any output in the wrong place.
 */
#pragma once

#include "tasks/audit.h"
#include "tasks/declare.h"

/* One answer of a task: `write` changes the outputs, which hold the right answer. */
struct answer {
    const char *task, *name;
    void (*write)(struct audit *audit);
    int world_min;       /* in smaller worlds it is right */
    const char *variant; /* where only one variant tells; NULL: all */
};

/*
 * Fails where a trap of the table is accepted: at every check case in which the last rank
 * has an output, in every variant, world and dtype. Where it has the very bits of the right answer
 * it is none; that must not be everywhere.
 */
void refuse_everywhere(const struct answer *traps, size_t count);

/*
 * Fails where an honest answer is refused: at every check case, in every variant, world and dtype.
 * The largest error in bounds of each task, way and dtype is printed and must be what
 * tests/margins.tsv says; exact ones have none. With TESTS=all more seeds are tried.
 */
void accept_everywhere(const struct answer *honest, size_t count);

/* The honest answers of one task at one choice; `margins`, which may be NULL, has one entry for
 * each answer of the table and grows to the largest. */
void accept_at(const struct task *task, const struct run_choice *choice,
               const struct answer *honest, size_t count, double *margins);

/* Wrong in the place: of output 0, or the answer of the next rank. */
void take_the_next_ranks_answer(struct audit *audit);
void swap_rows_and_columns(struct audit *audit); /* last two dimensions, one block, one rank */
void leave_last_element(struct audit *audit);
void swap_two_elements(struct audit *audit); /* the first neighbours that differ, on one rank */
