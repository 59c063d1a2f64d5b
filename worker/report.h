/*
 * report.h — what the judge found, as a result: verdict, reason, one sentence, and the evidence.
 *
 * Nothing here depends on time, process numbers or addresses that the system chose, so the same run
 * gives the same bytes. `result` starts as {.rank = -1}.
 */
#pragma once

#include "common/result.h"
#include "worker/peers.h"
#include "worker/tensors.h"

/* The reason of a report about a rank that is gone: how it ended is for the worker to say. */
#define REPORT_ENDED "ended"

/* Where in the job something was found. */
struct place {
    const char *stage;     /* "start", "setup", "check", "teardown" */
    const struct run *run; /* NULL: before the first */
    int call;              /* number in the run; -1: none */
};

void report_verdict(struct result *result, const struct place *place, enum verdict verdict,
                    const char *reason, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* One output of one call is not what the oracle says. */
void report_judgement(struct result *result, const struct place *place,
                      const struct verdict_detail *detail);
void report_trespass(struct result *result, const struct place *place, int rank,
                     const struct trespass *trespass);
/* Why pkb_symm_alloc was refused, which the code of pkb_setup then follows from. */
enum symm_refusal { SYMM_NOT_REFUSED, SYMM_NOT_EQUAL, SYMM_NO_MEMORY, SYMM_FAILED };

/* The rank that peers_failed names. */
void report_failure(struct result *result, const struct place *place, const struct peers *peers,
                    enum symm_refusal refusal);
/* Outputs are wrong, and a CUDA call had failed before that: then that is the verdict. */
void report_earlier_error(struct result *result, const struct peers *peers);
/* Ranks wait in the host barrier for ranks that will not come. */
void report_stuck(struct result *result, const struct place *place, const struct peers *peers);
