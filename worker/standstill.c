#include "worker/standstill.h"

#include "worker/launch.h"
#include "worker/process.h"

enum {
    BUSY_PERCENT = 50, /* a host loop without end wants all of a processor */
    IDLE_PERCENT = 3,  /* who waits wants none */
};

static int programs(const struct evidence *evidence)
{
    return LAUNCH_RANK_0 + evidence->world + 1;
}

static struct standstill take_sample(const struct standstill_look *look)
{
    struct standstill sample = {.at_ms = look->now_ms};

    for (int program = 0; program < programs(look->evidence); program++) {
        pid_t pid = look->pids[program];
        sample.active_ns[program] = pid == 0 ? 0 : process_active_ns(pid);
    }
    return sample;
}

static bool is_in_code(const struct evidence *evidence, int rank)
{
    switch (evidence->status.phase[rank]) {
    case RANK_LOADING:
    case RANK_SETUP:
    case RANK_IN_RUN:
    case RANK_TEARDOWN:
        return evidence->status.in_barrier[rank] == 0;
    default:
        return false;
    }
}

/* The rank whose host code was at work for longest, and for longer than `least_ns`; or -1. */
static int busiest(const struct standstill *before, const struct standstill *now,
                   const struct evidence *evidence, int64_t least_ns)
{
    int busy = -1;

    for (int rank = 0; rank < evidence->world; rank++) {
        int program = LAUNCH_RANK_0 + rank;
        int64_t active_ns = now->active_ns[program] - before->active_ns[program];
        if (is_in_code(evidence, rank) && active_ns > least_ns) {
            least_ns = active_ns;
            busy = rank;
        }
    }
    return busy;
}

static bool may_still_load(const struct standstill_look *look, int rank)
{
    int32_t phase = look->evidence->status.phase[rank];

    return (phase == RANK_LOADING || phase == RANK_SETUP) && look->quiet_ms < STANDSTILL_SETUP_MS;
}

enum stop_cause standstill_look(struct standstill *standstill, const struct standstill_look *look,
                                int *rank)
{
    const struct evidence *evidence = look->evidence;
    bool is_idle = true;

    if (standstill->at_ms == 0) {
        *standstill = take_sample(look);
        return STOP_NONE;
    }
    if (look->now_ms - standstill->at_ms < STANDSTILL_SAMPLE_MS) {
        return STOP_NONE;
    }
    struct standstill now = take_sample(look);
    int64_t interval_ns = (now.at_ms - standstill->at_ms) * 1000000;
    for (int program = 0; program < programs(evidence); program++) {
        int64_t active_ns = now.active_ns[program] - standstill->active_ns[program];
        is_idle &= active_ns <= interval_ns * IDLE_PERCENT / 100;
    }
    /* A simulator slows down who asks it in a loop, but who waits in a call does nothing at all. On
     * GPUs, where no simulator ever ran, CUDA has threads that wake up now and then. */
    bool is_simulated = !evidence->device_ending.has_ended;
    int busy = busiest(standstill, &now, evidence,
                       is_idle && is_simulated ? 0 : interval_ns * BUSY_PERCENT / 100);
    if (busy >= 0 && (is_simulated || !may_still_load(look, busy))) {
        *rank = busy;
        return STOP_HOST_BUSY;
    }
    if (busy < 0 && is_idle) {
        return STOP_WAITING;
    }
    *standstill = now; /* the device, the judge or who loads is at work */
    return STOP_NONE;
}
