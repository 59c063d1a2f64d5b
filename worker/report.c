#include "worker/report.h"

#include "common/json.h"
#include "common/mem.h"
#include "worker/layout.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEAR_NULL_BYTES = 65536 };

static void fill_place(struct result *result, const struct place *place)
{
    result->stage = xstrdup(place->stage);
    if (place->run != NULL) {
        result->case_name = xstrdup(run_case(place->run));
        result->variant = xstrdup(run_variant(place->run));
    }
}

void report_verdict(struct result *result, const struct place *place, enum verdict verdict,
                    const char *reason, const char *format, ...)
{
    char message[RESULT_TEXT_MAX_BYTES];
    va_list args;

    assert(result->stage == NULL);
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    result->verdict = verdict;
    result->reason = reason == NULL ? NULL : xstrdup(reason);
    result->message = xstrdup(message);
    fill_place(result, place);
}

/* "y", or "grads[3]" for an entry of a list. */
static char *tensor_text(const struct tensor_spec *spec)
{
    return spec->list_index < 0 ? xstrdup(spec->name)
                                : xasprintf("%s[%d]", spec->name, spec->list_index);
}

static void add_mismatch(struct result *result, const struct verdict_detail *detail,
                         const char *output)
{
    char bound[JSON_NUMBER_TEXT_MAX];

    json_number_text(detail->bound, bound);
    result->mismatch = xcalloc(1, sizeof *result->mismatch);
    *result->mismatch = (struct mismatch){.output = xstrdup(output),
                                          .rank = detail->rank,
                                          .index = xstrdup(detail->index_text),
                                          .expected = xstrdup(detail->expected_text),
                                          .got = xstrdup(detail->got_text),
                                          .bound = xstrdup(bound),
                                          .bad = detail->bad,
                                          .total = detail->total};
}

void report_judgement(struct result *result, const struct place *place,
                      const struct verdict_detail *detail)
{
    static const struct {
        enum verdict verdict;
        const char *reason, *what;
    } rows[] = {
        [JUDGED_WRONG_VALUE] = {VERDICT_WRONG_ANSWER, NULL, "is wrong"},
        [JUDGED_WRONG_COUNT] = {VERDICT_WRONG_ANSWER, "count", "is a wrong count"},
        [JUDGED_WRONG_NORM] = {VERDICT_WRONG_ANSWER, "norm",
                               "is within its bound, but the errors of the output together are "
                               "too large"},
        [JUDGED_UNWRITTEN] = {VERDICT_CONTRACT_VIOLATION, "unwritten", "was not written"},
        [JUDGED_TAIL] = {VERDICT_CONTRACT_VIOLATION, "tail",
                         "lies past the count and had to stay untouched"},
        [JUDGED_REPLICAS_DIFFER] = {VERDICT_CONTRACT_VIOLATION, "replicas_differ",
                                    "differs from rank to rank, and has to be the same bits"},
    };
    const struct plan *plan = run_plan(place->run, detail->rank);
    char *output = tensor_text(&plan->outputs[detail->output]);

    assert(detail->judgement != JUDGED_RIGHT);
    report_verdict(result, place, rows[detail->judgement].verdict, rows[detail->judgement].reason,
                   "%s%s on rank %d %s in call %d: expected %s, got %s; %llu of %llu elements",
                   output, detail->index_text, detail->rank, rows[detail->judgement].what,
                   place->call, detail->expected_text, detail->got_text,
                   (unsigned long long)detail->bad, (unsigned long long)detail->total);
    result->rank = detail->rank;
    add_mismatch(result, detail, output);
    free(output);
}

void report_trespass(struct result *result, const struct place *place, int rank,
                     const struct trespass *trespass)
{
    const struct plan *plan = run_plan(place->run, rank);
    const struct tensor_spec *spec = &plan->outputs[trespass->tensor];
    char *output = tensor_text(spec);

    report_verdict(result, place, VERDICT_CONTRACT_VIOLATION, "red_zone",
                   trespass->is_before
                       ? "memory of rank %d was written %llu bytes before its output %s"
                       : "memory of rank %d was written %llu bytes past the end of its output %s",
                   rank, (unsigned long long)trespass->distance_bytes, output);
    result->rank = rank;
    free(output);
}

static const char *cuda_name(int error)
{
    return cudaGetErrorName((cudaError_t)error);
}

/* "pkb_run (call 2)", ... as the phase says. */
static void describe_phase(const struct peer *peer, enum rank_phase phase, char text[static 64])
{
    switch (phase) {
    case RANK_STARTING:
        (void)snprintf(text, 64, "its start");
        break;
    case RANK_LOADING:
        (void)snprintf(text, 64, "loading the library");
        break;
    case RANK_SETUP:
        (void)snprintf(text, 64, "pkb_setup");
        break;
    case RANK_TEARDOWN:
        (void)snprintf(text, 64, "pkb_teardown");
        break;
    case RANK_IN_RUN:
        (void)snprintf(text, 64, "pkb_run (call %d)", peer->first_call + peer->entered - 1);
        break;
    case RANK_WAITING:
        (void)snprintf(text, 64, "the work of call %d", peer->first_call + peer->finished);
        break;
    default:
        (void)snprintf(text, 64, "an idle time");
        break;
    }
}

/* What lies at a host address that faulted, without numbers that change from run to run. */
static char *describe_address(uint64_t address, int world)
{
    static const char *const parts[] = {"inputs", "outputs", "symmetric memory"};

    if (address < NEAR_NULL_BYTES) {
        return xasprintf("null+%llu", (unsigned long long)address);
    }
    if (address >= WINDOW_BASE && address < window_address(world, 0)) {
        uint64_t within = (address - WINDOW_BASE) % WINDOW_STRIDE;
        int part = within >= WINDOW_SYMM ? 2 : within >= WINDOW_OUTPUTS ? 1 : 0;
        uint64_t starts[] = {WINDOW_INPUTS, WINDOW_OUTPUTS, WINDOW_SYMM};
        return xasprintf("rank %d %s+%llu", (int)((address - WINDOW_BASE) / WINDOW_STRIDE),
                         parts[part], (unsigned long long)(within - starts[part]));
    }
    if (address >= window_address(WINDOW_MULTICAST, 0) &&
        address < window_address(WINDOW_COUNT, 0)) {
        return xstrdup("device memory by its multicast address");
    }
    if (address >= PRIVATE_BASE && address < PRIVATE_BASE + WORLD_MAX * WINDOW_STRIDE) {
        return xstrdup("device memory from cudaMalloc");
    }
    return xstrdup("an address that is not mapped");
}

static void report_gone(struct result *result, const struct place *place, const struct peers *peers,
                        int rank)
{
    const struct peer *peer = &peers->peer[rank];
    char phase[64];

    describe_phase(peer, peer->failed_phase, phase);
    report_verdict(result, place, VERDICT_RUNTIME_ERROR, REPORT_ENDED, "rank %d ended in %s", rank,
                   phase);
    if (!peer->has_crashed) {
        return;
    }
    char *address = describe_address(peer->crashed.address, peers->world);
    bool is_device = strncmp(address, "rank ", 5) == 0 || strncmp(address, "device ", 7) == 0;
    const char *kind = is_device ? "host_access_of_device_memory" : "host_access";
    if (peer->crashed.signal == SIGSEGV || peer->crashed.signal == SIGBUS) {
        result_add_fault(
            result, (struct fault){.rank = rank,
                                   .kind = xstrdup(kind),
                                   .cta = -1,
                                   .warp = -1,
                                   .lane = -1,
                                   .address = xstrdup(address),
                                   .message = xasprintf("host code in %s accessed %s", phase,
                                                        is_device ? "device memory" : address)});
    }
    free(address);
}

static void report_code(struct result *result, const struct place *place, int rank,
                        const struct peer *peer, enum symm_refusal refusal)
{
    static const char *const refusals[] = {
        [SYMM_NOT_REFUSED] = "",
        [SYMM_NOT_EQUAL] = "; pkb_symm_alloc was refused: not all ranks asked for the same size",
        [SYMM_NO_MEMORY] = "; pkb_symm_alloc was refused: there is not so much memory",
        [SYMM_FAILED] = "; pkb_symm_alloc failed",
    };
    const struct progress_body *why = &peer->failed;
    const char *function = peer->failed_phase == RANK_SETUP ? "pkb_setup" : "pkb_run";
    bool is_memory = why->last_error == cudaErrorMemoryAllocation || refusal == SYMM_NO_MEMORY;

    report_verdict(result, place, is_memory ? VERDICT_OUT_OF_MEMORY : VERDICT_RUNTIME_ERROR, NULL,
                   "%s returned %d on rank %d%s%s%s", function, why->code, rank,
                   why->last_error == 0 ? "" : "; the last CUDA error is ",
                   why->last_error == 0 ? "" : cuda_name(why->last_error), refusals[refusal]);
}

/* The loader's message begins with a path, and where things lie on a node is of no use. */
static const char *without_directory(const char *text)
{
    size_t path_bytes = strcspn(text, " ");

    while (path_bytes > 0 && text[path_bytes - 1] != '/') {
        path_bytes--;
    }
    return text + path_bytes;
}

void report_failure(struct result *result, const struct place *place, const struct peers *peers,
                    enum symm_refusal refusal)
{
    int rank = peers_failed(peers);
    assert(rank >= 0);
    const struct peer *peer = &peers->peer[rank];
    char phase[64];

    switch (peer->failure) {
    case PEER_CODE:
        report_code(result, place, rank, peer, refusal);
        break;
    case PEER_CUDA:
        describe_phase(peer, peer->failed_phase, phase);
        report_verdict(result, place, VERDICT_RUNTIME_ERROR, NULL, "%s after %s on rank %d",
                       cuda_name(peer->failed.cuda_error), phase, rank);
        break;
    case PEER_NOT_LOADED:
        report_verdict(result, place, VERDICT_LINK_ERROR, NULL, "the library cannot be loaded: %s",
                       without_directory(peer->failed.text));
        break;
    case PEER_TROUBLE:
        report_verdict(result, place, VERDICT_RUNTIME_ERROR, NULL, "rank %d cannot go on: %s", rank,
                       peer->failed.text);
        break;
    case PEER_PROTOCOL:
        report_verdict(result, place, VERDICT_RUNTIME_ERROR, "protocol",
                       "rank %d sent what pkb-rank would not send", rank);
        break;
    default:
        report_gone(result, place, peers, rank);
        break;
    }
    result->rank = rank;
}

/* Errors that say nothing went wrong. */
static bool is_harmless(int error)
{
    return error == cudaSuccess || error == cudaErrorNotReady ||
           error == cudaErrorPeerAccessAlreadyEnabled ||
           error == cudaErrorHostMemoryAlreadyRegistered;
}

void report_earlier_error(struct result *result, const struct peers *peers)
{
    for (int rank = 0; rank < peers->world; rank++) {
        int error = peers->peer[rank].last_error;
        if (!is_harmless(error)) {
            char *message = xasprintf("a CUDA call on rank %d failed with %s; %s", rank,
                                      cuda_name(error), result->message);
            free(result->message);
            free(result->reason);
            result->message = message;
            result->reason = NULL;
            result->verdict = VERDICT_RUNTIME_ERROR;
            result->rank = rank;
            return;
        }
    }
}

void report_stuck(struct result *result, const struct place *place, const struct peers *peers)
{
    int missing = 0;

    while (peers_waits_in_barrier(peers, missing)) {
        missing++;
    }
    report_verdict(result, place, VERDICT_DEADLOCK, NULL,
                   "ranks wait in pkb_host_barrier, and rank %d has returned without coming there",
                   missing);
    for (int rank = 0; rank < peers->world; rank++) {
        if (peers_waits_in_barrier(peers, rank)) {
            result_add_wait(result, (struct wait){.rank = rank,
                                                  .where = xstrdup("pkb_host_barrier"),
                                                  .cta = -1,
                                                  .warp = -1,
                                                  .owner = -1});
        }
    }
}
