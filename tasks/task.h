/*
 * task.h — what a task is, and what the server, the judge and the tests may do with it.
 *
 * A task folder defines one `const struct task task_NAME`; the build lists them in tasks[]. A run
 * is one case (a point of the task page and a variant of its inputs) in one world and dtype. Its
 * plan says which tensors a rank has; its inputs come from a seed, and its oracle sees the inputs
 * of all ranks and says what every output must be.
 */
#pragma once

#include "common/buffer.h"
#include "common/dtype.h"
#include "common/error.h"
#include "tasks/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct task; /* full definition in declare.h, for task.c files and the modules of tasks/ */
struct run;  /* opaque to consumers; accessors below */

extern const struct task *const tasks[];
extern const int task_count;

/* By number ("1", "001"), name ("allreduce") or both ("001_allreduce"); NULL: no such task. */
const struct task *task_find(const char *number_or_name);
int task_number(const struct task *task);
const char *task_name(const struct task *task);
const char *task_summary(const struct task *task);
const char *task_family(const struct task *task);
bool task_allows_world(const struct task *task, int world);
bool task_allows_dtype(const struct task *task, enum dtype dtype);
/* For messages: "1, 2, 4, 8" and "bf16, fp16, fp32". Borrowed, static. */
const char *task_worlds_text(const struct task *task);
const char *task_dtypes_text(const struct task *task);
/* The statement for an agent (the folder's README.md), compiled in. */
const char *task_statement(const struct task *task);
/* The submission that others are held against: the folder's baseline.cu, compiled in. */
const char *task_baseline(const struct task *task);
/* The text of pkb_task.h for a working dtype: pkb_t, typed parameters, inputs and outputs. It
 * includes solution.h, whose text is the second function's. */
void task_header_write(const struct task *task, enum dtype dtype, struct buffer *text);
const char *task_solution_header(void);

/* Cases in the page's order. `class` is "check", "bench" or "large": the name up to '/'. */
int task_case_count(const struct task *task);
const char *task_case_name(const struct task *task, int index);
bool task_case_allows_world(const struct task *task, int case_index, int world);
int task_variant_count(const struct task *task, int case_index);
const char *task_variant_name(const struct task *task, int case_index, int variant); /* "" if one */

/* A task's case by its index, a variant by its number among those of the case. */
struct run_choice {
    int case_index, variant, world;
    enum dtype dtype;
};

/* ERR_INVALID names a case, variant, world or dtype that the task does not have. */
enum status run_open(struct run **run, const struct task *task, const struct run_choice *choice,
                     struct error *err);
void run_close(struct run *run);

int run_world(const struct run *run);
enum dtype run_dtype(const struct run *run);
const char *run_case(const struct run *run);
const char *run_variant(const struct run *run);
const struct plan *run_plan(const struct run *run, int rank); /* lives as long as the run */

/* The bytes of struct pkb_params, laid out as the generated header declares it. */
const void *run_params(const struct run *run, size_t *size_bytes);

/*
 * What one call costs, in bytes and operations of the worst rank in each row: the target is the
 * best scheme known, from which a share of the roofline follows; the floor is what must enter a
 * rank whatever the scheme, so that who moves less has not done the work.
 */
struct work {
    double nvlink_out, nvlink_in; /* point to point */
    double nvls_out, nvls_in;     /* where the switch may multicast and add */
    double hbm_read, hbm_write;   /* every tensor once */
    double flops_mma, flops_other;
    double floor_in;
};
struct work run_work(const struct run *run);

/*
 * Makes the inputs of all ranks for call number `call` (0, 1, ...): in[rank][i].data is where plan
 * input i goes (NULL where it is empty). The same seed and call give the same bytes everywhere.
 */
void run_fill(const struct run *run, uint64_t seed, int call, struct tensor *const *in);

/*
 * What is right: opaque, made from the inputs of all ranks of that same call. Large: two doubles
 * per element of every output.
 */
struct expectation;
struct expectation *run_expect(const struct run *run, struct tensor *const *in);
void expectation_close(struct expectation *expectation);

enum judgement {
    JUDGED_RIGHT,
    JUDGED_WRONG_VALUE,     /* outside of the bound */
    JUDGED_WRONG_COUNT,     /* a count output differs */
    JUDGED_WRONG_NORM,      /* each element within its bound, the RMS of the errors is not */
    JUDGED_UNWRITTEN,       /* elements that still hold the poison */
    JUDGED_TAIL,            /* elements past the count that had to stay untouched */
    JUDGED_REPLICAS_DIFFER, /* an output that must be the same on all ranks is not */
};

/*
 * The first wrong element in (output, rank, index) order, counts first, and how many there are in
 * that output on all ranks. For JUDGED_WRONG_NORM the element that is furthest off, and bad is 0.
 */
struct verdict_detail {
    enum judgement judgement;
    int rank, output; /* indexes; output: of the plan */
    int64_t index;    /* linear, of the element */
    double expected, bound, got;
    char expected_text[64], got_text[64],
        index_text[96]; /* exact: hex float and decimal, or code */
    uint64_t bad, total;
    double rms_error, rms_reference; /* of that output on that rank; 0 where not measured */
};

/*
 * Judges the outputs of all ranks: out[rank][i].data are snapshots; `poison` is the byte that every
 * output was filled with before the call.
 */
enum judgement run_judge(const struct run *run, const struct expectation *expectation,
                         struct tensor *const *out, uint8_t poison, struct verdict_detail *detail);
