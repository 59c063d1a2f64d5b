/*
 * declare.h — what a task.c file writes: a `const struct task task_NAME`.
 *
 * The parameters and cases are the page's tables: a case gives numbers, `derive` the formulas. Then
 * `declare` lists a rank's tensors, `fill` makes the inputs of one call, and `oracle` says what is
 * right. All four are pure functions of their arguments. A name, shape text or comment goes into
 * pkb_task.h as it stands.
 */
#pragma once

#include "tasks/expected.h"
#include "tasks/oracle_generate.h"
#include "tasks/task.h"

enum {
    RANKS_MAX = 8,
    PARAMS_MAX = 24,
    CASES_MAX = 12,
    VARIANTS_MAX = 8,
    OUTPUTS_MAX = PLAN_TENSORS_MAX,
};

/* A set of small numbers: worlds, dtypes, ranks, variants. */
#define SET_OF(number) (1U << (number))

enum param_type {
    PARAM_INT64 = 1,
    PARAM_FP32, /* a double that holds an fp32 value */
    PARAM_FP64,
    PARAM_LIST, /* int64_t [8], one value per rank (or block, hop) */
    PARAM_GRID, /* int64_t [8][8] */
};

struct param {
    const char *name;
    enum param_type type;
    const char *meaning;
};

/* In a further point: the parameter becomes 0. */
#define ZERO INT64_MIN

/*
 * A point of the page. "check", "bench" and "large" give every number that does not depend on the
 * world; a further point such as "check/empty" only those that differ from "check".
 */
struct task_case {
    const char *name;
    int64_t dim[PARAMS_MAX];
    double real[PARAMS_MAX];
    unsigned worlds; /* the only worlds that have it; 0: all of the task's */
};

enum { AT_CHECK = 1, AT_BENCH = 2, AT_LARGE = 4, AT_ALL = 7 };

/* A set of inputs; it runs at every point of its classes. */
struct variant {
    const char *name; /* "": the page has no name for it */
    unsigned classes;
};

/* Accepted: |got - ref| <= a * RMS(ref) + r * |ref| + absolute, and RMS(err) <= rms * RMS(ref). */
struct tolerance_row {
    double a, r, absolute;
    double rms; /* 0: no limit */
};

struct tolerance {
    struct tolerance_row bf16, fp16, fp32; /* by the run's dtype */
};

/* One row for every dtype. */
#define SAME_TOLERANCE(...)                                                                        \
    {                                                                                              \
        .bf16 = {__VA_ARGS__}, .fp16 = {__VA_ARGS__}, .fp32 = { __VA_ARGS__ }                      \
    }

enum output_ranks {
    RANKS_OWN,
    RANKS_SAME,       /* equal bits on all ranks */
    RANKS_SAME_GROUP, /* equal bits within the task's groups */
    RANKS_ROOT,       /* exists on one rank */
};

enum output_tail { TAIL_NONE, TAIL_ANY, TAIL_UNTOUCHED };

/* What holds for output number i of the plan: row i of the task. */
struct output_rule {
    const char *name;
    enum output_ranks ranks;
    const struct tolerance *tolerance; /* NULL: exact */
    unsigned exact_variants;           /* SET_OF the variants in which it is exact in any case */
    bool zero_sign_free;               /* exact, but +0 equals -0 */
    bool is_count;                     /* says how much of other outputs is valid; judged first */
    enum output_tail tail;             /* of the elements past expect_valid's count */
};

/* Runs are read-only to all functions of a task but `derive`. */
struct run {
    const struct task *task;
    const struct task_case *point;
    int variant; /* index into the task's variants; 0 if it has none */
    int world;
    enum dtype dtype;
    int64_t dim[PARAMS_MAX];
    double real[PARAMS_MAX];
    int64_t list[PARAMS_MAX][RANKS_MAX];
    int64_t grid[PARAMS_MAX][RANKS_MAX][RANKS_MAX];
    struct buffer params; /* the bytes of struct pkb_params */
    struct plan plans[RANKS_MAX];
};

/* True in the class ("check") and in each of its points, and in exactly one point. */
bool run_in_class(const struct run *run, const char *class_name);
bool run_at(const struct run *run, const char *case_name);

struct task {
    int number;
    const char *name, *summary, *family;
    unsigned worlds; /* SET_OF(1) | ...; 0: 1, 2, 4, 8 */
    unsigned dtypes; /* SET_OF(DTYPE_BF16) | ...; 0: bf16, fp16, fp32 */
    struct param params[PARAMS_MAX];
    struct task_case cases[CASES_MAX];
    struct variant variants[VARIANTS_MAX]; /* none: one without a name, everywhere */
    struct output_rule outputs[OUTPUTS_MAX];

    void (*derive)(struct run *run); /* may be NULL */
    void (*declare)(const struct run *run, int rank, struct plan *plan);
    void (*fill)(const struct run *run, const struct trial *trial, struct tensor *const *in);
    void (*oracle)(const struct run *run, struct tensor *const *in, struct expected *const *out);
    /* The page's least traffic and work; the floor is ours. Bytes of T are those of the run. */
    void (*work)(const struct run *run, struct work *work);
    int (*group)(const struct run *run, int rank); /* the group of a rank, for RANKS_SAME_GROUP */
    /* A rule of the page's own, asked when everything else is right; fills in what is wrong. */
    enum judgement (*judge)(const struct run *run, struct expected *const *expected,
                            struct tensor *const *out, struct verdict_detail *detail);
};

/* Index into the task's variants of the `number`th that runs at a case, or -1. */
int task_variant_index(const struct task *task, int case_index, int number);

/* The row that holds for an output in this run, or NULL where it is exact. */
const struct tolerance_row *run_tolerance(const struct run *run, int output);

/* Bytes of one element of the working dtype. */
double run_element_bytes(const struct run *run);

/*
 * Bytes that one element of an output must bring at least: those of its dtype where it is exact,
 * and what the tolerance leaves of normal numbers, half log2(2 pi e) - log2(2 (a + 4 r)) bits,
 * where it is not.
 */
double run_floor_bytes(const struct run *run, int output);

/* The working dtype of the run, as the pages write it. */
enum { T = DTYPE_COUNT };

/*
 * Adds a tensor. `text` is its shape for people: "[M, N/W]". A dimension of 0 means that the rank
 * lacks it. Neighbours of one name are a list: an array in pkb_task.h.
 */
#define SHAPE(...)                                                                                 \
    (const int64_t[]){__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
void plan_input(struct plan *plan, const char *name, int dtype, const char *text,
                const int64_t *shape, int dims);
void plan_output(struct plan *plan, const char *name, int dtype, const char *text,
                 const int64_t *shape, int dims);
