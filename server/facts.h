/*
 * facts.h — what boards and reports ask of a result, taken out of it once, when it is stored.
 *
 * Times are those of the case 'bench' of the task, one call alone (latency); 0: not timed.
 */
#pragma once

#include "common/job.h"
#include "common/result.h"

enum { MECHANISMS_MAX = 8, MECHANISMS_TEXT_MAX = 128 };

struct facts {
    enum verdict verdict;
    char reason[NAME_MAX_BYTES];
    char stage[NAME_MAX_BYTES];
    unsigned mechanisms; /* bits by facts_mechanism: how bytes moved between ranks */
    char gpu[NAME_MAX_BYTES];
    bool is_insecure; /* made without a layer of the sandbox */
    int64_t peer_bytes;
    double median_us, low_us, high_us;
    double baseline_us;
    double speedup;
    bool is_faster;
    double target_percent;
};

/* "copy_engine", "sm_load", ..., for i < MECHANISMS_MAX. */
const char *facts_mechanism(int i);

/* Names by blanks, in their order, and back; names that nobody knows are passed over. */
void mechanisms_write(unsigned mechanisms, char text[static MECHANISMS_TEXT_MAX]);
unsigned mechanisms_read(const char *text);

void facts_take(struct facts *facts, const struct result *result);

/* The classes that the field publishes, and our own. */
enum outcome {
    OUTCOME_PENDING, /* the job has not ended */
    OUTCOME_CORRECT,
    OUTCOME_COMPILE,  /* does not compile */
    OUTCOME_API,      /* does not link, or fails in setup */
    OUTCOME_SHAPE,    /* writes what is not there, or not all */
    OUTCOME_CRASH,    /* an error while it runs, out of memory */
    OUTCOME_VALUES,   /* wrong values, or another breach of contract */
    OUTCOME_DEADLOCK, /* deadlock, timeout */
    OUTCOME_LIMIT,    /* log, processes, files, disk */
    OUTCOME_SUSPECT,
    OUTCOME_NOT_SIMULABLE,
    OUTCOME_OURS, /* not judged: internal error, quarantined, cancelled */
    OUTCOMES,
};

const char *outcome_name(enum outcome outcome);
enum outcome outcome_of(enum verdict verdict, const char *reason, const char *stage);
