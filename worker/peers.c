#include "worker/peers.h"

#include "common/mem.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MESSAGES_A_TURN_MAX = 64 };

void peers_init(struct peers *peers, int worker, int world)
{
    *peers = (struct peers){.world = world, .worker = worker, .is_status_new = true};
    for (int rank = 0; rank < WORLD_MAX; rank++) {
        peers->peer[rank].fd = -1;
    }
    peers->message = xcalloc(1, sizeof *peers->message);
}

void peers_release(struct peers *peers)
{
    for (int rank = 0; rank < peers->world; rank++) {
        if (peers->peer[rank].fd >= 0) {
            close(peers->peer[rank].fd);
        }
    }
    free(peers->message);
    *peers = (struct peers){0};
}

void peers_set_stage(struct peers *peers, const char *stage, const char *case_name,
                     const char *variant)
{
    struct status_body *status = &peers->status;

    (void)snprintf(status->stage, sizeof status->stage, "%s", stage);
    (void)snprintf(status->case_name, sizeof status->case_name, "%s", case_name);
    (void)snprintf(status->variant, sizeof status->variant, "%s", variant);
    peers->is_status_new = true;
}

static void fail(struct peers *peers, int rank, enum peer_failure failure,
                 const struct progress_body *why)
{
    struct peer *peer = &peers->peer[rank];

    if (failure <= peer->failure) {
        return;
    }
    if (peer->failure == PEER_FINE) {
        peer->failed_phase = peer->phase;
    }
    peer->failure = failure;
    if (why != NULL) {
        peer->failed = *why;
        channel_text(peer->failed.text);
    }
}

static void hang_up(struct peers *peers, int rank, enum peer_failure failure)
{
    struct peer *peer = &peers->peer[rank];

    fail(peers, rank, failure, NULL);
    close(peer->fd);
    peer->fd = -1;
    peer->phase = RANK_GONE;
    peers->is_status_new = true;
}

void peers_send(struct peers *peers, int rank, const struct message_parts *parts,
                enum rank_phase phase)
{
    struct error err = {0};
    struct peer *peer = &peers->peer[rank];

    if (peer->fd < 0) {
        return;
    }
    if (channel_send(peer->fd, parts, &err) != OK) {
        hang_up(peers, rank, PEER_GONE);
        return;
    }
    peer->phase = phase;
    peers->is_status_new = true;
}

static void send_calls(struct peers *peers, int rank, const struct calls_body *calls,
                       const struct message_parts *parts)
{
    struct peer *peer = &peers->peer[rank];

    peer->first_call = calls->first_call;
    peer->calls = calls->count;
    peer->entered = peer->returned = peer->finished = 0;
    peers_send(peers, rank, parts, RANK_WAITING);
}

void peers_send_calls(struct peers *peers, int rank, const struct calls_body *calls)
{
    send_calls(
        peers, rank, calls,
        &(struct message_parts){.kind = MESSAGE_CALLS, .body = calls, .size_bytes = sizeof *calls});
}

void peers_send_iteration(struct peers *peers, int rank, const struct iteration_body *iteration)
{
    send_calls(peers, rank, &iteration->calls,
               &(struct message_parts){
                   .kind = MESSAGE_ITERATION, .body = iteration, .size_bytes = sizeof *iteration});
}

void peers_show_life(struct peers *peers)
{
    peers->is_status_new = true;
}

int peers_steps(const struct peers *peers)
{
    int steps = 0;

    for (int rank = 0; rank < peers->world; rank++) {
        const struct peer *peer = &peers->peer[rank];
        steps += peer->entered + peer->returned + peer->finished;
    }
    return steps;
}

static void note_code(struct peers *peers, int rank, const struct progress_body *body)
{
    struct peer *peer = &peers->peer[rank];

    if (peer->last_error == 0) {
        peer->last_error = body->last_error;
    }
    if (body->code != 0) {
        fail(peers, rank, PEER_CODE, body);
    } else if (body->cuda_error != 0) {
        fail(peers, rank, PEER_CUDA, body);
    }
}

/* One step of a call, in the only order there is. False: out of order. */
static bool take_step(struct peers *peers, int rank, uint32_t kind,
                      const struct progress_body *body)
{
    struct peer *peer = &peers->peer[rank];
    bool is_inside = peer->phase == RANK_IN_RUN;

    if (peer->phase != RANK_IN_RUN && peer->phase != RANK_WAITING) {
        return false;
    }
    switch (kind) {
    case MESSAGE_ENTERED:
        if (is_inside || peer->entered == peer->calls ||
            body->call != peer->first_call + peer->entered) {
            return false;
        }
        peer->entered++;
        peer->phase = RANK_IN_RUN;
        return true;
    case MESSAGE_RETURNED:
        if (!is_inside || body->call != peer->first_call + peer->returned) {
            return false;
        }
        peer->returned++;
        note_code(peers, rank, body);
        peer->phase = RANK_WAITING;
        return true;
    default:
        if (is_inside || peer->finished == peer->returned ||
            body->call != peer->first_call + peer->finished) {
            return false;
        }
        peer->finished++;
        peer->event_ns = body->event_ns;
        note_code(peers, rank, body);
        if (peer->finished == peer->calls) {
            peer->phase = RANK_IDLE;
        }
        return true;
    }
}

/* The end of what the rank was told to do. False: it was told nothing like this. */
static bool take_answer(struct peers *peers, int rank, uint32_t kind,
                        const struct progress_body *body)
{
    static const struct {
        uint32_t kind;
        enum rank_phase phase;
    } awaited[] = {{MESSAGE_HELLO, RANK_STARTING},
                   {MESSAGE_LOADED, RANK_LOADING},
                   {MESSAGE_READY, RANK_SETUP},
                   {MESSAGE_ENDED, RANK_TEARDOWN}};
    struct peer *peer = &peers->peer[rank];

    for (size_t i = 0; i < sizeof awaited / sizeof *awaited; i++) {
        if (awaited[i].kind == kind && awaited[i].phase == peer->phase) {
            if (kind == MESSAGE_LOADED && body->code != 0) {
                fail(peers, rank, PEER_NOT_LOADED, body);
            } else {
                note_code(peers, rank, body);
            }
            peer->phase = RANK_IDLE;
            return true;
        }
    }
    return false;
}

static enum status take_progress(struct peers *peers, int rank, struct error *err)
{
    const struct message *message = peers->message;
    struct progress_body body = {0};

    enum status status = channel_body(message, &body, sizeof body, err);
    if (status != OK) {
        return status;
    }
    bool is_right = false;
    switch (message->kind) {
    case MESSAGE_ENTERED:
    case MESSAGE_RETURNED:
    case MESSAGE_FINISHED:
        is_right = take_step(peers, rank, message->kind, &body);
        break;
    case MESSAGE_FAILED:
        fail(peers, rank, PEER_TROUBLE, &body);
        is_right = true;
        break;
    default:
        is_right = take_answer(peers, rank, message->kind, &body);
        break;
    }
    return is_right ? OK : error_set(err, ERR_PROTOCOL, "message %u now", message->kind);
}

/* ERR_PROTOCOL: the rank may not say this now. */
static enum status take(struct peers *peers, int rank, struct error *err)
{
    struct peer *peer = &peers->peer[rank];
    struct symm_ask_body ask = {0};
    enum status status = OK;

    message_close_fds(peers->message);
    switch (peers->message->kind) {
    case MESSAGE_SYMM_ASK:
        status = channel_body(peers->message, &ask, sizeof ask, err);
        if (status == OK && (peer->phase != RANK_SETUP || peer->is_asking)) {
            status = error_set(err, ERR_PROTOCOL, "asks for memory now");
        }
        peer->is_asking = status == OK;
        peer->asked_bytes = ask.size_bytes;
        return status;
    case MESSAGE_CRASHED:
        status = channel_body(peers->message, &peer->crashed, sizeof peer->crashed, err);
        peer->has_crashed = status == OK;
        return status;
    default:
        return take_progress(peers, rank, err);
    }
}

static enum status take_all(struct peers *peers, int rank, struct error *err)
{
    struct peer *peer = &peers->peer[rank];
    struct error reason = {0};

    for (int i = 0; i < MESSAGES_A_TURN_MAX && peer->fd >= 0; i++) {
        enum status status = channel_receive(peer->fd, peers->message, &reason);
        if (status == ERR_NOT_FOUND) {
            break;
        }
        int finished = peer->finished;
        if (status == OK) {
            status = take(peers, rank, &reason);
        }
        if (status != OK) {
            hang_up(peers, rank, status == ERR_UNAVAILABLE ? PEER_GONE : PEER_PROTOCOL);
            break;
        }
        peers->is_status_new = true;
        peers->heard++;
        if (peer->finished > finished && peers->finished != NULL && peer->failure == PEER_FINE) {
            status = peers->finished(peers->context, rank, peer->first_call + finished, err);
            if (status != OK) {
                return status;
            }
        }
    }
    return OK;
}

/* A worker that does not read misses some: each status is whole. */
static void tell_worker(struct peers *peers)
{
    struct error err = {0};
    struct message_parts parts = {
        .kind = MESSAGE_STATUS, .body = &peers->status, .size_bytes = sizeof peers->status};

    for (int rank = 0; rank < peers->world; rank++) {
        const struct peer *peer = &peers->peer[rank];
        bool is_waiting = peers_waits_in_barrier(peers, rank);
        int call = peer->first_call + (peer->entered > 0 ? peer->entered - 1 : 0);
        peers->is_status_new |= peers->status.in_barrier[rank] != is_waiting;
        peers->status.phase[rank] = (int32_t)peer->phase;
        peers->status.call[rank] = call;
        peers->status.in_barrier[rank] = is_waiting;
    }
    if (peers->is_status_new && channel_send(peers->worker, &parts, &err) == OK) {
        peers->is_status_new = false;
    }
}

/* Until a rank has said something or hung up; false: none has. */
static bool wait_for_any(const struct peers *peers, int timeout_ms, struct pollfd *watched)
{
    for (int rank = 0; rank < peers->world; rank++) {
        watched[rank] = (struct pollfd){.fd = peers->peer[rank].fd, .events = POLLIN};
    }
    return poll(watched, (nfds_t)peers->world, timeout_ms) > 0;
}

enum status peers_turn(struct peers *peers, struct error *err)
{
    struct pollfd watched[WORLD_MAX];
    enum status status = OK;

    if (wait_for_any(peers, 0, watched)) {
        for (int rank = 0; rank < peers->world && status == OK; rank++) {
            if (watched[rank].revents != 0) {
                status = take_all(peers, rank, err);
            }
        }
    }
    tell_worker(peers);
    return status;
}

void peers_wait(const struct peers *peers, int timeout_ms)
{
    struct pollfd watched[WORLD_MAX];

    (void)wait_for_any(peers, timeout_ms, watched);
}

bool peers_are_idle(const struct peers *peers)
{
    for (int rank = 0; rank < peers->world; rank++) {
        if (peers->peer[rank].phase != RANK_IDLE) {
            return false;
        }
    }
    return true;
}

int peers_failed(const struct peers *peers)
{
    int worst = -1;

    for (int rank = 0; rank < peers->world; rank++) {
        enum peer_failure failure = peers->peer[rank].failure;
        if (failure > (worst < 0 ? PEER_FINE : peers->peer[worst].failure)) {
            worst = rank;
        }
    }
    return worst;
}

bool peers_waits_in_barrier(const struct peers *peers, int rank)
{
    return peers->page != NULL && peers->page->in_barrier[rank] == peers->page->generation + 1 &&
           (peers->peer[rank].phase == RANK_SETUP || peers->peer[rank].phase == RANK_IN_RUN ||
            peers->peer[rank].phase == RANK_TEARDOWN);
}

bool peers_is_in_code(const struct peers *peers, int rank)
{
    const struct peer *peer = &peers->peer[rank];

    switch (peer->phase) {
    case RANK_LOADING:
    case RANK_SETUP:
    case RANK_IN_RUN:
    case RANK_TEARDOWN:
        return !peer->is_asking && !peers_waits_in_barrier(peers, rank);
    default:
        return false;
    }
}

bool peers_are_stuck(const struct peers *peers)
{
    int waiting = 0;
    int elsewhere = 0;

    for (int rank = 0; rank < peers->world; rank++) {
        if (peers_waits_in_barrier(peers, rank)) {
            waiting++;
        } else if (peers->peer[rank].phase == RANK_IDLE) {
            elsewhere++;
        } else {
            return false;
        }
    }
    return waiting > 0 && elsewhere > 0;
}
