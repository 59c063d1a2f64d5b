/*
 * result.h — how a job ended: the verdict, its evidence, and the only code that reads or writes the
 * JSON of a result.
 *
 * Integers beyond 2^53, NaN, infinities and every expected or got value are JSON strings. A reader
 * refuses what it does not know. Strings are owned by the record; NULL where absent.
 */
#pragma once

#include "common/buffer.h"
#include "common/error.h"
#include "common/replay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The only vocabulary of verdicts. */
enum verdict {
    VERDICT_ACCEPTED,
    VERDICT_COMPILE_ERROR,
    VERDICT_LINK_ERROR,
    VERDICT_WRONG_ANSWER,
    VERDICT_NONDETERMINISTIC,
    VERDICT_CONTRACT_VIOLATION,
    VERDICT_RUNTIME_ERROR,
    VERDICT_OUT_OF_MEMORY,
    VERDICT_DEADLOCK,
    VERDICT_TIMEOUT,
    VERDICT_LIMIT_EXCEEDED,
    VERDICT_SUSPECT,
    VERDICT_NOT_SIMULABLE,
    VERDICT_INTERNAL_ERROR,
    VERDICTS,
};

const char *verdict_name(enum verdict verdict);
int verdict_find(const char *name); /* -1: no such verdict */

enum {
    RESULT_JSON_MAX_BYTES = 1 << 20,
    RESULT_LOG_MAX_BYTES = 64 * 1024,
    RESULT_ROWS_MAX = 4096,       /* waits, faults, findings, traffic, timings: of each */
    RESULT_TEXT_MAX_BYTES = 1024, /* any other text; longer ones are cut when written */
    RESULT_FLAGS_MAX = 32,
    RESULT_RANKS_MAX = 8,
};

/* Where a rank stands when nothing can move any more. */
struct wait {
    int rank;
    char *where;       /* "kernel", or the host call: "cudaStreamSynchronize", "pkb_host_barrier" */
    char *kernel;      /* demangled name */
    char *source;      /* "solution.cu:33" */
    int64_t cta, warp; /* linear indexes; -1: not in a kernel */
    uint32_t lanes;    /* mask of the lanes that wait there */
    int64_t warps; /* how many warps of the rank wait at this place; `cta`, `warp` is the first */
    char *address; /* "rank 1 signal+64", "rank 0 input x+128", "private 0x...+16" */
    int owner;     /* whose memory is read; -1: none */
    char *value;   /* what it reads, as it stands in memory */
    char *wanted;  /* where it can be seen: ">= 1", "== 3" */
    char *last_writer; /* "rank 0, kernel k, solution.cu:21", or "never written" */
};

/* An error of a kernel or call: illegal_address, misaligned_address, ... */
struct fault {
    int rank;
    char *kind;
    char *kernel, *source;
    int64_t cta, warp;
    int lane;
    char *address;
    char *message;
};

struct finding {
    char *kind; /* "race", "uninitialised_read", "host_timing_dependent", ... */
    int rank;
    char *source, *message;
};

struct traffic {
    int source, owner; /* rank that executed, rank whose memory */
    char *mechanism;   /* copy_engine sm_load sm_store sm_atomic bulk multimem_load multimem_store
                          nccl */
    uint64_t bytes;
};

/* The first wrong element and how many there are, for wrong_answer and contract_violation. */
struct mismatch {
    char *output;
    int rank;
    char *index;          /* "[3, 17]" */
    char *expected, *got; /* "hex float (decimal)" */
    char *bound;
    uint64_t bad, total;
};

/* Times of one regime, in microseconds: of each iteration that of the slowest rank. */
struct regime {
    double median_us, p10_us, p90_us;
    double low_us, high_us; /* 95 % interval of the median */
    double events_us;       /* median by the ranks' events alone */
    double window_us;       /* median by the judge's clock alone, from key to proof */
    double skew_us;         /* median from the first rank that was done to the last */
    int iterations;
};

/* One case on hardware. A number that is not known is 0. */
struct timing {
    char *case_name, *variant;
    struct regime latency;    /* ranked: each call alone */
    struct regime throughput; /* beside it: per call of several back to back */
    double calibration_us;    /* what the judge's clock shows beyond the call */
    double answer_us;         /* from the nonce to the proof, in the median */
    double slow_us;           /* of a call whose inputs are revealed slowly, at most */
    double baseline_us;       /* median of the baseline's latency, */
    double baseline_low_us, baseline_high_us; /* and its interval */
    double speedup;                           /* baseline over submission */
    bool is_faster;                           /* by medians whose intervals do not meet */
    double floor_us;                          /* nobody can be faster */
    double target_us;                         /* the best scheme known */
    double target_percent;                    /* of the target that was reached */
};

/* What a job was timed on. */
struct gpu {
    char *name, *uuid, *driver, *cuda, *nccl; /* name and uuid: of the first */
    int count;                                /* GPUs of the job */
    int sm_mhz, memory_mhz, temperature_c;    /* when timing ended; 0: not known */
    char *throttled; /* why the clocks were held down: "power"; NULL: they were not */
};

/* Starts as {.rank = -1}. */
struct result {
    enum verdict verdict;
    char *reason;  /* the sub-kind: "late_write", "fuel", "log", ... or NULL */
    char *message; /* one sentence for a person */
    char *stage;   /* "build", "start", "setup", "check", "timing", "teardown" */
    char *case_name, *variant;
    int rank;                  /* -1: not one rank */
    char *output_digest;       /* accepted: of all outputs of the cases that are only checked; equal
                                  bits from one seed have equal digests */
    struct mismatch *mismatch; /* NULL: none */
    struct wait *waits;
    size_t wait_count;
    struct fault *faults;
    size_t fault_count;
    struct finding *findings;
    size_t finding_count;
    struct traffic *traffic;
    size_t traffic_count;
    struct timing *timings;
    size_t timing_count;
    struct gpu *gpu;           /* NULL: not on hardware, or not timed */
    int schedules;             /* that were tried on the simulator, the reported one with them */
    struct replay *replay;     /* of the schedule that is reported; NULL: not on the simulator */
    char *build_log, *run_log; /* at most RESULT_LOG_MAX_BYTES each, control bytes escaped */
    char **flags;              /* "insecure", ...; layers that were missing are "insecure:LAYER" */
    size_t flag_count;
    char *builder;     /* who has built it: "stages", "nvcc", "store"; NULL: not built */
    char **mechanisms; /* how it moves data, as far as can be seen: "code:bulk" */
    size_t mechanism_count;
    int64_t build_ms, run_ms; /* wall time of the stages, for people */
};

/* At most RESULT_JSON_MAX_BYTES less 1 KiB: where it would be more, rows are left out, the last
 * ones first, and the flag "rows_cut" is added. */
void result_write(const struct result *result, struct buffer *json);
enum status result_read(struct result *result, const char *json, size_t size_bytes,
                        struct error *err);
void result_release(struct result *result);

/* Each frees what the record owns and sets it to zero. */
void wait_release(struct wait *wait);
void fault_release(struct fault *fault);
void finding_release(struct finding *finding);
void traffic_release(struct traffic *traffic);
void mismatch_release(struct mismatch *mismatch);
void timing_release(struct timing *timing);
void gpu_release(struct gpu *gpu);

/*
 * Each adds a row. The texts of `wait`, `fault`, `finding` and `timing` go to the result, which
 * also frees them where it is full (RESULT_ROWS_MAX); those of the other two are copied. Traffic
 * with the same ranks and mechanism is added up. A flag or mechanism that is there already is not
 * added twice.
 */
void result_add_wait(struct result *result, struct wait wait);
void result_add_fault(struct result *result, struct fault fault);
void result_add_finding(struct result *result, struct finding finding);
void result_add_traffic(struct result *result, const struct traffic *traffic);
void result_add_timing(struct result *result, struct timing timing);
/* A finding of that kind is there, of the same rank and place, or, without one, the same words. */
bool result_has_finding(const struct result *result, const struct finding *finding);
void result_add_flag(struct result *result, const char *flag);
void result_add_mechanism(struct result *result, const char *mechanism);
