/*
 * record.h — one run's inputs, what the ranks made of them, and whether that is right.
 *
 * record_open makes the inputs of all calls. For each batch of calls record_arm puts a rank's
 * inputs and poison into their slots, for a late rank after record_withhold; record_finish, when a
 * rank has finished a call, takes its outputs and overwrites its inputs at once, as the contract
 * allows; record_audit, while no call of the rank is running, notes what was written where nothing
 * may be; record_judge, after the last call and the ranks' teardown, looks for whatever is wrong.
 * Call c uses slot c % PKB_SLOTS.
 *
 * Memory is mapped in large pieces, so most of a small task's arena lies far behind its slots. No
 * call of any run has a place there: it is filled once, and looked at when each run is over.
 */
#pragma once

#include "common/result.h"
#include "worker/report.h"
#include "worker/tensors.h"

struct record;

struct record_options {
    const struct run *run;
    const struct layouts *layouts;
    uint64_t seed;          /* of this run; secret */
    uint64_t near_bytes;    /* at the start of an arena of outputs: all slots of any run */
    uint64_t outputs_bytes; /* of an arena of outputs, as it is mapped */
    uint64_t far_seed; /* of the red zone behind near_bytes, which stays for all runs; secret */
    int calls;
};

struct record *record_open(const struct record_options *options);
void record_close(struct record *record);

/* Goes on from `digest`, or from 0, with all outputs of the first `calls` calls, which every rank
 * has finished. */
uint64_t record_digest(const struct record *record, int calls, uint64_t digest);

/* Errors are the judge's own CUDA calls': ERR_IO. */
enum status record_prepare_far(struct record *record, struct error *err); /* in the first run */
enum status record_prepare(struct record *record, struct error *err);     /* all near red zones */
enum status record_withhold(struct record *record, int rank, int first_call, int count,
                            struct error *err);
enum status record_arm(struct record *record, int rank, int first_call, int count,
                       struct error *err);
enum status record_finish(struct record *record, int rank, int call, struct error *err);
enum status record_audit(struct record *record, int rank, struct error *err);
/* The rank's outputs of all slots may be as they are now: others have used them. */
enum status record_resume(struct record *record, int rank, struct error *err);
/* Leaves `result` alone where everything is right, and sets *is_wrong otherwise. */
enum status record_judge(struct record *record, struct result *result, bool *is_wrong,
                         struct error *err);
