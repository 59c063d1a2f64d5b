#include "worker/verdict.h"

#include "common/mem.h"
#include "worker/box.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : xstrdup(text);
}

/* "pkb_run (call 2)": what a rank does, as far as is known. */
static char *doing(const struct evidence *evidence, int rank)
{
    static const char *const texts[RANK_PHASES] = {
        [RANK_STARTING] = "pkb-rank's start",
        [RANK_LOADING] = "dlopen",
        [RANK_SETUP] = "pkb_setup",
        [RANK_IDLE] = "between calls",
        [RANK_IN_RUN] = "pkb_run",
        [RANK_WAITING] = "ctx->stream",
        [RANK_TEARDOWN] = "pkb_teardown",
        [RANK_GONE] = "ended",
    };
    int phase = evidence->status.phase[rank];

    if (evidence->status.in_barrier[rank] != 0) {
        return xstrdup("pkb_host_barrier");
    }
    return xstrdup(phase >= 0 && phase < RANK_PHASES ? texts[phase] : "unknown");
}

static void set(struct result *result, enum verdict verdict, const char *reason, char *message)
{
    result->verdict = verdict;
    result->reason = copy_text(reason);
    result->message = message;
}

/* Where the job stood, when the judge has not said it itself. */
static void set_place(struct result *result, const struct evidence *evidence)
{
    const struct status_body *status = &evidence->status;

    result->stage = xstrdup(status->stage[0] == 0 ? "start" : status->stage);
    if (status->case_name[0] != 0) {
        result->case_name = xstrdup(status->case_name);
        result->variant = xstrdup(status->variant);
    }
}

static void copy_mismatch(struct result *to, const struct mismatch *from)
{
    to->mismatch = xcalloc(1, sizeof *to->mismatch);
    *to->mismatch = (struct mismatch){.output = copy_text(from->output),
                                      .rank = from->rank,
                                      .index = copy_text(from->index),
                                      .expected = copy_text(from->expected),
                                      .got = copy_text(from->got),
                                      .bound = copy_text(from->bound),
                                      .bad = from->bad,
                                      .total = from->total};
}

static void copy_rows(struct result *to, const struct result *from)
{
    for (size_t i = 0; i < from->wait_count; i++) {
        struct wait wait = from->waits[i];
        wait.where = copy_text(wait.where);
        wait.kernel = copy_text(wait.kernel);
        wait.source = copy_text(wait.source);
        wait.address = copy_text(wait.address);
        wait.value = copy_text(wait.value);
        wait.wanted = copy_text(wait.wanted);
        wait.last_writer = copy_text(wait.last_writer);
        result_add_wait(to, wait);
    }
    for (size_t i = 0; i < from->fault_count; i++) {
        struct fault fault = from->faults[i];
        fault.kind = copy_text(fault.kind);
        fault.kernel = copy_text(fault.kernel);
        fault.source = copy_text(fault.source);
        fault.address = copy_text(fault.address);
        fault.message = copy_text(fault.message);
        result_add_fault(to, fault);
    }
}

static void copy_times(struct result *to, const struct result *from)
{
    for (size_t i = 0; i < from->timing_count; i++) {
        struct timing timing = from->timings[i];
        timing.case_name = copy_text(timing.case_name);
        timing.variant = copy_text(timing.variant);
        result_add_timing(to, timing);
    }
    if (from->gpu != NULL) {
        to->gpu = xmalloc(sizeof *to->gpu);
        *to->gpu = *from->gpu;
        to->gpu->name = copy_text(from->gpu->name);
        to->gpu->uuid = copy_text(from->gpu->uuid);
        to->gpu->driver = copy_text(from->gpu->driver);
        to->gpu->cuda = copy_text(from->gpu->cuda);
        to->gpu->nccl = copy_text(from->gpu->nccl);
        to->gpu->throttled = copy_text(from->gpu->throttled);
    }
    for (size_t i = 0; i < from->flag_count; i++) {
        result_add_flag(to, from->flags[i]);
    }
}

static void copy_verdict(struct result *to, const struct result *from)
{
    set(to, from->verdict, from->reason, copy_text(from->message));
    to->rank = from->rank;
    to->stage = copy_text(from->stage);
    to->case_name = copy_text(from->case_name);
    to->variant = copy_text(from->variant);
    to->output_digest = copy_text(from->output_digest);
    copy_rows(to, from);
    copy_times(to, from);
    if (from->mismatch != NULL) {
        copy_mismatch(to, from->mismatch);
    }
}

static bool is_limit(enum stop_cause stop)
{
    return stop == STOP_LOG || stop == STOP_MEMORY || stop == STOP_PROCESSES || stop == STOP_DISK;
}

static void decide_limit(const struct evidence *evidence, struct result *result)
{
    switch (evidence->stop) {
    case STOP_MEMORY:
        set(result, VERDICT_LIMIT_EXCEEDED, "memory",
            xstrdup("the ranks used more of the node's memory than they may"));
        break;
    case STOP_PROCESSES:
        set(result, VERDICT_LIMIT_EXCEEDED, "processes",
            xstrdup("the ranks wanted more than 64 processes and threads for each rank"));
        break;
    case STOP_DISK:
        set(result, VERDICT_LIMIT_EXCEEDED, "disk", xstrdup("the ranks filled /tmp or /dev/shm"));
        break;
    default:
        set(result, VERDICT_LIMIT_EXCEEDED, "log",
            xasprintf("the output of rank %d is longer than 8 MiB", evidence->stop_rank));
        result->rank = evidence->stop_rank;
        break;
    }
    set_place(result, evidence);
}

static char *describe_end(int wait_status)
{
    if (WIFSIGNALED(wait_status)) {
        const char *name = sigabbrev_np(WTERMSIG(wait_status));
        return xasprintf("killed by SIG%s", name == NULL ? "?" : name);
    }
    return xasprintf("exit code %d", WEXITSTATUS(wait_status));
}

/* The rank that the judge names, or the first that ended. */
static int crashed_rank(const struct evidence *evidence)
{
    const struct result *judge = evidence->judge;

    if (judge != NULL && judge->rank >= 0 && judge->rank < evidence->world &&
        evidence->rank[judge->rank].has_ended) {
        return judge->rank;
    }
    for (int rank = 0; rank < evidence->world; rank++) {
        if (evidence->rank[rank].has_ended) {
            return rank;
        }
    }
    return -1;
}

static void decide_crash(const struct evidence *evidence, int rank, struct result *result)
{
    const struct result *judge = evidence->judge;
    int wait_status = evidence->rank[rank].wait_status;
    char *end = describe_end(wait_status);
    bool is_judged = judge != NULL && judge->rank == rank;

    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == BOX_EXIT_NOT_STARTED) {
        set(result, VERDICT_INTERNAL_ERROR, NULL, xasprintf("rank %d could not be started", rank));
    } else if (is_judged) {
        set(result, VERDICT_RUNTIME_ERROR, WIFSIGNALED(wait_status) ? "signal" : "exit",
            xasprintf("%s: %s%s%s", judge->message, end, judge->fault_count > 0 ? "; " : "",
                      judge->fault_count > 0 ? judge->faults[0].message : ""));
        copy_rows(result, judge);
        result->stage = copy_text(judge->stage);
        result->case_name = copy_text(judge->case_name);
        result->variant = copy_text(judge->variant);
    } else {
        set(result, VERDICT_RUNTIME_ERROR, WIFSIGNALED(wait_status) ? "signal" : "exit",
            xasprintf("rank %d ended: %s", rank, end));
    }
    if (result->stage == NULL) {
        set_place(result, evidence);
    }
    result->rank = rank;
    free(end);
}

static void decide_device(const struct evidence *evidence, struct result *result)
{
    copy_verdict(result, evidence->device);
    if (result->rank < 0 && evidence->device->fault_count > 0) {
        result->rank = evidence->device->faults[0].rank;
    }
    if (result->stage == NULL) {
        set_place(result, evidence);
    }
}

static void decide_stop(const struct evidence *evidence, struct result *result)
{
    int busy = evidence->stop_rank;
    char *what = NULL;

    set_place(result, evidence);
    switch (evidence->stop) {
    case STOP_HOST_BUSY:
        what = doing(evidence, busy);
        set(result, VERDICT_TIMEOUT, "host_busy",
            xasprintf("nothing moves, and host code of rank %d runs on in %s", busy, what));
        result->rank = busy;
        free(what);
        break;
    case STOP_WAITING:
        set(result, VERDICT_DEADLOCK, NULL, xstrdup("every rank waits and none can go on"));
        for (int rank = 0; rank < evidence->world; rank++) {
            result_add_wait(result, (struct wait){.rank = rank,
                                                  .where = doing(evidence, rank),
                                                  .cta = -1,
                                                  .warp = -1,
                                                  .owner = -1});
        }
        break;
    default:
        set(result, VERDICT_TIMEOUT, "wall", xstrdup("the job took longer than it may"));
        break;
    }
}

/* Has code of the submission run? Then what was killed was killed by it. */
static bool has_run_code(const struct evidence *evidence)
{
    bool has_run = evidence->status.stage[0] != 0 && strcmp(evidence->status.stage, "start") != 0;

    for (int rank = 0; rank < evidence->world; rank++) {
        has_run |= evidence->status.phase[rank] != RANK_STARTING;
    }
    return has_run;
}

static bool is_killed(const struct ending *ending)
{
    return ending->has_ended && WIFSIGNALED(ending->wait_status) &&
           WTERMSIG(ending->wait_status) == SIGKILL;
}

/* Without its last line. What ranks and judge say then is that their calls fail. */
static bool has_device_died(const struct evidence *evidence)
{
    return evidence->device_ending.has_ended && evidence->device_ending.wait_status != 0 &&
           evidence->device_end == NULL;
}

/* Nobody reported anything that counts. Where nothing was killed, our own programs did not do what
 * they have to. */
static void decide_trouble(const struct evidence *evidence, struct result *result)
{
    bool is_judge = evidence->judge_ending.has_ended && !has_device_died(evidence);
    const char *what = is_judge ? "pkb-judge" : "the simulator";
    const struct ending *ending = is_judge ? &evidence->judge_ending : &evidence->device_ending;
    char *end = describe_end(ending->wait_status);

    if (!ending->has_ended && evidence->is_keeper_lost) {
        what = "the keeper of the job's processes";
    }
    if (has_run_code(evidence) && (evidence->is_keeper_lost || is_killed(ending))) {
        set(result, VERDICT_RUNTIME_ERROR, "killed_evaluator",
            xasprintf("%s was killed while code of the submission ran", what));
    } else {
        set(result, VERDICT_INTERNAL_ERROR, NULL,
            xasprintf("%s ended without a report: %s", what,
                      ending->has_ended ? end : "it was killed"));
    }
    set_place(result, evidence);
    free(end);
}

static void decide_judged(const struct evidence *evidence, struct result *result)
{
    if (evidence->judge->verdict == VERDICT_ACCEPTED && evidence->device_end == NULL) {
        set(result, VERDICT_INTERNAL_ERROR, NULL,
            xstrdup("the simulator ended without its last report"));
        set_place(result, evidence);
        return;
    }
    copy_verdict(result, evidence->judge);
}

static void add_measurements(const struct evidence *evidence, struct result *result)
{
    const struct result *end = evidence->device_end;

    for (size_t i = 0; end != NULL && i < end->finding_count; i++) {
        struct finding finding = end->findings[i];
        finding.kind = copy_text(finding.kind);
        finding.source = copy_text(finding.source);
        finding.message = copy_text(finding.message);
        result_add_finding(result, finding);
    }
    for (size_t i = 0; end != NULL && i < end->traffic_count; i++) {
        result_add_traffic(result, &end->traffic[i]);
    }
}

void verdict_decide(const struct evidence *evidence, struct result *result)
{
    int crashed = crashed_rank(evidence);
    bool is_dead = has_device_died(evidence);

    if (is_limit(evidence->stop)) {
        decide_limit(evidence, result);
    } else if (crashed >= 0 && evidence->crashed_first) {
        decide_crash(evidence, crashed, result);
    } else if (evidence->device != NULL) {
        decide_device(evidence, result);
    } else if (!is_dead && evidence->judge != NULL) {
        decide_judged(evidence, result);
    } else if (!is_dead && evidence->stop != STOP_NONE) {
        decide_stop(evidence, result);
    } else {
        decide_trouble(evidence, result);
    }
    add_measurements(evidence, result);
}
