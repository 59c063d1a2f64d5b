/*
 * channel.h — what worker, judge and ranks say to each other over SOCK_SEQPACKET sockets.
 *
 * A message is a kind, a body of a fixed or bounded size, and descriptors. Nothing here blocks: a
 * message goes out whole or not at all. What a rank sends is hostile: the receiver checks that the
 * kind is one that it awaits, and channel_body that its size is the right one; texts end with a
 * zero byte by channel_text.
 *
 *     worker -> judge   JOB (sockets of the ranks, control page)
 *     judge -> worker   STATUS, REPORT (the JSON of a result)
 *     rank -> judge     HELLO        its context is made
 *     judge -> rank     ATTACH       memory of all ranks; the rank maps it and loads the library
 *     rank -> judge     LOADED
 *     judge -> rank     RUN          parameters and addresses; the rank calls pkb_setup
 *     rank -> judge     SYMM_ASK     in pkb_setup
 *     judge -> rank     SYMM_GRANT   once all ranks have asked for the same
 *     rank -> judge     READY
 *     judge -> rank     CALLS        the rank calls pkb_run so many times, back to back
 *     rank -> judge     ENTERED, RETURNED, then FINISHED when its stream is there: for each call
 *     judge -> rank     CLOCK        the page of reveal.h; answered by READY
 *     judge -> rank     ITERATION    as CALLS, but behind a gate, timed and with proof (meter.h)
 *     judge -> rank     END_RUN      the rank calls pkb_teardown
 *     rank -> judge     ENDED
 *     judge -> rank     QUIT
 *     rank -> judge     CRASHED, FAILED at any time
 */
#pragma once

#include "common/error.h"
#include "common/job.h"
#include "tasks/plan.h"

#include <stddef.h>
#include <stdint.h>

enum {
    CHANNEL_BODY_MAX = 96 * 1024,
    CHANNEL_FDS_MAX = 32,
    CHANNEL_TEXT_MAX = 512,
    CHANNEL_CALLS_MAX = 16,
    CHANNEL_SLOTS = 4,
    RUN_PARAMS_MAX = 16 * 1024,
};

enum message_kind {
    MESSAGE_JOB = 1,
    MESSAGE_STATUS,
    MESSAGE_REPORT,
    MESSAGE_HELLO,
    MESSAGE_ATTACH,
    MESSAGE_LOADED,
    MESSAGE_RUN,
    MESSAGE_SYMM_ASK,
    MESSAGE_SYMM_GRANT,
    MESSAGE_READY,
    MESSAGE_CALLS,
    MESSAGE_ENTERED,
    MESSAGE_RETURNED,
    MESSAGE_FINISHED,
    MESSAGE_END_RUN,
    MESSAGE_ENDED,
    MESSAGE_QUIT,
    MESSAGE_CRASHED,
    MESSAGE_FAILED,
    MESSAGE_CLOCK,
    MESSAGE_ITERATION,
    MESSAGE_KINDS,
};

struct message {
    uint32_t kind;
    uint32_t size_bytes; /* of the body */
    int fds[CHANNEL_FDS_MAX];
    int fd_count;
    _Alignas(16) uint8_t body[CHANNEL_BODY_MAX];
};

/* Borrowed parts of a message to send. */
struct message_parts {
    enum message_kind kind;
    const void *body;
    size_t size_bytes;
    const int *fds; /* stay the sender's */
    int fd_count;
};

/* ERR_UNAVAILABLE: the other side is gone, or does not read. */
enum status channel_send(int fd, const struct message_parts *parts, struct error *err);
/* The descriptors are the caller's from now on. ERR_NOT_FOUND: nothing there now. ERR_UNAVAILABLE:
 * the other side has hung up. ERR_PROTOCOL: no message; its descriptors are closed. */
enum status channel_receive(int fd, struct message *message, struct error *err);
void message_close_fds(struct message *message);

/* Copies the body to `to`. ERR_PROTOCOL where it has another size than `size_bytes`. */
enum status channel_body(const struct message *message, void *to, size_t size_bytes,
                         struct error *err);
/* Makes a text from outside end, and replaces bytes that are not printable ASCII by '?'. */
void channel_text(char text[static CHANNEL_TEXT_MAX]);

/* ---- bodies ---- */

struct job_body {
    int32_t task_number, world, dtype, device;
    int32_t no_multicast;
    int32_t passes; /* over the cases "bench", which are timed in each; 0: not at all */
    uint64_t seed;
    int64_t stall_ms; /* so long may nothing happen on hardware */
};

/* What a rank is doing, as far as the judge knows. */
enum rank_phase {
    RANK_STARTING, /* makes its context: our code */
    RANK_LOADING,  /* the submission's constructors run */
    RANK_SETUP,
    RANK_IDLE,
    RANK_IN_RUN,  /* pkb_run is on the stack */
    RANK_WAITING, /* pkb_run has returned, its stream is not there yet */
    RANK_TEARDOWN,
    RANK_GONE,
    RANK_PHASES,
};

struct status_body {
    char stage[16];
    char case_name[NAME_MAX_BYTES], variant[NAME_MAX_BYTES];
    int32_t phase[WORLD_MAX]; /* enum rank_phase */
    int32_t call[WORLD_MAX];  /* number of the call in its run */
    int32_t in_barrier[WORLD_MAX];
};

struct attach_body {
    int32_t rank, world;
    uint64_t inputs_bytes, outputs_bytes, signal_bytes; /* of each rank: whole granules */
    /* descriptors: inputs of ranks 0..world-1, outputs of all, signal pads of all; where there is
     * multicast memory, that of the signal pads */
};

struct run_body {
    int32_t run, input_count, output_count, reserved;
    uint64_t params_bytes;
    /* Offsets in the window of the rank, UINT64_MAX: NULL. */
    uint64_t inputs[CHANNEL_SLOTS][PLAN_TENSORS_MAX];
    uint64_t outputs[CHANNEL_SLOTS][PLAN_TENSORS_MAX];
    _Alignas(16) uint8_t params[RUN_PARAMS_MAX];
};

struct symm_ask_body {
    uint64_t size_bytes;
};
struct symm_grant_body {
    int32_t code; /* 0, or what pkb_symm_alloc returns */
    int32_t reserved;
    uint64_t offset, mapped_bytes; /* in every window */
    /* descriptors: ranks 0..world-1; where there is multicast memory, that */
};

struct calls_body {
    int32_t first_call, count;
    int32_t slots[CHANNEL_CALLS_MAX];
};

struct clock_body {
    uint64_t inputs_bytes; /* of the rank's own arena */
    /* descriptors: the page, the arena */
};

struct iteration_body {
    struct calls_body calls;
    uint32_t round;
    int32_t is_empty; /* all but the calls: what an empty submission takes */
    uint64_t input_slot_bytes, output_slot_bytes;
};

/* Of LOADED, READY, ENTERED, RETURNED, FINISHED, ENDED. */
struct progress_body {
    int32_t call;       /* ENTERED, RETURNED, FINISHED */
    int32_t code;       /* what the submission's function returned */
    int32_t cuda_error; /* of the stream or device; RETURNED, READY: the last error, not cleared */
    int32_t last_error;
    int64_t event_ns; /* FINISHED after ITERATION: what the rank's events say of all its calls */
    char text[CHANNEL_TEXT_MAX]; /* LOADED: why not; else empty */
};

struct crashed_body {
    int32_t signal, reserved;
    uint64_t address;
};

/* The shared page by which ranks meet on the host. Ranks may write anything into it. */
struct control_page {
    _Atomic uint32_t arrived, generation;
    _Atomic uint32_t in_barrier[WORLD_MAX]; /* the generation that a rank waits for; 0: none */
    volatile unsigned char nccl_id[128];
};
