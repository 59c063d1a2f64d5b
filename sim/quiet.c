#include "sim/quiet.h"

#include "common/clock.h"
#include "sim/client.h"
#include "sim/report.h"
#include "sim/request.h"
#include "sim/stream.h"

#include <cuda.h>
#include <stdlib.h>

enum {
    IDLE_ROUNDS = 4,
    FAST_ROUNDS = 64,  /* of an idle machine; then one per idle_pause_ns */
    PAUSE_ROUNDS = 32, /* after so many the pause doubles */
    PAUSE_DOUBLINGS_MAX = 8,
    SWEEPS = 64,  /* of the engine, between looks at the clock */
    CHECK_MS = 5, /* how often clients are looked at that are not quiet */
};
static const int64_t idle_pause_ns = 1000000;
static const int64_t run_slice_ns = 20000000;
static const int64_t others_idle_ns = 20000000;
static const int64_t overdue_cpu_ns = 200000000;
static const int64_t overdue_wall_ns = 3000000000;
static const int64_t suspect_ns = 100000000;
static const int64_t stall_ns = 10000000000; /* of a client that sleeps outside every call */
static const int64_t cpu_noise_ns = 1000000;

void quiet_disturb(struct machine *machine)
{
    machine->rounds = 0;
    machine->answer_at_ns = 0;
    machine->is_stuck_again = false;
    machine->suspect_at_ns = 0;
}

static bool has_work(const struct machine *machine)
{
    for (int i = 0; i < machine->client_count; i++) {
        if (machine->clients[i].is_open && streams_have_work(&machine->clients[i])) {
            return true;
        }
    }
    return false;
}

static bool is_poll(const struct channel *channel)
{
    return channel->is_pending && channel->waiting.kind >= POLL_STREAM;
}

/* Answers the blocked calls whose wait is over; with `polls`, every poll too. True: some were. */
static bool answer(struct machine *machine, bool polls)
{
    bool answered = false;

    for (int i = 0; i < machine->client_count; i++) {
        struct client *client = &machine->clients[i];
        for (struct channel *channel = client->channels; channel; channel = channel->next) {
            if (request_is_satisfied(channel) || (polls && is_poll(channel))) {
                answered |= !is_poll(channel);
                client->others_idle &= is_poll(channel);
                request_finish(channel);
            }
        }
    }
    return answered;
}

static bool has_poll(const struct machine *machine)
{
    for (int i = 0; i < machine->client_count; i++) {
        const struct channel *channel = machine->clients[i].channels;
        for (; channel; channel = channel->next) {
            if (is_poll(channel)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_quiet(struct client *client, int64_t now_ns)
{
    int pending = 0, others = 0;

    /* The thread that waits for host functions is none of the program's. */
    for (const struct channel *channel = client->channels; channel; channel = channel->next) {
        if (!channel->is_pending) {
            others++;
        } else if (channel->waiting.kind != WAIT_HOST) {
            pending++;
        }
    }
    bool runs_function = stream_host_item(client, HOST_RUNNING) != NULL;
    if (pending && !runs_function && (!others || client->others_idle)) {
        return true;
    }
    if (!client->active_since_ns) {
        client->active_since_ns = now_ns;
        client->active_cpu_ns = client_cpu_ns(client);
        return false;
    }
    if (!pending || runs_function || now_ns - client->active_since_ns < others_idle_ns) {
        return false;
    }
    /* Some thread is in a call and the others are not: do they sleep? */
    int64_t cpu_ns = client_cpu_ns(client);
    client->others_idle = cpu_ns == client->active_cpu_ns;
    if (!client->others_idle && cpu_ns - client->active_cpu_ns < overdue_cpu_ns) {
        client->active_since_ns = 0;
    }
    return client->others_idle;
}

/* Whether a client that is not quiet had its time. */
static bool is_overdue(struct client *client, int64_t now_ns)
{
    if (!client->is_overdue) {
        client->is_overdue = now_ns - client->active_since_ns > overdue_wall_ns ||
                             client_cpu_ns(client) - client->active_cpu_ns > overdue_cpu_ns;
    }
    if (client->is_overdue && !client->is_overdue_reported) {
        client->is_overdue_reported = true;
        report_finding(client, "host_timing_dependent",
                       "a host thread neither called nor polled CUDA while work was pending: "
                       "what the devices see of it depends on its speed");
    }
    return client->is_overdue;
}

enum run_outcome { RUN_NEWS, RUN_NOTHING, RUN_GOES_ON, RUN_STUCK, RUN_NO_FUEL };

/* Whether a client can see that something changed. */
static bool take_news(struct machine *machine)
{
    bool has_news = false;

    for (int i = 0; i < machine->client_count; i++) {
        struct client *client = &machine->clients[i];
        has_news |= client->is_open && client->has_news;
        client->has_news = false;
        for (const struct channel *channel = client->channels; channel; channel = channel->next) {
            has_news |= request_is_satisfied(channel);
        }
    }
    return has_news;
}

static bool advance(struct machine *machine)
{
    bool changed = false;

    for (int i = 0; i < machine->client_count; i++) {
        if (machine->clients[i].is_open) {
            changed |= streams_advance(&machine->clients[i]);
        }
    }
    return changed;
}

static enum run_outcome run_devices(struct machine *machine)
{
    int64_t until_ns = clock_monotonic_ns() + run_slice_ns;

    for (;;) {
        bool changed = advance(machine);
        if (take_news(machine)) {
            return RUN_NEWS;
        }
        if (changed) {
            continue;
        }
        switch (engine_run(machine->engine, SWEEPS)) {
        case ENGINE_IDLE:
            return has_work(machine) ? RUN_STUCK : RUN_NOTHING;
        case ENGINE_STUCK:
            return RUN_STUCK;
        case ENGINE_NO_FUEL:
            return RUN_NO_FUEL;
        case ENGINE_RAN:
            /* No grid ended: then it was host memory, which a client may look at. */
            if (!advance(machine) || take_news(machine)) {
                return RUN_NEWS;
            }
            break;
        case ENGINE_SLICE:
            break;
        }
        if (clock_monotonic_ns() > until_ns) {
            return RUN_GOES_ON;
        }
    }
}

/* Every further call of every client fails. */
static void stop_all(struct machine *machine, enum verdict verdict, const char *reason)
{
    report_stuck(machine, verdict, reason);
    for (int i = 0; i < machine->client_count; i++) {
        if (machine->clients[i].is_open) {
            client_set_sticky(&machine->clients[i], CUDA_ERROR_LAUNCH_TIMEOUT);
        }
    }
    answer(machine, true);
}

/* A spin that its own counter ends looks at memory all the time; a computation does not. */
static const char *no_fuel_reason(struct machine *machine)
{
    struct wait *waits = NULL;
    size_t count = 0, looking = 0;

    engine_waits(machine->engine, &waits, &count);
    for (size_t i = 0; i < count; i++) {
        looking += waits[i].address != NULL;
        wait_release(&waits[i]);
    }
    free(waits);
    return count && looking == count ? "no_progress" : "fuel";
}

/* Remembers what CPU time each client has used. */
static void snapshot_cpu(struct machine *machine)
{
    for (int i = 0; i < machine->client_count; i++) {
        struct client *client = &machine->clients[i];
        client->suspect_cpu_ns = client->is_open ? client_cpu_ns(client) : 0;
    }
}

static bool used_cpu(const struct machine *machine)
{
    for (int i = 0; i < machine->client_count; i++) {
        const struct client *client = &machine->clients[i];
        if (client->is_open && client_cpu_ns(client) - client->suspect_cpu_ns > cpu_noise_ns) {
            return true;
        }
    }
    return false;
}

/* Nothing on the devices can move. All is withheld for a moment, unless a client is overdue: then
 * polls go on and only a long sleep of all of them is a deadlock. */
static int on_stuck(struct machine *machine, bool has_overdue, int64_t now_ns)
{
    if (!machine->is_stuck_again && has_poll(machine)) {
        machine->rounds = 0;
        machine->is_stuck_again = true;
        answer(machine, true);
        return CHECK_MS;
    }
    if (!machine->suspect_at_ns) {
        snapshot_cpu(machine);
        machine->suspect_at_ns = now_ns + (has_overdue ? stall_ns : suspect_ns);
    }
    if (now_ns < machine->suspect_at_ns) {
        if (has_overdue) {
            answer(machine, true);
        }
        return CHECK_MS;
    }
    if (used_cpu(machine)) {
        quiet_disturb(machine);
        answer(machine, true);
        return CHECK_MS;
    }
    stop_all(machine, VERDICT_DEADLOCK, NULL);
    return 0;
}

/* Answers the polls of those who wait for each other, less and less often: in so many
 * milliseconds; -1: now. */
static int answer_slowly(struct machine *machine, int64_t now_ns)
{
    int doublings =
        machine->rounds <= FAST_ROUNDS ? 0 : (machine->rounds - FAST_ROUNDS) / PAUSE_ROUNDS;

    if (!machine->answer_at_ns) {
        doublings = doublings < PAUSE_DOUBLINGS_MAX ? doublings : PAUSE_DOUBLINGS_MAX;
        machine->answer_at_ns = now_ns + (idle_pause_ns << doublings);
    }
    if (now_ns < machine->answer_at_ns) {
        return (int)((machine->answer_at_ns - now_ns) / 1000000) + 1;
    }
    machine->answer_at_ns = 0;
    machine->rounds += machine->rounds < FAST_ROUNDS + PAUSE_ROUNDS * PAUSE_DOUBLINGS_MAX;
    answer(machine, true);
    return -1;
}

/* Nothing is queued: those who poll wait for each other. */
static int on_idle(struct machine *machine, int64_t now_ns)
{
    if (machine->rounds < FAST_ROUNDS) {
        machine->rounds++;
        answer(machine, true);
        return -1;
    }
    return answer_slowly(machine, now_ns);
}

int quiet_step(struct machine *machine, int64_t now_ns)
{
    bool has_overdue = false, all_quiet = true, is_absent = false, works = has_work(machine);

    machine_look_at_sockets(machine);
    if (answer(machine, false)) {
        quiet_disturb(machine);
    }
    for (int i = 0; i < machine->client_count; i++) {
        struct client *client = &machine->clients[i];
        if (!client->is_open || is_quiet(client, now_ns)) {
            continue;
        }
        bool overdue = works && is_overdue(client, now_ns);
        has_overdue |= overdue;
        all_quiet &= overdue;
        is_absent |= !works && now_ns - client->active_since_ns > overdue_wall_ns;
    }
    if (!all_quiet) {
        if (is_absent) { /* and there is no work that could show it how fast the others are */
            return answer_slowly(machine, now_ns);
        }
        return works || has_poll(machine) ? CHECK_MS : -1;
    }
    if (has_poll(machine) && machine->rounds < IDLE_ROUNDS) {
        machine->rounds++;
        answer(machine, true);
        return CHECK_MS;
    }
    if (machine->suspect_at_ns && !has_overdue) {
        return on_stuck(machine, false, now_ns); /* nothing has changed: no need to run again */
    }
    switch (run_devices(machine)) {
    case RUN_NEWS:
        quiet_disturb(machine);
        answer(machine, true);
        return CHECK_MS;
    case RUN_GOES_ON:
        return 0;
    case RUN_NOTHING:
        return on_idle(machine, now_ns);
    case RUN_STUCK:
        return on_stuck(machine, has_overdue, now_ns);
    case RUN_NO_FUEL:
        stop_all(machine, VERDICT_TIMEOUT, no_fuel_reason(machine));
        return 0;
    }
    return CHECK_MS;
}
