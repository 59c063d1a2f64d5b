/*
 * peers.h — the ranks of a job as the judge sees them: what each is doing, and what went wrong.
 *
 * Messages are taken in by peers_turn, which never blocks. A rank that says what its phase does not
 * allow, or hangs up, has failed and is not listened to any more. The worker is told of each change
 * of a phase.
 */
#pragma once

#include "worker/channel.h"

#include <stdbool.h>

enum peer_failure { /* the worse, the later */
                    PEER_FINE,
                    PEER_CODE, /* pkb_setup or pkb_run returned something other than 0 */
                    PEER_CUDA, /* the stream or device has an error */
                    PEER_NOT_LOADED,
                    PEER_TROUBLE,  /* pkb-rank itself could not go on */
                    PEER_PROTOCOL, /* said what its phase does not allow */
                    PEER_GONE,
};

struct peer {
    int fd;
    enum rank_phase phase;
    enum rank_phase failed_phase;
    enum peer_failure failure;
    struct progress_body failed; /* the message that told of it */
    int first_call, calls, entered, returned, finished;
    bool is_asking; /* in pkb_symm_alloc */
    uint64_t asked_bytes;
    int64_t event_ns; /* of its last FINISHED; as it says */
    int last_error;   /* the first CUDA error that its calls left behind; 0: none */
    bool has_crashed;
    struct crashed_body crashed;
};

struct peers {
    int world;
    int worker;
    struct peer peer[WORLD_MAX];
    const struct control_page *page;
    struct status_body status;
    bool is_status_new;
    unsigned heard; /* messages, ever */
    void *context;
    /* Called for each call that a rank has finished, before anything else is taken in. */
    enum status (*finished)(void *context, int rank, int call, struct error *err);
    struct message *message;
};

void peers_init(struct peers *peers, int worker, int world);
void peers_release(struct peers *peers); /* closes the ranks' sockets */

/* What the worker sees from now on. */
void peers_set_stage(struct peers *peers, const char *stage, const char *case_name,
                     const char *variant);
/* Sends, and the rank is in `phase` from now on. A rank that cannot be sent to is gone. */
void peers_send(struct peers *peers, int rank, const struct message_parts *parts,
                enum rank_phase phase);
void peers_send_calls(struct peers *peers, int rank, const struct calls_body *calls);
/* The same for calls that are timed. */
void peers_send_iteration(struct peers *peers, int rank, const struct iteration_body *iteration);
/* The worker sees that the judge gets on. */
void peers_show_life(struct peers *peers);
/* How often the ranks have entered, left or finished a call; grows while they get on. */
int peers_steps(const struct peers *peers);

/* Takes in what is there. Only what `finished` returns is an error. */
enum status peers_turn(struct peers *peers, struct error *err);

/* Until a rank says something, or so long. */
void peers_wait(const struct peers *peers, int timeout_ms);

bool peers_are_idle(const struct peers *peers);
/* The rank that failed worst, of several the lowest; -1: none failed. */
int peers_failed(const struct peers *peers);
/* Is a function of the submission on the rank's stack, outside of our services? */
bool peers_is_in_code(const struct peers *peers, int rank);
bool peers_waits_in_barrier(const struct peers *peers, int rank);
/* Some wait in the host barrier, and others have gone past their last chance to come there. */
bool peers_are_stuck(const struct peers *peers);
