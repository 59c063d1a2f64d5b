/*
 * audit.h — answers that a task must refuse or accept, made on the CPU, for tests.
 *
 * audit_open makes one call of a run: inputs, what is expected, and room for outputs, filled with
 * poison. Then any number of answers can be written and judged.
 */
#pragma once

#include "tasks/task.h"

struct audit {
    const struct run *run;
    uint64_t seed;
    int call;
    struct tensor *in[8], *out[8]; /* [rank][index of the plan] */
    struct expectation *expectation;
};

enum { AUDIT_POISON = 0xa5 };

void audit_open(struct audit *audit, const struct run *run, uint64_t seed, int call);
void audit_close(struct audit *audit);

/* Fills all outputs with poison. */
void audit_poison(struct audit *audit);
enum judgement audit_judge(const struct audit *audit, struct verdict_detail *detail);

/* The largest |got - ref| / bound of all outputs that are not exact: below 1 where accepted. */
double audit_margin(const struct audit *audit);

enum audit_answer {
    AUDIT_RIGHT, /* the oracle's values, rounded once */
    AUDIT_ZEROS,
    AUDIT_ONES,
    AUDIT_OWN_INPUT,     /* the bytes of the rank's own first input */
    AUDIT_LOCAL_ONLY,    /* as if all other ranks had zeros */
    AUDIT_SKIP_RANK,     /* as if the last rank had zeros */
    AUDIT_PREVIOUS_CALL, /* the right answer of the call before */
    AUDIT_BF16_CAST,     /* right, but rounded to bf16 on the way */
    AUDIT_LAST_TENTH,    /* right, but the last tenth of each output is not written */
    AUDIT_ANSWERS,
};

const char *audit_answer_name(enum audit_answer answer);

/* Writes an answer into the outputs. */
void audit_write(struct audit *audit, enum audit_answer answer);

/* Whether the answer has the same bits as the right one: then nobody can refuse it. */
bool audit_is_right(const struct audit *audit);
