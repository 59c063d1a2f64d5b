#include "worker/stall.h"

#include "common/mem.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

enum { WORDS_SHOWN = 4, SIGNAL_WORDS = 65536 / 4 };

/* "pkb_run (call 2)": NULL where the rank waits for nothing. */
static char *where(const struct peers *peers, int rank)
{
    const struct peer *peer = &peers->peer[rank];

    if (peers_waits_in_barrier(peers, rank)) {
        return xstrdup("pkb_host_barrier");
    }
    switch (peer->phase) {
    case RANK_LOADING:
        return xstrdup("dlopen");
    case RANK_SETUP:
        return xstrdup(peer->is_asking ? "pkb_symm_alloc" : "pkb_setup");
    case RANK_TEARDOWN:
        return xstrdup("pkb_teardown");
    case RANK_IN_RUN:
        return xasprintf("pkb_run (call %d), which has not returned",
                         peer->first_call + peer->entered - 1);
    case RANK_WAITING:
        return xasprintf("ctx->stream: the work of call %d is not done",
                         peer->first_call + peer->finished);
    default:
        return NULL;
    }
}

static void add_row(struct result *result, int rank, const char *text, int word, uint32_t value)
{
    struct wait wait = {.rank = rank, .where = xstrdup(text), .cta = -1, .warp = -1, .owner = -1};

    if (word >= 0) {
        wait.owner = rank;
        wait.address = xasprintf("rank %d signal+%d", rank, word * 4);
        wait.value = xasprintf("%u", value);
    }
    result_add_wait(result, wait);
}

/* The rank's row, or one for each word of its signal pad. */
static void add_rows(struct result *result, const struct holdings *holdings, int rank,
                     const char *text)
{
    uint32_t *pad = xcalloc(SIGNAL_WORDS, sizeof *pad);
    int shown = 0;
    cudaError_t error =
        cudaMemcpy(pad, (const void *)(uintptr_t)holdings->signals.arenas[rank].address,
                   SIGNAL_WORDS * sizeof *pad, cudaMemcpyDeviceToHost);

    for (int word = 0; error == cudaSuccess && word < SIGNAL_WORDS && shown < WORDS_SHOWN; word++) {
        if (pad[word] != 0) {
            add_row(result, rank, text, word, pad[word]);
            shown++;
        }
    }
    if (shown == 0) {
        add_row(result, rank, text, -1, 0);
    }
    free(pad);
}

void stall_report(struct result *result, const struct place *place, const struct peers *peers,
                  const struct holdings *holdings)
{
    int waiting = 0;

    for (int rank = 0; rank < peers->world; rank++) {
        char *text = where(peers, rank);
        if (text != NULL) {
            add_rows(result, holdings, rank, text);
            waiting++;
        }
        free(text);
    }
    report_verdict(result, place, VERDICT_DEADLOCK, NULL,
                   "nothing moves any more: %d of %d ranks wait, and a kernel is on the GPU",
                   waiting, peers->world);
}
