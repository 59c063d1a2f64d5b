#include "worker/rounds.h"

#include "common/clock.h"
#include "common/mem.h"
#include "worker/arena.h"
#include "worker/layout.h"
#include "worker/reveal.h"
#include "worker/seat.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum {
    ENTERED_WAIT_NS = 200 * 1000,       /* from the last rank's entry to the key */
    RETURNED_WAIT_NS = 2 * 1000 * 1000, /* so long a rank may take to come out of pkb_run first */
    SPINS_A_LOOK = 65536,               /* at the page, until it looks at the ranks' sockets */
};

struct rounds {
    struct rounds_options options;
    struct reveal_page *page;
    int page_fd;
    uint32_t number; /* of the last round */
    struct seat *seats[WORLD_MAX];
    int seat_count;
};

struct secrets {
    uint32_t key[REVEAL_WORDS], nonce[REVEAL_WORDS];
};

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct seat *seat_of(const struct rounds *rounds, int rank)
{
    return rounds->seats[arena_device(rank)];
}

static enum status make_page(struct rounds *rounds, struct error *err)
{
    rounds->page_fd = memfd_create("pkb-reveal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (rounds->page_fd < 0 || ftruncate(rounds->page_fd, REVEAL_PAGE_BYTES) != 0) {
        return error_set(err, ERR_IO, "cannot make the clock's page: %m");
    }
    void *page =
        mmap(NULL, sizeof *rounds->page, PROT_READ | PROT_WRITE, MAP_SHARED, rounds->page_fd, 0);
    if (page == MAP_FAILED) {
        return error_set(err, ERR_IO, "cannot map the clock's page: %m");
    }
    rounds->page = page;
    return OK;
}

enum status rounds_open(struct rounds **rounds, const struct rounds_options *options,
                        struct error *err)
{
    struct rounds *made = xcalloc(1, sizeof *made);

    static_assert(sizeof(struct reveal_page) <= REVEAL_PAGE_BYTES, "it is one page");
    static_assert((int)REVEAL_RANKS_MAX == (int)WORLD_MAX, "a line for each rank");
    made->options = *options;
    enum status status = make_page(made, err);
    int devices = arena_device_count(options->peers->world);
    while (made->seat_count < devices && status == OK) {
        status = seat_open(&made->seats[made->seat_count], made->seat_count, err);
        made->seat_count += status == OK;
    }
    if (status != OK) {
        rounds_close(made);
        return status;
    }
    *rounds = made;
    return OK;
}

void rounds_close(struct rounds *rounds)
{
    if (rounds == NULL) {
        return;
    }
    for (int i = 0; i < rounds->seat_count; i++) {
        seat_close(rounds->seats[i]);
    }
    if (rounds->page != NULL) {
        (void)munmap(rounds->page, REVEAL_PAGE_BYTES);
    }
    if (rounds->page_fd >= 0) {
        close(rounds->page_fd);
    }
    free(rounds);
}

void rounds_announce(struct rounds *rounds, const int *inputs_fds, uint64_t inputs_bytes)
{
    struct clock_body body = {.inputs_bytes = inputs_bytes};

    for (int rank = 0; rank < rounds->options.peers->world; rank++) {
        int fds[] = {rounds->page_fd, inputs_fds[rank]};
        peers_send(rounds->options.peers, rank,
                   &(struct message_parts){.kind = MESSAGE_CLOCK,
                                           .body = &body,
                                           .size_bytes = sizeof body,
                                           .fds = fds,
                                           .fd_count = 2},
                   RANK_SETUP);
    }
}

/* ---- before the key ---- */

static int slot_of(const struct round *round, int call)
{
    return (round->first_call + call) % CHANNEL_SLOTS;
}

static uint64_t stream_of(int rank, int slot)
{
    return (uint64_t)rank * CHANNEL_SLOTS + (uint64_t)slot;
}

static enum status prepare(struct rounds *rounds, const struct round *round,
                           const struct secrets *secrets, struct error *err)
{
    enum status status = OK;

    for (int i = 0; i < rounds->seat_count && status == OK; i++) {
        status = seat_begin(rounds->seats[i], secrets->key, err);
    }
    for (int rank = 0; rank < run_world(round->run) && status == OK; rank++) {
        const struct plan *plan = run_plan(round->run, rank);
        for (int call = 0; call < round->calls && status == OK; call++) {
            int slot = slot_of(round, call);
            struct hiding hiding = {
                .rank = rank,
                .call = call,
                .image = round->inputs[call][rank],
                .size_bytes = round->layouts->inputs.slot_bytes,
                .to = window_address(rank,
                                     WINDOW_INPUTS + layout_slot(&round->layouts->inputs, slot)),
                .stream = stream_of(rank, slot)};
            status = seat_hide(seat_of(rounds, rank), &hiding, err);
            uint64_t outputs =
                window_address(rank, WINDOW_OUTPUTS + layout_slot(&round->layouts->outputs, slot));
            for (int i = 0; i < plan->output_count && status == OK; i++) {
                status =
                    seat_poison(seat_of(rounds, rank), outputs + round->layouts->outputs.offsets[i],
                                plan->outputs[i].size_bytes, round->poison, err);
            }
        }
    }
    for (int i = 0; i < rounds->seat_count && status == OK; i++) {
        status = seat_leave(rounds->seats[i], err);
    }
    return status;
}

static void send(struct rounds *rounds, const struct round *round)
{
    struct iteration_body body = {.calls = {.first_call = round->first_call, .count = round->calls},
                                  .round = rounds->number,
                                  .is_empty = round->is_empty,
                                  .input_slot_bytes = round->layouts->inputs.slot_bytes,
                                  .output_slot_bytes = round->layouts->outputs.slot_bytes};

    for (int call = 0; call < round->calls; call++) {
        body.calls.slots[call] = slot_of(round, call);
    }
    for (int rank = 0; rank < run_world(round->run); rank++) {
        peers_send_iteration(rounds->options.peers, rank, &body);
    }
}

static bool has_stalled(const struct rounds *rounds, int64_t since_ns)
{
    return now_ns() - since_ns > rounds->options.stall_ms * 1000000;
}

/* All ranks are in pkb_run, and out of it again where they do not wait for the GPU in there. */
static enum status await_entered(struct rounds *rounds, const struct round *round,
                                 struct round_result *result, struct error *err)
{
    struct peers *peers = rounds->options.peers;
    int64_t started_ns = now_ns();
    int64_t entered_ns = 0; /* when the last rank was seen in pkb_run */

    for (;;) {
        enum status status = peers_turn(peers, err);
        if (status != OK) {
            return status;
        }
        bool has_entered = true;
        bool has_returned = true;
        for (int rank = 0; rank < peers->world; rank++) {
            has_entered &= peers->peer[rank].entered > 0;
            has_returned &= peers->peer[rank].returned == round->calls;
        }
        if (peers_failed(peers) >= 0) {
            result->end = ROUND_FAILED;
            return OK;
        }
        if (has_entered && entered_ns == 0) {
            entered_ns = now_ns();
        }
        if (entered_ns != 0 && now_ns() - entered_ns >= ENTERED_WAIT_NS &&
            (has_returned || now_ns() - entered_ns >= RETURNED_WAIT_NS)) {
            return OK;
        }
        if (has_stalled(rounds, started_ns)) {
            result->end = ROUND_STALLED;
            return OK;
        }
    }
}

/* ---- the clock ---- */

/* Words first, then the number that says that they are there: no store overtakes another here. */
static void reveal(struct reveal_line *line, const uint32_t *words, uint32_t number)
{
    for (int i = 0; i < REVEAL_WORDS; i++) {
        line->words[i] = words[i];
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    line->round = number;
}

enum { DONE, PROVED };

static bool has_answered(const struct rounds *rounds, int rank, int what)
{
    const struct reveal_answer *answer = &rounds->page->answers[rank];

    return (what == DONE ? answer->done : answer->proved) == rounds->number;
}

/* Until all ranks have answered; the times of the first and the last of them. */
static enum status await_answers(struct rounds *rounds, int what, struct round_result *result,
                                 int64_t times_ns[2], struct error *err)
{
    struct peers *peers = rounds->options.peers;
    bool has[WORLD_MAX] = {0};
    int left = peers->world;
    int64_t started_ns = now_ns();

    for (unsigned spins = 1; left > 0; spins++) {
        for (int rank = 0; rank < peers->world; rank++) {
            if (!has[rank] && has_answered(rounds, rank, what)) {
                has[rank] = true;
                times_ns[1] = now_ns();
                times_ns[0] = left == peers->world ? times_ns[1] : times_ns[0];
                left--;
            }
        }
        if (left == 0 || spins % SPINS_A_LOOK != 0) {
            continue;
        }
        enum status status = peers_turn(peers, err);
        if (status != OK) {
            return status;
        }
        if (peers_failed(peers) >= 0 || has_stalled(rounds, started_ns)) {
            result->end = peers_failed(peers) >= 0 ? ROUND_FAILED : ROUND_STALLED;
            return OK;
        }
    }
    return OK;
}

static enum status measure(struct rounds *rounds, const struct secrets *secrets,
                           struct round_result *result, struct error *err)
{
    int64_t done_ns[2] = {0};
    int64_t proved_ns[2] = {0};

    int64_t key_ns = now_ns();
    reveal(&rounds->page->key, secrets->key, rounds->number);
    enum status status = await_answers(rounds, DONE, result, done_ns, err);
    if (status != OK || result->end != ROUND_DONE) {
        return status;
    }
    int64_t nonce_ns = now_ns();
    reveal(&rounds->page->nonce, secrets->nonce, rounds->number);
    status = await_answers(rounds, PROVED, result, proved_ns, err);
    result->window_us = (double)(proved_ns[1] - key_ns) / 1000;
    result->answer_us = (double)(proved_ns[1] - nonce_ns) / 1000;
    result->skew_us = (double)(done_ns[1] - done_ns[0]) / 1000;
    return status;
}

/* ---- afterwards ---- */

static enum status await_idle(struct rounds *rounds, struct round_result *result, struct error *err)
{
    struct peers *peers = rounds->options.peers;
    int64_t started_ns = now_ns();
    enum status status = OK;

    while (status == OK && result->end == ROUND_DONE && !peers_are_idle(peers)) {
        status = peers_turn(peers, err);
        if (peers_failed(peers) >= 0) {
            result->end = ROUND_FAILED;
        } else if (has_stalled(rounds, started_ns)) {
            result->end = ROUND_STALLED;
        }
    }
    for (int rank = 0; rank < peers->world; rank++) {
        double events_us = (double)peers->peer[rank].event_ns / 1000;
        result->events_us = events_us > result->events_us ? events_us : result->events_us;
    }
    return status;
}

/* Has the rank what it proved to have, and are its inputs as they were? */
static enum status verify(struct rounds *rounds, const struct round *round, int rank,
                          const struct secrets *secrets, struct round_result *result,
                          struct error *err)
{
    struct seat *seat = seat_of(rounds, rank);
    uint64_t outputs_bytes = round->layouts->outputs.slot_bytes;
    uint64_t inputs_bytes = round->layouts->inputs.slot_bytes;
    uint64_t outputs = 0;
    uint64_t inputs = 0;
    uint64_t hidden = 0;
    enum status status = OK;

    for (int call = 0; call < round->calls && status == OK; call++) {
        int slot = slot_of(round, call);
        uint64_t first = (uint64_t)call * outputs_bytes / sizeof(uint32_t);
        struct summing summing = {
            .from = window_address(rank, WINDOW_OUTPUTS + (uint64_t)slot * outputs_bytes),
            .size_bytes = outputs_bytes,
            .first = first,
            .sample = REVEAL_SAMPLE_WORDS,
            .nonce = secrets->nonce};
        status = seat_sum(seat, &summing, &outputs, err);
        summing.first = 0;
        summing.sample = UINT64_MAX; /* a single changed word has to show */
        summing.size_bytes = inputs_bytes;
        summing.from = window_address(rank, WINDOW_INPUTS + (uint64_t)slot * inputs_bytes);
        if (status == OK) {
            status = seat_sum(seat, &summing, &inputs, err);
        }
        summing.from = seat_image(seat, rank, call);
        if (status == OK) {
            status = seat_sum(seat, &summing, &hidden, err);
        }
    }
    if (status == OK && result->end == ROUND_DONE && inputs != hidden) {
        result->end = ROUND_INPUTS_CHANGED;
        result->rank = rank;
    } else if (status == OK && result->end == ROUND_DONE &&
               rounds->page->answers[rank].proof != outputs) {
        result->end = ROUND_CHANGED;
        result->rank = rank;
    }
    return status;
}

static enum status take_outputs(struct rounds *rounds, const struct round *round, struct error *err)
{
    uint64_t slot_bytes = round->layouts->outputs.slot_bytes;
    enum status status = OK;

    for (int call = 0; call < round->calls && status == OK; call++) {
        for (int rank = 0; rank < run_world(round->run) && status == OK; rank++) {
            uint64_t offset = (uint64_t)slot_of(round, call) * slot_bytes;
            if (round->outputs[call] != NULL) {
                status = seat_copy_out(
                    seat_of(rounds, rank), round->outputs[call] + (uint64_t)rank * slot_bytes,
                    window_address(rank, WINDOW_OUTPUTS + offset), slot_bytes, err);
            }
        }
    }
    return status;
}

enum status rounds_one(struct rounds *rounds, const struct round *round,
                       struct round_result *result, struct error *err)
{
    struct secrets secrets;

    assert(round->calls >= 1);
    assert(round->calls <= CHANNEL_SLOTS);
    *result = (struct round_result){.rank = -1};
    rounds->number++;
    if (getrandom(&secrets, sizeof secrets, 0) != (ssize_t)sizeof secrets) {
        return error_set(err, ERR_IO, "cannot draw a key: %m");
    }
    secrets.key[REVEAL_PASSES] = (uint32_t)round->passes;
    enum status status = prepare(rounds, round, &secrets, err);
    if (status == OK) {
        send(rounds, round);
        status = await_entered(rounds, round, result, err);
    }
    if (status == OK && result->end == ROUND_DONE) {
        status = measure(rounds, &secrets, result, err);
    }
    if (status == OK && result->end == ROUND_DONE) {
        status = await_idle(rounds, result, err);
    }
    for (int rank = 0; rank < run_world(round->run) && status == OK && result->end == ROUND_DONE;
         rank++) {
        status = verify(rounds, round, rank, &secrets, result, err);
    }
    if (status == OK && result->end == ROUND_DONE) {
        status = take_outputs(rounds, round, err);
    }
    return status;
}

enum status rounds_gap(struct rounds *rounds, int calls, double *gap_us, struct error *err)
{
    enum status status = OK;

    for (int i = 0; i < rounds->seat_count && status == OK; i++) {
        double here_us = 0;
        status = seat_gap(rounds->seats[i], calls, &here_us, err);
        if (status == OK && (i == 0 || here_us < *gap_us)) {
            *gap_us = here_us;
        }
    }
    return status;
}

void rounds_watch(struct rounds *rounds)
{
    for (int i = 0; i < rounds->seat_count; i++) {
        seat_watch(rounds->seats[i]);
    }
}

bool rounds_are_slow(const struct rounds *rounds)
{
    for (int i = 0; i < rounds->seat_count; i++) {
        if (seat_is_slow(rounds->seats[i])) {
            return true;
        }
    }
    return false;
}

bool rounds_is_disturbed(const struct rounds *rounds, double *now_us, double *quiet_us)
{
    for (int i = 0; i < rounds->seat_count; i++) {
        if (seat_is_disturbed(rounds->seats[i], now_us, quiet_us)) {
            return true;
        }
    }
    return false;
}

bool rounds_is_busy(struct rounds *rounds)
{
    for (int i = 0; i < rounds->seat_count; i++) {
        if (seat_is_busy(rounds->seats[i])) {
            return true;
        }
    }
    return false;
}
